/* The clock of the lines, and being on time by it. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

int64_t lh_link_clock_ns(void);
/* Real-time priority, memory that stays and timers without slack, for the calling thread. False:
 * the priority is not allowed, and packets may be late on a busy machine. */
bool lh_link_become_punctual(void);
