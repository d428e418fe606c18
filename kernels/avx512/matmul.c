/* Matrix products with AVX-512: a vector is the 16 outputs of a tile.
 *
 * Quantized weights go through VPDPBUSD, unsigned bytes of weights times signed bytes of activations, four of
 * a lane at once, exact. Offsets come off afterwards, in floats that hold the integers exactly (below 2^24):
 * Q4_0 weights are read as q = w + 8, Q8_0 as q = w + 128, so that the block's dot is dot(q, x) - offset *
 * sum(x). */
#if defined(__x86_64__)
#include "kernels/avx512/f32x16.h"

#include "kernels/lanes/matmul.h"

#include <string.h>

/* The next four activations of a row, in every lane. */
LANES_INLINE __m512i broadcast_word(const int8_t *q) {
    int32_t word;
    memcpy(&word, q, sizeof word);
    return _mm512_set1_epi32(word);
}

/* Group g (0 .. 7) of a block as unsigned bytes. */
LANES_INLINE __m512i unsigned_group(const uint8_t *quants, int g, const lh_dtype dtype) {
    if (dtype == LH_DTYPE_Q8_0)
        return _mm512_xor_si512(_mm512_loadu_si512(quants + 64 * g), _mm512_set1_epi8((char)0x80));
    __m512i pair = _mm512_loadu_si512(quants + 64 * (g % 4));
    if (g >= 4)
        pair = _mm512_srli_epi16(pair, 4);
    return _mm512_and_si512(pair, _mm512_set1_epi8(15));
}

/* acc continued by one block, given the integer dot with the unsigned weights. */
LANES_INLINE __m512 add_block(__m512 acc, __m512i dot, __m512 d, __m512 m, const lh_q8_block *x,
                              const lh_dtype dtype) {
    __m512 exact = _mm512_cvtepi32_ps(dot), dx = _mm512_set1_ps(x->d), sum = _mm512_set1_ps(x->sum);
    if (dtype != LH_DTYPE_Q4_1)
        exact = _mm512_fnmadd_ps(sum, _mm512_set1_ps(dtype == LH_DTYPE_Q4_0 ? 8.0f : 128.0f), exact);
    acc = _mm512_fmadd_ps(exact, _mm512_mul_ps(d, dx), acc);
    return dtype == LH_DTYPE_Q4_1 ? _mm512_fmadd_ps(sum, _mm512_mul_ps(m, dx), acc) : acc;
}

LANES_INLINE __mmask16 tile_mask(const product *p, int tile, int tiles) {
    return tile == tiles - 1 ? lanes_mask(p->outputs) : (__mmask16)0xffff;
}

LANES_INLINE void quantized(const product *p, const int rows, const int tiles, const lh_dtype dtype) {
    const size_t quant_bytes = dtype == LH_DTYPE_Q8_0 ? 512 : 256,
                 scale_bytes = dtype == LH_DTYPE_Q4_1 ? 64 : 32;
    const lh_q8_block *x = p->x;
    __m512 acc[PRODUCT_ROWS_MAX][4];
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            acc[r][t] =
                _mm512_maskz_loadu_ps(tile_mask(p, t, tiles), p->y + (size_t)r * p->y_stride + 16 * t);
    for (uint32_t b = 0; b < p->count; b++, x++) {
        fetch_ahead(p, b);
        for (int t = 0; t < tiles; t++) {
            const uint8_t *quants = p->w + (size_t)t * p->tile_bytes + b * quant_bytes;
            const uint8_t *scales = p->scales + (size_t)t * p->tile_bytes + b * scale_bytes;
            __m512i dot[PRODUCT_ROWS_MAX];
            for (int r = 0; r < rows; r++)
                dot[r] = _mm512_setzero_si512();
            for (int g = 0; g < 8; g++) {
                __m512i group = unsigned_group(quants, g, dtype);
                for (int r = 0; r < rows; r++)
                    dot[r] = _mm512_dpbusd_epi32(dot[r], group,
                                                 broadcast_word(x[(size_t)r * p->x_stride].q + 4 * g));
            }
            __m512 d = lanes_widen_f16(scales), m = d;
            if (dtype == LH_DTYPE_Q4_1)
                m = lanes_widen_f16(scales + 32);
            for (int r = 0; r < rows; r++)
                acc[r][t] = add_block(acc[r][t], dot[r], d, m, &x[(size_t)r * p->x_stride], dtype);
        }
    }
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            _mm512_mask_storeu_ps(p->y + (size_t)r * p->y_stride + 16 * t, tile_mask(p, t, tiles), acc[r][t]);
}

