/* How packed weights and packed int8 activations lie in memory: known inside kernels/ only, the
 * same for every instruction set.
 *
 * Weights are tiles of 16 outputs (LH_LANES), one after the other; a lane is an output. A tile of
 * floats (F32, F16, BF16) is [inputs][16 lanes], elements as GGML stores them. A tile of a
 * quantized type is
 *
 *   quants     [blocks of 32 inputs][parts], a part being [..][16 lanes][4 bytes]:
 *              bytes     8 groups   8 bits of each quant
 *              nibbles   4 groups   its low 4 bits: of inputs 4g .. 4g + 3 in the low nibbles of
 *                                   group g, of 16 + 4g .. 16 + 4g + 3 in the high ones
 *              pairs     2 planes   2 bits: plane p has those of groups 4p .. 4p + 3, group g in
 *                                   bits 2(g % 4) and the next
 *              bits      1 plane    1 bit: group g in bit g
 *   subscales  [blocks][2][16 lanes] bytes, K types: Q4_K, Q5_K scale, minimum; Q3_K (less
 *              32), Q6_K scales of the halves; Q2_K both of each half as the file has them;
 *              IQ2_XS, IQ2_S, IQ1_M twice the scale of each half, plus 1;
 *              [blocks][1][16 lanes], MXFP4: the exponent; IQ4_XS: the scale less 32; IQ3_S,
 *              IQ3_XXS, IQ2_XXS, IQ1_S: twice the scale, plus 1
 *   scales     [blocks that share them][16 lanes] d, or [2: d, m or dmin][16 lanes], binary16;
 *              MXFP4 has none
 *
 * A group is 4 consecutive inputs: group g of a block holds inputs 4g .. 4g + 3, so 64 bytes of
 * bytes feed one dot-product instruction, and every unpacking is a shift and a mask of whole
 * vectors. Types of 256 inputs share a d among 8 blocks, others have one for each. Tiles are
 * padded to 64 bytes; lanes beyond the last output are zero. */
#pragma once

#include "kernels/kernels.h"

#include <assert.h>
#include <stdint.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed data is read as GGML stores it");

/* Elements of a quantization block, in weights and activations. */
#define LH_BLOCK 32u

/* A block of int8 activations: x = d * q. The sums, all exact, are what the sets take off where
 * they read weights with an offset, each set its own; `pairs` are apart as 16-bit lanes of products
 * are: the elements k of a half with k % 4 < 2, and the others. */
typedef struct lh_q8_block {
    float d, sum;     /* of all q */
    int32_t bias[3];  /* -128 times the sum of each half, and of both */
    int16_t pairs[4]; /* -32 times the sums within each half */
    int8_t q[LH_BLOCK];
} lh_q8_block;
static_assert(sizeof(lh_q8_block) == 60, "blocks lie without gaps, and 16 of them align");

/* sums[2 * half + i]: of the q of a half that `pairs` has as its i-th. */
static inline void lh_q8_block_set_sums(lh_q8_block *block, const int sums[4]) {
    const int all = sums[0] + sums[1] + sums[2] + sums[3];
    for (uint32_t i = 0; i < 4; i++)
        block->pairs[i] = (int16_t)(-32 * sums[i]);
    block->bias[0] = -128 * (sums[0] + sums[1]);
    block->bias[1] = -128 * (sums[2] + sums[3]);
    block->bias[2] = -128 * all;
    block->sum = (float)all;
}

/* ---- The table of quantized types ---- */

/* The columns:
 *   bits of the low part (8: bytes, 4: nibbles, 2: pairs) and of the high part (0: none, 1: bits,
 *   2: pairs); the offset, by which low and high bits together are greater than q; binary16 scales
 *   (1: d; 2: d and m or dmin; 0: d is a power of two, whose exponent is the subscale); blocks that
 *   share them; subscales of a block.
 * Q8_0 is stored as int8; nibbles of MXFP4 and the IQ4 types are indices of a table; codes of the
 * IQ3, IQ2 and IQ1 types are looked up as they are packed, and what is left are such indices, too,
 * the magnitude in the lower bits and the sign (IQ1: that of its shift) in the highest; what TQ1_0
 * has in base 3 is stored as pairs, as TQ2_0. */
