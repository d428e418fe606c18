/* Products of F32, F16 and BF16 weights: a chain of fma over all inputs for each output, exact and
 * slow, since tensor cores add in another order. A block has 16 outputs, a tile, and 16 rows, or
 * a group of an expert; a thread one of each. */
#include "kernels/cuda/floats.cuh"
#include "kernels/cuda/products.cuh"

namespace {

const uint32_t ROWS = LH_CUDA_EXPERT_ROWS, INPUTS = 32, THREADS = ROWS * LH_LANES;

struct stage {
    float w[INPUTS][LH_LANES], x[ROWS][INPUTS + 1]; /* one more: rows in different banks */
};

template <typename W>
__device__ void load(stage *stage, const lh_product_arguments &a, const lh_batch &batch,
                     const uint8_t *tile, uint32_t begin) {
    for (uint32_t i = threadIdx.x; i < INPUTS * LH_LANES; i += THREADS)
        if (begin + i / LH_LANES < a.in.end)
            stage->w[i / LH_LANES][i % LH_LANES] = W::at(tile, (size_t)begin * LH_LANES + i);
    for (uint32_t i = threadIdx.x; i < ROWS * INPUTS; i += THREADS) {
        const uint32_t row = i / INPUTS, k = begin + i % INPUTS;
        if (row < batch.count && k < a.in.end)
            stage->x[row][i % INPUTS] =
                ((const float *)a.x)[(size_t)lh_x_row(a, batch.first + row) * a.width + k];
    }
}

template <typename W, bool HEADS>
__global__ void __launch_bounds__(THREADS, 4)
    float_products(lh_product_arguments a, uint32_t units) {
    lh_begin();
    LH_SHARED(stage, shared);
    const uint32_t lane = threadIdx.x % LH_LANES, row = threadIdx.x / LH_LANES;
    const uint32_t output = lh_pick_tile(a, blockIdx.x) + lane;
    for (uint32_t unit = blockIdx.y; unit < units; unit += gridDim.y) {
        const lh_batch batch = lh_batch_of<HEADS>(a, unit, ROWS);
        if (batch.count == 0)
            continue;
        const uint8_t *tile = batch.weights + (size_t)(output / LH_LANES) * a.w.tile_bytes;
        const bool is_there = row < batch.count && output < a.out.end;
        float *y = is_there ? lh_y_at<HEADS>(a, batch, batch.first + row, output) : nullptr;
        float acc = is_there && a.continues ? *y : 0.0f;
        for (uint32_t begin = a.in.begin; begin < a.in.end; begin += INPUTS) {
            load<W>(&shared, a, batch, tile, begin);
            __syncthreads();
            const uint32_t left = a.in.end - begin, count = left < INPUTS ? left : INPUTS;
            for (uint32_t k = 0; k < count; k++)
                acc = lh_fma(shared.w[k][lane], shared.x[row][k], acc);
            __syncthreads();
        }
        if (is_there)
            *y = lh_ended(a.experts, batch.expert, batch.first + row, output, acc);
    }
}

} // namespace

int lh_float_products(lh_cuda_stream stream, lh_dtype dtype, const lh_product_arguments &a) {
    const uint32_t units = lh_units_of(a, ROWS);
    const dim3 grid(lh_tiles_of_all(a), lh_grid_rows(units));
    return lh_with_float(dtype, [&](auto type) {
        using W = decltype(type);
        return lh_launch(a.experts.heads > 0 ? float_products<W, true> : float_products<W, false>,
                         grid, THREADS, stream, a, units);
    });
}
