/* Where the rows of a step go that pass through experts, in a GPU's memory: made there by a kernel,
 * so the host neither knows it nor waits for it. Thread: the stage's. */
#pragma once

#include "kernels/cuda/plugin.h"
#include "worker/compute/stage/parameters.h"

typedef struct lh_cuda_slots {
    lh_cuda_routing routing;
    /* what the kernels take where sums go by the n-th experts of all rows: always where a matrix is
     * of floats, else where there are many rows */
    lh_cuda_experts ordered;
    bool has_floats;
    void *memory;
} lh_cuda_slots;

/* LH_ERR_UNSUPPORTED: more experts than the kernels can choose among. */
lh_status lh_cuda_slots_check(const lh_model_config *config, lh_error *error);
/* Of the GPU's memory, for steps of so many rows. */
size_t lh_cuda_slots_bytes(const lh_model_config *config, uint32_t rows);
/* For steps of so many rows through these layers. NULL: out of memory. */
lh_cuda_slots *lh_cuda_slots_open(const lh_cuda_plugin *plugin, const lh_model_config *config,
                                  const lh_parameters *weights, uint32_t rows);
/* NULL is allowed. */
void lh_cuda_slots_close(const lh_cuda_plugin *plugin, lh_cuda_slots *slots);
/* What the kernels are told for a step of so many rows: of nothing else, since steps that are
 * repeated pass here only with what follows the repetition. */
lh_cuda_experts lh_cuda_slots_for(const lh_cuda_slots *slots, uint32_t rows);
