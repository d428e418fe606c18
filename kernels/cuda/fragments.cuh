/* Fragments of a tile of packed weights for tensor cores: a block of 32 inputs of 16 outputs is,
 * word for word, what mma.m16n8k32 takes. Thread (4g + t) of a warp needs group t and group t + 4
 * of outputs g and g + 8, and those are the low and the high nibbles of one word. So weights go
 * from memory to registers and nowhere else. */
#pragma once

#include "kernels/cuda/products.cuh"

/* What a thread needs of a block as it lies in memory: words that hold its quants, and the scales
 * of outputs g and g + 8. */
template <typename F> struct lh_stored_fragment {
    uint32_t low[4], high[F::HIGH > 0 ? 4 : 1];
    uint16_t halves[2][2];
    uint8_t subscales[2][2];
};

template <typename F>
__device__ inline lh_stored_fragment<F> lh_load_fragment(const lh_weights &w, const uint8_t *tile,
                                                         uint32_t b) {
    const uint32_t lane = threadIdx.x % 32, group = lane % 4;
    const uint32_t *words = (const uint32_t *)lh_block_quants<F>(tile, b);
    const uint8_t *subscales = lh_block_subscales<F>(w, tile, b);
    const uint16_t *halves = (const uint16_t *)lh_block_scales<F>(w, tile, b);
    lh_stored_fragment<F> f = {};
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t output = lane / 4 + 8 * (i % 2), g = group + 4 * (i / 2);
        f.low[i] = words[lh_low_word<F>(g) * LH_LANES + output];
        if (F::HIGH > 0)
            f.high[F::HIGH > 0 ? i : 0] = words[(F::LOW + lh_high_word<F>(g)) * LH_LANES + output];
    }
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t output = lane / 4 + 8 * i;
        if (F::SCALES > 0)
            f.halves[i][0] = halves[output];
        if (F::HAS_MINIMUM)
            f.halves[i][1] = halves[LH_LANES + output];
        if (F::SUBSCALES > 0)
            f.subscales[i][0] = subscales[output];
        if (F::SUBSCALES > 1)
            f.subscales[i][1] = subscales[LH_LANES + output];
    }
    return f;
}

struct lh_fragment {
    uint32_t words[4];
    lh_block_scale scales[2];
};

template <typename F>
__device__ inline lh_fragment lh_unpacked(const lh_stored_fragment<F> &stored,
                                          const lh_weights &w) {
    const uint32_t group = threadIdx.x % 4;
    lh_fragment f;
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        f.words[i] = lh_quant_word<F>(stored.low[i], stored.high[F::HIGH > 0 ? i : 0],
                                      group + 4 * (i / 2), w.levels);
#pragma unroll
    for (uint32_t i = 0; i < 2; i++)
        f.scales[i] = lh_scale_of<F>(stored.halves[i][0], stored.halves[i][1],
                                     stored.subscales[i][0], stored.subscales[i][1], w.unit);
    return f;
}

/* The dot products of the fragment with 8 rows, whose words are `inputs`: of both halves of the
 * block, or, where the form needs only their sum, that in the first. */
template <typename F>
__device__ inline void lh_multiply_fragment(int32_t dots[2][4], const lh_fragment &f,
                                            const uint32_t inputs[2]) {
    if (F::HAS_HALVES) {
        lh_multiply_half(dots[0], f.words, inputs[0]);
        lh_multiply_half(dots[1], f.words + 2, inputs[1]);
    } else {
        lh_multiply_block(dots[0], f.words, inputs);
    }
}

/* Output and row of element i of a thread's four. */
__device__ inline uint32_t lh_fragment_output(uint32_t i) {
    return threadIdx.x % 32 / 4 + 8 * (i / 2);
}
__device__ inline uint32_t lh_fragment_row(uint32_t i) {
    return 2 * (threadIdx.x % 4) + i % 2;
}
