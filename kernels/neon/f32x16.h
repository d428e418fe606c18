/* Sixteen floats in four NEON registers: the vocabulary in which kernels/lanes/ is written. The
 * AVX-512 header of the same name has the same functions; what they compute is IEEE, lane by lane,
 * so both give the same bits. Every aarch64 has these instructions. */
#pragma once

#include <arm_neon.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define LANES_INLINE static inline __attribute__((always_inline))
/* Queries that attention's register tile holds, and vectors of a value row beside them (32
 * registers, 4 to a vector). */
#define LANES_QUERIES       4
#define LANES_VALUE_VECTORS 1

/* Lanes 0 .. 3, 4 .. 7, 8 .. 11, 12 .. 15. */
typedef struct f32x16 {
    float32x4_t q0, q1, q2, q3;
} f32x16;

/* Applies an operation on one, two or three vectors to all quarters. */
#define LANES_ALL1(op, a) ((f32x16){op((a).q0), op((a).q1), op((a).q2), op((a).q3)})
#define LANES_ALL2(op, a, b)                                                                       \
    ((f32x16){op((a).q0, (b).q0), op((a).q1, (b).q1), op((a).q2, (b).q2), op((a).q3, (b).q3)})
#define LANES_ALL3(op, a, b, c)                                                                    \
    ((f32x16){op((a).q0, (b).q0, (c).q0), op((a).q1, (b).q1, (c).q1), op((a).q2, (b).q2, (c).q2),  \
              op((a).q3, (b).q3, (c).q3)})

LANES_INLINE f32x16 lanes_set(float value) {
    float32x4_t v = vdupq_n_f32(value);
    return (f32x16){v, v, v, v};
}

LANES_INLINE f32x16 lanes_load(const float *p) {
    return (f32x16){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}

/* The first `count` of 4 lanes, the others 0; count may be more, or less than 0. */
LANES_INLINE float32x4_t lanes_load4_part(const float *p, ptrdiff_t count) {
    if (count >= 4)
        return vld1q_f32(p);
    float32x4_t v = vdupq_n_f32(0);
    if (count > 0)
        v = vld1q_lane_f32(p, v, 0);
    if (count > 1)
        v = vld1q_lane_f32(p + 1, v, 1);
    if (count > 2)
        v = vld1q_lane_f32(p + 2, v, 2);
    return v;
}

LANES_INLINE void lanes_store4_part(float *p, float32x4_t v, ptrdiff_t count) {
    if (count >= 4) {
        vst1q_f32(p, v);
        return;
    }
    if (count > 0)
        vst1q_lane_f32(p, v, 0);
    if (count > 1)
        vst1q_lane_f32(p + 1, v, 1);
    if (count > 2)
        vst1q_lane_f32(p + 2, v, 2);
}

/* The first `count` (0 .. 16) lanes, the others 0: memory beyond is not touched. */
LANES_INLINE f32x16 lanes_load_part(const float *p, size_t count) {
    ptrdiff_t n = (ptrdiff_t)count;
    return (f32x16){lanes_load4_part(p, n), lanes_load4_part(p + 4, n - 4),
                    lanes_load4_part(p + 8, n - 8), lanes_load4_part(p + 12, n - 12)};
}

LANES_INLINE void lanes_store(float *p, f32x16 v) {
    vst1q_f32(p, v.q0);
    vst1q_f32(p + 4, v.q1);
    vst1q_f32(p + 8, v.q2);
    vst1q_f32(p + 12, v.q3);
}

LANES_INLINE void lanes_store_part(float *p, f32x16 v, size_t count) {
    ptrdiff_t n = (ptrdiff_t)count;
    lanes_store4_part(p, v.q0, n);
    lanes_store4_part(p + 4, v.q1, n - 4);
    lanes_store4_part(p + 8, v.q2, n - 8);
    lanes_store4_part(p + 12, v.q3, n - 12);
}

/* The first `count` (any number) of 4 lanes of v, then those of `other`. */
LANES_INLINE float32x4_t lanes_select4(float32x4_t v, ptrdiff_t count, float32x4_t other) {
    static const int32_t numbers[4] = {0, 1, 2, 3};
    return vbslq_f32(vcltq_s32(vld1q_s32(numbers), vdupq_n_s32((int32_t)count)), v, other);
}

/* The first `count` lanes of v, then those of `other`. */
LANES_INLINE f32x16 lanes_select(f32x16 v, size_t count, f32x16 other) {
    ptrdiff_t n = (ptrdiff_t)count;
    return (f32x16){lanes_select4(v.q0, n, other.q0), lanes_select4(v.q1, n - 4, other.q1),
                    lanes_select4(v.q2, n - 8, other.q2), lanes_select4(v.q3, n - 12, other.q3)};
}

LANES_INLINE f32x16 lanes_add(f32x16 a, f32x16 b) {
    return LANES_ALL2(vaddq_f32, a, b);
}

LANES_INLINE f32x16 lanes_sub(f32x16 a, f32x16 b) {
    return LANES_ALL2(vsubq_f32, a, b);
}

LANES_INLINE f32x16 lanes_mul(f32x16 a, f32x16 b) {
    return LANES_ALL2(vmulq_f32, a, b);
}

LANES_INLINE f32x16 lanes_div(f32x16 a, f32x16 b) {
    return LANES_ALL2(vdivq_f32, a, b);
}

/* a * b + c, rounded once; lanes_fms: a * b - c. */
LANES_INLINE f32x16 lanes_fma(f32x16 a, f32x16 b, f32x16 c) {
    return LANES_ALL3(vfmaq_f32, c, a, b);
}

LANES_INLINE f32x16 lanes_fms(f32x16 a, f32x16 b, f32x16 c) {
    f32x16 minus = LANES_ALL1(vnegq_f32, c);
    return lanes_fma(a, b, minus);
}

LANES_INLINE float32x4_t lanes_max4(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}

LANES_INLINE float32x4_t lanes_min4(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcltq_f32(a, b), a, b);
}

