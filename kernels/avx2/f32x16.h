/* Sixteen floats in two AVX registers: the vocabulary in which kernels/lanes/ is written. The
 * AVX-512 header of the same name has the same functions; what they compute is IEEE, lane by lane,
 * so both give the same bits. */
#pragma once

#include <immintrin.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANES_INLINE static inline __attribute__((always_inline))
/* Queries that attention's register tile holds, and vectors of a value row beside them (16
 * registers). */
#define LANES_QUERIES       4
#define LANES_VALUE_VECTORS 1

typedef struct f32x16 {
    __m256 low, high;
} f32x16;

/* Applies an intrinsic of two or three vectors to both halves. */
#define LANES_BOTH2(op, a, b) ((f32x16){op((a).low, (b).low), op((a).high, (b).high)})
#define LANES_BOTH3(op, a, b, c)                                                                   \
    ((f32x16){op((a).low, (b).low, (c).low), op((a).high, (b).high, (c).high)})

/* All bits set in the first `count` of 8 lanes; count may be more, or less than 0. */
LANES_INLINE __m256i lanes_mask8(ptrdiff_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

LANES_INLINE f32x16 lanes_set(float value) {
    return (f32x16){_mm256_set1_ps(value), _mm256_set1_ps(value)};
}

LANES_INLINE f32x16 lanes_load(const float *p) {
    return (f32x16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

/* The first `count` (0 .. 16) lanes, the others 0: memory beyond is not touched. */
LANES_INLINE f32x16 lanes_load_part(const float *p, size_t count) {
    return (f32x16){_mm256_maskload_ps(p, lanes_mask8((ptrdiff_t)count)),
                    _mm256_maskload_ps(p + 8, lanes_mask8((ptrdiff_t)count - 8))};
}

LANES_INLINE void lanes_store(float *p, f32x16 v) {
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
}

LANES_INLINE void lanes_store_part(float *p, f32x16 v, size_t count) {
    _mm256_maskstore_ps(p, lanes_mask8((ptrdiff_t)count), v.low);
    _mm256_maskstore_ps(p + 8, lanes_mask8((ptrdiff_t)count - 8), v.high);
}

/* The first `count` lanes of v, then those of `other`. */
LANES_INLINE f32x16 lanes_select(f32x16 v, size_t count, f32x16 other) {
    __m256 low = _mm256_castsi256_ps(lanes_mask8((ptrdiff_t)count));
    __m256 high = _mm256_castsi256_ps(lanes_mask8((ptrdiff_t)count - 8));
    return (f32x16){_mm256_blendv_ps(other.low, v.low, low),
                    _mm256_blendv_ps(other.high, v.high, high)};
}

LANES_INLINE f32x16 lanes_add(f32x16 a, f32x16 b) {
    return LANES_BOTH2(_mm256_add_ps, a, b);
}

LANES_INLINE f32x16 lanes_sub(f32x16 a, f32x16 b) {
    return LANES_BOTH2(_mm256_sub_ps, a, b);
}

LANES_INLINE f32x16 lanes_mul(f32x16 a, f32x16 b) {
    return LANES_BOTH2(_mm256_mul_ps, a, b);
}

LANES_INLINE f32x16 lanes_div(f32x16 a, f32x16 b) {
    return LANES_BOTH2(_mm256_div_ps, a, b);
}

/* a * b + c, rounded once; lanes_fms: a * b - c. */
LANES_INLINE f32x16 lanes_fma(f32x16 a, f32x16 b, f32x16 c) {
    return LANES_BOTH3(_mm256_fmadd_ps, a, b, c);
}

LANES_INLINE f32x16 lanes_fms(f32x16 a, f32x16 b, f32x16 c) {
    return LANES_BOTH3(_mm256_fmsub_ps, a, b, c);
}

/* Where one is NaN: b. */
LANES_INLINE f32x16 lanes_max(f32x16 a, f32x16 b) {
    return LANES_BOTH2(_mm256_max_ps, a, b);
}

LANES_INLINE f32x16 lanes_min(f32x16 a, f32x16 b) {
    return LANES_BOTH2(_mm256_min_ps, a, b);
}

/* 2^n as floats, n in -126 .. 127. */
LANES_INLINE __m256 lanes_power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* In two steps, since 2^n itself may lie outside of the floats; only the second can round. */
LANES_INLINE __m256 lanes_scale8_by_power(__m256 v, __m256 n) {
    __m256i power = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(power, 1);
    v = _mm256_mul_ps(v, lanes_power_of_two(half));
    return _mm256_mul_ps(v, lanes_power_of_two(_mm256_sub_epi32(power, half)));
}

/* v * 2^n for integral n in -151 .. 129, rounded once. */
LANES_INLINE f32x16 lanes_scale_by_power(f32x16 v, f32x16 n) {
    return LANES_BOTH2(lanes_scale8_by_power, v, n);
}

/* The tree of kernels.h over the 16 lanes. */
LANES_INLINE float lanes_sum(f32x16 v) {
    __m256 eight = _mm256_add_ps(v.low, v.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

LANES_INLINE float lanes_greatest(f32x16 v) {
    __m256 eight = _mm256_max_ps(v.low, v.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* The greatest magnitude in a and b, compared as integers: NaN is the greatest of all. */
LANES_INLINE float lanes_greatest_magnitude(f32x16 a, f32x16 b) {
    __m256i magnitude = _mm256_set1_epi32(0x7fffffff);
    __m256i eight = _mm256_max_epi32(
        _mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(a.low), magnitude),
                         _mm256_and_si256(_mm256_castps_si256(a.high), magnitude)),
        _mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(b.low), magnitude),
                         _mm256_and_si256(_mm256_castps_si256(b.high), magnitude)));
    __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    __m128i two = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4e));
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_max_epi32(two, _mm_shuffle_epi32(two, 0xb1))));
}

