/* Matrix products with AVX2: the 16 outputs of a tile are two halves of 8.
 *
 * VPMADDUBSW multiplies unsigned by signed bytes and adds neighbours in 16 bits, saturating: the operands are
 * chosen so that it never does. 4-bit   q <= 15, |x| <= 127: a pair is at most 3810 and the 8 groups of a
 * block together 30480, so that they are added in 16 bits and widened once. Q4_0's offset comes off in
 * floats, exactly: dot(q, x) - 8 sum(x) Q8_0    |w| as the unsigned operand and x with w's sign: a pair is at
 * most 2 * 128 * 127 = 32512 Few rows take both halves at once, more rows one half after the other, as 16
 * registers allow. */
#if defined(__x86_64__)
#include "kernels/avx2/f32x16.h"

#include "kernels/lanes/matmul.h"

#include <string.h>

/* Tiles of outputs that one row takes at once: more streams from memory. */
#define WIDE_TILES 4
/* Up to this many rows take whole tiles, more take half a tile at a time. */
#define ROWS_OF_WHOLE_TILES 1

/* The next four activations of a row, in every lane. */
LANES_INLINE __m256i broadcast_word(const int8_t *q) {
    int32_t word;
    memcpy(&word, q, sizeof word);
    return _mm256_set1_epi32(word);
}

LANES_INLINE __m256i load_bytes(const uint8_t *p) {
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

LANES_INLINE __m256 widen_scales(const uint8_t *halves) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)halves));
}

/* dot[rows] of one half with one block of 4-bit quants, read as unsigned. */
LANES_INLINE void dot_nibbles(__m256i *dot, const uint8_t *quants, const lh_q8_block *x, size_t x_stride,
                              const int rows) {
    __m256i low_bits = _mm256_set1_epi8(15);
    for (int r = 0; r < rows; r++)
        dot[r] = _mm256_setzero_si256();
    for (int g = 0; g < 4; g++) {
        __m256i pair = load_bytes(quants + 64 * g);
        __m256i low = _mm256_and_si256(pair, low_bits);
        __m256i high = _mm256_and_si256(_mm256_srli_epi16(pair, 4), low_bits);
        for (int r = 0; r < rows; r++) {
            const int8_t *q = x[(size_t)r * x_stride].q + 4 * g;
            dot[r] = _mm256_add_epi16(dot[r], _mm256_maddubs_epi16(low, broadcast_word(q)));
            dot[r] = _mm256_add_epi16(dot[r], _mm256_maddubs_epi16(high, broadcast_word(q + 16)));
        }
    }
    for (int r = 0; r < rows; r++)
        dot[r] = _mm256_madd_epi16(dot[r], _mm256_set1_epi16(1));
}

/* The same for 8-bit quants. */
LANES_INLINE void dot_bytes(__m256i *dot, const uint8_t *quants, const lh_q8_block *x, size_t x_stride,
                            const int rows) {
    for (int r = 0; r < rows; r++)
        dot[r] = _mm256_setzero_si256();
    for (int g = 0; g < 8; g++) {
        __m256i w = load_bytes(quants + 64 * g), magnitude = _mm256_abs_epi8(w);
        for (int r = 0; r < rows; r++) {
            __m256i signed_x = _mm256_sign_epi8(broadcast_word(x[(size_t)r * x_stride].q + 4 * g), w);
            __m256i pairs = _mm256_maddubs_epi16(magnitude, signed_x);
            dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
    }
}

/* acc continued by one block, given its integer dot. */
LANES_INLINE __m256 add_block(__m256 acc, __m256i dot, __m256 d, __m256 m, const lh_q8_block *x,
                              const lh_dtype dtype) {
    __m256 exact = _mm256_cvtepi32_ps(dot), dx = _mm256_set1_ps(x->d), sum = _mm256_set1_ps(x->sum);
    if (dtype == LH_DTYPE_Q4_0)
        exact = _mm256_fnmadd_ps(sum, _mm256_set1_ps(8.0f), exact);
    acc = _mm256_fmadd_ps(exact, _mm256_mul_ps(d, dx), acc);
    return dtype == LH_DTYPE_Q4_1 ? _mm256_fmadd_ps(sum, _mm256_mul_ps(m, dx), acc) : acc;
}

/* Halves `from` .. from + halves - 1, two to a tile. */
LANES_INLINE void quantized_halves(const product *p, const int from, const int rows, const int halves,
                                   const lh_dtype dtype) {
    const size_t quant_bytes = dtype == LH_DTYPE_Q8_0 ? 512 : 256,
                 scale_bytes = dtype == LH_DTYPE_Q4_1 ? 64 : 32;
    const lh_q8_block *x = p->x;
    const int last_tile = (from + halves - 1) / 2;
    __m256i mask[2 * WIDE_TILES];
    __m256 acc[2 * WIDE_TILES][PRODUCT_ROWS_MAX];
    for (int h = 0; h < halves; h++) {
        int outputs = (from + h) / 2 == last_tile ? (int)p->outputs : (int)LH_LANES;
        mask[h] = lanes_mask8(outputs - 8 * ((from + h) % 2));
        for (int r = 0; r < rows; r++)
            acc[h][r] = _mm256_maskload_ps(p->y + (size_t)r * p->y_stride + 8 * (from + h), mask[h]);
    }
    for (uint32_t b = 0; b < p->count; b++, x++) {
        if (from == 0)
            fetch_ahead(p, b);
        for (int h = 0; h < halves; h++) {
            size_t tile = (size_t)(from + h) / 2 * p->tile_bytes, half = (size_t)(from + h) % 2;
            const uint8_t *quants = p->w + tile + b * quant_bytes + 32 * half;
            const uint8_t *scales = p->scales + tile + b * scale_bytes + 16 * half;
            __m256i dot[PRODUCT_ROWS_MAX];
            if (dtype == LH_DTYPE_Q8_0)
                dot_bytes(dot, quants, x, p->x_stride, rows);
            else
                dot_nibbles(dot, quants, x, p->x_stride, rows);
            __m256 d = widen_scales(scales), m = d;
            if (dtype == LH_DTYPE_Q4_1)
                m = widen_scales(scales + 32);
            for (int r = 0; r < rows; r++)
                acc[h][r] = add_block(acc[h][r], dot[r], d, m, &x[(size_t)r * p->x_stride], dtype);
        }
    }
    for (int h = 0; h < halves; h++)
        for (int r = 0; r < rows; r++)
            _mm256_maskstore_ps(p->y + (size_t)r * p->y_stride + 8 * (from + h), mask[h], acc[h][r]);
}

LANES_INLINE void quantized(const product *p, const int rows, const int tiles, const lh_dtype dtype) {
    if (rows <= ROWS_OF_WHOLE_TILES) {
        quantized_halves(p, 0, rows, 2 * tiles, dtype);
    } else {
        quantized_halves(p, 0, rows, 1, dtype);
        quantized_halves(p, 1, rows, 1, dtype);
    }
}

/* The 16 weights of one input. */
LANES_INLINE f32x16 column(const uint8_t *w, const lh_dtype dtype) {
    if (dtype == LH_DTYPE_F16)
        return lanes_widen_f16(w);
    if (dtype == LH_DTYPE_BF16) {
        __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)w));
        __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(w + 16)));
        return (f32x16){_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)),
                        _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))};
    }
    return lanes_load((const float *)(const void *)w);
}

