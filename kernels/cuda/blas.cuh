/* As much of cuBLAS as is used, opened at run time. It is declared here and not taken from
 * its own header, whose package has 0.4 GB that nobody else needs; names and numbers are those of
 * its binary interface since CUDA 11, which tests/cuda/test_cublas.py compares with header and
 * library where they are. */
#pragma once

extern "C" {
#include "common/base/status.h"
#include "kernels/cuda/cuda_kernels.h"

typedef struct cublasContext *lh_blas_handle;

/* cudaDataType, cublasOperation_t, cublasComputeType_t, cublasGemmAlgo_t */
enum { LH_BLAS_F32 = 0, LH_BLAS_F16 = 2, LH_BLAS_BF16 = 14 };
enum { LH_BLAS_AS_IT_IS = 0, LH_BLAS_TRANSPOSED = 1 };
enum { LH_BLAS_COMPUTE_F32 = 68, LH_BLAS_COMPUTE_TF32 = 77 };
enum { LH_BLAS_ANY_ALGORITHM = -1 };

/* X(member, name in the library, arguments) of functions that return a cublasStatus_t. */
#define LH_BLAS_FUNCTIONS(X)                                                                       \
    X(create, cublasCreate_v2, (lh_blas_handle *))                                                 \
    X(destroy, cublasDestroy_v2, (lh_blas_handle))                                                 \
    X(set_stream, cublasSetStream_v2, (lh_blas_handle, lh_cuda_stream))                            \
    X(set_workspace, cublasSetWorkspace_v2, (lh_blas_handle, void *, size_t))                      \
    X(multiply, cublasGemmStridedBatchedEx,                                                        \
      (lh_blas_handle, int a_operation, int b_operation, int m, int n, int k, const void *alpha,   \
       const void *a, int a_type, int lda, long long a_stride, const void *b, int b_type, int ldb, \
       long long b_stride, const void *beta, void *c, int c_type, int ldc, long long c_stride,     \
       int count, int compute, int algorithm))

typedef struct lh_blas {
#define X(member, name, arguments) int(*member) arguments;
    LH_BLAS_FUNCTIONS(X)
#undef X
} lh_blas;
}

/* Opens it; it stays open for good. False: `why` says what is missing. */
bool lh_blas_open(const char *library, lh_blas *blas, char why[LH_ERROR_MESSAGE_BYTES]);
