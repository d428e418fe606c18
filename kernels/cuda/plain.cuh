/* Weights and activations as plain rows of numbers, as cuBLAS reads them. */
#pragma once

#include "kernels/cuda/products.cuh"

/* The type that numbers of a matrix have in plain rows: their own, or F16 where it is quantized. */
static inline lh_dtype lh_plain_type(lh_dtype dtype) {
    return dtype == LH_DTYPE_F32 || dtype == LH_DTYPE_BF16 ? dtype : LH_DTYPE_F16;
}

static inline uint32_t lh_plain_bytes(lh_dtype dtype) {
    return lh_plain_type(dtype) == LH_DTYPE_F32 ? 4 : 2;
}

/* to[outputs][stride], of lh_plain_type = the inputs `in` of the outputs `out` of a packed matrix,
 * rounded to nearest. out.begin is a multiple of 16, stride one of 4; what is behind the inputs is
 * anything. */
int lh_plain_weights(lh_cuda_stream stream, void *to, uint32_t stride, const lh_matrix *w,
                     lh_span in, lh_span out);

/* to[rows][stride], BF16 or F16 = the columns `in` of rows of activations, rounded likewise; in F16
 * they are first multiplied by down[row], a power of two that brings the row's greatest to
 * [2^14, 2^15), or to less where it is below 2^-26. up[row] is its inverse; both are 1 in BF16. */
int lh_plain_rows(lh_cuda_stream stream, void *to, lh_dtype type, uint32_t stride, float *down,
                  float *up, const lh_activations *x, lh_span rows, lh_span in);