/* Stores 32 values rounded to nearest even, each within -127 .. 127. */
LANES_INLINE void lanes_round_to_int8(int8_t *q, f32x16 a, f32x16 b) {
    __m256i i0 = _mm256_cvtps_epi32(a.low), i1 = _mm256_cvtps_epi32(a.high);
    __m256i i2 = _mm256_cvtps_epi32(b.low), i3 = _mm256_cvtps_epi32(b.high);
    /* packing works in each 128-bit half: words come out as 0 2 4 6 | 1 3 5 7 */
    __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(i0, i1), _mm256_packs_epi32(i2, i3));
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256((__m256i *)q, bytes);
}

LANES_INLINE f32x16 lanes_widen_int8(const int8_t *q) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)q);
    return (f32x16){_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
                    _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}

/* For each half of q[32]: the sums of the elements k with k % 4 < 2 and of the others times
 * `pair_factor`; and the sums of each half and of both times `factor`. Exact where they fit. */
LANES_INLINE void lanes_pair_sums(int16_t pairs[4], int32_t totals[3], const int8_t *q,
                                  int16_t pair_factor, int16_t factor) {
    __m256i twos = _mm256_maddubs_epi16(_mm256_set1_epi8(1),
                                        _mm256_loadu_si256((const __m256i *)(const void *)q));
    __m256i fours = _mm256_add_epi16(twos, _mm256_shuffle_epi32(twos, 0x4e));
    /* a half in each 128 bits */
    __m256i sums = _mm256_add_epi16(fours, _mm256_shuffle_epi32(fours, 0xb1));
    __m128i both =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    _mm_storel_epi64((__m128i *)(void *)pairs, _mm_mullo_epi16(both, _mm_set1_epi16(pair_factor)));
    __m128i two = _mm_madd_epi16(both, _mm_set1_epi16(factor));
    _mm_storel_epi64((__m128i *)(void *)totals, two);
    totals[2] = _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 0xb1)));
}

/* a[0] b[0] a[1] b[1] ... a[7] b[7] */
LANES_INLINE f32x16 lanes_zip(const float *a, const float *b) {
    __m256 va = _mm256_loadu_ps(a), vb = _mm256_loadu_ps(b);
    /* in each 128-bit half */
    __m256 even = _mm256_unpacklo_ps(va, vb), odd = _mm256_unpackhi_ps(va, vb);
    return (f32x16){_mm256_permute2f128_ps(even, odd, 0x20),
                    _mm256_permute2f128_ps(even, odd, 0x31)};
}