/* Where one is NaN: b (unlike the processor's own FMAX). */
LANES_INLINE f32x16 lanes_max(f32x16 a, f32x16 b) {
    return LANES_ALL2(lanes_max4, a, b);
}

LANES_INLINE f32x16 lanes_min(f32x16 a, f32x16 b) {
    return LANES_ALL2(lanes_min4, a, b);
}

/* 2^n as floats, n in -126 .. 127. */
LANES_INLINE float32x4_t lanes_power_of_two(int32x4_t n) {
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

/* In two steps, since 2^n itself may lie outside of the floats; only the second can round. */
LANES_INLINE float32x4_t lanes_scale4_by_power(float32x4_t v, float32x4_t n) {
    int32x4_t power = vcvtnq_s32_f32(n), half = vshrq_n_s32(power, 1);
    v = vmulq_f32(v, lanes_power_of_two(half));
    return vmulq_f32(v, lanes_power_of_two(vsubq_s32(power, half)));
}

/* v * 2^n for integral n in -151 .. 129, rounded once. */
LANES_INLINE f32x16 lanes_scale_by_power(f32x16 v, f32x16 n) {
    return LANES_ALL2(lanes_scale4_by_power, v, n);
}

/* The tree of kernels.h over the 16 lanes. */
LANES_INLINE float lanes_sum(f32x16 v) {
    float32x4_t four = vaddq_f32(vaddq_f32(v.q0, v.q2), vaddq_f32(v.q1, v.q3));
    return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
}

LANES_INLINE float lanes_greatest(f32x16 v) {
    return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v.q0, v.q1), vmaxq_f32(v.q2, v.q3)));
}

LANES_INLINE uint32x4_t lanes_magnitude4(float32x4_t v) {
    return vreinterpretq_u32_f32(vabsq_f32(v));
}