LANES_INLINE size_t tile_outputs(const product *p, int tile, int tiles) {
    return tile == tiles - 1 ? p->outputs : LH_LANES;
}

LANES_INLINE void floats(const product *p, const int rows, const int tiles, const lh_dtype dtype) {
    const size_t column_bytes = dtype == LH_DTYPE_F32 ? 64 : 32;
    const float *x = p->x;
    f32x16 acc[PRODUCT_ROWS_MAX][4];
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            acc[r][t] = lanes_load_part(p->y + (size_t)r * p->y_stride + 16 * t, tile_outputs(p, t, tiles));
    for (uint32_t k = 0; k < p->count; k++, x++)
        for (int t = 0; t < tiles; t++) {
            f32x16 w = column(p->w + (size_t)t * p->tile_bytes + k * column_bytes, dtype);
            for (int r = 0; r < rows; r++)
                acc[r][t] = lanes_fma(w, lanes_set(x[(size_t)r * p->x_stride]), acc[r][t]);
        }
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            lanes_store_part(p->y + (size_t)r * p->y_stride + 16 * t, acc[r][t], tile_outputs(p, t, tiles));
}

#define QUANTIZED(name, type)                                                                                \
    PRODUCT(name##_1, quantized, type, 1, 1)                                                                 \
    PRODUCT(name##_2, quantized, type, 2, 1)                                                                 \
    PRODUCT(name##_3, quantized, type, 3, 1)                                                                 \
    PRODUCT(name##_4, quantized, type, 4, 1)                                                                 \
    PRODUCT(name##_wide_1, quantized, type, 1, WIDE_TILES)                                                   \
    static const product_kernel name = {                                                                     \
        4, {name##_1, name##_2, name##_3, name##_4}, {name##_wide_1}, {WIDE_TILES}};

#define FLOATS(name, type)                                                                                   \
    PRODUCT(name##_1, floats, type, 1, 1)                                                                    \
    PRODUCT(name##_2, floats, type, 2, 1)                                                                    \
    PRODUCT(name##_3, floats, type, 3, 1)                                                                    \
    PRODUCT(name##_4, floats, type, 4, 1)                                                                    \
    PRODUCT(name##_5, floats, type, 5, 1)                                                                    \
    PRODUCT(name##_6, floats, type, 6, 1)                                                                    \
    PRODUCT(name##_wide_1, floats, type, 1, WIDE_TILES)                                                      \
    PRODUCT(name##_wide_2, floats, type, 2, 2)                                                               \
    static const product_kernel name = {6,                                                                   \
                                        {name##_1, name##_2, name##_3, name##_4, name##_5, name##_6},        \
                                        {name##_wide_1, name##_wide_2},                                      \
                                        {WIDE_TILES, 2}};

QUANTIZED(q4_0, LH_DTYPE_Q4_0)
QUANTIZED(q4_1, LH_DTYPE_Q4_1)
QUANTIZED(q8_0, LH_DTYPE_Q8_0)
FLOATS(f32, LH_DTYPE_F32)
FLOATS(f16, LH_DTYPE_F16)
FLOATS(bf16, LH_DTYPE_BF16)

void lh_avx2_matmul(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w, lh_span in,
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
