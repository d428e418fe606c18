/* Quantized weights taken apart with AVX-512: the unsigned bytes of a group and the scales of a
 * block.
 *
 * VPDPBUSD multiplies unsigned bytes of weights by signed bytes of activations. Types with a
 * minimum are read as they are; the others as q + 128, which comes off by beginning with the
 * activations' `bias`, -128 times their sum. */
#pragma once

#include "kernels/avx512/f32x16.h"

#include "kernels/layout.h"

#include <stdbool.h>

typedef uint32_t words __attribute__((vector_size(64)));

/* Whether the halves of a block have scales of their own. */
LANES_INLINE bool has_half_scales(const lh_dtype dtype) {
    return lh_has_half_scales(dtype) || dtype == LH_DTYPE_Q2_K;
}

/* Bits of `from` moved from position `at` to position `to` of each byte, others off. */
LANES_INLINE __m512i bits_at(__m512i from, const int at, const int to, const int mask) {
    words moved = at >= to ? (words)from >> (at - to) : (words)from << (to - at);
    return _mm512_and_si512((__m512i)moved, _mm512_set1_epi8((char)(mask << to)));
}

/* Group g (0 .. 7) of a block: unsigned bytes, q + 128 for types without a minimum. */
LANES_INLINE __m512i unsigned_group(const uint8_t *quants, const int g, const lh_dtype dtype) {
    const lh_quant_form form = lh_quant_form_for(dtype);
    const uint8_t *high = quants + 64 * form.low_bits;
    __m512i group;
    if (form.low_bits == 8)
        return _mm512_xor_si512(_mm512_loadu_si512(quants + 64 * g), _mm512_set1_epi8((char)0x80));
    if (form.low_bits == 4)
        group = bits_at(_mm512_loadu_si512(quants + 64 * (g % 4)), g / 4 * 4, 0, 15);
    else
        group = bits_at(_mm512_loadu_si512(quants + 64 * (g / 4)), g % 4 * 2, 0, 3);
    if (form.high_bits == 2)
        group = _mm512_or_si512(group,
                                bits_at(_mm512_loadu_si512(high + 64 * (g / 4)), g % 4 * 2, 4, 3));
    else if (form.high_bits == 1)
        group = _mm512_or_si512(group, bits_at(_mm512_loadu_si512(high), g, (int)form.low_bits, 1));
    if (lh_quant_values(dtype)) {
        __m128i biased =
            _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)lh_quant_values(dtype)),
                          _mm_set1_epi8((char)0x80));
        return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(biased), group);
    }
    if (lh_has_minimum(dtype))
        return group;
    return _mm512_add_epi8(group, _mm512_set1_epi8((char)(128 - (int)form.offset)));
}

/* The scales of a block, as its arithmetic takes them. */
typedef struct block_scales {
    __m512 d, m;
    __m512 scale[2]; /* of halves */
    /* Q2_K: minus the minimum of each half, twice in 16 bits; m is then 1/32 of itself */
    __m512i minimum[2];
} block_scales;

LANES_INLINE __m512i widen_bytes(const uint8_t *bytes) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)bytes));
}

LANES_INLINE __m512 negated(__m512 v) {
    return _mm512_xor_ps(v, _mm512_set1_ps(-0.0f));
}

/* MXFP4's d of 16 exponents. */
LANES_INLINE __m512 powers_of_two(const uint8_t *exponents) {
    __m512i e = widen_bytes(exponents), one = _mm512_set1_epi32(1);
    __m512i small = _mm512_sllv_epi32(_mm512_set1_epi32((int)LH_E8M0_SMALL_BITS), e);
    __m512i large = _mm512_slli_epi32(_mm512_sub_epi32(e, one), LH_E8M0_BITS_SHIFT);
    return _mm512_castsi512_ps(
        _mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(e, one), small, large));
}

/* Of a block whose binary16 scales lie at `scales` and, for K types, subscales at `subscales`. */
LANES_INLINE block_scales load_scales(const uint8_t *scales, const uint8_t *subscales,
                                      const lh_dtype dtype) {
    block_scales s = {.d = dtype == LH_DTYPE_MXFP4 ? powers_of_two(subscales)
                                                   : lanes_widen_f16(scales)};
    if (lh_has_minimum(dtype))
        s.m = lanes_widen_f16(scales + 32);
    if (dtype == LH_DTYPE_Q4_K || dtype == LH_DTYPE_Q5_K) {
        s.d = _mm512_mul_ps(s.d, _mm512_cvtepi32_ps(widen_bytes(subscales)));
        s.m = negated(_mm512_mul_ps(s.m, _mm512_cvtepi32_ps(widen_bytes(subscales + 16))));
    }
    if (lh_scale_unit(dtype) != 1)
        s.d = _mm512_mul_ps(s.d, _mm512_set1_ps(lh_scale_unit(dtype)));
    if (lh_has_block_scale(dtype))
        s.d = _mm512_mul_ps(s.d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(
                                     _mm_loadu_si128((const __m128i *)(const void *)subscales))));
    if (dtype == LH_DTYPE_Q2_K)
        s.m = _mm512_mul_ps(s.m, _mm512_set1_ps(-1.0f / 32));
    for (int half = 0; half < 2 && has_half_scales(dtype); half++) {
        if (dtype == LH_DTYPE_Q2_K) {
            __m512i both = widen_bytes(subscales + 16 * half);
            s.scale[half] = _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32(15)));
            __m512i minus = _mm512_sub_epi16(_mm512_setzero_si512(), _mm512_srli_epi32(both, 4));
            s.minimum[half] = _mm512_or_si512(_mm512_and_si512(minus, _mm512_set1_epi32(0xffff)),
                                              _mm512_slli_epi32(minus, 16));
        } else {
            __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(subscales + 16 * half));
            s.scale[half] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
        }
    }
    return s;
}

/* To and from a panel's vectors. */
LANES_INLINE void store_panel_scales(float vectors[][LH_LANES], const block_scales *s,
                                     const lh_dtype dtype) {
    _mm512_store_ps(vectors[0], s->d);
    if (lh_has_minimum(dtype))
        _mm512_store_ps(vectors[1], s->m);
    for (int half = 0; half < 2; half++) {
        if (has_half_scales(dtype))
            _mm512_store_ps(vectors[2 + half], s->scale[half]);
        if (dtype == LH_DTYPE_Q2_K)
            _mm512_store_ps(vectors[4 + half], _mm512_castsi512_ps(s->minimum[half]));
    }
}

LANES_INLINE block_scales load_panel_scales(const float vectors[][LH_LANES], const lh_dtype dtype) {
    block_scales s = {.d = _mm512_load_ps(vectors[0])};
    if (lh_has_minimum(dtype))
        s.m = _mm512_load_ps(vectors[1]);
    for (int half = 0; half < 2; half++) {
        if (has_half_scales(dtype))
            s.scale[half] = _mm512_load_ps(vectors[2 + half]);
        if (dtype == LH_DTYPE_Q2_K)
            s.minimum[half] = _mm512_castps_si512(_mm512_load_ps(vectors[4 + half]));
    }
    return s;
}
