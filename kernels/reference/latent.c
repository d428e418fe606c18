/* Attention over latent rows, one query at a time. */
#include "kernels/layout.h"
#include "kernels/reference/reference.h"

#include <assert.h>
#include <math.h>

/* For all instruction sets: the queries of a tile turned over, their scores, 16 sums of each, and
 * the rows of a page as floats. */
size_t lh_latent_scratch_bytes(uint32_t width, uint32_t context) {
    size_t lines = 2 * (size_t)width + lh_attention_score_stride(context) + LH_LANES, bytes;
    return __builtin_mul_overflow(lines, LH_LATENT_QUERIES * sizeof(float), &bytes) ? 0 : bytes;
}

static void attend(float *y, const float *q, const lh_kv_view *view, uint32_t rank, uint32_t end,
                   float scale, float *p) {
    for (uint32_t t = 0; t < end; t++) {
        float acc = 0;
        for (uint32_t d = 0; d < view->shape.value_dim; d++)
            acc = fmaf(q[d], lh_reference_value_number(view, 0, t, d), acc);
        p[t] = scale * acc;
    }
    float inverse = 1.0f / lh_reference_exp_sum(p, p, lh_reference_max(p, end), end);
    for (uint32_t d = 0; d < rank; d++) {
        float acc = 0;
        for (uint32_t t = 0; t < end; t++)
            acc = fmaf(p[t], lh_reference_value_number(view, 0, t, d), acc);
        y[d] = acc * inverse;
    }
}

void lh_reference_latent_attention(float *y, size_t y_stride, const float *q, size_t q_stride,
                                   const lh_kv_view *view, uint32_t rank, uint32_t heads,
                                   uint32_t first, uint32_t rows, float scale, void *scratch) {
    assert(view->shape.kv_heads == 1 && rank <= view->shape.value_dim);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t head = 0; head < heads; head++)
            attend(y + row * y_stride + (size_t)head * rank,
                   q + row * q_stride + (size_t)head * view->shape.value_dim, view, rank,
                   first + row + 1, scale, scratch);
}