#define LH_QUANT_TABLE(X)                                                                          \
    X(LH_DTYPE_Q4_0, 4, 0, 8, 1, 1, 0)                                                             \
    X(LH_DTYPE_Q4_1, 4, 0, 0, 2, 1, 0)                                                             \
    X(LH_DTYPE_Q5_0, 4, 1, 16, 1, 1, 0)                                                            \
    X(LH_DTYPE_Q5_1, 4, 1, 0, 2, 1, 0)                                                             \
    X(LH_DTYPE_Q8_0, 8, 0, 0, 1, 1, 0)                                                             \
    X(LH_DTYPE_Q2_K, 2, 0, 0, 2, 8, 2)                                                             \
    X(LH_DTYPE_Q3_K, 2, 1, 4, 1, 8, 2)                                                             \
    X(LH_DTYPE_Q4_K, 4, 0, 0, 2, 8, 2)                                                             \
    X(LH_DTYPE_Q5_K, 4, 1, 0, 2, 8, 2)                                                             \
    X(LH_DTYPE_Q6_K, 4, 2, 32, 1, 8, 2)                                                            \
    X(LH_DTYPE_IQ4_NL, 4, 0, 0, 1, 1, 0)                                                           \
    X(LH_DTYPE_MXFP4, 4, 0, 0, 0, 1, 1)                                                            \
    X(LH_DTYPE_IQ4_XS, 4, 0, 0, 1, 8, 1)                                                           \
    X(LH_DTYPE_IQ3_S, 4, 0, 0, 1, 8, 1)                                                            \
    X(LH_DTYPE_IQ3_XXS, 4, 0, 0, 1, 8, 1)                                                          \
    X(LH_DTYPE_IQ2_XXS, 2, 1, 0, 1, 8, 1)                                                          \
    X(LH_DTYPE_IQ2_XS, 2, 1, 0, 1, 8, 2)                                                           \
    X(LH_DTYPE_IQ2_S, 2, 1, 0, 1, 8, 2)                                                            \
    X(LH_DTYPE_IQ1_S, 2, 1, 0, 1, 8, 1)                                                            \
    X(LH_DTYPE_IQ1_M, 2, 1, 0, 1, 8, 2)                                                            \
    X(LH_DTYPE_TQ1_0, 2, 0, 1, 1, 8, 0)                                                            \
    X(LH_DTYPE_TQ2_0, 2, 0, 1, 1, 8, 0)

typedef struct lh_quant_form {
    uint32_t low_bits, high_bits, offset;
    uint32_t scales, sharing, subscales;
} lh_quant_form;

/* All 0 for a float type. A constant where `dtype` is one. */
static inline __attribute__((always_inline)) lh_quant_form lh_quant_form_for(lh_dtype dtype) {
    switch (dtype) {
#define X(type, low, high, above, scales, sharing, subscales)                                      \
    case type:                                                                                     \
        return (lh_quant_form){low, high, above, scales, sharing, subscales};
        LH_QUANT_TABLE(X)
#undef X
    case LH_DTYPE_F32:
    case LH_DTYPE_F16:
    case LH_DTYPE_BF16:
        break;
    }
    return (lh_quant_form){0};
}

/* Whether there is a term that does not depend on q: w = d * q + m, or - m. */
static inline __attribute__((always_inline)) bool lh_has_minimum(lh_dtype dtype) {
    return lh_quant_form_for(dtype).scales == 2;
}

/* What nibbles stand for that are indices: of IQ4_NL and IQ4_XS (GGML's kvalues_iq4nl), of MXFP4
 * twice the values of E2M1 (OCP Microscaling Formats 1.0, table 5). NULL: they are quants. */
static inline __attribute__((always_inline)) const int8_t *lh_quant_values(lh_dtype dtype) {
    static const int8_t iq4_nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    static const int8_t e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    static const int8_t iq3_xxs[16] = {4,  12,  20,  28,  36,  44,  52,  62,
                                       -4, -12, -20, -28, -36, -44, -52, -62};
    static const int8_t iq3_s[16] = {1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15};
    static const int8_t iq2[16] = {8, 25, 43, 0, -8, -25, -43};
    static const int8_t iq1[16] = {-7, 1, 9, 0, -9, -1, 7}; /* -8, 0, 8; 1 more, or 1 less */
    switch (dtype) {
    case LH_DTYPE_IQ4_NL:
    case LH_DTYPE_IQ4_XS:
        return iq4_nl;
    case LH_DTYPE_MXFP4:
        return e2m1;
    case LH_DTYPE_IQ3_XXS:
        return iq3_xxs;
    case LH_DTYPE_IQ3_S:
        return iq3_s;
    case LH_DTYPE_IQ2_XXS:
    case LH_DTYPE_IQ2_XS:
    case LH_DTYPE_IQ2_S:
        return iq2;
    case LH_DTYPE_IQ1_S:
    case LH_DTYPE_IQ1_M:
        return iq1;
    default:
        return NULL;
    }
}

