/* Latent attention on a GPU (worker/compute/stage/latent.h): queries to the latent space,
 * attention, and back, each for all heads at once, some rows at a time. Thread: the stage's. */
#pragma once

#include "common/model/model.h"
#include "kernels/cuda/plugin.h"
#include "worker/compute/cuda/cuda_scratch.h"
#include "worker/compute/stage/ops.h"

typedef struct lh_cuda_latent {
    lh_latent_shape shape;
    uint32_t heads, key_dim, rope_dims; /* key_dim: of a head, what is not rotated */
    float scale;
    uint32_t rows_max; /* at a time */
    void *packed;      /* rows of heads, of keys or of the rank, as products read them */
    float *queries;    /* [rows_max][heads][rank + rope_dims] */
    float *results;    /* [rows_max][heads][rank] */
    void *memory;
} lh_cuda_latent;

/* Of the GPU's memory, for steps of so many rows. */
size_t lh_cuda_latent_bytes(const lh_model_config *config, uint32_t rows);
/* For steps of so many rows. NULL: out of memory. */
lh_cuda_latent *lh_cuda_latent_open(const lh_cuda_plugin *plugin, const lh_model_config *config,
                                    uint32_t rows);
/* NULL is allowed. */
void lh_cuda_latent_close(const lh_cuda_plugin *plugin, lh_cuda_latent *latent);

/* What is the same for all rows of a step. */
typedef struct lh_cuda_latent_call {
    const lh_cuda_plugin *plugin;
    lh_cuda_stream stream;
    lh_activation_kind activations;
    const lh_kv_shape *pages;
    const lh_expert_matrices *k_b, *v_b;
    bool is_prompt; /* rows are mostly neighbours in few sequences */
    const lh_cuda_scratch *scratch;
} lh_cuda_latent_call;

/* As latent_attention of lh_ops. 0, or the runtime's error. */
int lh_cuda_latent_attend(const lh_cuda_latent *latent, const lh_cuda_latent_call *call,
                          const lh_cuda_attention_rows *rows, const float *q, float *y);
