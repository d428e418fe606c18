/* Matrix products with AVX2: the 16 outputs of a tile are two halves of 8. What the quantized
 * weights are to the instructions, kernels/avx2/quants.h says. One row takes both halves at once,
 * more rows one half after the other, as 16 registers allow; but one or two rows of weights from
 * memory take several tiles. */
#if defined(__x86_64__)
#include "kernels/avx2/quants.h"

#include "kernels/simd/matmul.h"

#include <string.h>

/* Tiles of outputs that one or two rows take at once: more streams from memory. */
#define WIDE_TILES 4
/* Up to this many rows take a single tile whole, more take half of it at a time. */
#define ROWS_OF_WHOLE_TILES 1
/* From so many rows on, weights that are dear to take apart are so into panels: two tiles
 * of rows. */
#define PANEL_ROWS_MIN 5

/* The word at p, in every lane. */
LANES_INLINE __m256i broadcast_word(const void *p) {
    int32_t word;
    memcpy(&word, p, sizeof word);
    return _mm256_set1_epi32(word);
}

/* Keeps a sum's additions in their order: the compiler would make a tree of them, which needs all
 * terms at once and more registers than there are. */
LANES_INLINE void keep_in_order(__m256i *sum) {
    __asm__("" : "+x"(*sum));
}

/* dot[rows] of the groups [from, to) in 16 bits, continued. */
LANES_INLINE void add_groups(__m256i *dot, const uint8_t *quants, const lh_q8_block *x,
                             size_t x_stride, const int rows, const int from, const int to,
                             const lh_dtype dtype, const bool panel) {
#pragma GCC unroll 8
    for (int g = from; g < to; g++) {
        __m256i w = panel ? load_bytes(quants + 64 * g) : group_bytes(quants, g, dtype);
        for (int r = 0; r < rows; r++) {
            const int8_t *q = x[(size_t)r * x_stride].q + 4 * g;
            dot[r] = _mm256_add_epi16(dot[r], _mm256_maddubs_epi16(w, broadcast_word(q)));
            keep_in_order(&dot[r]);
        }
    }
}

/* dot[rows] of a block of signed bytes, which halves of their own scales are multiplied by. */
LANES_INLINE void dot_bytes(__m256i *dot, const uint8_t *quants, const block_scales *s,
                            const lh_q8_block *x, size_t x_stride, const int rows,
                            const lh_dtype dtype, const bool panel) {
    for (int r = 0; r < rows; r++)
        dot[r] = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int g = 0; g < 8; g++) {
        __m256i w = panel ? load_bytes(quants + 64 * g) : group_bytes(quants, g, dtype);
        __m256i magnitude = _mm256_abs_epi8(w),
                factor = has_half_scales(dtype) ? s->scale[g / 4] : _mm256_set1_epi16(1);
        for (int r = 0; r < rows; r++) {
            __m256i signed_x =
                _mm256_sign_epi8(broadcast_word(x[(size_t)r * x_stride].q + 4 * g), w);
            __m256i pairs = _mm256_maddubs_epi16(magnitude, signed_x);
            dot[r] = _mm256_add_epi32(dot[r], _mm256_madd_epi16(pairs, factor));
            keep_in_order(&dot[r]);
        }
    }
}

/* dot[rows] of a block, exact: i of kernels.h, but for what float_offset says. */
LANES_INLINE void dot_block(__m256i *dot, const uint8_t *quants, const block_scales *s,
                            const lh_q8_block *x, size_t x_stride, const int rows,
                            const lh_dtype dtype, const bool panel) {
    const block_kind kind = kind_of(dtype);
    const __m256i ones = _mm256_set1_epi16(1);
    if (kind == KIND_BYTES) {
        dot_bytes(dot, quants, s, x, x_stride, rows, dtype, panel);
        return;
    }
    if (kind == KIND_BLOCK) {
        for (int r = 0; r < rows; r++)
            dot[r] = _mm256_setzero_si256();
        add_groups(dot, quants, x, x_stride, rows, 0, 8, dtype, panel);
        for (int r = 0; r < rows; r++)
            dot[r] = _mm256_madd_epi16(dot[r], ones);
        return;
    }
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        __m256i sum[PRODUCT_ROWS_MAX];
        for (int r = 0; r < rows; r++)
            sum[r] = kind == KIND_HALVES && !lh_has_minimum(dtype)
                         ? broadcast_word(&x[(size_t)r * x_stride].pairs[2 * half])
                         : _mm256_setzero_si256();
        add_groups(sum, quants, x, x_stride, rows, 4 * half, 4 * half + 4, dtype, panel);
        for (int r = 0; r < rows; r++) {
            __m256i i = _mm256_madd_epi16(sum[r], kind == KIND_HALVES ? s->scale[half] : ones);
            dot[r] = half == 0 ? i : _mm256_add_epi32(dot[r], i);
        }
    }
}

