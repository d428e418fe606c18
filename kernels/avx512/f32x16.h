/* Sixteen floats in one AVX-512 register: the vocabulary in which kernels/lanes/ is written. The
 * AVX2 header of the same name has the same functions; what they compute is IEEE, lane by lane, so
 * both give the same bits. */
#pragma once

#include <immintrin.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANES_INLINE static inline __attribute__((always_inline))
/* Queries that attention's register tile holds, and vectors of a value row beside them (32
 * registers). */
#define LANES_QUERIES       8
#define LANES_VALUE_VECTORS 2

typedef __m512 f32x16;

LANES_INLINE __mmask16 lanes_mask(size_t count) {
    return (__mmask16)((1u << count) - 1u);
}

LANES_INLINE f32x16 lanes_set(float value) {
    return _mm512_set1_ps(value);
}

LANES_INLINE f32x16 lanes_load(const float *p) {
    return _mm512_loadu_ps(p);
}

/* The first `count` (0 .. 16) lanes, the others 0: memory beyond is not touched. */
LANES_INLINE f32x16 lanes_load_part(const float *p, size_t count) {
    return _mm512_maskz_loadu_ps(lanes_mask(count), p);
}

LANES_INLINE void lanes_store(float *p, f32x16 v) {
    _mm512_storeu_ps(p, v);
}

LANES_INLINE void lanes_store_part(float *p, f32x16 v, size_t count) {
    _mm512_mask_storeu_ps(p, lanes_mask(count), v);
}

/* The first `count` lanes of v, then those of `other`. */
LANES_INLINE f32x16 lanes_select(f32x16 v, size_t count, f32x16 other) {
    return _mm512_mask_blend_ps(lanes_mask(count), other, v);
}

LANES_INLINE f32x16 lanes_add(f32x16 a, f32x16 b) {
    return _mm512_add_ps(a, b);
}

LANES_INLINE f32x16 lanes_sub(f32x16 a, f32x16 b) {
    return _mm512_sub_ps(a, b);
}

LANES_INLINE f32x16 lanes_mul(f32x16 a, f32x16 b) {
    return _mm512_mul_ps(a, b);
}

LANES_INLINE f32x16 lanes_div(f32x16 a, f32x16 b) {
    return _mm512_div_ps(a, b);
}

/* a * b + c, rounded once; lanes_fms: a * b - c. */
LANES_INLINE f32x16 lanes_fma(f32x16 a, f32x16 b, f32x16 c) {
    return _mm512_fmadd_ps(a, b, c);
}

LANES_INLINE f32x16 lanes_fms(f32x16 a, f32x16 b, f32x16 c) {
    return _mm512_fmsub_ps(a, b, c);
}

/* Where one is NaN: b. */
LANES_INLINE f32x16 lanes_max(f32x16 a, f32x16 b) {
    return _mm512_max_ps(a, b);
}

LANES_INLINE f32x16 lanes_min(f32x16 a, f32x16 b) {
    return _mm512_min_ps(a, b);
}

/* v * 2^n for integral n in -151 .. 129, rounded once. */
LANES_INLINE f32x16 lanes_scale_by_power(f32x16 v, f32x16 n) {
    return _mm512_scalef_ps(v, n);
}

/* The tree of kernels.h over the 16 lanes. */
LANES_INLINE float lanes_sum(f32x16 v) {
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

LANES_INLINE float lanes_greatest(f32x16 v) {
    return _mm512_reduce_max_ps(v);
}

/* The greatest magnitude in a and b, compared as integers: NaN is the greatest of all. */
LANES_INLINE float lanes_greatest_magnitude(f32x16 a, f32x16 b) {
    __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i bits = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                                    _mm512_and_si512(_mm512_castps_si512(b), magnitude));
    return _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(_mm512_reduce_max_epi32(bits))));
}

