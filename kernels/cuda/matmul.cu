/* Matrix products: which kernel computes one. */
#include "kernels/cuda/products.cuh"

static lh_product_arguments arguments_of(float *y, size_t y_stride, const lh_activations *x,
                                         const lh_matrix *w, lh_span in, lh_span out,
                                         bool continues) {
    lh_product_arguments a = {};
    a.y = y;
    a.y_stride = y_stride;
    a.x = x->data;
    a.rows = x->rows;
    a.width = x->width;
    a.parts = x->kind == LH_ACTIVATION_F32 ? 0 : lh_activations_parts(x->kind);
    a.w = lh_weights_of(w);
    a.in = in;
    a.out = out;
    a.continues = continues;
    return a;
}

int lh_cuda_matmul(lh_cuda_stream stream, float *y, size_t y_stride, const lh_activations *x,
                   const lh_matrix *w, lh_span in, lh_span out, bool continues) {
    if (x->rows == 0 || lh_is_empty(in) || lh_is_empty(out))
        return 0;
    const lh_product_arguments a = arguments_of(y, y_stride, x, w, in, out, continues);
    if (a.parts == 0)
        return lh_float_products(stream, w->dtype, a);
    if (x->rows == 1)
        return lh_row_products(stream, w->dtype, a);
    if (x->rows <= LH_BATCH_ROWS)
        return lh_batch_products(stream, w->dtype, a);
    return lh_tile_products(stream, w->dtype, a);
}

/* Of groups or heads. */
static int multiply_groups(lh_cuda_stream stream, const lh_product_arguments &a, lh_dtype dtype) {
    return a.parts == 0 ? lh_float_products(stream, dtype, a) : lh_batch_products(stream, dtype, a);
}

int lh_cuda_head_products(lh_cuda_stream stream, float *y, size_t y_stride, size_t y_head_stride,
                          const lh_activations *x, const lh_matrix *first, size_t bytes,
                          uint32_t heads) {
    if (x->rows == 0)
        return 0;
    lh_product_arguments a =
        arguments_of(y, y_stride, x, first, {0, first->inputs}, {0, first->outputs}, false);
    a.rows = x->rows / heads;
    a.experts.heads = heads;
    a.experts.bytes = bytes;
    a.experts.y_apart = (ptrdiff_t)y_head_stride - (ptrdiff_t)(a.rows * y_stride);
    return multiply_groups(stream, a, first->dtype);
}

/* ---- Experts ---- */

/* `rows` bounds what a group may have. */
static lh_product_arguments expert_arguments_of(float *y, size_t y_stride, const lh_activations *x,
                                                const lh_cuda_expert_matrices *w, lh_span out,
                                                bool continues, uint32_t rows) {
    lh_product_arguments a =
        arguments_of(y, y_stride, x, &w->first, {0, w->first.inputs}, out, continues);
    a.rows = rows;
    a.experts.bytes = w->bytes;
    a.experts.biases = w->biases;
    a.experts.width = w->first.outputs;
    return a;
}

int lh_cuda_expert_products(lh_cuda_stream stream, float *y, size_t y_stride,
                            const lh_activations *x, const lh_cuda_expert_matrices *w,
                            const lh_cuda_experts *experts, const lh_cuda_routing *routing,
                            uint32_t rows) {
    if (rows == 0)
        return 0;
    lh_product_arguments a =
        expert_arguments_of(y, y_stride, x, w, {0, w->first.outputs}, false, rows);
    a.experts.groups = experts->groups;
    a.experts.group_count = lh_cuda_expert_groups(routing->experts, rows * routing->used);
    a.experts.x_rows = experts->rows;
    a.experts.scale = experts->slot_scale;
    return multiply_groups(stream, a, w->first.dtype);
}

/* The n-th experts of all rows. */
static int sum_nth(lh_cuda_stream stream, lh_product_arguments a, lh_dtype dtype,
                   const lh_cuda_experts *experts, const lh_cuda_routing *routing, uint32_t rows,
                   uint32_t n) {
    a.experts.group_count = lh_cuda_expert_groups(routing->experts, rows);
    a.experts.groups = experts->nth_groups + (size_t)n * a.experts.group_count;
    a.experts.x_rows = experts->nth_slots;
    a.experts.y_rows = experts->nth_rows;
    a.experts.shares = experts->nth_shares;
    return multiply_groups(stream, a, dtype);
}

int lh_cuda_expert_sum(lh_cuda_stream stream, float *h, size_t h_stride, const lh_activations *x,
                       const lh_cuda_expert_matrices *w, lh_span out,
                       const lh_cuda_experts *experts, const lh_cuda_routing *routing,
                       uint32_t rows) {
    if (rows == 0 || lh_is_empty(out))
        return 0;
    const lh_product_arguments a = expert_arguments_of(h, h_stride, x, w, out, true, rows);
    if (a.parts > 0 && rows <= LH_CUDA_EXPERT_SUM_ROWS)
        return lh_expert_row_products(
            stream, w->first.dtype, a,
            {experts->chosen, experts->slots, experts->shares, rows, routing->used});
    int error = 0;
    for (uint32_t n = 0; n < routing->used && !error; n++)
        error = sum_nth(stream, a, w->first.dtype, experts, routing, rows, n);
    return error;
}
