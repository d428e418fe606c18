/* What the kernels of attention share: where keys and values lie, and how the sums of a block of
 * keys go on (contract of `attention` in kernels.h). */
#pragma once

#include "kernels/cuda/exp.cuh"
#include "kernels/cuda/grid.cuh"

extern "C" {
#include "kernels/layout.h"
}

/* Sums of single blocks of keys, which a second kernel combines: m and z of each, and o[value_dim].
 * Those of a row and a head lie one after the other, from the first block on that the row sees. */
struct lh_attention_partials {
    float2 *sums;
    float *values;
    uint32_t blocks; /* the most that a row sees; 0: there are no partials, blocks are combined as
                        they are made */
};

struct lh_attention_arguments {
    float *y;
    size_t y_stride;
    const float *q;
    size_t q_stride;
    const lh_cuda_attention_row *rows;
    uint32_t row_count;
    size_t page_offset;
    uint32_t kv_heads, group, key_dim, value_dim; /* value_dim: of y */
    uint32_t window;
    float scale;
    const float *sinks;
    size_t key_group_bytes;             /* 16 interleaved keys of a head */
    size_t value_head_bytes;            /* the values of a head in a page */
    uint32_t value_width, value_blocks; /* numbers and scales of a value as it is stored */
    lh_attention_partials partials;
};

static inline lh_attention_arguments lh_attention_arguments_of(float *y, size_t y_stride,
                                                               const float *q, size_t q_stride,
                                                               const lh_kv_shape *shape,
                                                               const lh_cuda_attention_rows *rows,
                                                               float scale) {
    lh_attention_arguments a = {};
    a.y = y;
    a.y_stride = y_stride;
    a.q = q;
    a.q_stride = q_stride;
    a.rows = rows->rows;
    a.row_count = rows->count;
    a.page_offset = rows->offset;
    a.kv_heads = shape->kv_heads;
    a.key_dim = shape->key_dim;
    a.value_dim = a.value_width = shape->value_dim;
    a.window = LH_ATTENTION_ALL;
    a.scale = scale;
    a.key_group_bytes = LH_LANES * lh_kv_row_bytes(shape->type, shape->key_dim);
    a.value_head_bytes = LH_KV_PAGE_POSITIONS * lh_kv_row_bytes(shape->type, shape->value_dim);
    a.value_blocks = lh_blocks_for(shape->value_dim, LH_BLOCK);
    return a;
}

/* The most blocks that a row meets at positions below `context`. */
static inline uint32_t lh_attention_blocks_at_most(uint32_t context, uint32_t window) {
    const uint32_t all = lh_blocks_for(context, LH_ATTENTION_BLOCK),
                   within =
                       lh_blocks_for((uint64_t)window + LH_ATTENTION_BLOCK - 1, LH_ATTENTION_BLOCK);
    return all < within ? all : within;
}

/* Partials in `scratch`; bytes of them all in *bytes. */
static inline lh_attention_partials lh_attention_partials_in(void *scratch, uint32_t rows,
                                                             uint32_t heads, uint32_t value_dim,
                                                             uint32_t blocks, size_t *bytes) {
    const size_t count = (size_t)rows * heads * blocks;
    *bytes = count * (sizeof(float2) + value_dim * sizeof(float));
    float2 *sums = (float2 *)scratch;
    return {sums, scratch ? (float *)(sums + count) : nullptr, blocks};
}

/* Combines the partials of all rows and heads into y; defined in attention.cu. */
int lh_attention_combine(lh_cuda_stream stream, const lh_attention_arguments &a);

/* ---- Pages ---- */

/* A number as it lies in a page, and the float that it stands for. */
template <lh_kv_type TYPE> struct lh_kv_number;
template <> struct lh_kv_number<LH_KV_F32> {
    using stored = float;
    static __device__ float widen(float number, float) {
        return number;
    }
};
template <> struct lh_kv_number<LH_KV_F16> {
    using stored = uint16_t;
    static __device__ float widen(uint16_t number, float) {
        return lh_widen_f16(number);
    }
};
template <> struct lh_kv_number<LH_KV_Q8> {
    using stored = int8_t;
    static __device__ float widen(int8_t number, float scale) {
        return (float)number * scale;
    }
};

/* A key or a value: number d lies `step` times d behind the first, and of Q8 the scale of block
 * d / 32 as many steps behind the first one; the step is that of its kind. */
template <lh_kv_type TYPE> struct lh_kv_row {
    const typename lh_kv_number<TYPE>::stored *numbers;
    const float *scales;
};

/* The key at `position`, whose step is LH_LANES. */
template <lh_kv_type TYPE>
__device__ inline lh_kv_row<TYPE> lh_key_at(const lh_attention_arguments &a,
                                            const lh_cuda_attention_row &row, uint32_t kv_head,
                                            uint32_t position) {
    const uint32_t slot = position % LH_KV_PAGE_POSITIONS;
    const uint8_t *group =
        (const uint8_t *)row.key_pages[position / LH_KV_PAGE_POSITIONS] + a.page_offset +
        ((size_t)kv_head * (LH_KV_PAGE_POSITIONS / LH_LANES) + slot / LH_LANES) * a.key_group_bytes;
    return {(const typename lh_kv_number<TYPE>::stored *)group + slot % LH_LANES,
            (const float *)(group + (size_t)a.key_dim * LH_LANES) + slot % LH_LANES};
}

/* The value at `position`, whose step is 1. */
template <lh_kv_type TYPE>
__device__ inline lh_kv_row<TYPE> lh_value_at(const lh_attention_arguments &a,
                                              const lh_cuda_attention_row &row, uint32_t kv_head,
                                              uint32_t position) {
    const uint32_t slot = position % LH_KV_PAGE_POSITIONS;
    const uint8_t *values = (const uint8_t *)row.value_pages[position / LH_KV_PAGE_POSITIONS] +
                            a.page_offset + kv_head * a.value_head_bytes;
    return {(const typename lh_kv_number<TYPE>::stored *)values + (size_t)slot * a.value_width,
            (const float *)(values + (size_t)a.value_width * LH_KV_PAGE_POSITIONS) +
                slot * a.value_blocks};
}

/* ---- Sums ---- */

/* Positions that a query at `position` sees. */
__device__ inline lh_span lh_visible(uint32_t position, uint32_t window) {
    return {position < window ? 0 : position - window + 1, position + 1};
}

__device__ inline float lh_greater(float a, float b) {
    return a > b ? a : b;
}

/* What earlier blocks and a new one are multiplied by as they meet. */
struct lh_fold {
    float before, block;
};

/* From the greatest score before to that of all. */
__device__ inline lh_fold lh_fold_of(float before, float block) {
    const float greatest = lh_greater(before, block);
    return {lh_exp(before - greatest), lh_exp(block - greatest)};
}

__device__ inline float lh_folded(float before, float block, lh_fold fold) {
    return lh_fma(before, fold.before, block * fold.block);
}

/* What ends a query: its sums of values are multiplied by sink, where it has one, and then by
 * inverse. */
struct lh_attention_end {
    bool has_sink;
    float sink, inverse;
};

__device__ inline lh_attention_end lh_attention_end_of(const lh_attention_arguments &a,
                                                       uint32_t head, float greatest, float z) {
    if (!a.sinks)
        return {false, 1.0f, 1.0f / z};
    const lh_fold fold = lh_fold_of(greatest, a.sinks[head]);
    return {true, fold.before, 1.0f / lh_fma(z, fold.before, fold.block)};
}

__device__ inline float lh_attention_ended(float value, lh_attention_end end) {
    return (end.has_sink ? value * end.sink : value) * end.inverse;
}