/* Stores 32 values rounded to nearest even, each within -127 .. 127. */
LANES_INLINE void lanes_round_to_int8(int8_t *q, f32x16 a, f32x16 b) {
    __m512i low = _mm512_cvtps_epi32(a), high = _mm512_cvtps_epi32(b);
    /* in one piece, as it is loaded again (lanes_pair_sums): from two a load would wait until both
     * are in the cache */
    _mm256_storeu_si256((__m256i *)(void *)q,
                        _mm256_set_m128i(_mm512_cvtepi32_epi8(high), _mm512_cvtepi32_epi8(low)));
}

LANES_INLINE f32x16 lanes_widen_int8(const int8_t *q) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)q)));
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
    __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(_mm512_castps256_ps512(_mm256_loadu_ps(a)), order,
                                  _mm512_castps256_ps512(_mm256_loadu_ps(b)));
}

/* Pairs (a, b) of v with pairs (c, s) of cs and (s, c) of sc: (fma(a, c, -(b * s)), fma(a, s, b *
 * c)). */
LANES_INLINE f32x16 lanes_rotate(f32x16 v, f32x16 cs, f32x16 sc) {
    return _mm512_fmaddsub_ps(_mm512_moveldup_ps(v), cs, _mm512_mul_ps(_mm512_movehdup_ps(v), sc));
}

LANES_INLINE f32x16 lanes_widen_f16(const void *halves) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)halves));
}

LANES_INLINE void lanes_round_f16(void *halves, f32x16 v) {
    _mm256_storeu_si256((__m256i *)halves,
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* ---- Numbers of 32 bits ---- */

#define LANES_COUNTERS 16u

/* LANES_COUNTERS of them, each in the lower half of 64 bits, whose upper half may hold anything: as
 * the products have them. */
typedef struct lanes_u32 {
    __m512i low, high;
} lanes_u32;

typedef struct lanes_u32_pair {
    lanes_u32 low, high;
} lanes_u32_pair;

LANES_INLINE lanes_u32 lanes_u32_set(uint32_t value) {
    return (lanes_u32){_mm512_set1_epi64(value), _mm512_set1_epi64(value)};
}

/* first, first + 1 ... */
LANES_INLINE lanes_u32 lanes_u32_from(uint32_t first) {
    __m512i numbers = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    return (lanes_u32){_mm512_add_epi64(numbers, _mm512_set1_epi64(first)),
                       _mm512_add_epi64(numbers, _mm512_set1_epi64(first + 8))};
}

LANES_INLINE lanes_u32 lanes_u32_xor(lanes_u32 a, lanes_u32 b, lanes_u32 c) {
    return (lanes_u32){_mm512_ternarylogic_epi64(a.low, b.low, c.low, 0x96),
                       _mm512_ternarylogic_epi64(a.high, b.high, c.high, 0x96)};
}

/* The halves of the products with `factor`. */
LANES_INLINE lanes_u32_pair lanes_u32_multiply(lanes_u32 a, uint32_t factor) {
    __m512i by = _mm512_set1_epi64(factor);
    lanes_u32 low = {_mm512_mul_epu32(a.low, by), _mm512_mul_epu32(a.high, by)};
    return (lanes_u32_pair){low, {_mm512_srli_epi64(low.low, 32), _mm512_srli_epi64(low.high, 32)}};
}

/* Whether any is <= greatest. */
LANES_INLINE bool lanes_u32_any_within(const lanes_u32 words[4], uint32_t greatest) {
    __m512i least = _mm512_min_epu32(words[0].low, words[0].high);
    for (int i = 1; i < 4; i++)
        least = _mm512_min_epu32(least, _mm512_min_epu32(words[i].low, words[i].high));
    return (_mm512_cmple_epu32_mask(least, _mm512_set1_epi32((int)greatest)) & 0x5555) != 0;
}

LANES_INLINE void lanes_u32_store(uint32_t to[LANES_COUNTERS], lanes_u32 v) {
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi64_epi32(v.low));
    _mm256_storeu_si256((__m256i *)(void *)(to + 8), _mm512_cvtepi64_epi32(v.high));
}
