/* Quantized weights taken apart with AVX2: the bytes of a group and the scales of a block, for 8
 * outputs, half a tile.
 *
 * VPMADDUBSW multiplies unsigned by signed bytes and adds neighbours in 16 bits, saturating: the
 * operands are chosen so that it never does, and that what is added up in 16 bits wraps at most on
 * its way.
 *   at most 4 bits   q <= 15, |x| <= 127: a pair is at most 3810 and the 8 groups of a block
 *   together 30480
 *   5 bits           a pair is at most 7874, and the 4 groups of half a block 31496. MXFP4's table
 *                    has q + 16, at most 28
 *   halves           types whose halves have scales of their own. Read as q + 32, at most 63: a
 *                    pair is at most 16002; the sum of 4 groups begins with the activations'
 *                    `pairs`, -32 times their sum, so that it ends as that of q * x, at most 32512.
 *                    Q2_K is read as it is: at most 3048
 *   bytes            of 8 bits, or from a table: |w| as the unsigned operand and x with w's sign:
 *                    a pair is at most 2 * 128 * 127 = 32512 */
#pragma once

#include "kernels/avx2/f32x16.h"

#include "kernels/layout.h"

#include <stdbool.h>

typedef uint32_t words __attribute__((vector_size(32)));

/* How the dot of a block is computed. */
typedef enum block_kind { KIND_BLOCK, KIND_TWO_SUMS, KIND_HALVES, KIND_BYTES } block_kind;

LANES_INLINE block_kind kind_of(const lh_dtype dtype) {
    const lh_quant_form form = lh_quant_form_for(dtype);
    if (form.low_bits == 8 || (lh_quant_values(dtype) && dtype != LH_DTYPE_MXFP4))
        return KIND_BYTES;
    if (dtype == LH_DTYPE_MXFP4)
        return KIND_TWO_SUMS;
    if (form.subscales > 0 && dtype != LH_DTYPE_Q4_K && dtype != LH_DTYPE_Q5_K)
        return KIND_HALVES;
    return form.high_bits == 1 ? KIND_TWO_SUMS : KIND_BLOCK;
}

LANES_INLINE bool has_half_scales(const lh_dtype dtype) {
    return lh_has_half_scales(dtype) || dtype == LH_DTYPE_Q2_K;
}

/* What the bytes are greater by than q in float arithmetic. */
LANES_INLINE int float_offset(const lh_dtype dtype) {
    if (dtype == LH_DTYPE_MXFP4)
        return 16;
    return kind_of(dtype) == KIND_HALVES ? 0 : (int)lh_quant_form_for(dtype).offset;
}

LANES_INLINE __m256i load_bytes(const void *p) {
    return _mm256_loadu_si256((const __m256i *)p);
}

/* Bits of `from` moved from position `at` to position `to` of each byte, others off. */
LANES_INLINE __m256i bits_at(__m256i from, const int at, const int to, const int mask) {
    words moved = at >= to ? (words)from >> (at - to) : (words)from << (to - at);
    return _mm256_and_si256((__m256i)moved, _mm256_set1_epi8((char)(mask << to)));
}

/* Group g (0 .. 7) of a block, 8 outputs: `quants` is offset by 32 for the upper ones. Signed for
 * KIND_BYTES. */
LANES_INLINE __m256i group_bytes(const uint8_t *quants, const int g, const lh_dtype dtype) {
    const lh_quant_form form = lh_quant_form_for(dtype);
    const uint8_t *high = quants + 64 * form.low_bits;
    __m256i group;
    if (form.low_bits == 8)
        return load_bytes(quants + 64 * g);
    if (form.low_bits == 4)
        group = bits_at(load_bytes(quants + 64 * (g % 4)), g / 4 * 4, 0, 15);
    else
        group = bits_at(load_bytes(quants + 64 * (g / 4)), g % 4 * 2, 0, 3);
    if (form.high_bits == 2)
        group = _mm256_or_si256(group, bits_at(load_bytes(high + 64 * (g / 4)), g % 4 * 2, 4, 3));
    else if (form.high_bits == 1)
        group = _mm256_or_si256(group, bits_at(load_bytes(high), g, (int)form.low_bits, 1));
    if (lh_quant_values(dtype)) {
        __m128i table =
            _mm_add_epi8(_mm_loadu_si128((const __m128i *)(const void *)lh_quant_values(dtype)),
                         _mm_set1_epi8((char)float_offset(dtype)));
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), group);
    }
    if (dtype == LH_DTYPE_Q3_K)
        return _mm256_add_epi8(group, _mm256_set1_epi8((char)(32 - (int)form.offset)));
    return group;
}

/* The scales of a block, as its arithmetic takes them. */
typedef struct block_scales {
    __m256 d, m;
    __m256i scale[2]; /* of halves, twice in 16 bits */
    /* Q2_K: minus the minimum of each half, likewise; m is then 1/32 of itself */
    __m256i minimum[2];
} block_scales;