/* acc continued by one block, given its integer dot. */
LANES_INLINE __m256 add_block(__m256 acc, __m256i dot, const block_scales *s, const lh_q8_block *x,
                              const lh_dtype dtype) {
    __m256 exact = _mm256_cvtepi32_ps(dot), dx = _mm256_set1_ps(x->d), sum = _mm256_set1_ps(x->sum);
    if (float_offset(dtype) != 0)
        exact = _mm256_fnmadd_ps(sum, _mm256_set1_ps((float)float_offset(dtype)), exact);
    if (!lh_has_minimum(dtype))
        return _mm256_fmadd_ps(exact, _mm256_mul_ps(s->d, dx), acc);
    if (dtype == LH_DTYPE_Q2_K) /* 32 j, and m / 32 */
        sum = _mm256_cvtepi32_ps(
            _mm256_add_epi32(_mm256_madd_epi16(broadcast_word(&x->pairs[0]), s->minimum[0]),
                             _mm256_madd_epi16(broadcast_word(&x->pairs[2]), s->minimum[1])));
    return _mm256_fmadd_ps(_mm256_fmadd_ps(exact, s->d, _mm256_mul_ps(sum, s->m)), dx, acc);
}

/* Halves `from` .. from + halves - 1, two to a tile. */
LANES_INLINE void quantized_halves(const product *p, const int from, const int rows,
                                   const int halves, const lh_dtype dtype, const bool panel) {
    const lh_quant_form form = lh_quant_form_for(dtype);
    const size_t quant_bytes =
        panel ? LH_BLOCK * LH_LANES : LH_BLOCK / 8 * LH_LANES * (form.low_bits + form.high_bits);
    const lh_q8_block *x = p->x;
    const int last_tile = (from + halves - 1) / 2;
    const float *start = (panel ? p->start : p->y) + 8 * from;
    const size_t start_stride = panel ? p->start_stride : p->y_stride;
    __m256i mask[2 * WIDE_TILES];
    __m256 acc[2 * WIDE_TILES][PRODUCT_ROWS_MAX];
#pragma GCC unroll 8
    for (int h = 0; h < halves; h++) {
        int outputs = (from + h) / 2 == last_tile ? (int)p->outputs : (int)LH_LANES;
        mask[h] = lanes_mask8(outputs - 8 * ((from + h) % 2));
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++)
            acc[h][r] = _mm256_maskload_ps(start + (size_t)r * start_stride + 8 * h, mask[h]);
    }
    for (uint32_t b = 0; b < p->count; b++, x += p->parts) {
        if (from == 0)
            fetch_ahead(p, b, (halves + 1) / 2, quant_bytes);
        for (int h = 0; h < halves; h++) {
            const size_t tile = (size_t)(from + h) / 2 * p->tile_bytes,
                         upper = (size_t)(from + h) % 2;
            const uint8_t *quants = p->w + tile + b * quant_bytes + 32 * upper;
            block_scales s =
                panel ? load_panel_scales(((const quant_panel *)(const void *)p->w)->scales[b],
                                          8 * (int)upper, dtype)
                      : load_scales(
                            p->scales + tile + (p->first + b) / form.sharing * (32 * form.scales) +
                                16 * upper,
                            p->subscales + tile + b * (16 * form.subscales) + 8 * upper, dtype);
            for (uint32_t part = 0; part < p->parts; part++) {
                __m256i dot[PRODUCT_ROWS_MAX];
                dot_block(dot, quants, &s, x + part, p->x_stride, rows, dtype, panel);
                for (int r = 0; r < rows; r++)
                    acc[h][r] =
                        add_block(acc[h][r], dot[r], &s, &x[(size_t)r * p->x_stride + part], dtype);
            }
        }
    }
    const size_t stride = p->y_stride;
    const bool whole = p->outputs == LH_LANES;
    float *y = p->y + 8 * from;
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++, y += stride)
#pragma GCC unroll 8
        for (int h = 0; h < halves; h++)
            if (whole || (from + h) / 2 < last_tile)
                _mm256_storeu_ps(y + 8 * h, acc[h][r]);
            else /* a slow instruction */
                _mm256_maskstore_ps(y + 8 * h, mask[h], acc[h][r]);
}

