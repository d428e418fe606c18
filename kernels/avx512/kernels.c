/* The AVX-512 kernels: the bodies that all sets share, over 16 lanes of this one. */
#if defined(__x86_64__)
#include "kernels/avx512/f32x16.h"

#include "kernels/reference/reference.h"
#include "kernels/simd/kernels.h"

const lh_kernels lh_kernels_avx512 = SIMD_KERNELS("avx512", lh_avx512_matmul);
#endif
