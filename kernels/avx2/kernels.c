/* The AVX2 kernels: the bodies that all sets share, over 16 lanes of this one. */
#if defined(__x86_64__)
#include "kernels/avx2/f32x16.h"

#include "kernels/reference/reference.h"
#include "kernels/simd/kernels.h"

const lh_kernels lh_kernels_avx2 = SIMD_KERNELS("avx2", lh_avx2_matmul);
#endif
