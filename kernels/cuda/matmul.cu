/* Matrix products: which kernel computes one. */
#include "kernels/cuda/products.cuh"

#include <cassert>

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
    for (lh_joined_product &joined : a.joined)
        joined.first = UINT32_MAX;
    return a;
}

/* ---- Products of the same rows ---- */

/* Whether the kernel for so many rows takes several products. */
static bool takes_several(const lh_product_arguments &a) {
    return a.parts == 0 || a.rows <= LH_JOINED_ROWS;
}

/* False: the launch is full. */
static bool join(lh_product_arguments *a, const lh_cuda_product *product) {
    for (lh_joined_product &joined : a->joined)
        if (joined.first == UINT32_MAX) {
            joined = {
                (const uint8_t *)product->w.data,           product->y,   product->y_stride,
                a->experts.scale ? product->bias : nullptr, product->out, lh_tiles_of_all(*a)};
            return true;
        }
    return false;
}

static int launch(lh_cuda_stream stream, const lh_product_arguments &a, lh_dtype dtype) {
    if (a.parts == 0)
        return lh_float_products(stream, dtype, a);
    if (a.rows == 1)
        return lh_row_products(stream, dtype, a);
    return a.rows <= LH_BATCH_ROWS ? lh_batch_products(stream, dtype, a)
                                   : lh_tile_products(stream, dtype, a);
}

int lh_cuda_products(lh_cuda_stream stream, const lh_cuda_product *products, uint32_t count,
                     const lh_activations *x, lh_span in, bool continues, const float *scale) {
    assert(count <= LH_CUDA_PRODUCTS_MAX);
    if (x->rows == 0 || lh_is_empty(in))
        return 0;
    bool is_asked[LH_CUDA_PRODUCTS_MAX];
    for (uint32_t i = 0; i < count; i++)
        is_asked[i] = lh_is_empty(products[i].out);
    int error = 0;
    for (uint32_t i = 0; i < count && error == 0; i++) {
        const lh_cuda_product *first = &products[i];
        if (is_asked[i])
            continue;
        lh_product_arguments a =
            arguments_of(first->y, first->y_stride, x, &first->w, in, first->out, continues);
        a.experts.scale = scale;
        a.experts.biases = scale ? first->bias : nullptr;
        for (uint32_t j = i + 1; j < count && takes_several(a); j++)
            if (!is_asked[j] && products[j].w.dtype == first->w.dtype)
                is_asked[j] = join(&a, &products[j]);
        error = launch(stream, a, first->w.dtype);
    }
    return error;
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
