/* kernels/lanes/convert.h for NEON. */
#if defined(__aarch64__)
#include "kernels/neon/f32x16.h"

#include "kernels/lanes/convert.h"
#endif
