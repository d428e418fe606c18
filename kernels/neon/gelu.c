/* kernels/lanes/gelu.h for NEON. */
#if defined(__aarch64__)
#include "kernels/neon/f32x16.h"

#include "kernels/lanes/gelu.h"
#endif
