/* Philox4x32-10, a counter-based generator: the n-th number is a function of key and counter alone,
 * so that a replay draws what the first run drew (Salmon et al., "Parallel random numbers: as easy
 * as 1, 2, 3", SC'11, doi 10.1145/2063384.2063405). Thread: any. */
#pragma once

#include <stdint.h>

void lh_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Uniform in [0, 1) with 53 bits: a function of (seed, counter). */
double lh_philox_uniform(uint64_t seed, uint64_t counter);
