/* How packed weights and packed int8 activations lie in memory: known inside kernels/ only, the same for
 * every instruction set.
 *
 * Weights are tiles of 16 outputs (LH_LANES), one after the other; a lane is an output. One tile:
 *
 *   F32, F16, BF16    [inputs][16 lanes], elements as GGML stores them
 *   Q8_0              quants [blocks][8 groups][16 lanes][4 bytes], then scales [blocks][16 lanes] binary16
 *   Q4_0              quants [blocks][4 groups][16 lanes][4 bytes], then scales [blocks][16 lanes] binary16
 *   Q4_1              the same, then scales [blocks][2: d, m][16 lanes] binary16
 *
 * A group of 8-bit quants is 4 consecutive inputs: group g of a block holds inputs 4g .. 4g + 3, so 64 bytes
 * feed one dot-product instruction. A group of 4-bit quants holds two: inputs 4g .. 4g + 3 in the low nibbles
 * and 16 + 4g .. 16 + 4g + 3 in the high ones, which is GGML's own pairing: packing moves whole words. Tiles
 * are padded to 64 bytes; lanes beyond the last output are zero. */
#pragma once

#include "kernels/kernels.h"

#include <stdint.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed data is read as GGML stores it");

/* Elements of a quantization block, in weights and activations. */
#define LH_BLOCK 32u

/* A block of int8 activations: x = d * q. `sum` is the sum of q, exact. */
typedef struct lh_q8_block {
    float d, sum;
    int8_t q[LH_BLOCK];
} lh_q8_block;
_Static_assert(sizeof(lh_q8_block) == 40, "blocks lie without gaps");

/* Bytes of the parts of one tile. For float types there are no blocks: `column_bytes` counts. */
typedef struct lh_tile_layout {
    size_t tile_bytes;
    size_t scales_offset;              /* from the tile's start */
    uint32_t quant_bytes, scale_bytes; /* of one block of 16 lanes */
    uint32_t column_bytes;             /* of one input of 16 lanes, float types */
} lh_tile_layout;

/* `inputs` of a quantized type must be a multiple of LH_BLOCK. */
static inline lh_tile_layout lh_tile_layout_for(lh_dtype dtype, uint32_t inputs) {
    lh_tile_layout layout = {0};
    switch (dtype) {
    case LH_DTYPE_F32:
        layout.column_bytes = 4 * LH_LANES;
        break;
    case LH_DTYPE_F16:
    case LH_DTYPE_BF16:
        layout.column_bytes = 2 * LH_LANES;
        break;
    case LH_DTYPE_Q8_0:
        layout.quant_bytes = LH_BLOCK * LH_LANES;
        layout.scale_bytes = 2 * LH_LANES;
        break;
    case LH_DTYPE_Q4_0:
        layout.quant_bytes = LH_BLOCK / 2 * LH_LANES;
        layout.scale_bytes = 2 * LH_LANES;
        break;
    case LH_DTYPE_Q4_1:
        layout.quant_bytes = LH_BLOCK / 2 * LH_LANES;
        layout.scale_bytes = 4 * LH_LANES;
        break;
    }
    size_t blocks = inputs / LH_BLOCK;
    layout.scales_offset = blocks * layout.quant_bytes;
    size_t bytes = layout.scales_offset + blocks * layout.scale_bytes + (size_t)inputs * layout.column_bytes;
    layout.tile_bytes = (bytes + 63) & ~(size_t)63;
    return layout;
}

static inline const uint8_t *lh_matrix_tile(const lh_matrix *matrix, const lh_tile_layout *layout,
                                            uint32_t output) {
    return (const uint8_t *)matrix->data + output / LH_LANES * layout->tile_bytes;
}

/* Block `block` of row `row`; activations of kind Q8. */
static inline lh_q8_block *lh_activations_block(const lh_activations *x, uint32_t row, uint32_t block) {
    return (lh_q8_block *)x->data + (size_t)row * (x->width / LH_BLOCK) + block;
}

/* Column `column` of row `row`; activations of kind F32. */
static inline float *lh_activations_value(const lh_activations *x, uint32_t row, uint32_t column) {
    return (float *)x->data + (size_t)row * x->width + column;
}

/* Keys of KV head `head`: the 16 interleaved ones [head_dim][16] that hold `position`. */
static inline float *lh_kv_keys(const lh_kv_view *view, uint32_t head, uint32_t position) {
    uint32_t block = position % LH_KV_PAGE_POSITIONS / LH_LANES;
    size_t lines = (size_t)head * (LH_KV_PAGE_POSITIONS / LH_LANES) + block;
    return view->key_pages[position / LH_KV_PAGE_POSITIONS] + lines * view->head_dim * LH_LANES;
}

/* Value [head_dim] of KV head `head` at `position`. */
static inline float *lh_kv_value(const lh_kv_view *view, uint32_t head, uint32_t position) {
    size_t line = (size_t)head * LH_KV_PAGE_POSITIONS + position % LH_KV_PAGE_POSITIONS;
    return view->value_pages[position / LH_KV_PAGE_POSITIONS] + line * view->head_dim;
}

/* Positions that a query at `position` sees. */
static inline lh_span lh_attention_keys(uint32_t position, uint32_t window) {
    return (lh_span){position < window ? 0 : position - window + 1, position + 1};
}

/* Scores of one query in `attention`'s scratch: whole pages, since keys are scored by 16s. */
static inline size_t lh_attention_score_stride(uint32_t keys) {
    return ((size_t)keys + LH_KV_PAGE_POSITIONS - 1) / LH_KV_PAGE_POSITIONS * LH_KV_PAGE_POSITIONS;
}

/* Queries that an instruction set may score together at most; scratch is sized for it. */
#define LH_ATTENTION_QUERIES 8u
