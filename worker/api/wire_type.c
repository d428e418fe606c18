/* Shards' values to bytes and back (wire_type.h). Loops run over blocks of a constant 32 columns and hold no
 * branch, so that the compiler makes vectors of them; every operation is an exact one or rounds once, to
 * nearest even. */
#include "worker/api/wire_type.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "floats are copied to the wire as they lie in memory");

#define BLOCK                      LH_STEP_COLUMN_BLOCK
#define F32_INFINITY_BITS          0x7f800000u
#define F16_MAX_BITS               0x7bffu
#define F16_MAX_AS_F32_BITS        0x477fe000u /* 65504 */
#define F16_MIN_NORMAL_AS_F32_BITS 0x38800000u /* 2^-14 */
#define EXPONENT_MAX               112 /* 65504 * 2^112 is the greatest product that is a finite float */

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* 2^exponent for -126 .. 127. */
static float power_of_two(int exponent) {
    return float_of((uint32_t)(exponent + 127) << 23);
}

size_t lh_wire_bytes(lh_wire_type wire, uint32_t rows, uint32_t columns) {
    if (wire == LH_WIRE_F32) {
        return (size_t)rows * columns * sizeof(float);
    }
    size_t blocks = (columns + BLOCK - 1) / BLOCK;
    return (size_t)rows * columns * sizeof(uint16_t) + (size_t)rows * blocks;
}

static bool all_finite(const float *values, size_t count) {
    uint32_t greatest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = bits_of(values[i]) & 0x7fffffffu;
        greatest = magnitude > greatest ? magnitude : greatest;
    }
    return greatest < F32_INFINITY_BITS;
}

/* The exponent of a block whose greatest magnitude has these bits; -1 when it cannot be stored. */
static int block_exponent(uint32_t greatest) {
    if (greatest <= F16_MAX_AS_F32_BITS) {
        return 0;
    }
    if (greatest >= F32_INFINITY_BITS) {
        return -1;
    }
    int exponent = (int)(greatest >> 23) - (int)(F16_MAX_AS_F32_BITS >> 23);
    if ((greatest & 0x7fffffu) > (F16_MAX_AS_F32_BITS & 0x7fffffu)) {
        exponent++;
    }
    return exponent > EXPONENT_MAX ? -1 : exponent;
}

/* |value| <= 65504. Subnormal halves: adding 0.5 leaves the value, in units of 2^-24 and rounded, in the low
 * bits. */
static uint16_t half_from_float(float value) {
    uint32_t bits = bits_of(value);
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    uint32_t half = magnitude < F16_MIN_NORMAL_AS_F32_BITS ? subnormal : normal;
    return (uint16_t)(half | ((bits >> 16) & 0x8000u));
}

/* Not infinity or NaN. */
static float float_from_half(uint16_t half) {
    uint32_t magnitude = half & 0x7fffu;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    uint32_t subnormal = bits_of((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t bits = magnitude < 0x400u ? subnormal : normal;
    return float_of(bits | ((uint32_t)(half & 0x8000u) << 16));
}

/* Returns the block's exponent, or -1. */
static int encode_block(const float values[BLOCK], uint16_t halves[BLOCK]) {
    uint32_t greatest = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t magnitude = bits_of(values[i]) & 0x7fffffffu;
        greatest = magnitude > greatest ? magnitude : greatest;
    }
    int exponent = block_exponent(greatest);
    if (exponent < 0) {
        return -1;
    }
    float scale = power_of_two(-exponent);
    for (uint32_t i = 0; i < BLOCK; i++) {
        halves[i] = half_from_float(values[i] * scale);
    }
    return exponent;
}

static bool decode_block(const uint16_t halves[BLOCK], uint8_t exponent, float values[BLOCK]) {
    if (exponent > EXPONENT_MAX) {
        return false;
    }
    float scale = power_of_two(exponent);
    uint32_t greatest = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        uint32_t magnitude = halves[i] & 0x7fffu;
        greatest = magnitude > greatest ? magnitude : greatest;
        values[i] = float_from_half(halves[i]) * scale;
    }
    return greatest <= F16_MAX_BITS;
}

static bool encode_f16(const float *values, uint32_t rows, uint32_t columns, uint8_t *bytes) {
    uint8_t *exponents = bytes + (size_t)rows * columns * sizeof(uint16_t);
    for (uint32_t row = 0; row < rows; row++, values += columns, bytes += columns * sizeof(uint16_t)) {
        for (uint32_t column = 0; column < columns; column += BLOCK) {
            uint32_t count = columns - column < BLOCK ? columns - column : BLOCK;
            float block[BLOCK] = {0};
            uint16_t halves[BLOCK];
            memcpy(block, values + column, count * sizeof(float));
            int exponent = encode_block(block, halves);
            if (exponent < 0) {
                return false;
            }
            memcpy(bytes + column * sizeof(uint16_t), halves, count * sizeof(uint16_t));
            *exponents++ = (uint8_t)exponent;
        }
    }
    return true;
}

static bool decode_f16(const uint8_t *bytes, uint32_t rows, uint32_t columns, float *values) {
    const uint8_t *exponents = bytes + (size_t)rows * columns * sizeof(uint16_t);
    bool good = true;
    for (uint32_t row = 0; row < rows; row++, values += columns, bytes += columns * sizeof(uint16_t)) {
        for (uint32_t column = 0; column < columns; column += BLOCK) {
            uint32_t count = columns - column < BLOCK ? columns - column : BLOCK;
            uint16_t halves[BLOCK] = {0};
            float block[BLOCK];
            memcpy(halves, bytes + column * sizeof(uint16_t), count * sizeof(uint16_t));
            good = decode_block(halves, *exponents++, block) && good;
            memcpy(values + column, block, count * sizeof(float));
        }
    }
    return good;
}

bool lh_wire_encode(lh_wire_type wire, const float *values, uint32_t rows, uint32_t columns, uint8_t *bytes) {
    if (wire == LH_WIRE_F16) {
        return encode_f16(values, rows, columns, bytes);
    }
    memcpy(bytes, values, (size_t)rows * columns * sizeof(float));
    return all_finite(values, (size_t)rows * columns);
}

bool lh_wire_decode(lh_wire_type wire, const uint8_t *bytes, uint32_t rows, uint32_t columns, float *values) {
    if (wire == LH_WIRE_F16) {
        return decode_f16(bytes, rows, columns, values);
    }
    memcpy(values, bytes, (size_t)rows * columns * sizeof(float));
    return all_finite(values, (size_t)rows * columns);
}
