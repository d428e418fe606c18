/* The monotonic clock. Cores that never ask for the time take it as an argument instead.
 * Thread: any. */
#pragma once

#include <stdint.h>

/* Microseconds of CLOCK_MONOTONIC. */
int64_t lh_clock_us(void);
