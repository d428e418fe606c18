/* RMSNorm where it is not deferred, on 16 lanes; an f32x16.h is included before this file.
 * kernels/reference/norms.c says in scalars what is done. */
#pragma once

#include "kernels/kernels.h"

#include <math.h>

LANES_INLINE float lanes_inverse_rms(const float *x, uint32_t count, float epsilon) {
    f32x16 sum = lanes_set(0);
    uint32_t i = 0;
    for (; i + 16 <= count; i += 16) {
        f32x16 v = lanes_load(x + i);
        sum = lanes_fma(v, v, sum);
    }
    f32x16 rest = lanes_load_part(x + i, count - i);
    return 1.0f / sqrtf(lanes_sum(lanes_fma(rest, rest, sum)) / (float)count + epsilon);
}

static void norm_head(float *v, uint32_t head_dim, const float *gain, float epsilon) {
    f32x16 scale = lanes_set(lanes_inverse_rms(v, head_dim, epsilon));
    uint32_t d = 0;
    for (; d + 16 <= head_dim; d += 16)
        lanes_store(v + d, lanes_mul(lanes_mul(lanes_load(v + d), scale), lanes_load(gain + d)));
    uint32_t rest = head_dim - d;
    f32x16 last = lanes_mul(lanes_load_part(v + d, rest), scale);
    lanes_store_part(v + d, lanes_mul(last, lanes_load_part(gain + d, rest)), rest);
}

static void kernel_norm_heads(float *x, size_t stride, uint32_t rows, uint32_t heads,
                              uint32_t head_dim, const float *gain, float epsilon) {
    for (uint32_t row = 0; row < rows; row++, x += stride)
        for (uint32_t head = 0; head < heads; head++)
            norm_head(x + (size_t)head * head_dim, head_dim, gain, epsilon);
}

static void kernel_norm_add(float *y, const float *x, size_t stride, uint32_t rows, uint32_t width,
                            const float *gain, float epsilon) {
    for (uint32_t row = 0; row < rows; row++, y += stride, x += stride) {
        f32x16 scale = lanes_set(lanes_inverse_rms(x, width, epsilon));
        uint32_t c = 0;
        for (; c + 16 <= width; c += 16) {
            f32x16 v = lanes_mul(lanes_load(x + c), lanes_load(gain + c));
            lanes_store(y + c, lanes_fma(v, scale, lanes_load(y + c)));
        }
        uint32_t rest = width - c;
        f32x16 v = lanes_mul(lanes_load_part(x + c, rest), lanes_load_part(gain + c, rest));
        lanes_store_part(y + c, lanes_fma(v, scale, lanes_load_part(y + c, rest)), rest);
    }
}
