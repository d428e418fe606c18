/* Attention of few rows, divided over the threads by blocks of keys.
 *
 * A row that decodes at position 8,191 reads 32 blocks (kernels.h). Where it is the only one, and
 * the model has 3 KV heads, parts of a KV head each leave one of two threads idle for half of the
 * time, and thirteen of sixteen for all of it. So parts are single blocks there, what they give is
 * kept here, and when all are done each row's are combined, in the order of blocks: who computed
 * one does not show in the result.
 *
 * Rows beyond a few are parts enough by themselves, and what a block gives them would be much to
 * keep: there is room for LH_DIVIDED_ROWS at most.
 *
 * Thread: the compute thread; parts only read what is here and write what is theirs. */
#pragma once

#include "kernels/kernels.h"
#include "worker/compute/stage/position_run.h"

/* At 8 the room is no more than the scores of a long row took, on any machine. */
#define LH_DIVIDED_ROWS 8u

typedef struct lh_attention_partials {
    uint32_t units;   /* parts that a row is without this: KV heads, or groups of 16 latent ones */
    uint32_t threads; /* that share the work */
    uint32_t rows;    /* for which there is room; 0: nothing is divided */
    uint32_t blocks;  /* of one row, at most */
    size_t head_floats, block_floats, row_floats; /* from one to the next */
    float *data;                                  /* [rows][blocks][heads][head_floats] */
} lh_attention_partials;

/* For steps of at most so many rows at positions < context. */
lh_attention_partials lh_attention_partials_of(uint32_t heads, uint32_t units, uint32_t value_dim,
                                               uint32_t rows, uint32_t context, uint32_t threads);
/* Of `data`. */
uint64_t lh_attention_partials_bytes(const lh_attention_partials *partials);
/* Allocates `data` where it is needed, for free(); false: out of memory. */
bool lh_attention_partials_allocate(lh_attention_partials *partials);

/* The most blocks that a row of these runs sees, if its attention is to be divided by them; else
 * 0. */
uint32_t lh_attention_partials_divide(const lh_attention_partials *partials,
                                      const lh_position_run *runs, uint32_t count, uint32_t window);
/* Row `row` of all that the runs have together, as a run of its own; number `row` of partials. */
lh_position_run lh_attention_partials_row(const lh_position_run *runs, uint32_t row);
/* Partial results of block `block` of those that row `row` sees, from head `head` on. */
float *lh_attention_partials_at(const lh_attention_partials *partials, uint32_t row, uint32_t block,
                                uint32_t head);
