/* Matrix products: each output is one chain over its inputs, continued span by span. */
#include "kernels/layout.h"
#include "kernels/reference/reference.h"

#include <assert.h>
#include <math.h>

static void multiply_floats(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                            lh_span in, uint32_t output) {
    float weights[LH_SPAN_COLUMNS];
    for (uint32_t begin = in.begin; begin < in.end; begin += LH_SPAN_COLUMNS) {
        uint32_t count = in.end - begin < LH_SPAN_COLUMNS ? in.end - begin : LH_SPAN_COLUMNS;
        lh_reference_weights(weights, w, output, (lh_span){begin, begin + count});
        for (uint32_t row = 0; row < x->rows; row++) {
            const float *values = lh_activations_value(x, row, begin);
            float acc = y[row * y_stride + output];
            for (uint32_t k = 0; k < count; k++)
                acc = fmaf(weights[k], values[k], acc);
            y[row * y_stride + output] = acc;
        }
    }
}

static float multiply_block(float acc, const lh_reference_block *w, const lh_q8_block *x,
                            lh_dtype dtype) {
    int32_t i = 0, j = 0;
    for (uint32_t k = 0; k < LH_BLOCK; k++) {
        uint32_t half = k / (LH_BLOCK / 2);
        i += w->scale[half] * w->q[k] * x->q[k];
        j += w->minimum[half] * x->q[k];
    }
    if (!lh_has_minimum(dtype))
        return fmaf((float)i, w->d * x->d, acc);
    return fmaf(fmaf((float)i, w->d, (float)j * w->m), x->d, acc);
}

static void multiply_quants(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                            lh_span in, uint32_t output) {
    for (uint32_t b = in.begin / LH_BLOCK; b < in.end / LH_BLOCK; b++) {
        lh_reference_block block;
        lh_reference_quants(&block, w, output, b);
        for (uint32_t row = 0; row < x->rows; row++) {
            float *acc = &y[row * y_stride + output];
            for (uint32_t part = 0; part < lh_activations_parts(x->kind); part++)
                *acc =
                    multiply_block(*acc, &block, lh_activations_block(x, row, b) + part, w->dtype);
        }
    }
}

void lh_reference_matmul(float *y, size_t y_stride, const lh_activations *x, const lh_matrix *w,
                         lh_span in, lh_span out, bool continues) {
    assert(x->kind == lh_activation_kind_for(w->dtype, x->kind) && x->width == w->inputs);
    assert(in.begin % LH_SPAN_COLUMNS == 0 && in.begin < in.end && in.end <= w->inputs);
    assert(in.end % LH_SPAN_COLUMNS == 0 || in.end == w->inputs);
    assert(out.begin % LH_LANES == 0 && out.end <= w->outputs);
    assert(out.end % LH_LANES == 0 || out.end == w->outputs);
    for (uint32_t output = out.begin; output < out.end; output++) {
        for (uint32_t row = 0; row < x->rows && !continues; row++)
            y[row * y_stride + output] = 0;
        if (x->kind != LH_ACTIVATION_F32)
            multiply_quants(y, y_stride, x, w, in, output);
        else
            multiply_floats(y, y_stride, x, w, in, output);
    }
}
