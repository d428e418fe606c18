/* kernels/lanes/norms.h for AVX-512. */
#if defined(__x86_64__)
#include "kernels/avx512/f32x16.h"

#include "kernels/lanes/norms.h"
#endif
