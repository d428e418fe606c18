/* Element-wise kernels on 16 lanes, compiled once for each instruction set that has an f32x16.h
 * (included before this file). kernels/reference/elementwise.c says in scalars what is done. */
#pragma once

#include "kernels/angles.h"
#include "kernels/gelu.h"
#include "kernels/kernels.h"
#include "kernels/simd/exp.h"

#include <math.h>

static void kernel_scale_rows(float *y, size_t stride, uint32_t rows, lh_span columns,
                              const float *scale) {
    for (uint32_t row = 0; row < rows; row++, y += stride) {
        f32x16 factor = lanes_set(scale[row]);
        uint32_t c = columns.begin;
        for (; c + 16 <= columns.end; c += 16)
            lanes_store(y + c, lanes_mul(lanes_load(y + c), factor));
        uint32_t rest = columns.end - c;
        lanes_store_part(y + c, lanes_mul(lanes_load_part(y + c, rest), factor), rest);
    }
}

static void kernel_scale_add_rows(float *y, size_t stride, uint32_t rows, lh_span columns,
                                  const float *scale, const float *bias) {
    for (uint32_t row = 0; row < rows; row++, y += stride) {
        f32x16 factor = lanes_set(scale[row]);
        uint32_t c = columns.begin;
        for (; c + 16 <= columns.end; c += 16)
            lanes_store(y + c, lanes_fma(lanes_load(y + c), factor, lanes_load(bias + c)));
        uint32_t rest = columns.end - c;
        f32x16 last =
            lanes_fma(lanes_load_part(y + c, rest), factor, lanes_load_part(bias + c, rest));
        lanes_store_part(y + c, last, rest);
    }
}

static void kernel_add_rows(float *y, size_t stride, uint32_t rows, lh_span columns,
                            const float *scale, const float *bias) {
    for (uint32_t row = 0; row < rows; row++, y += stride) {
        f32x16 factor = lanes_set(scale ? scale[row] : 1);
        uint32_t c = columns.begin;
        for (; c + 16 <= columns.end; c += 16)
            lanes_store(y + c, lanes_fma(factor, lanes_load(bias + c), lanes_load(y + c)));
        uint32_t rest = columns.end - c;
        f32x16 last =
            lanes_fma(factor, lanes_load_part(bias + c, rest), lanes_load_part(y + c, rest));
        lanes_store_part(y + c, last, rest);
    }
}

LANES_INLINE f32x16 lanes_silu_mul(f32x16 v, f32x16 up) {
    f32x16 denominator = lanes_add(lanes_set(1.0f), lanes_exp(lanes_sub(lanes_set(0.0f), v)));
    return lanes_mul(lanes_div(v, denominator), up);
}

LANES_INLINE f32x16 lanes_gelu_mul(f32x16 v, f32x16 up) {
    f32x16 slope = lanes_fma(lanes_mul(v, v), lanes_set(LH_GELU_CUBIC), lanes_set(LH_GELU_LINEAR));
    f32x16 denominator = lanes_add(lanes_set(1.0f), lanes_exp(lanes_mul(v, slope)));
    return lanes_mul(lanes_div(v, denominator), up);
}

LANES_INLINE f32x16 lanes_swiglu_mul(f32x16 v, f32x16 up) {
    f32x16 one = lanes_set(1.0f), limit = lanes_set(LH_SWIGLU_LIMIT);
    v = lanes_min(limit, v);
    up = lanes_max(lanes_set(-LH_SWIGLU_LIMIT), lanes_min(limit, up));
    f32x16 denominator = lanes_add(one, lanes_exp(lanes_mul(v, lanes_set(-LH_SWIGLU_ALPHA))));
    return lanes_mul(lanes_div(v, denominator), lanes_add(up, one));
}

/* gate_mul is a constant to the compiler, and inlined. */
LANES_INLINE void gate_rows(float *y, const float *gate, const float *up, size_t stride,
                            uint32_t rows, lh_span columns,
                            f32x16 (*const gate_mul)(f32x16, f32x16)) {
    for (uint32_t row = 0; row < rows; row++, y += stride, gate += stride, up += stride) {
        uint32_t c = columns.begin;
        for (; c + 16 <= columns.end; c += 16)
            lanes_store(y + c, gate_mul(lanes_load(gate + c), lanes_load(up + c)));
        uint32_t rest = columns.end - c;
        lanes_store_part(
            y + c, gate_mul(lanes_load_part(gate + c, rest), lanes_load_part(up + c, rest)), rest);
    }
}

