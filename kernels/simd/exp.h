/* exp on 16 lanes (kernels/exp.h); an f32x16.h is included before this file. */
#pragma once

#include "kernels/exp.h"

#include <stddef.h>

LANES_INLINE f32x16 lanes_exp(f32x16 x) {
    static const float coefficients[] = LH_EXP_COEFFICIENTS;
    x = lanes_max(lanes_set(LH_EXP_MIN), x);
    x = lanes_min(lanes_set(LH_EXP_MAX), x);
    f32x16 n = lanes_sub(lanes_fma(x, lanes_set(LH_EXP_LOG2_E), lanes_set(LH_EXP_ROUND)),
                         lanes_set(LH_EXP_ROUND));
    f32x16 r = lanes_fma(n, lanes_set(-LH_EXP_LN2_HIGH), x);
    r = lanes_fma(n, lanes_set(-LH_EXP_LN2_LOW), r);
    f32x16 p = lanes_set(coefficients[0]);
    for (size_t i = 1; i < sizeof coefficients / sizeof coefficients[0]; i++)
        p = lanes_fma(p, r, lanes_set(coefficients[i]));
    return lanes_scale_by_power(p, n);
}
