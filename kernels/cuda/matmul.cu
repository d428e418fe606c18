/* Matrix products: which kernel computes one. */
#include "kernels/cuda/products.cuh"

int lh_cuda_matmul(lh_cuda_stream stream, float *y, size_t y_stride, const lh_activations *x,
                   const lh_matrix *w, lh_span in, lh_span out, bool continues) {
    if (x->rows == 0 || lh_is_empty(in) || lh_is_empty(out))
        return 0;
    const bool is_float = x->kind == LH_ACTIVATION_F32;
    const lh_product_arguments a = {y,
                                    y_stride,
                                    x->data,
                                    x->rows,
                                    x->width,
                                    is_float ? 0 : lh_activations_parts(x->kind),
                                    lh_weights_of(w),
                                    in,
                                    out,
                                    continues};
    if (is_float)
        return lh_float_products(stream, w->dtype, a);
    if (x->rows <= LH_FEW_ROWS)
        return lh_row_products(stream, w->dtype, a);
    return lh_tile_products(stream, w->dtype, a);
}
