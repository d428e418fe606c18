/* A block of 32 numbers as int8, by a warp: what `pack_activations` of kernels.h says of Q8. */
#pragma once

#include "kernels/cuda/grid.cuh"

#include <cfloat>

struct lh_quantized {
    float d;
    int q; /* the lane's own */
};

/* The greatest number of LANES neighbours, which all of them get. */
template <uint32_t LANES> __device__ inline uint32_t lh_greatest_of_lanes(uint32_t greatest) {
#pragma unroll
    for (uint32_t lanes = LANES / 2; lanes > 0; lanes /= 2) {
        const uint32_t other = __shfl_xor_sync(~0u, greatest, (int)lanes);
        greatest = other > greatest ? other : greatest;
    }
    return greatest;
}

/* Lane k has number k of the block. The greatest magnitude is found by its bits: a NaN is greater
 * than all, so it is not lost. */
__device__ inline lh_quantized lh_quantize(float v) {
    const uint32_t greatest = lh_greatest_of_lanes<32>(__float_as_uint(v) & 0x7fffffffu);
    const float amax = __uint_as_float(greatest), inverse = 127.0f / amax;
    const bool usable = inverse > 0 && inverse <= FLT_MAX;
    return {amax / 127.0f, usable ? __float2int_rn(v * inverse) : 0};
}
