/* Where the rows of a step stand in the KV cache, as the kernels read it: one block of memory, made
 * by the host and copied to the GPU whole.
 *
 *     places     [count]   the pages that take each row's key and value
 *     rows       [count]   each row's position and the pages of its sequence
 *     addresses            of pages: for each sequence those of its keys, then those of its values
 *
 * Addresses are of the stage's first layer; those of layer n are n times the bytes of a layer
 * further (lh_cuda_rows_offset). Thread: the stage's. */
#pragma once

#include "kernels/cuda/plugin.h"
#include "worker/compute/stage/ops.h"

typedef struct lh_cuda_rows {
    uint32_t rows_max, count, context;
    bool is_prompt; /* rows are mostly neighbours in few sequences */
    uint8_t *host;  /* [bytes] */
    void *memory;   /* [bytes], the GPU's */
    size_t bytes, used_bytes;
} lh_cuda_rows;

/* Of the GPU's memory, for steps of so many rows of sequences of at most `context` positions. */
size_t lh_cuda_rows_bytes(uint32_t rows, uint32_t context);
/* For these. 0, or the runtime's error. */
int lh_cuda_rows_init(lh_cuda_rows *rows, const lh_cuda_plugin *plugin, uint32_t rows_max,
                      uint32_t context);
void lh_cuda_rows_reset(lh_cuda_rows *rows, const lh_cuda_plugin *plugin);
/* Fills `host`, with what follows from `memory`, to which it is to be copied: used_bytes. */
void lh_cuda_rows_fill(lh_cuda_rows *rows, const lh_position_run *runs, uint32_t count);

const lh_cuda_kv_place *lh_cuda_rows_places(const lh_cuda_rows *rows);
lh_cuda_attention_rows lh_cuda_rows_of_attention(const lh_cuda_rows *rows, size_t offset);
size_t lh_cuda_rows_offset(const lh_kv_shape *shape, uint32_t layer);
