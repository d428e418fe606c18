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

/* Far more than are ever under way, or left out since they end at a worker before this one. */
#define LH_STEP_JUMP_MAX (UINT64_C(1) << 20)
/* No gateway has counted so far; it goes on where it was in the epoch before. */
#define LH_STEP_FIRST_MAX (UINT64_C(1) << 48)

/* Whether a step may have this number: it is the first one, or not far ahead. One that is must not
 * be admitted, since all others would then count as come. */
bool lh_step_window_reaches(const lh_step_window *window, uint64_t step);
/* Notes that the step has come. False: it had already. */
bool lh_step_window_admit(lh_step_window *window, uint64_t step);
