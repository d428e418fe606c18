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
    uint32_t head_rows; /* rows of each head, whose x lie head_stride apart; 0: no heads */
    size_t head_stride;
};

__device__ const float *row_of(const pack_arguments &a, uint32_t row) {
    if (a.head_rows == 0)
        return a.x + row * a.stride;
    return a.x + row % a.head_rows * a.stride + row / a.head_rows * a.head_stride;
}

__device__ float gained(const pack_arguments &a, uint32_t row, uint32_t column) {
    const float v = row_of(a, row)[column];
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

/* 32 columns of a row, by a warp; v: the lane's own. */
__device__ void pack_block(const pack_arguments &a, uint32_t row, uint32_t column, float v) {
    lh_q8_block *block =
        (lh_q8_block *)a.data + ((size_t)row * (a.width / LH_BLOCK) + column / LH_BLOCK) * a.parts;
    const uint32_t lane = threadIdx.x % 32;
    const lh_quantized first = lh_quantize(v);
    store_block(block, first, lane);
    if (a.parts == 2)
        store_block(block + 1, lh_quantize(lh_fma(-first.d, (float)first.q, v)), lane);
}

/* A warp for each 32 columns. */
__global__ void __launch_bounds__(LH_BLOCK_THREADS) pack_quants(pack_arguments a) {
    lh_begin();
    const uint32_t column = a.columns.begin + blockIdx.x * LH_BLOCK_THREADS + threadIdx.x / 32 * 32;
    if (column >= a.columns.end)
        return;
    for (uint32_t row = blockIdx.y; row < a.rows; row += gridDim.y)
        pack_block(a, row, column, gained(a, row, column + threadIdx.x % 32));
}

__global__ void __launch_bounds__(LH_BLOCK_THREADS) pack_floats(pack_arguments a) {
    lh_begin();
    const uint32_t column = a.columns.begin + blockIdx.x * LH_BLOCK_THREADS + threadIdx.x;
    if (column >= a.columns.end)
        return;
    for (uint32_t row = blockIdx.y; row < a.rows; row += gridDim.y)
        ((float *)a.data)[(size_t)row * a.width + column] = gained(a, row, column);
}

/* ---- With the sum of squares ---- */

const uint32_t NORM_THREADS = 1024, NORM_COLUMNS = 4096;

struct norm_arguments {
    pack_arguments pack;
    float *squares, *scale; /* scale: once the columns end the row; NULL: never */
    float epsilon;
    bool continues;
};

struct norm_state {
    float x[2][NORM_COLUMNS];
};

/* A block of threads for each row: all of them pack its columns, 4096 at a time, and leave them in
 * shared memory, where the 16 lanes of the first warp go on with their chains while the others are
 * at the next ones. */
__global__ void __launch_bounds__(NORM_THREADS) norm_rows(norm_arguments n) {
    lh_begin();
    LH_SHARED(norm_state, state);
    const pack_arguments &a = n.pack;
    const uint32_t row = blockIdx.x, self = threadIdx.x, lane = self % LH_LANES;
    const bool is_float = a.parts == 0;
    float *squares = n.squares + (size_t)row * LH_LANES;
    float sum = n.continues && self < LH_LANES ? squares[lane] : 0.0f;
    uint32_t buffer = 0;
    for (uint32_t begin = a.columns.begin; begin < a.columns.end; begin += NORM_COLUMNS) {
        const uint32_t left = a.columns.end - begin;
        const uint32_t count = left < NORM_COLUMNS ? left : NORM_COLUMNS;
#pragma unroll
        for (uint32_t i = self; i < NORM_COLUMNS; i += NORM_THREADS) {
            const bool is_there = i < count;
            const uint32_t c = begin + i;
            const float x = is_there ? a.x[row * a.stride + c] : 0.0f;
            const float v = is_there && a.gain ? x * a.gain[c] : x;
            state.x[buffer][i] = x;
            if (is_float && is_there)
                ((float *)a.data)[(size_t)row * a.width + c] = v;
            if (!is_float && i / 32 * 32 < count)
                pack_block(a, row, begin + i / 32 * 32, v);
        }
        __syncthreads();
        if (self < LH_LANES) {
#pragma unroll 8
            for (uint32_t i = lane; i < count; i += LH_LANES)
                sum = lh_fma(state.x[buffer][i], state.x[buffer][i], sum);
        }
        buffer = 1 - buffer;
    }
    if (self < 32) {
        const float all = lh_lane_sum(sum);
        if (self < LH_LANES)
            squares[lane] = sum;
        if (self == 0 && n.scale && a.columns.end == a.width)
            n.scale[row] = 1.0f / sqrtf(all / (float)a.width + n.epsilon);
    }
}

pack_arguments pack_arguments_of(const lh_activations *packed, lh_span columns, const float *x,
                                 size_t stride, const float *gain) {
    const bool is_float = packed->kind == LH_ACTIVATION_F32;
    return {packed->data,
            packed->rows,
            packed->width,
            is_float ? 0 : lh_activations_parts(packed->kind),
            columns,
            x,
            stride,
            gain,
            0,
            0};
}

int launch_pack(lh_cuda_stream stream, const pack_arguments &a) {
    const dim3 grid(lh_blocks_for(a.columns.end - a.columns.begin, LH_BLOCK_THREADS),
                    lh_grid_rows(a.rows));
    return lh_launch(a.parts == 0 ? pack_floats : pack_quants, grid, LH_BLOCK_THREADS, stream, a);
}

} // namespace

int lh_cuda_pack_activations(lh_cuda_stream stream, const lh_activations *packed, lh_span columns,
                             const float *x, size_t stride, const float *gain, float *squares) {
    if (packed->rows == 0 || lh_is_empty(columns))
        return 0;
    const pack_arguments a = pack_arguments_of(packed, columns, x, stride, gain);
    if (squares)
        return lh_launch(norm_rows, packed->rows, NORM_THREADS, stream,
                         norm_arguments{a, squares, nullptr, 0, true});
    return launch_pack(stream, a);
}

int lh_cuda_pack_heads(lh_cuda_stream stream, const lh_activations *packed, const float *x,
                       size_t stride, size_t head_stride, uint32_t heads) {
    if (packed->rows == 0)
        return 0;
    pack_arguments a = pack_arguments_of(packed, {0, packed->width}, x, stride, nullptr);
    a.head_rows = packed->rows / heads;
    a.head_stride = head_stride;
    return launch_pack(stream, a);
}

int lh_cuda_norm_activations(lh_cuda_stream stream, const lh_activations *packed, lh_span columns,
                             const float *x, size_t stride, const float *gain, float *squares,
                             float *scale, float epsilon) {
    if (packed->rows == 0 || lh_is_empty(columns))
        return 0;
    const pack_arguments a = pack_arguments_of(packed, columns, x, stride, gain);
    return lh_launch(norm_rows, packed->rows, NORM_THREADS, stream,
                     norm_arguments{a, squares, scale, epsilon, columns.begin > 0});
}
