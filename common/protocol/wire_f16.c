/* Wire type f16: binary16, and an exponent for each block: x is stored as f16(x * 2^-e), where e is
 * the smallest number >= 0 for which the block's greatest |x| * 2^-e is at most 65504. So e is 0
 * for ordinary activations, and outliers cost their own block a bit and no other. */
#include "common/protocol/wire_block.h"

#define EXPONENT_MAX 112 /* 65504 * 2^112 is the greatest product that is a finite float */

/* 2^exponent for -126 .. 127. */
static float power_of_two(int exponent) {
    return lh_float_of((uint32_t)(exponent + 127) << 23);
}

/* The exponent of a block whose greatest magnitude has these bits; -1 when it cannot be stored. */
static int block_exponent(uint32_t greatest) {
    if (greatest <= LH_F16_MAX_AS_F32_BITS)
        return 0;
    if (greatest >= LH_F32_INFINITY_BITS)
        return -1;
    int exponent = (int)(greatest >> 23) - (int)(LH_F16_MAX_AS_F32_BITS >> 23);
    if ((greatest & 0x7fffffu) > (LH_F16_MAX_AS_F32_BITS & 0x7fffffu))
        exponent++;
    return exponent > EXPONENT_MAX ? -1 : exponent;
}

/* |value| <= 65504. Subnormal halves: adding 0.5 leaves the value, in units of 2^-24 and rounded,
 * in the low bits. */
static uint16_t half_from_float(float value) {
    uint32_t bits = lh_bits_of(value);
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t subnormal = lh_bits_of(lh_float_of(magnitude) + 0.5f) - lh_bits_of(0.5f);
    uint32_t half = magnitude < LH_F16_MIN_NORMAL_AS_F32_BITS ? subnormal : normal;
    return (uint16_t)(half | ((bits >> 16) & 0x8000u));
}

/* Not infinity or NaN. */
static float float_from_half(uint16_t half) {
    uint32_t magnitude = half & 0x7fffu;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    uint32_t subnormal = lh_bits_of((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t bits = magnitude < 0x400u ? subnormal : normal;
    return lh_float_of(bits | ((uint32_t)(half & 0x8000u) << 16));
}

static bool encode(const float *restrict values, uint8_t *restrict bytes, uint8_t *restrict block) {
    int exponent = block_exponent(lh_wire_greatest(values));
    if (exponent < 0)
        return false;
    float scale = power_of_two(-exponent);
    uint16_t halves[LH_WIRE_BLOCK];
    for (uint32_t i = 0; i < LH_WIRE_BLOCK; i++)
        halves[i] = half_from_float(values[i] * scale);
    memcpy(bytes, halves, sizeof(halves));
    *block = (uint8_t)exponent;
    return true;
}

static bool decode(const uint8_t *restrict bytes, const uint8_t *restrict block,
                   float *restrict values) {
    if (*block > EXPONENT_MAX)
        return false;
    float scale = power_of_two(*block);
    uint16_t halves[LH_WIRE_BLOCK];
    memcpy(halves, bytes, sizeof(halves));
    int16_t greatest = 0;
    for (uint32_t i = 0; i < LH_WIRE_BLOCK; i++) {
        int16_t magnitude = (int16_t)(halves[i] & 0x7fff);
        greatest = magnitude > greatest ? magnitude : greatest;
        values[i] = float_from_half(halves[i]) * scale;
    }
    return greatest <= (int16_t)LH_F16_MAX_BITS;
}

const lh_wire_codec lh_wire_f16 = {"f16", sizeof(uint16_t), 1, encode, decode};
