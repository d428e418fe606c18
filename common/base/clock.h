/* The monotonic clock, and that of a thread's work. Cores that never ask for the time take it as an
 * argument instead. Thread: any. */
#pragma once

#include <stdint.h>

/* Microseconds of CLOCK_MONOTONIC. */
int64_t lh_clock_us(void);
/* Microseconds for which the calling thread has been on a processor. */
int64_t lh_clock_thread_us(void);
