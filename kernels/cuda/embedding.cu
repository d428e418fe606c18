/* Rows of a packed matrix, dequantized: an embedding look-up. */
#include "kernels/cuda/dequantize.cuh"

namespace {

struct rows_arguments {
    float *y;
    size_t y_stride;
    lh_weights w;
    uint32_t inputs;
    const uint32_t *ids;
    uint32_t count;
};

/* A thread for each group of 4 inputs. */
template <typename F>
__global__ void __launch_bounds__(LH_BLOCK_THREADS) quantized_rows(rows_arguments a) {
    lh_begin();
    const uint32_t group = blockIdx.x * LH_BLOCK_THREADS + threadIdx.x;
    if (group >= a.inputs / 4)
        return;
    for (uint32_t row = blockIdx.y; row < a.count; row += gridDim.y) {
        const uint32_t output = a.ids[row];
        const uint8_t *tile = a.w.data + output / LH_LANES * a.w.tile_bytes;
        float values[4];
        lh_dequantize<F>(values, a.w, tile, group, output % LH_LANES);
        float *y = a.y + row * a.y_stride + (size_t)group * 4;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            y[i] = values[i];
    }
}

template <typename W>
__global__ void __launch_bounds__(LH_BLOCK_THREADS) float_rows(rows_arguments a) {
    lh_begin();
    const uint32_t k = blockIdx.x * LH_BLOCK_THREADS + threadIdx.x;
    if (k >= a.inputs)
        return;
    for (uint32_t row = blockIdx.y; row < a.count; row += gridDim.y) {
        const uint32_t output = a.ids[row];
        const uint8_t *tile = a.w.data + output / LH_LANES * a.w.tile_bytes;
        a.y[row * a.y_stride + k] = W::at(tile, (size_t)k * LH_LANES + output % LH_LANES);
    }
}

} // namespace

int lh_cuda_matrix_rows(lh_cuda_stream stream, float *y, size_t y_stride, const lh_matrix *w,
                        const uint32_t *ids, uint32_t count) {
    if (count == 0 || w->inputs == 0)
        return 0;
    const rows_arguments a = {y, y_stride, lh_weights_of(w), w->inputs, ids, count};
    if (lh_quant_form_for(w->dtype).low_bits == 0) {
        const dim3 grid(lh_blocks_for(w->inputs, LH_BLOCK_THREADS), lh_grid_rows(count));
        return lh_with_float(w->dtype, [&](auto type) {
            return lh_launch(float_rows<decltype(type)>, grid, LH_BLOCK_THREADS, stream, a);
        });
    }
    const dim3 grid(lh_blocks_for(w->inputs / 4, LH_BLOCK_THREADS), lh_grid_rows(count));
    return lh_with_form(w->dtype, [&](auto form) {
        return lh_launch(quantized_rows<decltype(form)>, grid, LH_BLOCK_THREADS, stream, a);
    });
}
