/* The NEON kernels: the bodies that all sets share, over 16 lanes of this one. Two instruction sets
 * have them, which differ in the matrix product. */
#if defined(__aarch64__)
#include "kernels/neon/f32x16.h"

#include "kernels/reference/reference.h"
#include "kernels/simd/kernels.h"

const lh_kernels lh_kernels_neon = SIMD_KERNELS("neon", lh_neon_matmul);
const lh_kernels lh_kernels_dotprod = SIMD_KERNELS("dotprod", lh_dotprod_matmul);
#endif