LANES_INLINE void quantized(const product *p, const int rows, const int tiles,
                            const lh_dtype dtype) {
    if (rows <= ROWS_OF_WHOLE_TILES || tiles > 1)
        quantized_halves(p, 0, rows, 2 * tiles, dtype, false);
    else
        for (int half = 0; half < 2; half++)
            quantized_halves(p, half, rows, 1, dtype, false);
}

LANES_INLINE void from_panel(const product *p, const int rows, const int tiles,
                             const lh_dtype dtype) {
    (void)tiles; /* 1 */
    for (int half = 0; half < 2; half++)
        quantized_halves(p, half, rows, 1, dtype, true);
}

LANES_INLINE void unpack_blocks(quant_panel *panel, const product *p, const lh_dtype dtype) {
    const lh_quant_form form = lh_quant_form_for(dtype);
    const uint8_t *quants = p->w;
    for (uint32_t b = 0; b < p->count;
         b++, quants += LH_BLOCK / 8 * LH_LANES * (form.low_bits + form.high_bits))
        for (int upper = 0; upper < 2; upper++) {
#pragma GCC unroll 8
            for (int g = 0; g < 8; g++)
                _mm256_store_si256((__m256i *)(void *)(panel->quants[b] + 64 * g + 32 * upper),
                                   group_bytes(quants + 32 * upper, g, dtype));
            block_scales s = load_scales(
                p->scales + (p->first + b) / form.sharing * (32 * form.scales) + 16 * upper,
                p->subscales + b * (16 * form.subscales) + 8 * upper, dtype);
            store_panel_scales(panel->scales[b], 8 * upper, &s, dtype);
        }
}

/* The 16 weights of one input. */
LANES_INLINE f32x16 column(const uint8_t *w, const lh_dtype dtype) {
    if (dtype == LH_DTYPE_F16)
        return lanes_widen_f16(w);
    if (dtype == LH_DTYPE_BF16) {
        __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)w));
        __m256i high =
            _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(w + 16)));
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
            acc[r][t] =
                lanes_load_part(p->y + (size_t)r * p->y_stride + 16 * t, tile_outputs(p, t, tiles));
    for (uint32_t k = 0; k < p->count; k++, x++)
        for (int t = 0; t < tiles; t++) {
            f32x16 w = column(p->w + (size_t)t * p->tile_bytes + k * column_bytes, dtype);
            for (int r = 0; r < rows; r++)
                acc[r][t] = lanes_fma(w, lanes_set(x[(size_t)r * p->x_stride]), acc[r][t]);
        }
    for (int t = 0; t < tiles; t++)
        for (int r = 0; r < rows; r++)
            lanes_store_part(p->y + (size_t)r * p->y_stride + 16 * t, acc[r][t],
                             tile_outputs(p, t, tiles));
}

