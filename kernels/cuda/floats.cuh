/* Weights that are not quantized: elements as GGML stores them, widened exactly. */
#pragma once

#include "kernels/cuda/grid.cuh"

struct lh_f32_weights {
    static __device__ float at(const uint8_t *elements, size_t index) {
        return ((const float *)elements)[index];
    }
};

struct lh_f16_weights {
    static __device__ float at(const uint8_t *elements, size_t index) {
        return lh_widen_f16(((const uint16_t *)elements)[index]);
    }
};

struct lh_bf16_weights {
    static __device__ float at(const uint8_t *elements, size_t index) {
        return __uint_as_float((uint32_t)((const uint16_t *)elements)[index] << 16);
    }
};

/* call(...) with one of them. */
template <typename F> int lh_with_float(lh_dtype dtype, F call) {
    if (dtype == LH_DTYPE_F32)
        return call(lh_f32_weights());
    if (dtype == LH_DTYPE_F16)
        return call(lh_f16_weights());
    return call(lh_bf16_weights());
}
