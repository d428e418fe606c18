/* Which steps of an epoch have come: each may come once, so that one that is sent again, by
 * whomever, does nothing. Steps overtake each other, so the last LH_STEP_WINDOW numbers are
 * remembered; older ones count as come. Plain state; zeroed: nothing has come; thread: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Minutes of decode steps: far more than may overtake one prefill step. */
#define LH_STEP_WINDOW 16384u

typedef struct lh_step_window {
    uint64_t end; /* above the highest that has come */
    uint64_t seen[LH_STEP_WINDOW / 64];
} lh_step_window;

/* Notes that the step has come. False: it had already. */
bool lh_step_window_admit(lh_step_window *window, uint64_t step);
