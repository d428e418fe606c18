/* cuBLAS sees columns where we have rows: y[rows][outputs] is its matrix of outputs x rows, and
 *
 *     y = W x      where W is plain[outputs][inputs], which it has to transpose,
 *                  or a tile of 16 outputs as it lies, one product for each tile: a batch
 *
 * All memory is there from the start, so that products can be recorded; what does not fit at once
 * goes in pieces of rows and of outputs. */
#include "kernels/cuda/blas.cuh"
#include "kernels/cuda/plain.cuh"

extern "C" {
#include "kernels/cuda/cuda_fast.h"
}

#include <cassert>
#include <cstdlib>

/* Plain weights at a time: an eighth of a layer of a 7B model. The emulation has less, so that its
 * tests come to several pieces. */
#ifndef LH_FAST_WEIGHT_BYTES
#define LH_FAST_WEIGHT_BYTES (64u << 20)
#endif
/* Plain activations at a time: 512 rows of 16,384. */
#ifndef LH_FAST_ROW_BYTES
#define LH_FAST_ROW_BYTES (16u << 20)
#endif

namespace {

/* What NVIDIA recommends for its largest GPUs. */
const size_t WORKSPACE_BYTES = 32u << 20;
const uint32_t ROWS_MAX = 4096;
/* Of plain rows: 16 bytes, which tensor cores' loads want. */
const uint32_t STRIDE_UNIT = 8;

} // namespace

struct lh_cuda_fast {
    lh_cuda_stream stream;
    bool has_bf16;
    lh_blas blas;
    lh_blas_handle handle;
    void *memory, *workspace, *weights, *rows;
    float *down, *up; /* [ROWS_MAX] */
};

