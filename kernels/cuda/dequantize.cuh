/* Weights as the numbers that they stand for: what lh_matrix_row gives, four inputs at a time. */
#pragma once

#include "kernels/cuda/floats.cuh"
#include "kernels/cuda/quants.cuh"

/* Of block b of the output `lane` of a tile. */
template <typename F>
__device__ inline lh_block_scale lh_scale_at(const lh_weights &w, const uint8_t *tile, uint32_t b,
                                             uint32_t lane) {
    const uint8_t *subscales = lh_block_subscales<F>(w, tile, b);
    const uint16_t *scales = (const uint16_t *)lh_block_scales<F>(w, tile, b);
    return lh_scale_of<F>(F::SCALES > 0 ? scales[lane] : 0,
                          F::HAS_MINIMUM ? scales[LH_LANES + lane] : 0,
                          F::SUBSCALES > 0 ? subscales[lane] : 0,
                          F::SUBSCALES > 1 ? subscales[LH_LANES + lane] : 0, w.unit);
}

/* y = inputs [4 * group, 4 * group + 4) of the output `lane` of a tile. */
template <typename F>
__device__ inline void lh_dequantize(float y[4], const lh_weights &w, const uint8_t *tile,
                                     uint32_t group, uint32_t lane) {
    const uint32_t b = group / 8, g = group % 8, half = g / 4;
    const uint32_t *words = (const uint32_t *)lh_block_quants<F>(tile, b);
    const lh_block_scale s = lh_scale_at<F>(w, tile, b, lane);
    const uint32_t low = words[lh_low_word<F>(g) * LH_LANES + lane];
    const uint32_t high = F::HIGH > 0 ? words[(F::LOW + lh_high_word<F>(g)) * LH_LANES + lane] : 0;
    const uint32_t quants = lh_quant_word<F>(low, high, g, w.levels);
    const float d = s.d * (float)s.scale[half], m = s.m * (float)s.minimum[half];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const float q = (float)(int8_t)(quants >> 8 * i);
        y[i] = F::HAS_MINIMUM ? lh_fma(d, q, m) : d * q;
    }
}
