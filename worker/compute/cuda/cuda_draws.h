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
    uint32_t rows_max, count;
    lh_cuda_cuts cuts; /* of all rows */
} lh_cuda_draws;

/* Of the GPU's memory, for this work: with the lists of any one row, or the masks of all. */
size_t lh_cuda_draws_bytes(const lh_device_work *work);
/* 0, or the runtime's error. */
int lh_cuda_draws_init(lh_cuda_draws *draws, const lh_cuda_plugin *plugin,
                       const lh_device_work *work);
void lh_cuda_draws_reset(lh_cuda_draws *draws, const lh_cuda_plugin *plugin);
/* Fills `host`, which is to be copied to `memory`: used_bytes, with those of the rows from the
 * first on that have room there: draws->count, at least 1. */
void lh_cuda_draws_fill(lh_cuda_draws *draws, uint32_t vocabulary, const lh_drawn_row *rows,
                        uint32_t count);

/* In the GPU's memory. */
const lh_cuda_logit_changes *lh_cuda_draws_changes(const lh_cuda_draws *draws);
const lh_cuda_draw_row *lh_cuda_draws_rows(const lh_cuda_draws *draws);
uint32_t *lh_cuda_draws_tokens(const lh_cuda_draws *draws);