static void kernel_silu_mul(float *y, const float *gate, const float *up, size_t stride,
                            uint32_t rows, lh_span columns) {
    gate_rows(y, gate, up, stride, rows, columns, lanes_silu_mul);
}

static void kernel_gelu_mul(float *y, const float *gate, const float *up, size_t stride,
                            uint32_t rows, lh_span columns) {
    gate_rows(y, gate, up, stride, rows, columns, lanes_gelu_mul);
}

static void kernel_swiglu_mul(float *y, const float *gate, const float *up, size_t stride,
                              uint32_t rows, lh_span columns) {
    gate_rows(y, gate, up, stride, rows, columns, lanes_swiglu_mul);
}

LANES_INLINE void rotate_one(float *a, float *b, float cosine, float sine) {
    float rotated = fmaf(*a, cosine, -(*b * sine));
    *b = fmaf(*a, sine, *b * cosine);
    *a = rotated;
}

/* Pairs (2i, 2i + 1) of one row: the angles of 8 pairs serve all heads. */
static void rope_interleaved(float *x, uint32_t heads, uint32_t head_dim, uint32_t half,
                             const float *cosine, const float *sine) {
    uint32_t i = 0;
    for (; i + 8 <= half; i += 8) {
        f32x16 cs = lanes_zip(cosine + i, sine + i), sc = lanes_zip(sine + i, cosine + i);
        for (uint32_t head = 0; head < heads; head++) {
            float *pairs = x + (size_t)head * head_dim + 2 * i;
            lanes_store(pairs, lanes_rotate(lanes_load(pairs), cs, sc));
        }
    }
    for (; i < half; i++)
        for (uint32_t head = 0; head < heads; head++) {
            float *pair = x + (size_t)head * head_dim + 2 * i;
            rotate_one(&pair[0], &pair[1], cosine[i], sine[i]);
        }
}

/* Pairs (i, i + half) of one row. */
static void rope_halves(float *x, uint32_t heads, uint32_t head_dim, uint32_t half,
                        const float *cosine, const float *sine) {
    for (uint32_t head = 0; head < heads; head++, x += head_dim) {
        uint32_t i = 0;
        for (; i + 16 <= half; i += 16) {
            f32x16 a = lanes_load(x + i), b = lanes_load(x + half + i);
            f32x16 c = lanes_load(cosine + i), s = lanes_load(sine + i);
            lanes_store(x + i, lanes_fms(a, c, lanes_mul(b, s)));
            lanes_store(x + half + i, lanes_fma(a, s, lanes_mul(b, c)));
        }
        for (; i < half; i++)
            rotate_one(&x[i], &x[i + half], cosine[i], sine[i]);
    }
}

static void kernel_rope(float *x, size_t stride, uint32_t rows, uint32_t heads, uint32_t head_dim,
                        uint32_t rotated, bool interleaved, const float *cosine,
                        const float *sine) {
    uint32_t half = rotated / 2;
    for (uint32_t row = 0; row < rows; row++, x += stride, cosine += half, sine += half)
        (interleaved ? rope_interleaved : rope_halves)(x, heads, head_dim, half, cosine, sine);
}

static void kernel_rope_angles(float *cosine, float *sine, const double *frequency, uint32_t half,
                               uint32_t position, double magnitude) {
    lh_angles(cosine, sine, frequency, half, position, magnitude);
}

static float kernel_exp_sum(float *y, const float *x, float shift, size_t count) {
    f32x16 sum = lanes_set(0), minus = lanes_set(shift);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        f32x16 e = lanes_exp(lanes_sub(lanes_load(x + i), minus));
        lanes_store(y + i, e);
        sum = lanes_add(sum, e);
    }
    f32x16 e = lanes_exp(lanes_sub(lanes_load_part(x + i, count - i), minus));
    lanes_store_part(y + i, e, count - i);
    /* lanes without an element add +0, which changes no sum of what is not negative */
    return lanes_sum(lanes_add(sum, lanes_select(e, count - i, lanes_set(0))));
}

static float kernel_max(const float *x, size_t count) {
    f32x16 greatest = lanes_set(x[0]);
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        greatest = lanes_max(greatest, lanes_load(x + i));
    f32x16 rest = lanes_select(lanes_load_part(x + i, count - i), count - i, greatest);
    return lanes_greatest(lanes_max(greatest, rest)) + 0.0f; /* -0 becomes +0 */
}
