/* Quantized weights taken apart with NEON: the bytes of a group and the scales of a block, for 4
 * outputs, a quarter of a tile.
 *
 * Both operands of SDOT are signed, and every quant is below 128 as it lies, so bytes are used as
 * they are. What they are greater by than q comes off beforehand: a dot begins with minus the
 * offset times the sum of the activations, which `bias` holds for -128 (an offset is a power of
 * two, so that a shift makes it). Where the halves of a block have scales of their own, each half's
 * dot is multiplied in 32 bits: at most 16 * 32 * 127 * 128. */
#pragma once

#include "kernels/neon/f32x16.h"

#include "kernels/layout.h"

#include <stdbool.h>

LANES_INLINE bool has_half_scales(const lh_dtype dtype) {
    return lh_has_half_scales(dtype) || dtype == LH_DTYPE_Q2_K;
}

/* Bits of `from` moved from position `at` to position `to` of each byte, others off. */
LANES_INLINE uint8x16_t bits_at(uint8x16_t from, const int at, const int to, const int mask) {
    uint8x16_t moved =
        at >= to ? from >> vdupq_n_u8((uint8_t)(at - to)) : from << vdupq_n_u8((uint8_t)(to - at));
    return to == 0 && mask == 0xff >> at ? moved
                                         : vandq_u8(moved, vdupq_n_u8((uint8_t)(mask << to)));
}

/* Group g (0 .. 7) of a block; `quants` is offset by 16 for each quarter. */
LANES_INLINE int8x16_t group_bytes(const uint8_t *quants, const int g, const lh_dtype dtype) {
    const lh_quant_form form = lh_quant_form_for(dtype);
    const uint8_t *high = quants + 64 * form.low_bits;
    uint8x16_t group;
    if (form.low_bits == 8)
        return vreinterpretq_s8_u8(vld1q_u8(quants + 64 * g));
    if (form.low_bits == 4)
        group = bits_at(vld1q_u8(quants + 64 * (g % 4)), g / 4 * 4, 0, 15);
    else
        group = bits_at(vld1q_u8(quants + 64 * (g / 4)), g % 4 * 2, 0, 3);
    if (form.high_bits == 2)
        group = vorrq_u8(group, bits_at(vld1q_u8(high + 64 * (g / 4)), g % 4 * 2, 4, 3));
    else if (form.high_bits == 1)
        group = vorrq_u8(group, bits_at(vld1q_u8(high), g, (int)form.low_bits, 1));
    if (lh_quant_values(dtype))
        return vqtbl1q_s8(vld1q_s8(lh_quant_values(dtype)), group);
    return vreinterpretq_s8_u8(group);
}

/* The scales of a block, as its arithmetic takes them. */
typedef struct block_scales {
    float32x4_t d, m;
    int32x4_t scale[2], minimum[2]; /* of halves */
} block_scales;

/* Four unsigned bytes. */
LANES_INLINE uint32x4_t widen_bytes(const uint8_t *bytes) {
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(word)))));
}

LANES_INLINE int32x4_t widen_signed_bytes(const uint8_t *bytes) {
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(word)))));
}

/* MXFP4's d of four exponents. */
LANES_INLINE float32x4_t powers_of_two(const uint8_t *exponents) {
    uint32x4_t e = widen_bytes(exponents), one = vdupq_n_u32(1);
    uint32x4_t small = vshlq_u32(vdupq_n_u32(LH_E8M0_SMALL_BITS), vreinterpretq_s32_u32(e));
    uint32x4_t large = vshlq_n_u32(vsubq_u32(e, one), LH_E8M0_BITS_SHIFT);
    return vreinterpretq_f32_u32(vbslq_u32(vcgtq_u32(e, one), large, small));
}

/* Of a block whose binary16 scales lie at `scales` and, for K types, subscales at `subscales`;
 * offset by 8 and by 4 bytes for each quarter. */
LANES_INLINE block_scales load_scales(const uint8_t *scales, const uint8_t *subscales,
                                      const lh_dtype dtype) {
    block_scales s = {.d = dtype == LH_DTYPE_MXFP4 ? powers_of_two(subscales)
                                                   : lanes_widen4_f16(scales)};
    if (lh_has_minimum(dtype))
        s.m = lanes_widen4_f16(scales + 32);
    if (dtype == LH_DTYPE_Q4_K || dtype == LH_DTYPE_Q5_K) {
        s.d = vmulq_f32(s.d, vcvtq_f32_u32(widen_bytes(subscales)));
        s.m = vnegq_f32(vmulq_f32(s.m, vcvtq_f32_u32(widen_bytes(subscales + 16))));
    }
    if (lh_scale_unit(dtype) != 1)
        s.d = vmulq_n_f32(s.d, lh_scale_unit(dtype));
    if (lh_has_block_scale(dtype))
        s.d = vmulq_f32(s.d, vcvtq_f32_s32(widen_signed_bytes(subscales)));
    if (dtype == LH_DTYPE_Q2_K)
        s.m = vnegq_f32(s.m);
    for (int half = 0; half < 2 && has_half_scales(dtype); half++) {
        if (dtype == LH_DTYPE_Q2_K) {
            uint32x4_t both = widen_bytes(subscales + 16 * half);
            s.scale[half] = vreinterpretq_s32_u32(vandq_u32(both, vdupq_n_u32(15)));
            s.minimum[half] = vreinterpretq_s32_u32(vshrq_n_u32(both, 4));
        } else {
            s.scale[half] = widen_signed_bytes(subscales + 16 * half);
        }
    }
    return s;
}
