/* The functions of cuBLAS that kernels/cuda/blas.cuh names, on a machine without a GPU: the library
 * that is opened for cuBLAS may be the one that this is in.
 *
 * A product is what the numbers that it is given say, as cuBLAS reads them: matrices by columns,
 * inputs that are F16, BF16, or of F32 the 10 bits of TF32, sums in float; of what the first matrix
 * must not reach beyond its memory, nor the product. Nothing that is read beyond an allocation goes
 * unseen, and what cuBLAS would refuse is refused. */
#include "kernels/cuda/blas.cuh"
#include "kernels/cuda/instructions.cuh"

#include <vector>

enum { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };

struct cublasContext {
    cudaStream_t stream;
};

namespace {

struct matrix {
    const char *data;
    int type;
    size_t rows, columns, stride, apart, count;
};

size_t bytes_of(int type) {
    return type == LH_BLAS_F32 ? 4 : 2;
}

float number(const matrix &m, size_t nth, size_t row, size_t column) {
    const char *at = m.data + bytes_of(m.type) * (nth * m.apart + column * m.stride + row);
    uint32_t bits = 0;
    memcpy(&bits, at, bytes_of(m.type));
    if (m.type == LH_BLAS_F16)
        return lh_widen_f16(static_cast<uint16_t>(bits));
    return __uint_as_float(m.type == LH_BLAS_BF16 ? bits << 16 : bits & ~0x1fffu);
}

void check_memory(const matrix &m) {
    const size_t numbers = (m.count - 1) * m.apart + (m.columns - 1) * m.stride + m.rows;
    emulation::check(emulation::is_allocated(m.data, numbers * bytes_of(m.type)),
                     "cuBLAS reaches beyond memory that was allocated for it");
}

/* c = a b + beta c. */
void multiply(const matrix &a, bool is_transposed, const matrix &b, float beta, const matrix &c) {
    check_memory(a);
    check_memory(b);
    check_memory(c);
    const size_t inputs = b.rows;
    std::vector<float> right(inputs);
    for (size_t nth = 0; nth < c.count; nth++)
        for (size_t column = 0; column < c.columns; column++) {
            for (size_t k = 0; k < inputs; k++)
                right[k] = number(b, nth, k, column);
            for (size_t row = 0; row < c.rows; row++) {
                float sum = 0.0f;
                for (size_t k = 0; k < inputs; k++)
                    sum += right[k] *
                           (is_transposed ? number(a, nth, k, row) : number(a, nth, row, k));
                char *to =
                    const_cast<char *>(c.data) + 4 * (nth * c.apart + column * c.stride + row);
                float before = 0.0f;
                if (beta != 0.0f)
                    memcpy(&before, to, 4);
                sum += beta * before;
                memcpy(to, &sum, 4);
            }
        }
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int cublasCreate_v2(lh_blas_handle *handle) {
    *handle = new cublasContext{nullptr};
    return SUCCESS;
}

EXPORTED int cublasDestroy_v2(lh_blas_handle handle) {
    delete handle;
    return SUCCESS;
}

EXPORTED int cublasSetStream_v2(lh_blas_handle handle, lh_cuda_stream stream) {
    handle->stream = stream;
    return SUCCESS;
}

EXPORTED int cublasSetWorkspace_v2(lh_blas_handle, void *workspace, size_t bytes) {
    const bool is_aligned = reinterpret_cast<uintptr_t>(workspace) % 256 == 0;
    return is_aligned && emulation::is_allocated(workspace, bytes) ? SUCCESS : INVALID_VALUE;
}

EXPORTED int cublasGemmStridedBatchedEx(lh_blas_handle handle, int a_operation, int b_operation,
                                        int m, int n, int k, const void *alpha, const void *a,
                                        int a_type, int lda, long long a_stride, const void *b,
                                        int b_type, int ldb, long long b_stride, const void *beta,
                                        void *c, int c_type, int ldc, long long c_stride, int count,
                                        int compute, int algorithm) {
    const bool is_transposed = a_operation == LH_BLAS_TRANSPOSED;
    const int compute_wanted = a_type == LH_BLAS_F32 ? LH_BLAS_COMPUTE_TF32 : LH_BLAS_COMPUTE_F32;
    if (!handle)
        return NOT_INITIALIZED;
    if (m <= 0 || n <= 0 || k <= 0 || count <= 0 || lda < (is_transposed ? k : m) || ldb < k ||
        ldc < m || b_operation != LH_BLAS_AS_IT_IS)
        return INVALID_VALUE;
    if (a_type != b_type || c_type != LH_BLAS_F32 || compute != compute_wanted ||
        algorithm != LH_BLAS_ANY_ALGORITHM || *static_cast<const float *>(alpha) != 1.0f)
        return NOT_SUPPORTED;
    const size_t outputs = static_cast<size_t>(m), rows = static_cast<size_t>(n),
                 inputs = static_cast<size_t>(k), products = static_cast<size_t>(count);
    const matrix left = {static_cast<const char *>(a),
                         a_type,
                         is_transposed ? inputs : outputs,
                         is_transposed ? outputs : inputs,
                         static_cast<size_t>(lda),
                         static_cast<size_t>(a_stride),
                         products};
    const matrix right = {
        static_cast<const char *>(b),  b_type,  inputs, rows, static_cast<size_t>(ldb),
        static_cast<size_t>(b_stride), products};
    const matrix result = {
        static_cast<char *>(c),        c_type,  outputs, rows, static_cast<size_t>(ldc),
        static_cast<size_t>(c_stride), products};
    const float scale = *static_cast<const float *>(beta);
    emulation::enqueue(handle->stream,
                       [=] { multiply(left, is_transposed, right, scale, result); });
    return SUCCESS;
}
