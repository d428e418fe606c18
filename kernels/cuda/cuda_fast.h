/* Products by cuBLAS, on tensor cores: what --gpu-math fast asks for. NOT the bits of kernels.h.
 *
 * The numeric contract: weights and activations are each rounded once to the type of the product,
 * sums are kept in float, in an order that cuBLAS chooses. So for all outputs y
 *
 *     |y - exact| <= (e + inputs * 2^-23) * (the sum of |weight * activation|, and of |y before|)
 *
 *     weights     type of the product                          e
 *     F16         F16; each row of activations first times     2^-11
 *                 a power of two that brings its greatest
 *                 to [2^14, 2^15), so that none overflows
 *     BF16        BF16                                         2^-9
 *     F32         TF32 (before 8.0: F32), which may be cut     2^-9
 *     quantized   F16; the activations are those of Q8 or      2^-10
 *                 Q16, which were rounded before
 *
 * where no number is subnormal in F16: a weight below 2^-14, or an activation below 2^-28 of its
 * row's greatest, is rounded by up to 2^-25, or 2^-39 of that. Two GPUs, two versions of cuBLAS, or
 * two numbers of rows may give different bits; the same product asked for twice of one GPU gives
 * the same.
 *
 * Experts, and the matrices that latent attention has for each head, stay with cuda_kernels.h,
 * exact: how many rows an expert has, the GPU alone knows, and no call of cuBLAS takes sizes from
 * there.
 *
 * cuBLAS is opened at run time. Nothing here needs it but open. */
#pragma once

#include "common/base/status.h"
#include "kernels/cuda/cuda_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* cuBLAS on one stream, with memory of its own for what it multiplies. */
typedef struct lh_cuda_fast lh_cuda_fast;

/* Error numbers from here on are cuBLAS's, with its own added. */
#define LH_CUDA_BLAS_ERRORS 100000
/* cuBLAS is not there, or lacks a function. */
#define LH_CUDA_NO_BLAS (LH_CUDA_BLAS_ERRORS - 1)

/* Bytes of the device's memory that one takes. */
size_t lh_cuda_fast_bytes(void);
/* On the device that the calling thread uses. library: a path, or "" for cuBLAS where the system
 * finds libraries. major: the device's compute capability. `why` is filled where the library cannot
 * be used: LH_CUDA_NO_BLAS. */
int lh_cuda_fast_open(lh_cuda_fast **fast, lh_cuda_stream stream, uint32_t major,
                      const char *library, char why[LH_ERROR_MESSAGE_BYTES]);
/* The stream is done. NULL is allowed. */
void lh_cuda_fast_close(lh_cuda_fast *fast);

/* As lh_cuda_products, on the stream it was opened for: each product by cuBLAS where that takes it,
 * the others exactly, with the bits of lh_cuda_products. It takes F32 and F16, from 8.0 on BF16,
 * and of quantized matrices products of many rows, LH_FAST_PLAIN_ROWS. */
int lh_cuda_fast_products(lh_cuda_fast *fast, const lh_cuda_product *products, uint32_t count,
                          const lh_activations *x, lh_span in, bool continues, const float *scale);

/* Rows from which on weights are first written to memory as plain rows of numbers, for one large
 * product: each weight is then written and read once more. With fewer rows, floats are multiplied
 * where they lie, 16 outputs at a time, which leaves most of a tensor core's tile empty, and
 * quantized weights exactly. Reckoned, to be measured on a card: with a quarter of a tensor core's
 * rate where 16 outputs stand for 64, one large product is sooner done from 170 rows on with an RTX
 * 4090, and from 260 with an H100. */
#ifndef LH_FAST_PLAIN_ROWS
#define LH_FAST_PLAIN_ROWS 256u
#endif

#ifdef __cplusplus
}
#endif
