/* Matrix products with NEON, compiled twice: matmul.c gives dot_group out of what every aarch64
 * has, matmul_dotprod.c has the instruction for it; each defines it before it includes this file.
 * The 16 outputs of a tile are four quarters, one register of four lanes each.
 *
 * A register of packed weights is 4 inputs of 4 outputs, and SDOT by element multiplies each
 * output's 4 bytes by the same 4 activations: 16 multiply-adds, and no activation is ever
 * broadcast. What the quantized weights are to it, kernels/neon/quants.h says.
 *
 * Register tiles, of 32: up to two rows take all 16 outputs, more take 8 at a time: 4 rows are 16
 * registers of sums (8 of the block, in integers, and 8 of the chain) and 8 of activations, and a
 * block of 4-bit weights is 8 loads of them and 64 SDOTs, 128 multiply-adds a load. */
#pragma once

#include "kernels/neon/quants.h"

#include "kernels/simd/matmul.h"

/* A loop whose turns are known: unrolled before all else, so that sums in arrays become
 * registers. */
#define EACH(i, count)     _Pragma("GCC unroll 8") for (int i = 0; i < (count); i++)
#define QUANTIZED_ROWS_MAX 4
#define FLOAT_ROWS_MAX     6
#define ROWS_MAX           FLOAT_ROWS_MAX
/* Tiles of outputs that one row and two rows take at once: more streams from memory, more
 * independent chains. */
#define WIDE_TILES 4
#define FEW_TILES  2
/* Up to this many rows take whole tiles, more take half a tile at a time. */
#define ROWS_OF_WHOLE_TILES 2

/* Where a dot begins that is to lose the type's offset: of half 0 or 1, or of the block, 2. */
LANES_INLINE int32x4_t dot_start(const lh_q8_block *x, const int half, const lh_dtype dtype) {
    const uint32_t offset = lh_quant_form_for(dtype).offset;
    if (offset == 0)
        return vdupq_n_s32(0);
    return vdupq_n_s32(x->bias[half] >> __builtin_ctz(128 / offset));
}

/* i of kernels.h, exact, for quarters `from` .. `from` + quarters - 1 of a tile and one block of
 * each row. */
LANES_INLINE void dot_block(int32x4_t i[QUANTIZED_ROWS_MAX][4], const uint8_t *quants,
                            const block_scales *s, const lh_q8_block *x, size_t x_stride,
                            const int rows, const int quarters, const lh_dtype dtype) {
    int8x16_t halves[QUANTIZED_ROWS_MAX][2];
    int32x4_t dot[QUANTIZED_ROWS_MAX][4];
    EACH (r, rows) {
        halves[r][0] = vld1q_s8(x[(size_t)r * x_stride].q);
        halves[r][1] = vld1q_s8(x[(size_t)r * x_stride].q + 16);
    }
    EACH (n, 8) {
        /* groups that share their words follow each other, where no half is to be done first */
        const int g = has_half_scales(dtype) ? n : n / 2 + n % 2 * 4;
        if (n == 0 || (n == 4 && has_half_scales(dtype)))
            EACH (r, rows)
                EACH (q, quarters)
                    dot[r][q] = dot_start(&x[(size_t)r * x_stride],
                                          has_half_scales(dtype) ? n / 4 : 2, dtype);
        EACH (q, quarters) {
            int8x16_t w = group_bytes(quants + 16 * q, g, dtype);
            EACH (r, rows)
                dot[r][q] = dot_group(dot[r][q], w, halves[r][g / 4], g % 4);
        }
        if (n % 4 == 3 && has_half_scales(dtype))
            EACH (r, rows)
                EACH (q, quarters)
                    i[r][q] = n == 3 ? vmulq_s32(dot[r][q], s[q].scale[0])
                                     : vmlaq_s32(i[r][q], dot[r][q], s[q].scale[1]);
    }
    if (!has_half_scales(dtype))
        EACH (r, rows)
            EACH (q, quarters)
                i[r][q] = dot[r][q];
}

/* acc continued by one block, given its i. */
LANES_INLINE float32x4_t add_block(float32x4_t acc, int32x4_t i, const block_scales *s,
                                   const lh_q8_block *x, const lh_dtype dtype) {
    if (!lh_has_minimum(dtype))
        return vfmaq_f32(acc, vcvtq_f32_s32(i), vmulq_n_f32(s->d, x->d));
    float32x4_t sum = vmulq_n_f32(s->m, x->sum);
    if (dtype == LH_DTYPE_Q2_K) {
        int32x4_t j = vmulq_n_s32(s->minimum[0], -(x->bias[0] >> 7));
        sum = vmulq_f32(vcvtq_f32_s32(vmlaq_n_s32(j, s->minimum[1], -(x->bias[1] >> 7))), s->m);
    }
    return vfmaq_n_f32(acc, vfmaq_f32(sum, vcvtq_f32_s32(i), s->d), x->d);
}

