/* The constants of GELU's exponent -2 sqrt(2 / pi) (v + 0.044715 v^3), which every instruction set
 * evaluates as v * fma(v * v, CUBIC, LINEAR). */
#pragma once

#define LH_GELU_LINEAR -0x1.988454p0f  /* -2 sqrt(2 / pi) */
#define LH_GELU_CUBIC  -0x1.2444f2p-4f /* the same times 0.044715 */
