/* Activations as a product takes them, and the sum of squares that the deferred norm needs. */
#include "kernels/cuda/quantize.cuh"

extern "C" {
#include "kernels/layout.h"
}

namespace {

struct pack_arguments {
    void *data;
    uint32_t rows, width, parts; /* parts: int8 blocks for each 32 columns; 0: floats */
    lh_span columns;
    const float *x;
    size_t stride;
    const float *gain;
};

__device__ float gained(const pack_arguments &a, uint32_t row, uint32_t column) {
    const float v = a.x[row * a.stride + column];
    return a.gain ? v * a.gain[column] : v;
}

/* Lane k has q[k], whose sums are those of lh_q8_block: of the half, and of the pairs within it. */
__device__ void store_block(lh_q8_block *block, lh_quantized mine, uint32_t lane) {
    int pair = mine.q;
    pair += __shfl_xor_sync(~0u, pair, 1);
    pair += __shfl_xor_sync(~0u, pair, 4);
    pair += __shfl_xor_sync(~0u, pair, 8);
    const int half = pair + __shfl_xor_sync(~0u, pair, 2);
    const int all = half + __shfl_xor_sync(~0u, half, 16);
    block->q[lane] = (int8_t)mine.q;
    if (lane % 16 == 0)
        block->bias[lane / 16] = -128 * half;
    if (lane % 16 == 0 || lane % 16 == 2)
        block->pairs[lane / 16 * 2 + lane % 16 / 2] = (int16_t)(-32 * pair);
    if (lane == 0) {
        block->d = mine.d;
        block->sum = (float)all;
        block->bias[2] = -128 * all;
    }
}

/* A warp for each 32 columns. */
__global__ void __launch_bounds__(LH_BLOCK_THREADS) pack_quants(pack_arguments a) {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t column = a.columns.begin + blockIdx.x * LH_BLOCK_THREADS + threadIdx.x / 32 * 32;
    if (column >= a.columns.end)
        return;
    for (uint32_t row = blockIdx.y; row < a.rows; row += gridDim.y) {
        lh_q8_block *block = (lh_q8_block *)a.data +
                             ((size_t)row * (a.width / LH_BLOCK) + column / LH_BLOCK) * a.parts;
        const float v = gained(a, row, column + lane);
        const lh_quantized first = lh_quantize(v);
        store_block(block, first, lane);
        if (a.parts == 2)
            store_block(block + 1, lh_quantize(lh_fma(-first.d, (float)first.q, v)), lane);
    }
}

__global__ void __launch_bounds__(LH_BLOCK_THREADS) pack_floats(pack_arguments a) {
    const uint32_t column = a.columns.begin + blockIdx.x * LH_BLOCK_THREADS + threadIdx.x;
    if (column >= a.columns.end)
        return;
    for (uint32_t row = blockIdx.y; row < a.rows; row += gridDim.y)
        ((float *)a.data)[(size_t)row * a.width + column] = gained(a, row, column);
}

/* A thread for each lane of each row: a chain over the columns of that lane. */
__global__ void __launch_bounds__(LH_BLOCK_THREADS)
    sum_squares(float *squares, uint32_t rows, lh_span columns, const float *x, size_t stride) {
    const uint32_t row = (blockIdx.x * LH_BLOCK_THREADS + threadIdx.x) / LH_LANES,
                   lane = threadIdx.x % LH_LANES;
    if (row >= rows)
        return;
    float sum = squares[row * LH_LANES + lane];
    for (uint32_t c = columns.begin + lane; c < columns.end; c += LH_LANES) {
        const float v = x[row * stride + c];
        sum = lh_fma(v, v, sum);
    }
    squares[row * LH_LANES + lane] = sum;
}

} // namespace

int lh_cuda_pack_activations(lh_cuda_stream stream, const lh_activations *packed, lh_span columns,
                             const float *x, size_t stride, const float *gain, float *squares) {
    if (packed->rows == 0 || lh_is_empty(columns))
        return 0;
    const bool is_float = packed->kind == LH_ACTIVATION_F32;
    const pack_arguments a = {packed->data,  packed->rows,
                              packed->width, is_float ? 0 : lh_activations_parts(packed->kind),
                              columns,       x,
                              stride,        gain};
    const dim3 grid(lh_blocks_for(columns.end - columns.begin, LH_BLOCK_THREADS),
                    lh_grid_rows(packed->rows));
    const int error =
        lh_launch(is_float ? pack_floats : pack_quants, grid, LH_BLOCK_THREADS, stream, a);
    if (error || !squares)
        return error;
    return lh_launch(sum_squares, lh_blocks_for(packed->rows, LH_BLOCK_THREADS / LH_LANES),
                     LH_BLOCK_THREADS, stream, squares, packed->rows, columns, x, stride);
}
