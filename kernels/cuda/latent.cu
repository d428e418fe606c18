/* Attention over latent rows: all heads share one key and value a position, so that even a single
 * row makes tiles of queries. */
#include "kernels/cuda/attention_tiles.cuh"

static lh_attention_arguments arguments_of(float *y, size_t y_stride, const float *q,
                                           size_t q_stride, const lh_kv_shape *shape, uint32_t rank,
                                           uint32_t heads, const lh_cuda_attention_rows *rows,
                                           float scale) {
    lh_attention_arguments a =
        lh_attention_arguments_of(y, y_stride, q, q_stride, shape, rows, scale);
    a.group = heads;
    a.key_dim = shape->value_dim;
    a.value_dim = rank;
    return a;
}

static int attend(lh_cuda_stream stream, lh_kv_type type, const lh_attention_arguments &a) {
    return type == LH_KV_F32   ? lh_attend_tiles<LH_KV_F32, true>(stream, a)
           : type == LH_KV_F16 ? lh_attend_tiles<LH_KV_F16, true>(stream, a)
                               : lh_attend_tiles<LH_KV_Q8, true>(stream, a);
}

int lh_cuda_latent_attention(lh_cuda_stream stream, float *y, size_t y_stride, const float *q,
                             size_t q_stride, const lh_kv_shape *shape, uint32_t rank,
                             uint32_t heads, const lh_cuda_attention_rows *rows, float scale,
                             void *scratch) {
    if (rows->count == 0)
        return 0;
    lh_attention_arguments a =
        arguments_of(y, y_stride, q, q_stride, shape, rank, heads, rows, scale);
    size_t bytes;
    a.partials = lh_attention_partials_in(
        scratch, rows->count, heads, rank,
        lh_attention_blocks_at_most(rows->context, LH_ATTENTION_ALL), &bytes);
    const int error = attend(stream, shape->type, a);
    return error ? error : lh_attention_combine(stream, a);
}

int lh_cuda_latent_prompt_attention(lh_cuda_stream stream, float *y, size_t y_stride,
                                    const float *q, size_t q_stride, const lh_kv_shape *shape,
                                    uint32_t rank, uint32_t heads,
                                    const lh_cuda_attention_rows *rows, float scale) {
    if (rows->count == 0)
        return 0;
    return attend(stream, shape->type,
                  arguments_of(y, y_stride, q, q_stride, shape, rank, heads, rows, scale));
}
