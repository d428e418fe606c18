/* Wire type q8: 8-bit integers -127 .. 127, and a scale for each block: x is stored as x / scale,
 * rounded to the nearest integer, halves to even.
 *
 * The scale is the block's greatest |x| / 127, rounded up, so that no quotient passes 127: to a
 * binary16 number where it lies among the normal ones, which all ordinary activations do. Blocks
 * beyond (greatest |x| under 127 * 2^-14 or over 127 * 65504) would lose their precision or
 * overflow; theirs is a bfloat16 number, and bit 15, free since no scale is negative, says so. So a
 * block's error is at most 2^-7.9 of its greatest value whatever its size, and nothing short of the
 * greatest floats is refused. */
#include "common/protocol/wire_block.h"

#define QUOTIENT_MAX 127
#define IS_BFLOAT16  0x8000u
/* The greatest low 15 bits of a scale, both kinds: binary16's 65504; as a bfloat16, 255 * 2^113, of
 * which even 128 is a finite float. */
#define SCALE_MAX_BITS LH_F16_MAX_BITS
/* Added to a small number, it leaves that one rounded to an integer in the low bits: 1.5 * 2^23. */
#define ROUNDER 0x1.8p23f

static uint16_t scale_from_float(float scale) {
    uint32_t bits = lh_bits_of(scale);
    if (bits == 0 || (bits >= LH_F16_MIN_NORMAL_AS_F32_BITS && bits <= LH_F16_MAX_AS_F32_BITS))
        return bits == 0 ? 0 : (uint16_t)((bits - (112u << 23) + 0x1fffu) >> 13);
    return (uint16_t)(IS_BFLOAT16 | (bits + 0xffffu) >> 16);
}

/* low 15 bits at most SCALE_MAX_BITS. */
static float float_from_scale(uint16_t scale) {
    uint32_t magnitude = scale & 0x7fffu;
    if (scale & IS_BFLOAT16)
        return lh_float_of(magnitude << 16);
    return magnitude < 0x400u ? (float)magnitude * 0x1p-24f
                              : lh_float_of((magnitude << 13) + (112u << 23));
}

static bool encode(const float *restrict values, uint8_t *restrict bytes, uint8_t *restrict block) {
    uint32_t greatest = lh_wire_greatest(values);
    if (greatest >= LH_F32_INFINITY_BITS)
        return false;
    uint16_t scale = scale_from_float(lh_float_of(greatest) / QUOTIENT_MAX);
    if ((scale & 0x7fffu) > SCALE_MAX_BITS)
        return false;
    /* all 0, or so small that they become 0 */
    float divisor = scale > 0 ? float_from_scale(scale) : 1;
    int8_t quotients[LH_WIRE_BLOCK];
    for (uint32_t i = 0; i < LH_WIRE_BLOCK; i++) {
        uint32_t rounded = lh_bits_of(values[i] / divisor + ROUNDER) - lh_bits_of(ROUNDER);
        quotients[i] = (int8_t)(int32_t)rounded;
    }
    memcpy(bytes, quotients, sizeof(quotients));
    memcpy(block, &scale, sizeof(scale));
    return true;
}

static bool decode(const uint8_t *restrict bytes, const uint8_t *restrict block,
                   float *restrict values) {
    uint16_t stored;
    memcpy(&stored, block, sizeof(stored));
    if ((stored & 0x7fffu) > SCALE_MAX_BITS)
        return false;
    float scale = float_from_scale(stored);
    int8_t quotients[LH_WIRE_BLOCK];
    memcpy(quotients, bytes, sizeof(quotients));
    for (uint32_t i = 0; i < LH_WIRE_BLOCK; i++)
        values[i] = (float)quotients[i] * scale; /* exact, unless it is subnormal */
    return true;
}

const lh_wire_codec lh_wire_q8 = {"q8", sizeof(int8_t), sizeof(uint16_t), encode, decode};