namespace {

uint32_t stride_of(lh_span in) {
    return lh_blocks_for(in.end - in.begin, STRIDE_UNIT) * STRIDE_UNIT;
}

int told(int blas_status) {
    return blas_status == 0 ? 0 : LH_CUDA_BLAS_ERRORS + blas_status;
}

/* A product of some rows, of which x is known already. */
struct fast_product {
    float *y; /* the first of the rows */
    size_t y_stride;
    lh_dtype type; /* of numbers */
    const void *x; /* columns `in` alone */
    uint32_t x_stride, rows;
    const lh_matrix *w;
    lh_span in;
    bool continues;
};

/* One for each of `count` pieces of w, which lie w_apart numbers, and 16 outputs, apart. */
int multiply(const lh_cuda_fast *fast, const fast_product &p, const void *w, int w_operation,
             uint32_t w_stride, size_t w_apart, lh_span out, uint32_t outputs, uint32_t count) {
    const int type = p.type == LH_DTYPE_F32   ? LH_BLAS_F32
                     : p.type == LH_DTYPE_F16 ? LH_BLAS_F16
                                              : LH_BLAS_BF16;
    const int compute = type == LH_BLAS_F32 ? LH_BLAS_COMPUTE_TF32 : LH_BLAS_COMPUTE_F32;
    const float one = 1.0f, before = p.continues ? 1.0f : 0.0f;
    return told(fast->blas.multiply(fast->handle, w_operation, LH_BLAS_AS_IT_IS, (int)outputs,
                                    (int)p.rows, (int)(p.in.end - p.in.begin), &one, w, type,
                                    (int)w_stride, (long long)w_apart, p.x, type, (int)p.x_stride,
                                    0, &before, p.y + out.begin, LH_BLAS_F32, (int)p.y_stride,
                                    LH_LANES, (int)count, compute, LH_BLAS_ANY_ALGORITHM));
}

/* From where the weights lie. */
int multiply_tiles(const lh_cuda_fast *fast, const fast_product &p, lh_span out) {
    const lh_weights w = lh_weights_of(p.w);
    const uint32_t bytes = lh_plain_bytes(p.w->dtype), outputs = out.end - out.begin,
                   tiles = outputs / LH_LANES, rest = outputs % LH_LANES;
    const uint8_t *first = w.data + (size_t)(out.begin / LH_LANES) * w.tile_bytes +
                           (size_t)p.in.begin * LH_LANES * bytes;
    int error = 0;
    if (tiles > 0)
        error = multiply(fast, p, first, LH_BLAS_AS_IT_IS, LH_LANES, w.tile_bytes / bytes, out,
                         LH_LANES, tiles);
    if (rest > 0 && error == 0)
        error = multiply(fast, p, first + tiles * w.tile_bytes, LH_BLAS_AS_IT_IS, LH_LANES, 0,
                         {out.begin + tiles * LH_LANES, out.end}, rest, 1);
    return error;
}

/* Outputs whose plain weights there is room for. */
uint32_t outputs_at_once(const lh_matrix *w, lh_span in) {
    const size_t bytes = (size_t)stride_of(in) * lh_plain_bytes(w->dtype);
    return (uint32_t)(LH_FAST_WEIGHT_BYTES / bytes) / LH_LANES * LH_LANES;
}

int multiply_plain(const lh_cuda_fast *fast, const fast_product &p, lh_span out) {
    const uint32_t stride = stride_of(p.in), each = outputs_at_once(p.w, p.in);
    int error = 0;
    for (uint32_t begin = out.begin; begin < out.end && error == 0; begin += each) {
        const lh_span piece = {begin, out.end - begin < each ? out.end : begin + each};
        error = lh_plain_weights(fast->stream, fast->weights, stride, p.w, p.in, piece);
        if (error == 0)
            error = multiply(fast, p, fast->weights, LH_BLAS_TRANSPOSED, stride, 0, piece,
                             piece.end - piece.begin, 1);
    }
    return error;
}

int multiply_some(const lh_cuda_fast *fast, const fast_product &p, lh_span out, bool is_plain) {
    return is_plain ? multiply_plain(fast, p, out) : multiply_tiles(fast, p, out);
}

/* Activations are rounded to the type; what y had is scaled as they are, and all is scaled back. */
int multiply_rounded(const lh_cuda_fast *fast, fast_product p, const lh_activations *x,
                     lh_span rows, lh_span out, bool is_plain) {
    const bool is_scaled = p.type == LH_DTYPE_F16;
    p.x = fast->rows;
    p.x_stride = stride_of(p.in);
    int error = lh_plain_rows(fast->stream, fast->rows, p.type, p.x_stride, fast->down, fast->up, x,
                              rows, p.in);
    if (is_scaled && p.continues && error == 0)
        error = lh_cuda_scale_rows(fast->stream, p.y, p.y_stride, p.rows, out, fast->down);
    if (error == 0)
        error = multiply_some(fast, p, out, is_plain);
    if (is_scaled && error == 0)
        error = lh_cuda_scale_rows(fast->stream, p.y, p.y_stride, p.rows, out, fast->up);
    return error;
}

uint32_t rows_at_once(lh_span in) {
    const size_t rows = LH_FAST_ROW_BYTES / ((size_t)stride_of(in) * 2);
    return rows < ROWS_MAX ? (uint32_t)rows : ROWS_MAX;
}

/* Whether cuBLAS takes the product. */
bool takes(const lh_cuda_fast *fast, const lh_activations *x, const lh_matrix *w, lh_span in) {
    const bool is_plain = x->rows >= LH_FAST_PLAIN_ROWS;
    if (w->dtype == LH_DTYPE_BF16 && !fast->has_bf16)
        return false;
    if (x->kind != LH_ACTIVATION_F32 && !is_plain)
        return false;
    return rows_at_once(in) > 0 && (!is_plain || outputs_at_once(w, in) > 0);
}

/* ---- Open ---- */

int open_handle(lh_cuda_fast *fast) {
    int error = told(fast->blas.create(&fast->handle));
    if (error == 0)
        error = told(fast->blas.set_stream(fast->handle, fast->stream));
    if (error == 0) /* behind set_stream, which takes it away */
        error = told(fast->blas.set_workspace(fast->handle, fast->workspace, WORKSPACE_BYTES));
    return error;
}

int allocate(lh_cuda_fast *fast) {
    const int error = (int)cudaMalloc(&fast->memory, lh_cuda_fast_bytes());
    if (error == (int)cudaErrorMemoryAllocation)
        (void)cudaGetLastError();
    uint8_t *memory = (uint8_t *)fast->memory;
    fast->workspace = memory;
    fast->weights = memory + WORKSPACE_BYTES;
    fast->rows = memory + WORKSPACE_BYTES + LH_FAST_WEIGHT_BYTES;
    fast->down = (float *)(memory + WORKSPACE_BYTES + LH_FAST_WEIGHT_BYTES + LH_FAST_ROW_BYTES);
    fast->up = fast->down + ROWS_MAX;
    return error;
}

} // namespace

