/* Whether the wall clock has been set, which the monotonic clock beside it tells: what cannot be
 * undone is not decided by a time of day that may be wrong. A machine that slept looks the same. No
 * clock of its own: both readings are arguments. Thread: the owner's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A clock that steps by less is one that is kept right. */
#define LH_CLOCK_JUMP_S 1800
/* After a jump, until the clock counts as right: whoever has set it wrongly has seen it by then. */
#define LH_CLOCK_SETTLES_US INT64_C(3600000000)

/* Begun with {0}: the clock is taken to be right when it is read first. */
typedef struct lh_clock_jumps {
    bool is_begun;
    int64_t wall_s, steady_us; /* of the last reading */
    int64_t settled_us;        /* on the steady clock */
} lh_clock_jumps;

/* Notes a reading; returns by how many seconds the clock was set since the last one, 0 where it was
 * not: above 0 ahead, below 0 back. */
int64_t lh_clock_jumps_note(lh_clock_jumps *jumps, int64_t wall_s, int64_t steady_us);
/* At the last reading: it has not been set for LH_CLOCK_SETTLES_US. */
bool lh_clock_jumps_is_settled(const lh_clock_jumps *jumps);
