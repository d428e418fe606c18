/* The values of a shard as they travel. F32 goes as it is. F16 goes as binary16, rounded to nearest even,
 * with one exponent for each row's block of 32 columns: x is stored as f16(x * 2^-e), where e is the smallest
 * number >= 0 for which the block's greatest |x| * 2^-e is at most 65504. So e is 0 for ordinary activations,
 * outliers lose no more than their block's share, and what arrives depends on the block alone, never on how a
 * step is cut into shards. Thread: any. */
#pragma once

#include "worker/api/step.h"

/* Bytes of values[rows][columns] in this type. No overflow within the limits of step.h. */
size_t lh_wire_bytes(lh_wire_type wire, uint32_t rows, uint32_t columns);

/* false: a value is not finite, or (F16) is over 65504 * 2^112; bytes are then undefined. */
bool lh_wire_encode(lh_wire_type wire, const float *values, uint32_t rows, uint32_t columns, uint8_t *bytes);

/* false: a value is not finite, or (F16) an exponent is over 112. values may not overlap bytes. */
bool lh_wire_decode(lh_wire_type wire, const uint8_t *bytes, uint32_t rows, uint32_t columns, float *values);
