/* The values of a shard as they travel (PROTOCOL.md has each type to the bit).
 *
 *   f32  as they are: 4 bytes a value, 2304 of a row of 576
 *   f16  binary16, with an exponent byte for each row's block of 32 columns: 1170
 *   q8   8-bit integers, with a 16-bit scale for each such block: 612
 *
 * What arrives depends on a value's block alone, never on how a step is cut into shards. Thread:
 * any. */
#pragma once

#include "common/protocol/step.h"

/* As CONTROL.md and the flags spell it. */
const char *lh_wire_name(lh_wire_type wire);

/* false: no type is called so, or has this number on the wire; *wire is as it was. */
bool lh_wire_parse(const char *name, lh_wire_type *wire);
bool lh_wire_from_number(uint32_t number, lh_wire_type *wire);

/* Bytes of values[rows][columns] in this type. No overflow within the limits of step.h. */
size_t lh_wire_bytes(lh_wire_type wire, uint32_t rows, uint32_t columns);

/* false: a value is not finite, or is too large for the type (over 65504 * 2^112 in f16, over 127 *
 * 255 * 2^113 in q8: both are more than 0.98 of the greatest float); bytes are then undefined. */
bool lh_wire_encode(lh_wire_type wire, const float *values, uint32_t rows, uint32_t columns,
                    uint8_t *bytes);

/* What lh_wire_encode gives for rows [first, first + count) of a shard, of which packed[rows] is
 * all that it gives. */
void lh_wire_cut_rows(lh_wire_type wire, const uint8_t *packed, uint32_t rows, uint32_t columns,
                      uint32_t first, uint32_t count, uint8_t *bytes);

/* false: a value is not finite, or an exponent or a scale is over the type's greatest. values may
 * not overlap bytes. */
bool lh_wire_decode(lh_wire_type wire, const uint8_t *bytes, uint32_t rows, uint32_t columns,
                    float *values);
