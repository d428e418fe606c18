/* exp in float, operation for operation as lh_exp_f32 of kernels/reference. */
#pragma once

#include "kernels/cuda/instructions.cuh"
#include "kernels/exp.h"

__device__ inline float lh_power_of_two(int n) {
    return __int_as_float((n + 127) << 23);
}

__device__ inline float lh_exp(float x) {
    const float coefficients[] = LH_EXP_COEFFICIENTS;
    if (x != x)
        return x;
    x = x < LH_EXP_MIN ? LH_EXP_MIN : x;
    x = x > LH_EXP_MAX ? LH_EXP_MAX : x;
    const float n = lh_fma(x, LH_EXP_LOG2_E, LH_EXP_ROUND) - LH_EXP_ROUND;
    const float r = lh_fma(n, -LH_EXP_LN2_LOW, lh_fma(n, -LH_EXP_LN2_HIGH, x));
    float p = coefficients[0];
#pragma unroll
    for (uint32_t i = 1; i < sizeof coefficients / sizeof coefficients[0]; i++)
        p = lh_fma(p, r, coefficients[i]);
    /* in two steps, since 2^n itself may lie outside of the floats; only the second can round */
    const int power = (int)n, half = power / 2;
    return p * lh_power_of_two(half) * lh_power_of_two(power - half);
}
