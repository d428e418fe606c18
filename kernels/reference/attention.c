/* The KV pages, and causal attention over them one query at a time. */
#include "kernels/layout.h"
#include "kernels/reference/reference.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void lh_reference_kv_store(const lh_kv_view *view, uint32_t first, uint32_t rows, const float *keys,
                           const float *values, size_t stride) {
    uint32_t dims = view->head_dim;
    for (uint32_t row = 0; row < rows; row++, keys += stride, values += stride)
        for (uint32_t head = 0; head < view->kv_heads; head++) {
            float *key = lh_kv_keys(view, head, first + row) + (first + row) % LH_LANES;
            for (uint32_t d = 0; d < dims; d++)
                key[(size_t)d * LH_LANES] = keys[(size_t)head * dims + d];
            memcpy(lh_kv_value(view, head, first + row), values + (size_t)head * dims,
                   dims * sizeof(float));
        }
}

size_t lh_attention_scratch_bytes(uint32_t rows, uint32_t group, uint32_t context) {
    uint64_t queries = (uint64_t)rows * group;
    if (queries > LH_ATTENTION_QUERIES)
        queries = LH_ATTENTION_QUERIES;
    return (size_t)queries * lh_attention_score_stride(context) * sizeof(float);
}

static float score(const float *q, const float *keys, uint32_t lane, uint32_t head_dim,
                   float scale) {
    float acc = 0;
    for (uint32_t d = 0; d < head_dim; d++)
        acc = fmaf(q[d], keys[d * LH_LANES + lane], acc);
    return scale * acc;
}

/* Scores p become their exponentials; returns 1 / z. */
static float softmax(float *p, size_t count, const float *sink) {
    float greatest = lh_reference_max(p, count);
    if (sink && *sink > greatest)
        greatest = *sink;
    float sum = lh_reference_exp_sum(p, p, greatest, count);
    return 1.0f / (sink ? sum + lh_exp_f32(*sink - greatest) : sum);
}

static void attend(float *y, const float *q, const lh_kv_view *view, uint32_t kv_head, lh_span keys,
                   float scale, const float *sink, float *p) {
    for (uint32_t t = keys.begin; t < keys.end; t++)
        p[t] = score(q, lh_kv_keys(view, kv_head, t), t % LH_LANES, view->head_dim, scale);
    float inverse = softmax(p + keys.begin, keys.end - keys.begin, sink);
    for (uint32_t d = 0; d < view->head_dim; d++) {
        float acc = 0;
        for (uint32_t t = keys.begin; t < keys.end; t++)
            acc = fmaf(p[t], lh_kv_value(view, kv_head, t)[d], acc);
        y[d] = acc * inverse;
    }
}

void lh_reference_attention(float *y, size_t y_stride, const float *q, size_t q_stride,
                            const lh_kv_view *view, uint32_t kv_head, uint32_t group,
                            uint32_t first, uint32_t rows, uint32_t window, float scale,
                            const float *sinks, void *scratch) {
    assert(kv_head < view->kv_heads && window > 0);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t head = kv_head * group; head < (kv_head + 1) * group; head++) {
            size_t column = (size_t)head * view->head_dim;
            attend(y + row * y_stride + column, q + row * q_stride + column, view, kv_head,
                   lh_attention_keys(first + row, window), scale,
                   sinks ? &sinks[head - kv_head * group] : NULL, scratch);
        }
}
