/* Causal attention over the KV pages, one query at a time. */
#include "kernels/layout.h"
#include "kernels/reference/reference.h"

#include <assert.h>
#include <math.h>

static float score(const float *q, const lh_kv_view *view, uint32_t kv_head, uint32_t t,
                   float scale) {
    float acc = 0;
    for (uint32_t d = 0; d < view->shape.key_dim; d++)
        acc = fmaf(q[d], lh_reference_key_number(view, kv_head, t, d), acc);
    return scale * acc;
}

/* What block `block` gives one query. p[LH_ATTENTION_BLOCK]. */
static void attend_block(float *partial, const float *q, const lh_kv_view *view, uint32_t kv_head,
                         lh_span keys, uint32_t block, float scale, float *p) {
    keys = lh_attention_keys_in(keys, block);
    for (uint32_t t = keys.begin; t < keys.end; t++)
        p[t % LH_ATTENTION_BLOCK] = score(q, view, kv_head, t, scale);
    lh_reference_weigh(partial, p, view, kv_head, keys, view->shape.value_dim);
}

static void attend(float *y, const float *q, const lh_kv_view *view, uint32_t kv_head,
                   uint32_t position, uint32_t window, float scale, const float *sink,
                   float *scratch) {
    const lh_span blocks = lh_attention_blocks(position, window),
                  keys = lh_attention_keys(position, window);
    const uint32_t dim = view->shape.value_dim;
    float *sum = scratch, *next = sum + lh_attention_partial_floats(dim),
          *p = next + lh_attention_partial_floats(dim);
    attend_block(sum, q, view, kv_head, keys, blocks.begin, scale, p);
    for (uint32_t block = blocks.begin + 1; block < blocks.end; block++) {
        attend_block(next, q, view, kv_head, keys, block, scale, p);
        lh_reference_join(sum, next, dim);
    }
    lh_reference_finish(y, sum, dim, sink);
}

void lh_reference_attention(float *y, size_t y_stride, const float *q, size_t q_stride,
                            const lh_kv_view *view, uint32_t kv_head, uint32_t group,
                            uint32_t first, uint32_t rows, uint32_t window, float scale,
                            const float *sinks, void *scratch) {
    assert(kv_head < view->shape.kv_heads && window > 0);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t head = 0; head < group; head++)
            attend(y + row * y_stride + (size_t)head * view->shape.value_dim,
                   q + row * q_stride + (size_t)head * view->shape.key_dim, view, kv_head,
                   first + row, window, scale, sinks ? &sinks[head] : NULL, scratch);
}

void lh_reference_attention_blocks(float *partials, size_t stride, const float *q,
                                   const lh_kv_view *view, uint32_t kv_head, uint32_t group,
                                   uint32_t position, uint32_t window, float scale, lh_span blocks,
                                   void *scratch) {
    const lh_span keys = lh_attention_keys(position, window);
    const size_t floats = lh_attention_partial_floats(view->shape.value_dim);
    for (uint32_t block = blocks.begin; block < blocks.end; block++, partials += stride)
        for (uint32_t head = 0; head < group; head++)
            attend_block(partials + head * floats, q + (size_t)head * view->shape.key_dim, view,
                         kv_head, keys, block, scale, scratch);
}
