/* The noise of draws, operation for operation as kernels/noise.h. */
#pragma once

#include "kernels/cuda/grid.cuh"

extern "C" {
#include "kernels/noise.h"
}

struct lh_four_words {
    uint32_t of[4];
};

/* The words of tokens 4 * quad .. 4 * quad + 3. */
__device__ inline lh_four_words lh_words_of(uint64_t seed, uint64_t position, uint32_t quad) {
    uint32_t a = (uint32_t)position, b = (uint32_t)(position >> 32), c = quad, d = LH_NOISE_STREAM;
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
#pragma unroll
    for (int round = 0; round < LH_PHILOX_ROUNDS; round++) {
        const uint64_t first = (uint64_t)LH_PHILOX_FIRST * a;
        const uint64_t second = (uint64_t)LH_PHILOX_SECOND * c;
        a = (uint32_t)(second >> 32) ^ b ^ key0;
        c = (uint32_t)(first >> 32) ^ d ^ key1;
        b = (uint32_t)second;
        d = (uint32_t)first;
        key0 += LH_PHILOX_KEY0;
        key1 += LH_PHILOX_KEY1;
    }
    return {{a, b, c, d}};
}

__device__ inline float lh_log_of_one_and(float f) {
    const float coefficients[] = LH_LOG_COEFFICIENTS;
    float p = coefficients[0];
#pragma unroll
    for (uint32_t i = 1; i < sizeof coefficients / sizeof coefficients[0]; i++)
        p = lh_fma(p, f, coefficients[i]);
    return lh_fma(lh_fma(p, f, -0.5f), f * f, f);
}

__device__ inline float lh_log_of(float x) {
    uint32_t bits = __float_as_uint(x);
    const int32_t exponent = (int32_t)(bits - LH_LOG_SQRT_HALF_BITS) >> 23;
    bits -= (uint32_t)exponent << 23;
    return lh_fma((float)exponent, LH_LOG_LN2, lh_log_of_one_and(__uint_as_float(bits) - 1.0f));
}

__device__ inline float lh_noise_of(uint32_t word) {
    const float e = word < LH_NOISE_SPLIT
                        ? lh_log_of_one_and(-lh_fma((float)word, 0x1p-32f, 0x1p-33f))
                        : lh_log_of(lh_fma((float)~word, 0x1p-32f, 0x1p-33f));
    return -lh_log_of(-e);
}
