/* exp, log and frequencies from +, *, / and fma alone: libm's differ between CPUs and versions,
 * these do not.
 *
 * exp in float and angles are what every instruction set repeats, operation for operation. The rest
 * works in double and runs at start-up, from this one copy. */
#include "kernels/angles.h"
#include "kernels/exp.h"
#include "kernels/reference/reference.h"

#include <math.h>
#include <string.h>

#define LN2_HIGH 0x1.62e42fefa39efp-1 /* ln 2 = HIGH + LOW to 106 bits */
#define LN2_LOW  0x1.abc9e3b39803fp-56
#define LOG2_E   0x1.71547652b82fep0

/* x^n by which a float is scaled without rounding, n in -126 .. 127. */
static float float_power_of_two(int n) {
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

static double double_power_of_two(int n) {
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

float lh_exp_f32(float x) {
    static const float coefficients[] = LH_EXP_COEFFICIENTS;
    if (x != x)
        return x;
    x = x < LH_EXP_MIN ? LH_EXP_MIN : x;
    x = x > LH_EXP_MAX ? LH_EXP_MAX : x;
    float n = fmaf(x, LH_EXP_LOG2_E, LH_EXP_ROUND) - LH_EXP_ROUND;
    float r = fmaf(n, -LH_EXP_LN2_HIGH, x);
    r = fmaf(n, -LH_EXP_LN2_LOW, r);
    float p = coefficients[0];
    for (size_t i = 1; i < sizeof coefficients / sizeof coefficients[0]; i++)
        p = fmaf(p, r, coefficients[i]);
    /* in two steps, since 2^n itself may lie outside of the floats; only the second can round */
    int power = (int)n, half = power / 2;
    return p * float_power_of_two(half) * float_power_of_two(power - half);
}

/* A number to about 100 bits: the sum of two, low being small beside high. */
typedef struct pair {
    double high, low;
} pair;

static pair pair_add(double a, double b) {
    double sum = a + b, back = sum - a;
    return (pair){sum, (a - (sum - back)) + (b - back)};
}

static pair pair_divide(double a, double b) {
    double quotient = a / b;
    return (pair){quotient, fma(-quotient, b, a) / b};
}

/* ln x for a positive normal x: x = m 2^e with m near 1, ln m = 2 artanh((m - 1) / (m + 1)). */
static pair log_pair(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    double m = x * double_power_of_two(-e);
    if (m > 0x1.6a09e667f3bcdp0) { /* the square root of 2 */
        m *= 0.5;
        e++;
    }
    pair s = pair_divide(m - 1, m + 1);
    /* what m + 1 lost when it was rounded counts in the second word */
    s.low -= s.high * ((m - ((m + 1) - 1)) / (m + 1));
    double square = s.high * s.high, series = 0;
    for (int k = 21; k >= 3; k -= 2)
        series = fma(series, square, 1.0 / k);
    pair sum = pair_add(e * LN2_HIGH, 2 * s.high);
    double rest = fma(e, LN2_HIGH, -(e * LN2_HIGH)) + e * LN2_LOW + 2 * s.low;
    return pair_add(sum.high, sum.low + (rest + 2 * s.high * square * series));
}

/* 1 / k!; the constants are exact integers, the quotients rounded once. */
static const double inverse_factorial[] = {1.0,
                                           1.0,
                                           1.0 / 2,
                                           1.0 / 6,
                                           1.0 / 24,
                                           1.0 / 120,
                                           1.0 / 720,
                                           1.0 / 5040,
                                           1.0 / 40320,
                                           1.0 / 362880,
                                           1.0 / 3628800,
                                           1.0 / 39916800,
                                           1.0 / 479001600,
                                           1.0 / 6227020800};

/* e^(x.high + x.low), |x| < 700. */
static double exp_of_pair(pair x) {
    double n = floor(fma(x.high, LOG2_E, 0.5));
    double r = fma(n, -LN2_HIGH, x.high) + fma(n, -LN2_LOW, x.low);
    double p = 0;
    for (int k = 13; k >= 0; k--)
        p = fma(p, r, inverse_factorial[k]);
    return p * double_power_of_two((int)n);
}

double lh_log_f64(double x) {
    return log_pair(x).high;
}

float lh_log_f32(float x) {
    return (float)log_pair(x).high;
}

void lh_rope_frequencies(double *frequency, uint32_t rotated, double base) {
    pair log_base = log_pair(base);
    for (uint32_t i = 0; i < rotated / 2; i++) {
        pair power = pair_divide(-2.0 * i, rotated);
        double high = power.high * log_base.high;
        double low = fma(power.high, log_base.high, -high) + power.high * log_base.low +
                     power.low * log_base.high;
        frequency[i] = exp_of_pair((pair){high, low});
    }
}

void lh_reference_rope_angles(float *cosine, float *sine, const double *frequency, uint32_t half,
                              uint32_t position, double magnitude) {
    lh_angles(cosine, sine, frequency, half, position, magnitude);
}
