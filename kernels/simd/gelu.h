/* The GELU gate on 16 lanes; an f32x16.h is included before this file. kernels/reference/gelu.c
 * says in scalars what is done. */
#pragma once

#include "kernels/gelu.h"
#include "kernels/kernels.h"
#include "kernels/simd/exp.h"

LANES_INLINE f32x16 lanes_gelu_mul(f32x16 v, f32x16 up) {
    f32x16 slope = lanes_fma(lanes_mul(v, v), lanes_set(LH_GELU_CUBIC), lanes_set(LH_GELU_LINEAR));
    f32x16 denominator = lanes_add(lanes_set(1.0f), lanes_exp(lanes_mul(v, slope)));
    return lanes_mul(lanes_div(v, denominator), up);
}

static void kernel_gelu_mul(float *y, const float *gate, const float *up, size_t stride,
                            uint32_t rows, lh_span columns) {
    for (uint32_t row = 0; row < rows; row++, y += stride, gate += stride, up += stride) {
        uint32_t c = columns.begin;
        for (; c + 16 <= columns.end; c += 16)
            lanes_store(y + c, lanes_gelu_mul(lanes_load(gate + c), lanes_load(up + c)));
        uint32_t rest = columns.end - c;
        lanes_store_part(
            y + c, lanes_gelu_mul(lanes_load_part(gate + c, rest), lanes_load_part(up + c, rest)),
            rest);
    }
}