size_t lh_cuda_fast_bytes(void) {
    return WORKSPACE_BYTES + LH_FAST_WEIGHT_BYTES + LH_FAST_ROW_BYTES +
           2 * ROWS_MAX * sizeof(float);
}

int lh_cuda_fast_open(lh_cuda_fast **out, lh_cuda_stream stream, uint32_t major,
                      const char *library, char why[LH_ERROR_MESSAGE_BYTES]) {
    lh_cuda_fast *fast = (lh_cuda_fast *)calloc(1, sizeof(lh_cuda_fast));
    if (!fast)
        return (int)cudaErrorMemoryAllocation;
    fast->stream = stream;
    fast->has_bf16 = major >= 8;
    int error = lh_blas_open(library, &fast->blas, why) ? allocate(fast) : LH_CUDA_NO_BLAS;
    if (error == 0)
        error = open_handle(fast);
    if (error != 0) {
        lh_cuda_fast_close(fast);
        return error;
    }
    *out = fast;
    return 0;
}

void lh_cuda_fast_close(lh_cuda_fast *fast) {
    if (!fast)
        return;
    if (fast->handle)
        fast->blas.destroy(fast->handle);
    if (fast->memory)
        cudaFree(fast->memory);
    free(fast);
}

static int multiply_fast(const lh_cuda_fast *fast, const lh_cuda_product &product,
                         const lh_activations *x, lh_span in, bool continues) {
    const bool is_plain = x->rows >= LH_FAST_PLAIN_ROWS;
    fast_product p = {product.y,
                      product.y_stride,
                      lh_plain_type(product.w.dtype),
                      nullptr,
                      x->width,
                      x->rows,
                      &product.w,
                      in,
                      continues};
    if (p.type == LH_DTYPE_F32) {
        p.x = (const float *)x->data + in.begin;
        return multiply_some(fast, p, product.out, is_plain);
    }
    const uint32_t each = rows_at_once(in);
    int error = 0;
    for (uint32_t begin = 0; begin < x->rows && error == 0; begin += each) {
        const lh_span rows = {begin, x->rows - begin < each ? x->rows : begin + each};
        p.y = product.y + begin * product.y_stride;
        p.rows = rows.end - rows.begin;
        error = multiply_rounded(fast, p, x, rows, product.out, is_plain);
    }
    return error;
}

static int scale_product(const lh_cuda_fast *fast, const lh_cuda_product &p, uint32_t rows,
                         const float *scale) {
    return p.bias
               ? lh_cuda_scale_add_rows(fast->stream, p.y, p.y_stride, rows, p.out, scale, p.bias)
               : lh_cuda_scale_rows(fast->stream, p.y, p.y_stride, rows, p.out, scale);
}

int lh_cuda_fast_products(lh_cuda_fast *fast, const lh_cuda_product *products, uint32_t count,
                          const lh_activations *x, lh_span in, bool continues, const float *scale) {
    assert(count <= LH_CUDA_PRODUCTS_MAX);
    if (x->rows == 0 || lh_is_empty(in))
        return 0;
    lh_cuda_product exact[LH_CUDA_PRODUCTS_MAX];
    uint32_t exact_count = 0;
    int error = 0;
    for (uint32_t i = 0; i < count && error == 0; i++) {
        if (lh_is_empty(products[i].out))
            continue;
        if (!takes(fast, x, &products[i].w, in)) {
            exact[exact_count++] = products[i];
            continue;
        }
        error = multiply_fast(fast, products[i], x, in, continues);
        if (error == 0 && scale)
            error = scale_product(fast, products[i], x->rows, scale);
    }
    return error ? error
                 : lh_cuda_products(fast->stream, exact, exact_count, x, in, continues, scale);
}