LANES_INLINE __m256 lanes_rotate8(__m256 v, __m256 cs, __m256 sc) {
    return _mm256_fmaddsub_ps(_mm256_moveldup_ps(v), cs, _mm256_mul_ps(_mm256_movehdup_ps(v), sc));
}

/* Pairs (a, b) of v with pairs (c, s) of cs and (s, c) of sc: (fma(a, c, -(b * s)), fma(a, s, b *
 * c)). */
LANES_INLINE f32x16 lanes_rotate(f32x16 v, f32x16 cs, f32x16 sc) {
    return LANES_BOTH3(lanes_rotate8, v, cs, sc);
}

LANES_INLINE f32x16 lanes_widen_f16(const void *halves) {
    const __m128i *h = (const __m128i *)halves;
    return (f32x16){_mm256_cvtph_ps(_mm_loadu_si128(h)), _mm256_cvtph_ps(_mm_loadu_si128(h + 1))};
}

LANES_INLINE void lanes_round_f16(void *halves, f32x16 v) {
    __m128i *h = (__m128i *)halves;
    _mm_storeu_si128(h, _mm256_cvtps_ph(v.low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128(h + 1, _mm256_cvtps_ph(v.high, _MM_FROUND_TO_NEAREST_INT));
}

/* ---- Numbers of 32 bits ---- */

#define LANES_COUNTERS 8u

/* LANES_COUNTERS of them, each in the lower half of 64 bits, whose upper half may hold anything: as
 * the products have them. */
typedef struct lanes_u32 {
    __m256i low, high;
} lanes_u32;

typedef struct lanes_u32_pair {
    lanes_u32 low, high;
} lanes_u32_pair;

LANES_INLINE lanes_u32 lanes_u32_set(uint32_t value) {
    return (lanes_u32){_mm256_set1_epi64x(value), _mm256_set1_epi64x(value)};
}

/* first, first + 1 ... */
LANES_INLINE lanes_u32 lanes_u32_from(uint32_t first) {
    __m256i numbers = _mm256_setr_epi64x(0, 1, 2, 3);
    return (lanes_u32){_mm256_add_epi64(numbers, _mm256_set1_epi64x(first)),
                       _mm256_add_epi64(numbers, _mm256_set1_epi64x(first + 4))};
}

LANES_INLINE lanes_u32 lanes_u32_xor(lanes_u32 a, lanes_u32 b, lanes_u32 c) {
    return (lanes_u32){_mm256_xor_si256(_mm256_xor_si256(a.low, b.low), c.low),
                       _mm256_xor_si256(_mm256_xor_si256(a.high, b.high), c.high)};
}

/* The halves of the products with `factor`. */
LANES_INLINE lanes_u32_pair lanes_u32_multiply(lanes_u32 a, uint32_t factor) {
    __m256i by = _mm256_set1_epi64x(factor);
    lanes_u32 low = {_mm256_mul_epu32(a.low, by), _mm256_mul_epu32(a.high, by)};
    return (lanes_u32_pair){low, {_mm256_srli_epi64(low.low, 32), _mm256_srli_epi64(low.high, 32)}};
}

/* Whether any is <= greatest. */
LANES_INLINE bool lanes_u32_any_within(const lanes_u32 words[4], uint32_t greatest) {
    __m256i least = _mm256_min_epu32(words[0].low, words[0].high);
    for (int i = 1; i < 4; i++)
        least = _mm256_min_epu32(least, _mm256_min_epu32(words[i].low, words[i].high));
    /* the lesser of the two is the least: it is within */
    __m256i within =
        _mm256_cmpeq_epi32(_mm256_min_epu32(least, _mm256_set1_epi32((int)greatest)), least);
    return (_mm256_movemask_ps(_mm256_castsi256_ps(within)) & 0x55) != 0;
}

LANES_INLINE void lanes_u32_store(uint32_t to[LANES_COUNTERS], lanes_u32 v) {
    const __m256i lower = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    __m256i low = _mm256_permutevar8x32_epi32(v.low, lower);
    __m256i high = _mm256_permutevar8x32_epi32(v.high, lower);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm256_blend_epi32(low, high, 0xf0));
}
