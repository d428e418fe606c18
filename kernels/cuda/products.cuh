/* What a product of any kind is given. */
#pragma once

#include "kernels/cuda/quants.cuh"

/* Rows that go through experts: groups of slots, which read rows x_rows[slot] and write rows
 * y_rows[slot] (NULL: row `slot`), and what is done to a sum afterwards (lh_cuda_expert_products).
 * Or heads, of which each has a matrix and `rows` slots, one after the other; its y lie y_apart
 * further than rows that follow those of the head before. All NULL and 0 where there are none. */
struct lh_expert_arguments {
    const lh_cuda_expert_group *groups;
    uint32_t group_count, heads;
    ptrdiff_t y_apart;
    size_t bytes; /* of a matrix; the next expert's is behind it */
    const uint32_t *x_rows, *y_rows;
    const float *scale, *shares, *biases; /* biases[experts][width] */
    uint32_t width;
};

/* A further product of a launch: of the same type, inputs and rows as the first. */
struct lh_joined_product {
    const uint8_t *weights;
    float *y;
    size_t y_stride;
    const float *bias;
    lh_span out;
    uint32_t
        first; /* of its tiles, which follow those of the product before; UINT32_MAX: none is */
};

#define LH_JOINED_MAX 4u /* products of a launch */

struct lh_product_arguments {
    float *y;
    size_t y_stride;
    const void *x;
    uint32_t rows, width, parts; /* parts: int8 blocks for each 32 inputs of x, 1 or 2; 0: floats */
    lh_weights w;
    lh_span in, out;
    bool continues;
    lh_expert_arguments experts; /* without experts: `scale` of rows, and `biases` of outputs */
    lh_joined_product joined[LH_JOINED_MAX - 1];
};

static inline uint32_t lh_tiles_of(lh_span out) {
    return lh_blocks_for(out.end - out.begin, LH_LANES);
}

/* Tiles of 16 outputs, of all products. */
static inline uint32_t lh_tiles_of_all(const lh_product_arguments &a) {
    uint32_t tiles = lh_tiles_of(a.out);
    for (uint32_t i = 0; i < LH_JOINED_MAX - 1 && a.joined[i].first != UINT32_MAX; i++)
        tiles = a.joined[i].first + lh_tiles_of(a.joined[i].out);
    return tiles;
}

/* Puts the product that has tile `tile` of all in the place of the first. Returns the tile's first
 * output. */
__device__ inline uint32_t lh_pick_tile(lh_product_arguments &a, uint32_t tile) {
    uint32_t first = 0;
#pragma unroll
    for (uint32_t i = 0; i < LH_JOINED_MAX - 1; i++) {
        const lh_joined_product &joined = a.joined[i];
        if (tile >= joined.first) {
            first = joined.first;
            a.w.data = joined.weights;
            a.y = joined.y;
            a.y_stride = joined.y_stride;
            a.out = joined.out;
            a.experts.biases = joined.bias;
        }
    }
    return a.out.begin + (tile - first) * LH_LANES;
}

/* The block of 32 inputs that a term is of: each int8 block of x makes one. */
__device__ inline uint32_t lh_term_block(const lh_product_arguments &a, uint32_t term) {
    return term >> (a.parts - 1);
}

/* The int8 blocks of x from block b of row `row` on. */
__device__ inline const lh_q8_block *lh_x_block(const lh_product_arguments &a, uint32_t row,
                                                uint32_t b) {
    return (const lh_q8_block *)a.x + ((size_t)row * (a.width / LH_BLOCK) + b) * a.parts;
}

/* Rows of one matrix that a block of threads multiplies, from x's `first` on. */
struct lh_batch {
    const uint8_t *weights;
    uint32_t expert, first, count;
};

/* Batches of `each` rows, of all heads; or groups. */
static inline uint32_t lh_units_of(const lh_product_arguments &a, uint32_t each) {
    if (a.experts.groups)
        return a.experts.group_count;
    return lh_blocks_for(a.rows, each) * (a.experts.heads > 0 ? a.experts.heads : 1);
}

/* Batch `unit` of `each` rows; or group `unit`, which may be empty. HEADS: there are heads. */
template <bool HEADS>
__device__ inline lh_batch lh_batch_of(const lh_product_arguments &a, uint32_t unit,
                                       uint32_t each) {
    if constexpr (HEADS) {
        const uint32_t units = (a.rows + each - 1) / each, head = unit / units;
        const uint32_t done = unit % units * each, left = a.rows - done;
        return {a.w.data + head * a.experts.bytes, head, head * a.rows + done,
                left < each ? left : each};
    }
    const uint32_t left = a.rows - unit * each;
    lh_cuda_expert_group group = {0, unit * each, left < each ? left : each};
    if (a.experts.groups)
        group = a.experts.groups[unit];
    return {a.w.data + group.expert * a.experts.bytes, group.expert, group.first, group.count};
}

__device__ inline uint32_t lh_x_row(const lh_product_arguments &a, uint32_t slot) {
    return a.experts.x_rows ? a.experts.x_rows[slot] : slot;
}

/* Output c of a slot of the batch. */
template <bool HEADS>
__device__ inline float *lh_y_at(const lh_product_arguments &a, const lh_batch &batch,
                                 uint32_t slot, uint32_t c) {
    float *y = a.y + (a.experts.y_rows ? a.experts.y_rows[slot] : slot) * a.y_stride + c;
    return HEADS ? y + batch.expert * a.experts.y_apart : y;
}

/* What follows a sum: of experts by its slot, else by its row (and expert 0). */
__device__ inline float lh_ended(const lh_expert_arguments &e, uint32_t expert, uint32_t slot,
                                 uint32_t c, float y) {
    const float *bias = e.biases ? e.biases + (size_t)expert * e.width + c : nullptr;
    if (e.scale)
        return bias ? lh_fma(y, e.scale[slot], *bias) : y * e.scale[slot];
    return bias ? lh_fma(e.shares[slot], *bias, y) : y;
}

/* One product each; defined in the file of the kernel. Rows and spans are not empty. */
int lh_float_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a);
/* One row; or rows that go through several experts one after the other, each on its own. */
int lh_row_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a);
struct lh_expert_rows {
    const uint32_t *chosen, *slots; /* [rows][used]: experts, and rows of x */
    const float *shares;
    uint32_t rows, used;
};
int lh_expert_row_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a,
                           const lh_expert_rows &rows);
/* Batches, up to so many rows; or groups of slots, of which each has at most LH_CUDA_EXPERT_ROWS,
 * and at most `rows`. */
#define LH_BATCH_ROWS 16u
int lh_batch_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a);
/* More rows; joined, where there are at most so many. */
#define LH_JOINED_ROWS 64u
int lh_tile_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a);
