/* RMSNorm where it is not deferred: of the heads of q and k, and behind a branch. */
#include "kernels/reference/reference.h"

#include <math.h>

/* 1 / rms of x[count]. */
static float inverse_rms(const float *x, uint32_t count, float epsilon) {
    float lanes[LH_LANES] = {0}, scale;
    for (uint32_t i = 0; i < count; i++)
        lanes[i % LH_LANES] = fmaf(x[i], x[i], lanes[i % LH_LANES]);
    lh_reference_rms_scale(&scale, lanes, 1, count, epsilon);
    return scale;
}

void lh_reference_norm_heads(float *x, size_t stride, uint32_t rows, uint32_t heads,
                             uint32_t head_dim, const float *gain, float epsilon) {
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t head = 0; head < heads; head++) {
            float *v = x + row * stride + (size_t)head * head_dim;
            float scale = inverse_rms(v, head_dim, epsilon);
            for (uint32_t d = 0; d < head_dim; d++)
                v[d] = (v[d] * scale) * gain[d];
        }
}

void lh_reference_norm_add(float *y, const float *x, size_t stride, uint32_t rows, uint32_t width,
                           const float *gain, float epsilon) {
    for (uint32_t row = 0; row < rows; row++, y += stride, x += stride) {
        float scale = inverse_rms(x, width, epsilon);
        for (uint32_t c = 0; c < width; c++)
            y[c] = fmaf(x[c] * gain[c], scale, y[c]);
    }
}
