/* How work is laid over blocks and threads. */
#pragma once

#include "kernels/cuda/instructions.cuh"

extern "C" {
#include "kernels/cuda/cuda_kernels.h"
}

/* Threads of the blocks of kernels that need no particular number. */
#define LH_BLOCK_THREADS 128u
/* The most blocks that a grid has in its second dimension; rows beyond them are the same blocks'
 * again. The emulation has fewer, so that its tests come to that. */
#ifndef LH_GRID_ROWS_MAX
#define LH_GRID_ROWS_MAX 65535u
#endif

static inline uint32_t lh_blocks_for(uint64_t count, uint32_t each) {
    return (uint32_t)((count + each - 1) / each);
}

static inline uint32_t lh_grid_rows(uint32_t rows) {
    return rows < LH_GRID_ROWS_MAX ? rows : LH_GRID_ROWS_MAX;
}

static inline bool lh_is_empty(lh_span span) {
    return span.begin >= span.end;
}

/* The tree of kernels.h over 16 lanes, which a half warp holds; all of them get it. */
__device__ inline float lh_lane_sum(float lane) {
    lane += __shfl_xor_sync(~0u, lane, 8);
    lane += __shfl_xor_sync(~0u, lane, 4);
    lane += __shfl_xor_sync(~0u, lane, 2);
    return lane + __shfl_xor_sync(~0u, lane, 1);
}
