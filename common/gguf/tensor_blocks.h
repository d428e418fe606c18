/* A tensor in blocks of rows, each with a digest of its own, so that a part of it can be fetched
 * and checked. A block never goes over the end of a matrix, where a tensor has several (one for
 * each expert): its last one is shorter where the rows do not divide. Blocks are numbered through
 * the tensor. Pure; thread: any. */
#pragma once

#include "common/gguf/gguf.h"

#include <stdint.h>

/* Those that machines which compute a layer together have are such multiples of rows, by which
 * products are divided: so nothing is fetched that is not needed. 32 rows of 4096 weights of 4 bits
 * are 72 KiB, and their digest half a thousandth of that. */
#define LH_TENSOR_BLOCK_ROWS 32u

typedef struct lh_tensor_blocks {
    uint64_t row_bytes, matrix_rows;
    uint32_t rows; /* of a block */
    uint64_t each; /* blocks of a matrix */
    uint64_t count;
} lh_tensor_blocks;

/* Blocks [first, last). */
typedef struct lh_block_run {
    uint64_t first, last;
} lh_block_run;

typedef struct lh_block_extent {
    uint64_t offset, bytes; /* within the tensor */
} lh_block_extent;

/* Of so many rows, > 0, each. A tensor whose bytes are not known has none. */
lh_tensor_blocks lh_tensor_blocks_of(const lh_gguf_tensor *tensor, uint32_t rows);
/* Where block `number` < count lies. */
lh_block_extent lh_tensor_block_at(const lh_tensor_blocks *blocks, uint64_t number);
/* Those that have one of the bytes [offset, offset + bytes) of the tensor, which are some. */
lh_block_run lh_tensor_blocks_with(const lh_tensor_blocks *blocks, uint64_t offset, uint64_t bytes);
