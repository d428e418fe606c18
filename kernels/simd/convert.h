/* binary16 <-> binary32 on 16 lanes; an f32x16.h is included before this file. */
#pragma once

#include "kernels/kernels.h"

#include <string.h>

static void kernel_f32_from_f16(float *y, const uint16_t *x, size_t count) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        lanes_store(y + i, lanes_widen_f16(x + i));
    uint16_t rest[16] = {0};
    memcpy(rest, x + i, (count - i) * sizeof *rest);
    lanes_store_part(y + i, lanes_widen_f16(rest), count - i);
}

static void kernel_f16_from_f32(uint16_t *y, const float *x, size_t count) {
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        lanes_round_f16(y + i, lanes_load(x + i));
    uint16_t rest[16];
    lanes_round_f16(rest, lanes_load_part(x + i, count - i));
    memcpy(y + i, rest, (count - i) * sizeof *rest);
}
