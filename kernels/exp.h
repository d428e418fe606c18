/* The constants of exp in float, which every instruction set evaluates the same way:
 *     x  is clamped to [MIN, MAX]
 *     n = fma(x, log2 e, ROUND) - ROUND
 *     r = fma(n, -ln2 LOW, fma(n, -ln2 HIGH, x))
 *     p = the polynomial in r by Horner's rule with fma
 *     p * 2^n, rounded once
 * e^r is 1 + r + r^2 (...), |r| <= ln 2 / 2; the coefficients are Cephes' expf (Moshier), greatest
 * power first. */
#pragma once

#define LH_EXP_MIN      -104.0f /* below half the least float: 0 */
#define LH_EXP_MAX      89.0f   /* above the greatest float: infinity */
#define LH_EXP_LOG2_E   0x1.715476p0f
#define LH_EXP_ROUND    0x1.8p23f /* adding it rounds to an integer, to nearest even */
#define LH_EXP_LN2_HIGH 0x1.62e430p-1f
#define LH_EXP_LN2_LOW  -0x1.05c610p-29f
#define LH_EXP_COEFFICIENTS                                                                        \
    {1.9875691500e-4f,                                                                             \
     1.3981999507e-3f,                                                                             \
     8.3334519073e-3f,                                                                             \
     4.1665795894e-2f,                                                                             \
     1.6666665459e-1f,                                                                             \
     5.0000001201e-1f,                                                                             \
     1.0f,                                                                                         \
     1.0f}