/* Whether a block's d is multiplied by a signed byte, its subscale. */
static inline __attribute__((always_inline)) bool lh_has_block_scale(lh_dtype dtype) {
    return lh_quant_form_for(dtype).subscales == 1 && lh_quant_form_for(dtype).scales == 1;
}

/* Whether its halves have signed bytes for scales; of Q2_K they are unsigned, and half bytes. */
static inline __attribute__((always_inline)) bool lh_has_half_scales(lh_dtype dtype) {
    return lh_quant_form_for(dtype).subscales == 2 && dtype != LH_DTYPE_Q2_K &&
           dtype != LH_DTYPE_Q4_K && dtype != LH_DTYPE_Q5_K;
}

/* By what d is multiplied besides: a power of two, since scales and quants are integers. */
static inline __attribute__((always_inline)) float lh_scale_unit(lh_dtype dtype) {
    if (dtype == LH_DTYPE_IQ3_XXS)
        return 0.25f;
    return lh_quant_values(dtype) && lh_quant_form_for(dtype).low_bits == 2 ? 0.125f : 1;
}

/* MXFP4's scale 2^(e - 128) in bits of a float, those of a byte e below 2 and of the others: half
 * of what E8M0 says, since its quants are doubled. 255 is no NaN here, as in GGML. */
#define LH_E8M0_SMALL_BITS 0x00200000u /* shifted left by e */
#define LH_E8M0_BITS_SHIFT 23          /* of e - 1 */

/* Bytes of the parts of one tile. For float types there are no blocks: `column_bytes` counts. */
typedef struct lh_tile_layout {
    size_t tile_bytes;
    size_t subscales_offset, scales_offset; /* from the tile's start */
    uint32_t quant_bytes, subscale_bytes;   /* of one block of 16 lanes */
    uint32_t scale_bytes, sharing;          /* of the binary16 scales that so many blocks share */
    uint32_t column_bytes;                  /* of one input of 16 lanes, float types */
} lh_tile_layout;

/* `inputs` of a quantized type must be whole blocks of it. */
static inline lh_tile_layout lh_tile_layout_for(lh_dtype dtype, uint32_t inputs) {
    lh_quant_form form = lh_quant_form_for(dtype);
    lh_tile_layout layout = {.quant_bytes =
                                 LH_BLOCK / 8 * (form.low_bits + form.high_bits) * LH_LANES,
                             .subscale_bytes = form.subscales * LH_LANES,
                             .scale_bytes = 2 * form.scales * LH_LANES,
                             .sharing = form.sharing};
    size_t bytes;
    if (form.low_bits == 0) {
        layout.column_bytes = (dtype == LH_DTYPE_F32 ? 4 : 2) * LH_LANES;
        bytes = (size_t)inputs * layout.column_bytes;
    } else {
        size_t blocks = inputs / LH_BLOCK;
        layout.subscales_offset = blocks * layout.quant_bytes;
        layout.scales_offset = layout.subscales_offset + blocks * layout.subscale_bytes;
        bytes = layout.scales_offset + blocks / form.sharing * layout.scale_bytes;
    }
    layout.tile_bytes = (bytes + 63) & ~(size_t)63;
    return layout;
}

static inline const uint8_t *lh_matrix_tile(const lh_matrix *matrix, const lh_tile_layout *layout,
                                            uint32_t output) {
    return (const uint8_t *)matrix->data + output / LH_LANES * layout->tile_bytes;
}

/* Blocks of int8 for each 32 activations. */
static inline uint32_t lh_activations_parts(lh_activation_kind kind) {
    return kind == LH_ACTIVATION_Q16 ? 2 : 1;
}

