/* How much of a thread's time some of its work may take, so that the rest of its work does not
 * notice: one of so many parts, saved up to 200 ms while there is less of it; and a millisecond of
 * pause after each half of one, however much is saved.
 *
 * No clock: now_us is of CLOCK_MONOTONIC, and what was spent is time on the processor, so that
 * other programs on a busy machine do not count. Private to common/http2. Thread: the owner's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_h2_time_share {
    int64_t parts;   /* the share is one of these */
    int64_t left_us; /* at grown_at_us; below 0: it is overdrawn by the last piece of work */
    int64_t grown_at_us;
    int64_t stretch_us;     /* spent since the last pause */
    int64_t pause_until_us; /* nothing is done before that */
} lh_h2_time_share;

/* All that can be saved is there. */
void lh_h2_time_share_init(lh_h2_time_share *share, int64_t parts, int64_t now_us);
/* A piece of work has ended. */
void lh_h2_time_share_spend(lh_h2_time_share *share, int64_t spent_us, int64_t now_us);
/* Microseconds from now until the next piece of work; 0: now. */
int64_t lh_h2_time_share_wait_us(lh_h2_time_share *share, int64_t now_us);
