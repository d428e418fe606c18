/* What rows of logits are drawn by, as the kernels read it: one block of memory, made by the host
 * and copied to the GPU whole.
 *
 *     changes   [count]   to each row, before the draw
 *     draws     [count]   how
 *     tokens    [count]   what was drawn; the GPU's to fill in
 *     lists               for each row its mask, its biases and its counts
 *
 * Thread: the stage's. */
#pragma once

#include "kernels/cuda/plugin.h"
#include "worker/compute/stage/ops.h"

typedef struct lh_cuda_draws {
    uint8_t *host; /* [bytes] */
    void *memory;  /* [bytes], the GPU's */
    size_t bytes, used_bytes;
    uint32_t count;
    lh_cuda_cuts cuts; /* of all rows */
} lh_cuda_draws;

void lh_cuda_draws_reset(lh_cuda_draws *draws, const lh_cuda_plugin *plugin);
/* Fills `host`, which is to be copied to `memory`: used_bytes. 0, or the runtime's error, as it may
 * have to grow. */
int lh_cuda_draws_fill(lh_cuda_draws *draws, const lh_cuda_plugin *plugin, uint32_t vocabulary,
                       const lh_drawn_row *rows, uint32_t count);

/* In the GPU's memory. */
const lh_cuda_logit_changes *lh_cuda_draws_changes(const lh_cuda_draws *draws);
const lh_cuda_draw_row *lh_cuda_draws_rows(const lh_cuda_draws *draws);
uint32_t *lh_cuda_draws_tokens(const lh_cuda_draws *draws);
