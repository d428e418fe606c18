/* One block of a wire type (wire_type.h): 32 values of a row to bytes and back. Private to
 * wire_*.c.
 *
 * Loops run over a constant 32 and hold no branch, so that the compiler makes vectors of them;
 * every operation is an exact one or rounds once, to nearest even, unless said otherwise. Thread:
 * any. */
#pragma once

#include "common/protocol/step.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "numbers are copied as they lie in memory");

#define LH_WIRE_BLOCK LH_STEP_COLUMN_BLOCK

#define LH_F32_INFINITY_BITS          0x7f800000u
#define LH_F16_MAX_BITS               0x7bffu
#define LH_F16_MAX_AS_F32_BITS        0x477fe000u /* 65504 */
#define LH_F16_MIN_NORMAL_AS_F32_BITS 0x38800000u /* 2^-14 */

/* `values` bytes, value_bytes each, come first for a whole shard; then what each block needs
 * besides. A block that is cut short by the width is filled with zeros to encode it, and not all of
 * it is stored. */
typedef struct lh_wire_codec {
    const char *name;
    uint32_t value_bytes, block_bytes;
    /* false: a value is not finite or too large. The arrays do not overlap; bytes need not be
     * aligned. */
    bool (*encode)(const float *restrict values, uint8_t *restrict bytes, uint8_t *restrict block);
    /* false: a value would not be finite, or the block's number is over its bound. */
    bool (*decode)(const uint8_t *restrict bytes, const uint8_t *restrict block,
                   float *restrict values);
} lh_wire_codec;

extern const lh_wire_codec lh_wire_f16, lh_wire_q8;

static inline uint32_t lh_bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float lh_float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* The bits of the greatest magnitude; at least LH_F32_INFINITY_BITS when a value is not finite. */
static inline uint32_t lh_wire_greatest(const float values[LH_WIRE_BLOCK]) {
    int32_t greatest =
        0; /* signed: vectors compare so in every instruction set, and no magnitude is negative */
    for (uint32_t i = 0; i < LH_WIRE_BLOCK; i++) {
        int32_t magnitude = (int32_t)(lh_bits_of(values[i]) & 0x7fffffffu);
        greatest = magnitude > greatest ? magnitude : greatest;
    }
    return (uint32_t)greatest;
}
