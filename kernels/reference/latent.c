/* Attention over latent rows, one query at a time. */
#include "kernels/layout.h"
#include "kernels/reference/reference.h"

#include <assert.h>
#include <math.h>

/* For all instruction sets: the queries of a tile turned over, the sum of blocks and what one
 * gives, scores, 16 sums of them, and the rows of a page as floats. */
size_t lh_latent_scratch_bytes(uint32_t width, uint32_t rank) {
    size_t lines = 2 * ((size_t)width + rank) + LH_ATTENTION_BLOCK + LH_LANES, bytes;
    return __builtin_mul_overflow(lines, LH_LATENT_QUERIES * sizeof(float), &bytes) ? 0 : bytes;
}

/* What block `block` gives one query. p[LH_ATTENTION_BLOCK]. */
static void attend_block(float *partial, const float *q, const lh_kv_view *view, uint32_t rank,
                         uint32_t end, uint32_t block, float scale, float *p) {
    const lh_span keys = lh_attention_keys_in((lh_span){0, end}, block);
    for (uint32_t t = keys.begin; t < keys.end; t++) {
        float acc = 0;
        for (uint32_t d = 0; d < view->shape.value_dim; d++)
            acc = fmaf(q[d], lh_reference_value_number(view, 0, t, d), acc);
        p[t % LH_ATTENTION_BLOCK] = scale * acc;
    }
    lh_reference_weigh(partial, p, view, 0, keys, rank);
}

static void attend(float *y, const float *q, const lh_kv_view *view, uint32_t rank,
                   uint32_t position, float scale, float *scratch) {
    const lh_span blocks = lh_attention_blocks(position, LH_ATTENTION_ALL);
    float *sum = scratch, *next = sum + lh_attention_partial_floats(rank),
          *p = next + lh_attention_partial_floats(rank);
    attend_block(sum, q, view, rank, position + 1, 0, scale, p);
    for (uint32_t block = 1; block < blocks.end; block++) {
        attend_block(next, q, view, rank, position + 1, block, scale, p);
        lh_reference_join(sum, next, rank);
    }
    lh_reference_finish(y, sum, rank, NULL);
}

void lh_reference_latent_attention(float *y, size_t y_stride, const float *q, size_t q_stride,
                                   const lh_kv_view *view, uint32_t rank, uint32_t heads,
                                   uint32_t first, uint32_t rows, float scale, void *scratch) {
    assert(view->shape.kv_heads == 1 && rank <= view->shape.value_dim);
    for (uint32_t row = 0; row < rows; row++)
        for (uint32_t head = 0; head < heads; head++)
            attend(y + row * y_stride + (size_t)head * rank,
                   q + row * q_stride + (size_t)head * view->shape.value_dim, view, rank,
                   first + row, scale, scratch);
}

void lh_reference_latent_attention_blocks(float *partials, size_t stride, const float *q,
                                          const lh_kv_view *view, uint32_t rank, uint32_t heads,
                                          uint32_t position, float scale, lh_span blocks,
                                          void *scratch) {
    const size_t floats = lh_attention_partial_floats(rank);
    for (uint32_t block = blocks.begin; block < blocks.end; block++, partials += stride)
        for (uint32_t head = 0; head < heads; head++)
            attend_block(partials + head * floats, q + (size_t)head * view->shape.value_dim, view,
                         rank, position + 1, block, scale, scratch);
}