/* The greatest magnitude in a and b, compared as integers: NaN is the greatest of all. */
LANES_INLINE float lanes_greatest_magnitude(f32x16 a, f32x16 b) {
    uint32x4_t a0 = vmaxq_u32(lanes_magnitude4(a.q0), lanes_magnitude4(a.q1));
    uint32x4_t a1 = vmaxq_u32(lanes_magnitude4(a.q2), lanes_magnitude4(a.q3));
    uint32x4_t b0 = vmaxq_u32(lanes_magnitude4(b.q0), lanes_magnitude4(b.q1));
    uint32x4_t b1 = vmaxq_u32(lanes_magnitude4(b.q2), lanes_magnitude4(b.q3));
    uint32_t bits = vmaxvq_u32(vmaxq_u32(vmaxq_u32(a0, a1), vmaxq_u32(b0, b1)));
    float greatest;
    memcpy(&greatest, &bits, sizeof greatest);
    return greatest;
}

/* Stores 16 values rounded to nearest even, each within -127 .. 127. */
LANES_INLINE void lanes_round16_to_int8(int8_t *q, f32x16 v) {
    int32x4_t i0 = vcvtnq_s32_f32(v.q0), i1 = vcvtnq_s32_f32(v.q1);
    int32x4_t i2 = vcvtnq_s32_f32(v.q2), i3 = vcvtnq_s32_f32(v.q3);
    int16x8_t low = vcombine_s16(vmovn_s32(i0), vmovn_s32(i1));
    int16x8_t high = vcombine_s16(vmovn_s32(i2), vmovn_s32(i3));
    vst1q_s8(q, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}

/* Stores 32 values rounded to nearest even, each within -127 .. 127. */
LANES_INLINE void lanes_round_to_int8(int8_t *q, f32x16 a, f32x16 b) {
    lanes_round16_to_int8(q, a);
    lanes_round16_to_int8(q + 16, b);
}

LANES_INLINE f32x16 lanes_widen_int8(const int8_t *q) {
    int8x16_t bytes = vld1q_s8(q);
    int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return (f32x16){vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
                    vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
                    vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
                    vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))};
}

/* For each half of q[32]: the sums of the elements k with k % 4 < 2 and of the others times
 * `pair_factor`; and the sums of each half and of both times `factor`. Exact where they fit. */
LANES_INLINE void lanes_pair_sums(int16_t pairs[4], int32_t totals[3], const int8_t *q,
                                  int16_t pair_factor, int16_t factor) {
    int16x8_t low = vpaddlq_s8(vld1q_s8(q)), high = vpaddlq_s8(vld1q_s8(q + 16));
    int16x4_t low_sums = vadd_s16(vget_low_s16(low), vget_high_s16(low));
    int16x4_t high_sums = vadd_s16(vget_low_s16(high), vget_high_s16(high));
    /* words 0 and 2 are of the first pairs, 1 and 3 of the second ones */
    int32x2_t a = vreinterpret_s32_s16(low_sums), b = vreinterpret_s32_s16(high_sums);
    int16x4_t sums =
        vadd_s16(vreinterpret_s16_s32(vzip1_s32(a, b)), vreinterpret_s16_s32(vzip2_s32(a, b)));
    vst1_s16(pairs, vmul_n_s16(sums, pair_factor));
    int32x2_t two = vmul_n_s32(vpaddl_s16(sums), factor);
    vst1_s32(totals, two);
    totals[2] = vaddv_s32(two);
}

/* a[0] b[0] a[1] b[1] ... a[7] b[7] */
LANES_INLINE f32x16 lanes_zip(const float *a, const float *b) {
    float32x4_t a0 = vld1q_f32(a), a1 = vld1q_f32(a + 4), b0 = vld1q_f32(b), b1 = vld1q_f32(b + 4);
    return (f32x16){vzip1q_f32(a0, b0), vzip2q_f32(a0, b0), vzip1q_f32(a1, b1), vzip2q_f32(a1, b1)};
}

LANES_INLINE float32x4_t lanes_rotate4(float32x4_t v, float32x4_t cs, float32x4_t sc) {
    static const uint32_t minus_even[4] = {0x80000000u, 0, 0x80000000u, 0};
    float32x4_t b = vmulq_f32(vtrn2q_f32(v, v), sc);
    b = vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(b), vld1q_u32(minus_even)));
    return vfmaq_f32(b, vtrn1q_f32(v, v), cs);
}