/* The first of them, for inputs 32 * `block` and on of row `row`; activations of kind Q8 or Q16. */
static inline lh_q8_block *lh_activations_block(const lh_activations *x, uint32_t row,
                                                uint32_t block) {
    return (lh_q8_block *)x->data +
           ((size_t)row * (x->width / LH_BLOCK) + block) * lh_activations_parts(x->kind);
}

/* Column `column` of row `row`; activations of kind F32. */
static inline float *lh_activations_value(const lh_activations *x, uint32_t row, uint32_t column) {
    return (float *)x->data + (size_t)row * x->width + column;
}

/* Bytes of a number in a page. */
static inline __attribute__((always_inline)) uint32_t lh_kv_number_bytes(lh_kv_type type) {
    return type == LH_KV_F32 ? 4 : type == LH_KV_F16 ? 2 : 1;
}

/* Keys of KV head `head`: the 16 interleaved ones [key_dim][16] that hold `position`; behind them,
 * in Q8, lh_kv_key_scales. */
static inline void *lh_kv_keys(const lh_kv_view *view, uint32_t head, uint32_t position) {
    uint32_t block = position % LH_KV_PAGE_POSITIONS / LH_LANES;
    size_t blocks = (size_t)head * (LH_KV_PAGE_POSITIONS / LH_LANES) + block;
    return (uint8_t *)view->key_pages[position / LH_KV_PAGE_POSITIONS] +
           blocks * LH_LANES * lh_kv_row_bytes(view->shape.type, view->shape.key_dim);
}

/* Their scales, [blocks of 32 of a key][16]; type Q8. */
static inline float *lh_kv_key_scales(const lh_kv_view *view, void *keys) {
    return (float *)(void *)((uint8_t *)keys + (size_t)view->shape.key_dim * LH_LANES);
}

/* The page's values of KV head `head`. */
static inline void *lh_kv_values(const lh_kv_view *view, uint32_t head, uint32_t position) {
    return (uint8_t *)view->value_pages[position / LH_KV_PAGE_POSITIONS] +
           head * LH_KV_PAGE_POSITIONS * lh_kv_row_bytes(view->shape.type, view->shape.value_dim);
}

/* Value [value_dim] of KV head `head` at `position`. */
static inline void *lh_kv_value(const lh_kv_view *view, uint32_t head, uint32_t position) {
    size_t numbers = (size_t)(position % LH_KV_PAGE_POSITIONS) * view->shape.value_dim;
    return (uint8_t *)lh_kv_values(view, head, position) +
           numbers * lh_kv_number_bytes(view->shape.type);
}

/* Its scales, one for each block of 32; type Q8. */
static inline float *lh_kv_value_scales(const lh_kv_view *view, uint32_t head, uint32_t position) {
    uint32_t dim = view->shape.value_dim;
    float *scales = (float *)(void *)((uint8_t *)lh_kv_values(view, head, position) +
                                      (size_t)dim * LH_KV_PAGE_POSITIONS);
    return scales + (size_t)(position % LH_KV_PAGE_POSITIONS) * ((dim + LH_BLOCK - 1) / LH_BLOCK);
}

/* Positions that a query at `position` sees. */
static inline lh_span lh_attention_keys(uint32_t position, uint32_t window) {
    return (lh_span){position < window ? 0 : position - window + 1, position + 1};
}

/* Those of `keys` that are in block `block`; of none it is empty and at an end of the block. */
static inline lh_span lh_attention_keys_in(lh_span keys, uint32_t block) {
    const lh_span all = {block * LH_ATTENTION_BLOCK, (block + 1) * LH_ATTENTION_BLOCK};
    uint32_t begin = keys.begin < all.begin ? all.begin : keys.begin,
             end = keys.end > all.end ? all.end : keys.end;
    begin = begin < all.end ? begin : all.end;
    return (lh_span){begin, end > begin ? end : begin};
}

/* Which number of a partial result is m; z is behind it. */
static inline size_t lh_attention_partial_m(uint32_t value_dim) {
    return lh_attention_partial_floats(value_dim) - LH_LANES;
}

/* Queries that an instruction set may score together at most; scratch is sized for it. */
#define LH_ATTENTION_QUERIES 8u
/* The same of latent_attention. */
#define LH_LATENT_QUERIES 64u
