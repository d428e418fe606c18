/* Matrix products with AVX-512: a vector is the 16 outputs of a tile. What the quantized weights
 * are to the instructions, kernels/avx512/quants.h says. */
#if defined(__x86_64__)
#include "kernels/avx512/quants.h"

#include "kernels/simd/matmul.h"

#include <string.h>

/* Tiles that few rows take at once: so many streams from memory. */
#define WIDE_TILES 4
/* From so many rows on, weights that are dear to take apart are so into panels: 10 to 15 % faster
 * for many rows, slower for 16. */
#define PANEL_ROWS_MIN 24

/* The word at p, in every lane. */
LANES_INLINE __m512i broadcast_word(const void *p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm512_set1_epi32(word);
}

/* acc continued by one block, given the exact i of kernels.h. */
LANES_INLINE __m512 add_block(__m512 acc, __m512 exact, const block_scales *s, const lh_q8_block *x,
                              const lh_dtype dtype) {
    __m512 dx = _mm512_set1_ps(x->d);
    if (!lh_has_minimum(dtype))
        return _mm512_fmadd_ps(exact, _mm512_mul_ps(s->d, dx), acc);
    __m512 j = _mm512_set1_ps(x->sum);
    if (dtype == LH_DTYPE_Q2_K) /* 32 j, and m / 32 */
        j = _mm512_cvtepi32_ps(
            _mm512_add_epi32(_mm512_madd_epi16(broadcast_word(&x->pairs[0]), s->minimum[0]),
                             _mm512_madd_epi16(broadcast_word(&x->pairs[2]), s->minimum[1])));
    return _mm512_fmadd_ps(_mm512_fmadd_ps(exact, s->d, _mm512_mul_ps(j, s->m)), dx, acc);
}

/* The rows' sums of all tiles, from where they start and to y. Masked stores are slow, and few
 * tiles are not whole. */
LANES_INLINE void load_sums(__m512 acc[][WIDE_TILES], const product *p, const float *start,
                            size_t stride, const int rows, const int tiles) {
    const __mmask16 last = lanes_mask(p->outputs);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int t = 0; t < tiles; t++)
            acc[r][t] = _mm512_maskz_loadu_ps(t == tiles - 1 ? last : (__mmask16)0xffff,
                                              start + (size_t)r * stride + 16 * t);
}

LANES_INLINE void store_sums(const product *p, __m512 acc[][WIDE_TILES], const int rows,
                             const int tiles) {
    const size_t stride = p->y_stride;
    const __mmask16 last = lanes_mask(p->outputs);
    float *y = p->y;
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++, y += stride)
#pragma GCC unroll 4
        for (int t = 0; t < tiles; t++)
            if (t < tiles - 1 || last == 0xffff)
                _mm512_storeu_ps(y + 16 * t, acc[r][t]);
            else
                _mm512_mask_storeu_ps(y + 16 * t, last, acc[r][t]);
}

/* One block with all rows. */
LANES_INLINE void multiply_block(__m512 acc[][WIDE_TILES], const int t, const uint8_t *quants,
                                 const block_scales *s, const lh_q8_block *x, size_t x_stride,
                                 const int rows, const lh_dtype dtype, const bool panel) {
    __m512i dot[PRODUCT_ROWS_MAX];
    __m512 exact[PRODUCT_ROWS_MAX];
    for (int r = 0; r < rows; r++)
        exact[r] = _mm512_setzero_ps();
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        const int bias = has_half_scales(dtype) ? half : 2;
        if (half == 0 || has_half_scales(dtype))
            for (int r = 0; r < rows; r++)
                dot[r] = lh_has_minimum(dtype)
                             ? _mm512_setzero_si512()
                             : broadcast_word(&x[(size_t)r * x_stride].bias[bias]);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const int g = 4 * half + i;
            __m512i group =
                panel ? _mm512_load_si512(quants + 64 * g) : unsigned_group(quants, g, dtype);
            for (int r = 0; r < rows; r++)
                dot[r] = _mm512_dpbusd_epi32(dot[r], group,
                                             broadcast_word(x[(size_t)r * x_stride].q + 4 * g));
        }
        if (has_half_scales(dtype)) /* from + 0 on, so that no product leaves a negative zero */
            for (int r = 0; r < rows; r++)
                exact[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dot[r]), s->scale[half], exact[r]);
    }
    for (int r = 0; r < rows; r++) {
        const lh_q8_block *block = &x[(size_t)r * x_stride];
        if (!has_half_scales(dtype))
            exact[r] = _mm512_cvtepi32_ps(dot[r]);
        acc[r][t] = add_block(acc[r][t], exact[r], s, block, dtype);
    }
}