/* Where a register tile's sums come from and go to: y itself, or a copy with whole tiles, since the
 * last outputs may be fewer and memory beyond is not to be touched. */
typedef struct sums {
    float *y;
    size_t y_stride;
    float whole[ROWS_MAX * FEW_TILES * LH_LANES]; /* [rows][tiles * 16] */
} sums;

LANES_INLINE void sums_load(sums *s, const product *p, const int rows, const int tiles) {
    s->y = p->y;
    s->y_stride = p->y_stride;
    if (p->outputs == LH_LANES)
        return;
    s->y = s->whole;
    s->y_stride = (size_t)tiles * LH_LANES;
    EACH (r, rows)
        memcpy(s->y + (size_t)r * s->y_stride, p->y + (size_t)r * p->y_stride,
               ((size_t)(tiles - 1) * LH_LANES + p->outputs) * sizeof(float));
}

LANES_INLINE void sums_store(const sums *s, const product *p, const int rows, const int tiles) {
    if (s->y != s->whole)
        return;
    EACH (r, rows)
        memcpy(p->y + (size_t)r * p->y_stride, s->y + (size_t)r * s->y_stride,
               ((size_t)(tiles - 1) * LH_LANES + p->outputs) * sizeof(float));
}

/* Quarters `from` .. from + quarters - 1 of each tile. */
LANES_INLINE void quantized_quarters(const product *p, const sums *y, const int from,
                                     const int quarters, const int rows, const int tiles,
                                     const lh_dtype dtype) {
    const lh_quant_form form = lh_quant_form_for(dtype);
    const size_t quant_bytes = LH_BLOCK / 8 * LH_LANES * (form.low_bits + form.high_bits);
    const lh_q8_block *x = p->x;
    float32x4_t acc[WIDE_TILES][QUANTIZED_ROWS_MAX][4];
    EACH (t, tiles)
        EACH (r, rows)
            EACH (q, quarters)
                acc[t][r][q] = vld1q_f32(y->y + (size_t)r * y->y_stride + 16 * t + 4 * (from + q));
    for (uint32_t b = 0; b < p->count; b++, x += p->parts) {
        if (from == 0)
            fetch_ahead(p, b, tiles, quant_bytes);
        for (int t = 0; t < tiles; t++) {
            const size_t tile = (size_t)t * p->tile_bytes;
            const uint8_t *scales =
                p->scales + tile + (p->first + b) / form.sharing * (32 * form.scales);
            const uint8_t *subscales = p->subscales + tile + b * (16 * form.subscales);
            block_scales s[4];
            EACH (q, quarters)
                s[q] = load_scales(scales + 8 * (from + q), subscales + 4 * (from + q), dtype);
            for (uint32_t part = 0; part < p->parts; part++) {
                int32x4_t i[QUANTIZED_ROWS_MAX][4];
                dot_block(i, p->w + tile + b * quant_bytes + 16 * from, s, x + part, p->x_stride,
                          rows, quarters, dtype);
                EACH (q, quarters)
                    EACH (r, rows)
                        acc[t][r][q] = add_block(acc[t][r][q], i[r][q], &s[q],
                                                 &x[(size_t)r * p->x_stride + part], dtype);
            }
        }
    }
    EACH (t, tiles)
        EACH (r, rows)
            EACH (q, quarters)
                vst1q_f32(y->y + (size_t)r * y->y_stride + 16 * t + 4 * (from + q), acc[t][r][q]);
}

LANES_INLINE void quantized(const product *p, const int rows, const int tiles,
                            const lh_dtype dtype) {
    sums s;
    sums_load(&s, p, rows, tiles);
    if (rows <= ROWS_OF_WHOLE_TILES) {
        quantized_quarters(p, &s, 0, 4, rows, tiles, dtype);
    } else {
        quantized_quarters(p, &s, 0, 2, rows, tiles, dtype);
        quantized_quarters(p, &s, 2, 2, rows, tiles, dtype);
    }
    sums_store(&s, p, rows, tiles);
}

LANES_INLINE float32x4_t widen4_bf16(const uint8_t *p) {
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(vld1_u8(p)), 16));
}

/* Quarter q of the 16 weights of one input. */
LANES_INLINE float32x4_t column_quarter(const uint8_t *column, const int q, const lh_dtype dtype) {
    if (dtype == LH_DTYPE_F16)
        return lanes_widen4_f16(column + 8 * q);
    if (dtype == LH_DTYPE_BF16)
        return widen4_bf16(column + 8 * q);
    return vld1q_f32((const float *)(const void *)column + 4 * q);
}

