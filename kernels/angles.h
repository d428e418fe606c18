/* cosine and sine of positions, in double, in C that compilers make vectors of: each set has its
 * own copy, and each element the same operations in all. From +, *, / and fma alone: libm's differ
 * between CPUs and versions. */
#pragma once

#include <math.h>
#include <stdint.h>

#define LH_TWO_OVER_PI  0x1.45f306dc9c883p-1
#define LH_PI_HALF_HIGH 0x1.921fb54442d18p0 /* pi / 2 = HIGH + LOW to 106 bits */
#define LH_PI_HALF_LOW  0x1.1a62633145c07p-54

/* sin r and cos r for |r| <= pi / 4: Taylor's series to beyond the last bit. */
static inline double lh_sine_near_zero(double r) {
    double square = r * r, sum = 0;
#pragma GCC unroll 16
    for (int n = 17; n >= 3; n -= 2)
        sum = (1 - sum) * (square / (n * (n - 1)));
    return r * (1 - sum);
}

static inline double lh_cosine_near_zero(double r) {
    double square = r * r, sum = 0;
#pragma GCC unroll 16
    for (int n = 18; n >= 2; n -= 2)
        sum = (1 - sum) * (square / (n * (n - 1)));
    return 1 - sum;
}

/* What kernels.h says of rope_angles. */
static inline void lh_angles(float *restrict cosine, float *restrict sine,
                             const double *restrict frequency, uint32_t half, uint32_t position,
                             double magnitude) {
    for (uint32_t i = 0; i < half; i++) {
        double angle = position * frequency[i];
        double quarters = floor(fma(angle, LH_TWO_OVER_PI, 0.5));
        double r = fma(quarters, -LH_PI_HALF_LOW, fma(quarters, -LH_PI_HALF_HIGH, angle));
        double s = lh_sine_near_zero(r), c = lh_cosine_near_zero(r);
        double quadrant = quarters - 4 * floor(quarters * 0.25); /* 0 .. 3 */
        double half_turns = floor(quadrant * 0.5), odd = quadrant - 2 * half_turns;
        double y = odd != 0 ? c : s, x = odd != 0 ? s : c;
        sine[i] = (float)(magnitude * (half_turns != 0 ? -y : y));
        cosine[i] = (float)(magnitude * (half_turns != odd ? -x : x));
    }
}
