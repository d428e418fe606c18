/* Rows of a packed matrix, dequantized: an embedding look-up. */
#include "kernels/cuda/floats.cuh"
#include "kernels/cuda/quants.cuh"

namespace {

struct rows_arguments {
    float *y;
    size_t y_stride;
    lh_weights w;
    uint32_t inputs;
    const uint32_t *ids;
    uint32_t count;
};

template <typename F>
__device__ lh_block_scale scale_at(const lh_weights &w, const uint8_t *tile, uint32_t b,
                                   uint32_t lane) {
    const uint8_t *subscales = lh_block_subscales<F>(w, tile, b);
    const uint16_t *scales = (const uint16_t *)lh_block_scales<F>(w, tile, b);
    return lh_scale_of<F>(F::SCALES > 0 ? scales[lane] : 0,
                          F::HAS_MINIMUM ? scales[LH_LANES + lane] : 0,
                          F::SUBSCALES > 0 ? subscales[lane] : 0,
                          F::SUBSCALES > 1 ? subscales[LH_LANES + lane] : 0, w.unit);
}

/* A thread for each group of 4 inputs. */
template <typename F>
__global__ void __launch_bounds__(LH_BLOCK_THREADS) quantized_rows(rows_arguments a) {
    const uint32_t group = blockIdx.x * LH_BLOCK_THREADS + threadIdx.x;
    const uint32_t b = group / 8, g = group % 8, half = g / 4;
    if (b >= a.inputs / LH_BLOCK)
        return;
    for (uint32_t row = blockIdx.y; row < a.count; row += gridDim.y) {
        const uint32_t output = a.ids[row], lane = output % LH_LANES;
        const uint8_t *tile = a.w.data + output / LH_LANES * a.w.tile_bytes;
        const uint32_t *words = (const uint32_t *)lh_block_quants<F>(tile, b);
        const lh_block_scale s = scale_at<F>(a.w, tile, b, lane);
        const uint32_t low = words[lh_low_word<F>(g) * LH_LANES + lane];
        const uint32_t high =
            F::HIGH > 0 ? words[(F::LOW + lh_high_word<F>(g)) * LH_LANES + lane] : 0;
        const uint32_t quants = lh_quant_word<F>(low, high, g, a.w.levels);
        const float d = s.d * (float)s.scale[half], m = s.m * (float)s.minimum[half];
        float *y = a.y + row * a.y_stride + (size_t)group * 4;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const float q = (float)(int8_t)(quants >> 8 * i);
            y[i] = F::HAS_MINIMUM ? lh_fma(d, q, m) : d * q;
        }
    }
}

template <typename W>
__global__ void __launch_bounds__(LH_BLOCK_THREADS) float_rows(rows_arguments a) {
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