LANES_INLINE __m256 widen_scales(const uint8_t *halves) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)halves));
}

LANES_INLINE __m128i load_8_bytes(const uint8_t *bytes) {
    return _mm_loadl_epi64((const __m128i *)(const void *)bytes);
}

/* Eight 16-bit words, each in both halves of a 32-bit lane. */
LANES_INLINE __m256i twice(__m128i v) {
    __m256i low = _mm256_cvtepu16_epi32(v);
    return _mm256_or_si256(low, _mm256_slli_epi32(low, 16));
}

LANES_INLINE __m256 bytes_as_floats(const uint8_t *bytes) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_8_bytes(bytes)));
}

/* MXFP4's d of eight exponents. */
LANES_INLINE __m256 powers_of_two(const uint8_t *exponents) {
    __m256i e = _mm256_cvtepu8_epi32(load_8_bytes(exponents)), one = _mm256_set1_epi32(1);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32((int)LH_E8M0_SMALL_BITS), e);
    __m256i large = _mm256_slli_epi32(_mm256_sub_epi32(e, one), LH_E8M0_BITS_SHIFT);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(small, large, _mm256_cmpgt_epi32(e, one)));
}

/* Of a block whose binary16 scales lie at `scales` and, for K types, subscales at `subscales`; both
 * are offset for the upper outputs. */
LANES_INLINE block_scales load_scales(const uint8_t *scales, const uint8_t *subscales,
                                      const lh_dtype dtype) {
    block_scales s = {.d = dtype == LH_DTYPE_MXFP4 ? powers_of_two(subscales)
                                                   : widen_scales(scales)};
    if (lh_has_minimum(dtype))
        s.m = widen_scales(scales + 32);
    if (dtype == LH_DTYPE_Q4_K || dtype == LH_DTYPE_Q5_K) {
        s.d = _mm256_mul_ps(s.d, bytes_as_floats(subscales));
        s.m = _mm256_xor_ps(_mm256_mul_ps(s.m, bytes_as_floats(subscales + 16)),
                            _mm256_set1_ps(-0.0f));
    }
    if (lh_scale_unit(dtype) != 1)
        s.d = _mm256_mul_ps(s.d, _mm256_set1_ps(lh_scale_unit(dtype)));
    if (lh_has_block_scale(dtype))
        s.d = _mm256_mul_ps(s.d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(load_8_bytes(subscales))));
    if (dtype == LH_DTYPE_Q2_K)
        s.m = _mm256_mul_ps(s.m, _mm256_set1_ps(-1.0f / 32));
    for (int half = 0; half < 2 && has_half_scales(dtype); half++) {
        __m128i bytes = load_8_bytes(subscales + 16 * half);
        if (dtype == LH_DTYPE_Q2_K) {
            __m128i both = _mm_cvtepu8_epi16(bytes);
            s.scale[half] = twice(_mm_and_si128(both, _mm_set1_epi16(15)));
            s.minimum[half] = twice(_mm_sub_epi16(_mm_setzero_si128(), _mm_srli_epi16(both, 4)));
        } else {
            s.scale[half] = twice(_mm_cvtepi8_epi16(bytes));
        }
    }
    return s;
}

/* To and from a panel's vectors; `at` is 8 for the upper outputs. */
LANES_INLINE void store_panel_scales(float vectors[][LH_LANES], const int at, const block_scales *s,
                                     const lh_dtype dtype) {
    _mm256_store_ps(vectors[0] + at, s->d);
    if (lh_has_minimum(dtype))
        _mm256_store_ps(vectors[1] + at, s->m);
    for (int half = 0; half < 2; half++) {
        if (has_half_scales(dtype))
            _mm256_store_ps(vectors[2 + half] + at, _mm256_castsi256_ps(s->scale[half]));
        if (dtype == LH_DTYPE_Q2_K)
            _mm256_store_ps(vectors[4 + half] + at, _mm256_castsi256_ps(s->minimum[half]));
    }
}

LANES_INLINE block_scales load_panel_scales(const float vectors[][LH_LANES], const int at,
                                            const lh_dtype dtype) {
    block_scales s = {.d = _mm256_load_ps(vectors[0] + at)};
    if (lh_has_minimum(dtype))
        s.m = _mm256_load_ps(vectors[1] + at);
    for (int half = 0; half < 2; half++) {
        if (has_half_scales(dtype))
            s.scale[half] = _mm256_castps_si256(_mm256_load_ps(vectors[2 + half] + at));
        if (dtype == LH_DTYPE_Q2_K)
            s.minimum[half] = _mm256_castps_si256(_mm256_load_ps(vectors[4 + half] + at));
    }
    return s;
}