/* The 16 weights of one input. */
LANES_INLINE __m512 column(const uint8_t *w, const lh_dtype dtype) {
    if (dtype == LH_DTYPE_F16)
        return lanes_widen_f16(w);
    if (dtype == LH_DTYPE_BF16) {
        __m512i halves = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)w));
        return _mm512_castsi512_ps(_mm512_slli_epi32(halves, 16));
    }
    return _mm512_loadu_ps(w);
}

LANES_INLINE void floats(const product *p, const int rows, const int tiles, const lh_dtype dtype) {
    const size_t column_bytes = dtype == LH_DTYPE_F32 ? 64 : 32;
    const float *x = p->x;
    __m512 acc[PRODUCT_ROWS_MAX][4];
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            acc[r][t] =
                _mm512_maskz_loadu_ps(tile_mask(p, t, tiles), p->y + (size_t)r * p->y_stride + 16 * t);
    for (uint32_t k = 0; k < p->count; k++, x++) {
        __m512 w[4];
        for (int t = 0; t < tiles; t++)
            w[t] = column(p->w + (size_t)t * p->tile_bytes + k * column_bytes, dtype);
        for (int r = 0; r < rows; r++)
            for (int t = 0; t < tiles; t++)
                acc[r][t] = _mm512_fmadd_ps(w[t], _mm512_set1_ps(x[(size_t)r * p->x_stride]), acc[r][t]);
    }
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            _mm512_mask_storeu_ps(p->y + (size_t)r * p->y_stride + 16 * t, tile_mask(p, t, tiles), acc[r][t]);
}

/* One function for each type and number of rows; wide ones for few rows, widest for one, which lives on its streams from
 * memory. */
#define PRODUCTS(name, body, type, one, few)                                                                 \
    PRODUCT(name##_1, body, type, 1, 1)                                                                      \
    PRODUCT(name##_2, body, type, 2, 1)                                                                      \
    PRODUCT(name##_3, body, type, 3, 1)                                                                      \
    PRODUCT(name##_4, body, type, 4, 1)                                                                      \
    PRODUCT(name##_5, body, type, 5, 1)                                                                      \
    PRODUCT(name##_6, body, type, 6, 1)                                                                      \
    PRODUCT(name##_7, body, type, 7, 1)                                                                      \
    PRODUCT(name##_8, body, type, 8, 1)                                                                      \
    PRODUCT(name##_wide_1, body, type, 1, one)                                                               \
    PRODUCT(name##_wide_2, body, type, 2, few)                                                               \
    PRODUCT(name##_wide_3, body, type, 3, few)                                                               \
    PRODUCT(name##_wide_4, body, type, 4, few)                                                               \
    static const product_kernel name = {                                                                     \
        8,                                                                                                   \
        {name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8},                    \
        {name##_wide_1, name##_wide_2, name##_wide_3, name##_wide_4},                                        \
        {one, few, few, few}};

PRODUCTS(q4_0, quantized, LH_DTYPE_Q4_0, 4, 2)
PRODUCTS(q4_1, quantized, LH_DTYPE_Q4_1, 4, 2)
PRODUCTS(q8_0, quantized, LH_DTYPE_Q8_0, 4, 2)
PRODUCTS(f32, floats, LH_DTYPE_F32, 4, 2)
PRODUCTS(f16, floats, LH_DTYPE_F16, 4, 2)
PRODUCTS(bf16, floats, LH_DTYPE_BF16, 4, 2)

void lh_avx512_matmul(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w, lh_span in,
                      lh_span out) {
    const product_kernel *kernel = w->dtype == LH_DTYPE_Q4_0   ? &q4_0
                                   : w->dtype == LH_DTYPE_Q4_1 ? &q4_1
                                   : w->dtype == LH_DTYPE_Q8_0 ? &q8_0
                                   : w->dtype == LH_DTYPE_F16  ? &f16
                                   : w->dtype == LH_DTYPE_BF16 ? &bf16
                                                               : &f32;
    multiply(kernel, y, y_stride, x, w, in, out);
}
#endif
