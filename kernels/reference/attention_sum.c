/* Attention's sums, for heads with keys of their own and for latent rows alike: what the keys of
 * one block give, and how a block is joined to those before it. */
#include "kernels/layout.h"
#include "kernels/reference/reference.h"

#include <math.h>
#include <string.h>

/* For all instruction sets: of each query of a tile its scores, what a block gives it, and the sum
 * of blocks. */
size_t lh_attention_scratch_bytes(uint32_t value_dim) {
    return LH_ATTENTION_QUERIES * sizeof(float) *
           (LH_ATTENTION_BLOCK + 2 * lh_attention_partial_floats(value_dim));
}

void lh_reference_weigh(float *partial, float *p, const lh_kv_view *view, uint32_t kv_head,
                        lh_span keys, uint32_t dims) {
    float lanes[LH_LANES] = {0}, *m = partial + lh_attention_partial_m(dims);
    *m = lh_reference_max(p + keys.begin % LH_ATTENTION_BLOCK, keys.end - keys.begin);
    memset(partial, 0, dims * sizeof *partial);
    for (uint32_t t = keys.begin; t < keys.end; t++) {
        float weight = lh_exp_f32(p[t % LH_ATTENTION_BLOCK] - *m);
        lanes[t % LH_LANES] += weight;
        for (uint32_t d = 0; d < dims; d++)
            partial[d] = fmaf(weight, lh_reference_value_number(view, kv_head, t, d), partial[d]);
    }
    m[1] = lh_reference_lane_sum(lanes);
}

void lh_reference_join(float *sum, const float *next, uint32_t dims) {
    const size_t m = lh_attention_partial_m(dims), z = m + 1;
    float greatest = next[m] > sum[m] ? next[m] : sum[m];
    float a = lh_exp_f32(sum[m] - greatest), c = lh_exp_f32(next[m] - greatest);
    for (uint32_t d = 0; d < dims; d++)
        sum[d] = fmaf(sum[d], a, next[d] * c);
    sum[m] = greatest;
    sum[z] = fmaf(sum[z], a, next[z] * c);
}

static void join_sink(float *sum, uint32_t dims, float sink) {
    const size_t m = lh_attention_partial_m(dims), z = m + 1;
    float greatest = sink > sum[m] ? sink : sum[m], a = lh_exp_f32(sum[m] - greatest);
    for (uint32_t d = 0; d < dims; d++)
        sum[d] *= a;
    sum[z] = fmaf(sum[z], a, lh_exp_f32(sink - greatest));
}

void lh_reference_finish(float *y, float *sum, uint32_t dims, const float *sink) {
    if (sink)
        join_sink(sum, dims, *sink);
    float inverse = 1.0f / sum[lh_attention_partial_m(dims) + 1];
    for (uint32_t d = 0; d < dims; d++)
        y[d] = sum[d] * inverse;
}

void lh_reference_attention_combine(float *y, float *partials, size_t stride, uint32_t count,
                                    uint32_t heads, uint32_t value_dim, const float *sinks) {
    const size_t floats = lh_attention_partial_floats(value_dim);
    for (uint32_t head = 0; head < heads; head++, y += value_dim, partials += floats) {
        for (uint32_t block = 1; block < count; block++)
            lh_reference_join(partials, partials + block * stride, value_dim);
        lh_reference_finish(y, partials, value_dim, sinks ? &sinks[head] : NULL);
    }
}