LANES_INLINE void quantized(const product *p, const int rows, const int tiles,
                            const lh_dtype dtype) {
    const lh_quant_form form = lh_quant_form_for(dtype);
    const size_t quant_bytes = LH_BLOCK / 8 * LH_LANES * (form.low_bits + form.high_bits);
    const lh_q8_block *x = p->x;
    __m512 acc[PRODUCT_ROWS_MAX][WIDE_TILES];
    load_sums(acc, p, p->y, p->y_stride, rows, tiles);
    for (uint32_t b = 0; b < p->count; b++, x += p->parts) {
        fetch_ahead(p, b, tiles, quant_bytes);
        if (tiles > 1)
            fetch_scales_ahead(p, b, tiles, form);
        for (int t = 0; t < tiles; t++) {
            const size_t tile = (size_t)t * p->tile_bytes;
            block_scales s =
                load_scales(p->scales + tile + (p->first + b) / form.sharing * (32 * form.scales),
                            p->subscales + tile + b * (16 * form.subscales), dtype);
            for (uint32_t part = 0; part < p->parts; part++)
                multiply_block(acc, t, p->w + tile + b * quant_bytes, &s, x + part, p->x_stride,
                               rows, dtype, false);
        }
    }
    store_sums(p, acc, rows, tiles);
}

/* Rows with blocks that were taken apart. */
LANES_INLINE void from_panel(const product *p, const int rows, const int tiles,
                             const lh_dtype dtype) {
    const quant_panel *panel = (const quant_panel *)(const void *)p->w;
    const lh_q8_block *x = p->x;
    __m512 acc[PRODUCT_ROWS_MAX][WIDE_TILES];
    load_sums(acc, p, p->start, p->start_stride, rows, tiles);
    for (uint32_t b = 0; b < p->count; b++, x += p->parts) {
        fetch_ahead(p, b, tiles, sizeof panel->quants[b]);
        block_scales s = load_panel_scales(panel->scales[b], dtype);
        for (uint32_t part = 0; part < p->parts; part++)
            multiply_block(acc, 0, panel->quants[b], &s, x + part, p->x_stride, rows, dtype, true);
    }
    store_sums(p, acc, rows, tiles);
}

LANES_INLINE void unpack_blocks(quant_panel *panel, const product *p, const lh_dtype dtype) {
    const lh_quant_form form = lh_quant_form_for(dtype);
    const size_t quant_bytes = LH_BLOCK / 8 * LH_LANES * (form.low_bits + form.high_bits);
    for (uint32_t b = 0; b < p->count; b++) {
#pragma GCC unroll 8
        for (int g = 0; g < 8; g++)
            _mm512_store_si512(panel->quants[b] + 64 * g,
                               unsigned_group(p->w + b * quant_bytes, g, dtype));
        block_scales s = load_scales(p->scales + (p->first + b) / form.sharing * (32 * form.scales),
                                     p->subscales + b * (16 * form.subscales), dtype);
        store_panel_scales(panel->scales[b], &s, dtype);
    }
}

/* The 16 weights of one input. */
LANES_INLINE __m512 column(const uint8_t *w, const lh_dtype dtype) {
    if (dtype == LH_DTYPE_F16)
        return lanes_widen_f16(w);
    if (dtype == LH_DTYPE_BF16) {
        __m512i halves =
            _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)w));
        return _mm512_castsi512_ps(_mm512_slli_epi32(halves, 16));
    }
    return _mm512_loadu_ps(w);
}

LANES_INLINE void floats(const product *p, const int rows, const int tiles, const lh_dtype dtype) {
    const size_t column_bytes = dtype == LH_DTYPE_F32 ? 64 : 32;
    const float *x = p->x;
    __m512 acc[PRODUCT_ROWS_MAX][WIDE_TILES];
    load_sums(acc, p, p->y, p->y_stride, rows, tiles);
    for (uint32_t k = 0; k < p->count; k++, x++) {
        __m512 w[WIDE_TILES];
        for (int t = 0; t < tiles; t++)
            w[t] = column(p->w + (size_t)t * p->tile_bytes + k * column_bytes, dtype);
        for (int r = 0; r < rows; r++)
            for (int t = 0; t < tiles; t++)
                acc[r][t] =
                    _mm512_fmadd_ps(w[t], _mm512_set1_ps(x[(size_t)r * p->x_stride]), acc[r][t]);
    }
    store_sums(p, acc, rows, tiles);
}