/* The functions over panels of one kind of arithmetic, of which `type` is one. */
#define PANELS(name, type)                                                                         \
    PRODUCTS_OF_4(name, from_panel, type)                                                          \
    static product_function *const name[] = {name##_1, name##_2, name##_3, name##_4};

#define QUANTIZED(name, type, ...)                                                                 \
    PRODUCTS_OF_4(name, quantized, type)                                                           \
    PRODUCT(name##_wide_1, quantized, type, 1, WIDE_TILES)                                         \
    PRODUCT(name##_wide_2, quantized, type, 2, WIDE_TILES)                                         \
    static const product_kernel name = {4,                                                         \
                                        {name##_1, name##_2, name##_3, name##_4},                  \
                                        {name##_wide_1, name##_wide_2},                            \
                                        {WIDE_TILES, WIDE_TILES},                                  \
                                        .panel_rows_min = __VA_ARGS__};

#define FLOATS(name, type)                                                                         \
    PRODUCTS_OF_4(name, floats, type)                                                              \
    PRODUCT(name##_5, floats, type, 5, 1)                                                          \
    PRODUCT(name##_6, floats, type, 6, 1)                                                          \
    PRODUCT(name##_wide_1, floats, type, 1, WIDE_TILES)                                            \
    PRODUCT(name##_wide_2, floats, type, 2, 2)                                                     \
    static const product_kernel name = {                                                           \
        .rows_max = 6,                                                                             \
        .narrow = {name##_1, name##_2, name##_3, name##_4, name##_5, name##_6},                    \
        .wide = {name##_wide_1, name##_wide_2},                                                    \
        .wide_tiles = {WIDE_TILES, 2}};

#define WITH_PANELS(name, type, panels)                                                            \
    static void name##_unpack(quant_panel *panel, const product *p) {                              \
        unpack_blocks(panel, p, type);                                                             \
    }                                                                                              \
    QUANTIZED(name, type, PANEL_ROWS_MIN, .unpack = name##_unpack, .from_panel = panels)

/* A type that few models have: a row has its functions, more meet panels, which such types
 * share. */
#define RARE(name, type, panels)                                                                   \
    static void name##_unpack(quant_panel *panel, const product *p) {                              \
        unpack_blocks(panel, p, type);                                                             \
    }                                                                                              \
    PRODUCT(name##_1, quantized, type, 1, 1)                                                       \
    PRODUCT(name##_wide_1, quantized, type, 1, WIDE_TILES)                                         \
    static const product_kernel name = {.rows_max = 4,                                             \
                                        .narrow = {name##_1},                                      \
                                        .wide = {name##_wide_1},                                   \
                                        .wide_tiles = {WIDE_TILES},                                \
                                        .unpack = name##_unpack,                                   \
                                        .from_panel = panels,                                      \
                                        .panel_rows_min = 2};

QUANTIZED(q4_0, LH_DTYPE_Q4_0, 0)
QUANTIZED(q4_1, LH_DTYPE_Q4_1, 0)
QUANTIZED(q4_k, LH_DTYPE_Q4_K, 0)
QUANTIZED(q8_0, LH_DTYPE_Q8_0, 0)
QUANTIZED(iq4_nl, LH_DTYPE_IQ4_NL, 0)
QUANTIZED(iq4_xs, LH_DTYPE_IQ4_XS, 0)
QUANTIZED(tq2_0, LH_DTYPE_TQ2_0, 0)
PANELS(two_sums, LH_DTYPE_Q5_0)
PANELS(two_sums_with_minimum, LH_DTYPE_Q5_1)
PANELS(scaled_halves, LH_DTYPE_Q6_K)
PANELS(halves_with_minima, LH_DTYPE_Q2_K)
PANELS(signed_bytes, LH_DTYPE_IQ3_S)
PANELS(scaled_signed_bytes, LH_DTYPE_IQ2_S)
WITH_PANELS(q5_0, LH_DTYPE_Q5_0, two_sums)
WITH_PANELS(mxfp4, LH_DTYPE_MXFP4, two_sums)
WITH_PANELS(q5_1, LH_DTYPE_Q5_1, two_sums_with_minimum)
WITH_PANELS(q5_k, LH_DTYPE_Q5_K, two_sums_with_minimum)
WITH_PANELS(q3_k, LH_DTYPE_Q3_K, scaled_halves)
WITH_PANELS(q6_k, LH_DTYPE_Q6_K, scaled_halves)
WITH_PANELS(q2_k, LH_DTYPE_Q2_K, halves_with_minima)
RARE(iq3_xxs, LH_DTYPE_IQ3_XXS, signed_bytes)
RARE(iq3_s, LH_DTYPE_IQ3_S, signed_bytes)
RARE(iq2_xxs, LH_DTYPE_IQ2_XXS, signed_bytes)
RARE(iq2_xs, LH_DTYPE_IQ2_XS, scaled_signed_bytes)
RARE(iq2_s, LH_DTYPE_IQ2_S, scaled_signed_bytes)
RARE(iq1_s, LH_DTYPE_IQ1_S, signed_bytes)
RARE(iq1_m, LH_DTYPE_IQ1_M, scaled_signed_bytes)
FLOATS(f32, LH_DTYPE_F32)
FLOATS(f16, LH_DTYPE_F16)
FLOATS(bf16, LH_DTYPE_BF16)

PRODUCT_KERNEL_FOR

void lh_avx2_matmul(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                    lh_span in, lh_span out, bool continues) {
    multiply(kernel_for(w->dtype), y, y_stride, x, w, in, out, continues);
}
#endif
