/* The monotonic clock without the time in which the calling thread could have run but had no core:
 * what a piece of work takes on a machine that is otherwise idle, read on one that is not. What the
 * thread sleeps by itself counts. Where the kernel does not tell (/proc/thread-self/schedstat), it
 * is the monotonic clock. On a machine that plays a slower one (slowdown.h) it is that one's time:
 * the processor's, and what is owed on top, whether it has been slept yet or not. Thread: the one
 * that opened it. */
#pragma once

#include "worker/compute/slowdown.h"

#include <stdint.h>

typedef struct lh_core_clock {
    const lh_slowdown *slowdown; /* NULL: there is none */
    int file;                    /* -1: the kernel does not tell, or need not */
} lh_core_clock;

/* slowdown: of the thread pool that works for the thread; outlives the clock. */
void lh_core_clock_open(lh_core_clock *clock, const lh_slowdown *slowdown);
void lh_core_clock_close(lh_core_clock *clock);
/* Microseconds from an arbitrary origin. */
int64_t lh_core_clock_us(const lh_core_clock *clock);