#define PRODUCTS_OF_8(name, body, type)                                                            \
    PRODUCTS_OF_4(name, body, type)                                                                \
    PRODUCT(name##_5, body, type, 5, 1)                                                            \
    PRODUCT(name##_6, body, type, 6, 1)                                                            \
    PRODUCT(name##_7, body, type, 7, 1)                                                            \
    PRODUCT(name##_8, body, type, 8, 1)

/* The functions over panels of one kind of arithmetic, of which `type` is one. */
#define PANELS(name, type)                                                                         \
    PRODUCTS_OF_8(name, from_panel, type)                                                          \
    static product_function *const name[] = {name##_1, name##_2, name##_3, name##_4,               \
                                             name##_5, name##_6, name##_7, name##_8};

/* One function for each type and number of rows; wide ones for few rows, which live on their
 * streams from memory. */
#define PRODUCTS(name, body, type, ...)                                                            \
    PRODUCTS_OF_8(name, body, type)                                                                \
    PRODUCT(name##_wide_1, body, type, 1, WIDE_TILES)                                              \
    PRODUCT(name##_wide_2, body, type, 2, WIDE_TILES)                                              \
    PRODUCT(name##_wide_3, body, type, 3, WIDE_TILES)                                              \
    PRODUCT(name##_wide_4, body, type, 4, WIDE_TILES)                                              \
    static const product_kernel name = {                                                           \
        .rows_max = 8,                                                                             \
        .narrow = {name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7,           \
                   name##_8},                                                                      \
        .wide = {name##_wide_1, name##_wide_2, name##_wide_3, name##_wide_4},                      \
        .wide_tiles = {WIDE_TILES, WIDE_TILES, WIDE_TILES, WIDE_TILES},                            \
        __VA_ARGS__};

#define WITH_PANELS(name, type, panels)                                                            \
    static void name##_unpack(quant_panel *panel, const product *p) {                              \
        unpack_blocks(panel, p, type);                                                             \
    }                                                                                              \
    PRODUCTS(name, quantized, type, .unpack = name##_unpack, .from_panel = panels,                 \
             .panel_rows_min = PANEL_ROWS_MIN)

/* A type that few models have: a row has its functions, more meet panels, which other types compile
 * as well. */
#define RARE(name, type, panels)                                                                   \
    static void name##_unpack(quant_panel *panel, const product *p) {                              \
        unpack_blocks(panel, p, type);                                                             \
    }                                                                                              \
    PRODUCT(name##_1, quantized, type, 1, 1)                                                       \
    PRODUCT(name##_wide_1, quantized, type, 1, WIDE_TILES)                                         \
    static const product_kernel name = {.rows_max = 8,                                             \
                                        .narrow = {name##_1},                                      \
                                        .wide = {name##_wide_1},                                   \
                                        .wide_tiles = {WIDE_TILES},                                \
                                        .unpack = name##_unpack,                                   \
                                        .from_panel = panels,                                      \
                                        .panel_rows_min = 2};

PRODUCTS(q4_0, quantized, LH_DTYPE_Q4_0)
PRODUCTS(q4_1, quantized, LH_DTYPE_Q4_1)
PRODUCTS(q5_1, quantized, LH_DTYPE_Q5_1)
PRODUCTS(q8_0, quantized, LH_DTYPE_Q8_0)
PRODUCTS(iq4_nl, quantized, LH_DTYPE_IQ4_NL)
PRODUCTS(iq4_xs, quantized, LH_DTYPE_IQ4_XS)
PRODUCTS(mxfp4, quantized, LH_DTYPE_MXFP4)
PRODUCTS(q4_k, quantized, LH_DTYPE_Q4_K)
PRODUCTS(q5_k, quantized, LH_DTYPE_Q5_K)
PANELS(whole_blocks, LH_DTYPE_Q5_0)
PANELS(scaled_halves, LH_DTYPE_Q6_K)
PANELS(halves_with_minima, LH_DTYPE_Q2_K)
WITH_PANELS(q5_0, LH_DTYPE_Q5_0, whole_blocks)
WITH_PANELS(q3_k, LH_DTYPE_Q3_K, scaled_halves)
WITH_PANELS(q6_k, LH_DTYPE_Q6_K, scaled_halves)
WITH_PANELS(q2_k, LH_DTYPE_Q2_K, halves_with_minima)
RARE(tq2_0, LH_DTYPE_TQ2_0, whole_blocks)
RARE(iq3_xxs, LH_DTYPE_IQ3_XXS, whole_blocks)
RARE(iq3_s, LH_DTYPE_IQ3_S, whole_blocks)
RARE(iq2_xxs, LH_DTYPE_IQ2_XXS, whole_blocks)
RARE(iq2_xs, LH_DTYPE_IQ2_XS, scaled_halves)
RARE(iq2_s, LH_DTYPE_IQ2_S, scaled_halves)
RARE(iq1_s, LH_DTYPE_IQ1_S, whole_blocks)
RARE(iq1_m, LH_DTYPE_IQ1_M, scaled_halves)
PRODUCTS(f32, floats, LH_DTYPE_F32)
PRODUCTS(f16, floats, LH_DTYPE_F16)
PRODUCTS(bf16, floats, LH_DTYPE_BF16)

PRODUCT_KERNEL_FOR

void lh_avx512_matmul(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                      lh_span in, lh_span out, bool continues) {
    multiply(kernel_for(w->dtype), y, y_stride, x, w, in, out, continues);
}
#endif
