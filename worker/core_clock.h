/* The monotonic clock without the time in which the calling thread could have run but had no core: what a piece of work
 * takes on a machine that is otherwise idle, read on one that is not. What the thread sleeps by itself counts. Where the
 * kernel does not tell (/proc/thread-self/schedstat), it is the monotonic clock. Thread: the one that opened it. */
#pragma once

#include <stdint.h>

typedef struct lh_core_clock {
    int file; /* -1: the kernel does not tell */
} lh_core_clock;

void lh_core_clock_open(lh_core_clock *clock);
void lh_core_clock_close(lh_core_clock *clock);
/* Microseconds from an arbitrary origin. */
int64_t lh_core_clock_us(const lh_core_clock *clock);
