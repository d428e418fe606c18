/* kernels/lanes/norms.h for AVX2. */
#if defined(__x86_64__)
#include "kernels/avx2/f32x16.h"

#include "kernels/lanes/norms.h"
#endif
