/* The GELU gate. */
#include "kernels/gelu.h"
#include "kernels/reference/reference.h"

#include <math.h>

static float gelu(float v) {
    float slope = fmaf(v * v, LH_GELU_CUBIC, LH_GELU_LINEAR);
    return v / (1.0f + lh_exp_f32(v * slope));
}

void lh_reference_gelu_mul(float *y, const float *gate, const float *up, size_t stride,
                           uint32_t rows, lh_span columns) {
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t c = columns.begin; c < columns.end; c++)
            y[row * stride + c] = gelu(gate[row * stride + c]) * up[row * stride + c];
}