LANES_INLINE void floats(const product *p, const int rows, const int tiles, const lh_dtype dtype) {
    const size_t column_bytes = dtype == LH_DTYPE_F32 ? 64 : 32;
    const float *x = p->x;
    float32x4_t acc[WIDE_TILES][FLOAT_ROWS_MAX][4];
    sums s;
    sums_load(&s, p, rows, tiles);
    EACH (t, tiles)
        EACH (r, rows)
            EACH (q, 4)
                acc[t][r][q] = vld1q_f32(s.y + (size_t)r * s.y_stride + 16 * t + 4 * q);
    for (uint32_t k = 0; k < p->count; k++, x++)
        EACH (t, tiles)
            EACH (q, 4) {
                float32x4_t w =
                    column_quarter(p->w + (size_t)t * p->tile_bytes + k * column_bytes, q, dtype);
                EACH (r, rows)
                    acc[t][r][q] = vfmaq_n_f32(acc[t][r][q], w, x[(size_t)r * p->x_stride]);
            }
    EACH (t, tiles)
        EACH (r, rows)
            EACH (q, 4)
                vst1q_f32(s.y + (size_t)r * s.y_stride + 16 * t + 4 * q, acc[t][r][q]);
    sums_store(&s, p, rows, tiles);
}

#define QUANTIZED(name, type)                                                                      \
    PRODUCTS_OF_4(name, quantized, type)                                                           \
    PRODUCT(name##_wide_1, quantized, type, 1, WIDE_TILES)                                         \
    PRODUCT(name##_wide_2, quantized, type, 2, FEW_TILES)                                          \
    static const product_kernel name = {.rows_max = QUANTIZED_ROWS_MAX,                            \
                                        .narrow = {name##_1, name##_2, name##_3, name##_4},        \
                                        .wide = {name##_wide_1, name##_wide_2},                    \
                                        .wide_tiles = {WIDE_TILES, FEW_TILES}};

#define FLOATS(name, type)                                                                         \
    PRODUCTS_OF_4(name, floats, type)                                                              \
    PRODUCT(name##_5, floats, type, 5, 1)                                                          \
    PRODUCT(name##_6, floats, type, 6, 1)                                                          \
    PRODUCT(name##_wide_1, floats, type, 1, WIDE_TILES)                                            \
    PRODUCT(name##_wide_2, floats, type, 2, FEW_TILES)                                             \
    static const product_kernel name = {                                                           \
        .rows_max = FLOAT_ROWS_MAX,                                                                \
        .narrow = {name##_1, name##_2, name##_3, name##_4, name##_5, name##_6},                    \
        .wide = {name##_wide_1, name##_wide_2},                                                    \
        .wide_tiles = {WIDE_TILES, FEW_TILES}};

QUANTIZED(q4_0, LH_DTYPE_Q4_0)
QUANTIZED(q4_1, LH_DTYPE_Q4_1)
QUANTIZED(q5_0, LH_DTYPE_Q5_0)
QUANTIZED(q5_1, LH_DTYPE_Q5_1)
QUANTIZED(q8_0, LH_DTYPE_Q8_0)
QUANTIZED(q2_k, LH_DTYPE_Q2_K)
QUANTIZED(q3_k, LH_DTYPE_Q3_K)
QUANTIZED(q4_k, LH_DTYPE_Q4_K)
QUANTIZED(q5_k, LH_DTYPE_Q5_K)
QUANTIZED(q6_k, LH_DTYPE_Q6_K)
QUANTIZED(iq4_nl, LH_DTYPE_IQ4_NL)
QUANTIZED(iq4_xs, LH_DTYPE_IQ4_XS)
QUANTIZED(tq2_0, LH_DTYPE_TQ2_0)
QUANTIZED(iq3_xxs, LH_DTYPE_IQ3_XXS)
QUANTIZED(iq3_s, LH_DTYPE_IQ3_S)
QUANTIZED(iq2_xxs, LH_DTYPE_IQ2_XXS)
QUANTIZED(iq2_xs, LH_DTYPE_IQ2_XS)
QUANTIZED(iq2_s, LH_DTYPE_IQ2_S)
QUANTIZED(iq1_s, LH_DTYPE_IQ1_S)
QUANTIZED(iq1_m, LH_DTYPE_IQ1_M)
QUANTIZED(mxfp4, LH_DTYPE_MXFP4)
FLOATS(f32, LH_DTYPE_F32)
FLOATS(f16, LH_DTYPE_F16)
FLOATS(bf16, LH_DTYPE_BF16)

PRODUCT_KERNEL_FOR
