/* The kernels of kernels/cuda as an instruction set, run by the emulation: for tests that judge one
 * by the reference. What kernels/cuda lacks is NULL here. */
#pragma once

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const lh_kernels emulated_kernels;

/* Of all kernels from here on: the order of threads and blocks. */
void emulated_order(uint64_t seed);
/* Launches so far. */
uint64_t emulated_launches(void);

#ifdef __cplusplus
}
#endif