/* Pairs (a, b) of v with pairs (c, s) of cs and (s, c) of sc: (fma(a, c, -(b * s)), fma(a, s, b *
 * c)). */
LANES_INLINE f32x16 lanes_rotate(f32x16 v, f32x16 cs, f32x16 sc) {
    return LANES_ALL3(lanes_rotate4, v, cs, sc);
}

LANES_INLINE float32x4_t lanes_widen4_f16(const uint8_t *halves) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(halves)));
}

LANES_INLINE f32x16 lanes_widen_f16(const void *halves) {
    const uint8_t *h = halves;
    return (f32x16){lanes_widen4_f16(h), lanes_widen4_f16(h + 8), lanes_widen4_f16(h + 16),
                    lanes_widen4_f16(h + 24)};
}

LANES_INLINE void lanes_round_f16(void *halves, f32x16 v) {
    uint8_t *h = halves;
    vst1_u8(h, vreinterpret_u8_f16(vcvt_f16_f32(v.q0)));
    vst1_u8(h + 8, vreinterpret_u8_f16(vcvt_f16_f32(v.q1)));
    vst1_u8(h + 16, vreinterpret_u8_f16(vcvt_f16_f32(v.q2)));
    vst1_u8(h + 24, vreinterpret_u8_f16(vcvt_f16_f32(v.q3)));
}

/* ---- Numbers of 32 bits ---- */

#define LANES_COUNTERS 8u

typedef struct lanes_u32 {
    uint32x4_t low, high;
} lanes_u32;

typedef struct lanes_u32_pair {
    lanes_u32 low, high;
} lanes_u32_pair;

LANES_INLINE lanes_u32 lanes_u32_set(uint32_t value) {
    return (lanes_u32){vdupq_n_u32(value), vdupq_n_u32(value)};
}

/* first, first + 1 ... */
LANES_INLINE lanes_u32 lanes_u32_from(uint32_t first) {
    static const uint32_t numbers[4] = {0, 1, 2, 3};
    return (lanes_u32){vaddq_u32(vld1q_u32(numbers), vdupq_n_u32(first)),
                       vaddq_u32(vld1q_u32(numbers), vdupq_n_u32(first + 4))};
}

LANES_INLINE lanes_u32 lanes_u32_xor(lanes_u32 a, lanes_u32 b, lanes_u32 c) {
    return (lanes_u32){veorq_u32(veorq_u32(a.low, b.low), c.low),
                       veorq_u32(veorq_u32(a.high, b.high), c.high)};
}

/* The lower halves of the products, and the upper ones. */
LANES_INLINE uint32x4x2_t lanes_multiply4(uint32x4_t a, uint32_t factor) {
    uint32x4_t first = vreinterpretq_u32_u64(vmull_n_u32(vget_low_u32(a), factor));
    uint32x4_t second = vreinterpretq_u32_u64(vmull_high_n_u32(a, factor));
    return vuzpq_u32(first, second);
}

/* The halves of the products with `factor`. */
LANES_INLINE lanes_u32_pair lanes_u32_multiply(lanes_u32 a, uint32_t factor) {
    uint32x4x2_t low = lanes_multiply4(a.low, factor), high = lanes_multiply4(a.high, factor);
    return (lanes_u32_pair){{low.val[0], high.val[0]}, {low.val[1], high.val[1]}};
}

/* Whether any is <= greatest. */
LANES_INLINE bool lanes_u32_any_within(const lanes_u32 words[4], uint32_t greatest) {
    uint32x4_t least = vminq_u32(words[0].low, words[0].high);
    for (int i = 1; i < 4; i++)
        least = vminq_u32(least, vminq_u32(words[i].low, words[i].high));
    return vminvq_u32(least) <= greatest;
}

LANES_INLINE void lanes_u32_store(uint32_t to[LANES_COUNTERS], lanes_u32 v) {
    vst1q_u32(to, v.low);
    vst1q_u32(to + 4, v.high);
}
