/* What works on each element or pair alone, and the reductions by lanes. */
#include "kernels/gelu.h"
#include "kernels/kernels.h"
#include "kernels/reference/reference.h"

#include <math.h>

void lh_reference_scale_rows(float *y, size_t stride, uint32_t rows, lh_span columns,
                             const float *scale) {
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t c = columns.begin; c < columns.end; c++)
            y[row * stride + c] = y[row * stride + c] * scale[row];
}

void lh_reference_scale_add_rows(float *y, size_t stride, uint32_t rows, lh_span columns,
                                 const float *scale, const float *bias) {
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t c = columns.begin; c < columns.end; c++)
            y[row * stride + c] = fmaf(y[row * stride + c], scale[row], bias[c]);
}

void lh_reference_add_rows(float *y, size_t stride, uint32_t rows, lh_span columns,
                           const float *scale, const float *bias) {
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t c = columns.begin; c < columns.end; c++)
            y[row * stride + c] = fmaf(scale ? scale[row] : 1, bias[c], y[row * stride + c]);
}

static float silu(float v) {
    return v / (1.0f + lh_exp_f32(-v));
}

static float gelu(float v) {
    float slope = fmaf(v * v, LH_GELU_CUBIC, LH_GELU_LINEAR);
    return v / (1.0f + lh_exp_f32(v * slope));
}

static inline void gate_rows(float *y, const float *gate, const float *up, size_t stride,
                             uint32_t rows, lh_span columns, float (*function)(float)) {
    for (uint32_t row = 0; row < rows; row++, y += stride, gate += stride, up += stride)
        for (uint32_t c = columns.begin; c < columns.end; c++)
            y[c] = function(gate[c]) * up[c];
}

void lh_reference_silu_mul(float *y, const float *gate, const float *up, size_t stride,
                           uint32_t rows, lh_span columns) {
    gate_rows(y, gate, up, stride, rows, columns, silu);
}

void lh_reference_gelu_mul(float *y, const float *gate, const float *up, size_t stride,
                           uint32_t rows, lh_span columns) {
    gate_rows(y, gate, up, stride, rows, columns, gelu);
}

/* What is no number stays none. */
static float at_most(float v, float limit) {
    return v > limit ? limit : v;
}

void lh_reference_swiglu_mul(float *y, const float *gate, const float *up, size_t stride,
                             uint32_t rows, lh_span columns) {
    for (uint32_t row = 0; row < rows; row++, y += stride, gate += stride, up += stride)
        for (uint32_t c = columns.begin; c < columns.end; c++) {
            float g = at_most(gate[c], LH_SWIGLU_LIMIT),
                  u = -at_most(-at_most(up[c], LH_SWIGLU_LIMIT), LH_SWIGLU_LIMIT);
            y[c] = g / (1.0f + lh_exp_f32(g * -LH_SWIGLU_ALPHA)) * (u + 1.0f);
        }
}

static void rotate(float *a, float *b, float cosine, float sine) {
    float rotated_a = fmaf(*a, cosine, -(*b * sine));
    *b = fmaf(*a, sine, *b * cosine);
    *a = rotated_a;
}

void lh_reference_rope(float *x, size_t stride, uint32_t rows, uint32_t heads, uint32_t head_dim,
                       uint32_t rotated, bool interleaved, const float *cosine, const float *sine) {
    uint32_t half = rotated / 2;
    for (uint32_t row = 0; row < rows; row++, x += stride, cosine += half, sine += half)
        for (uint32_t head = 0; head < heads; head++) {
            float *v = x + (size_t)head * head_dim;
            for (uint32_t i = 0; i < half; i++)
                if (interleaved)
                    rotate(&v[2 * i], &v[2 * i + 1], cosine[i], sine[i]);
                else
                    rotate(&v[i], &v[i + half], cosine[i], sine[i]);
        }
}

float lh_reference_lane_sum(const float lanes[LH_LANES]) {
    float s[LH_LANES / 2];
    for (uint32_t j = 0; j < 8; j++)
        s[j] = lanes[j] + lanes[j + 8];
    for (uint32_t width = 4; width >= 2; width /= 2)
        for (uint32_t j = 0; j < width; j++)
            s[j] += s[j + width];
    return s[0] + s[1];
}

float lh_reference_exp_sum(float *y, const float *x, float shift, size_t count) {
    float lanes[LH_LANES] = {0};
    for (size_t i = 0; i < count; i++) {
        y[i] = lh_exp_f32(x[i] - shift);
        lanes[i % LH_LANES] += y[i];
    }
    return lh_reference_lane_sum(lanes);
}

float lh_reference_max(const float *x, size_t count) {
    float greatest = x[0];
    for (size_t i = 1; i < count; i++)
        greatest = x[i] > greatest ? x[i] : greatest;
    return greatest + 0.0f; /* -0 becomes +0: which zero came first must not matter */
}
