/* Plays a slower machine, for measurements: work that took so much processor time is made to last a
 * factor longer, by sleeping. So several workers fit a few cores without contending, and unequal
 * machines can be had. What was lost to others on the same core counts as slept already: the
 * emulated machine keeps its speed on a busy host, as long as the host gives it its share. Meant
 * for one compute thread: what that waits for helpers would count as lost.
 *
 * Thread: one at a time begins and ends; the factor may be set and read by any. */
#pragma once

#include "common/base/status.h"

#include <stdatomic.h>
#include <stdint.h>

/* The clocks at the begin of a piece of work. */
typedef struct lh_slowdown_mark {
    int64_t wall_ns, processor_ns;
} lh_slowdown_mark;

/* Zeroed is a factor of 1: no slowdown, and no cost. */
typedef struct lh_slowdown {
    _Atomic uint32_t extra_per_mille; /* (factor - 1) * 1000 */
    int64_t debt_ns;                  /* to be slept; negative: slept or lost in advance */
    /* all that work has been made longer by, slept or not: it only grows */
    int64_t owed_ns;
    lh_slowdown_mark ended; /* the end of the last piece; 0: the thread has slept since */
} lh_slowdown;

#define LH_SLOWDOWN_MAX 1000.0
/* So much is slept at least, or stays owed. Many times what a sleep costs by itself: with 0.5 ms a
 * stage with chunks of 16 rows spent a twentieth of its processor time in the system, which the
 * emulated machine would not. */
#define LH_SLOWDOWN_SLEEP_MIN_NS 2000000

/* factor: 1 .. LH_SLOWDOWN_MAX, to a thousandth. */
void lh_slowdown_set(lh_slowdown *slowdown, double factor);
double lh_slowdown_factor(const lh_slowdown *slowdown);

/* Around a piece of work on the calling thread. The end sleeps when enough has come together. */
void lh_slowdown_begin(const lh_slowdown *slowdown, lh_slowdown_mark *mark);
void lh_slowdown_end(lh_slowdown *slowdown, const lh_slowdown_mark *mark);

/* Sleeps all that is owed: what the work has made goes to another machine now, which must not have
 * it before the slower one would. */
void lh_slowdown_settle(lh_slowdown *slowdown);

/* "F" or "F,G": factors[0] from the start and factors[1] after a switch (the same where there is
 * one number). LH_ERR_INVALID. */
lh_status lh_slowdown_parse(const char *text, double factors[2], lh_error *error);
