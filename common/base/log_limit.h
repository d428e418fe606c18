/* Bounds how many lines of one kind go into the log, however often somebody else can cause them: a
 * few at once, then one every two seconds, which says how many were left out since the one before.
 * Nothing is left out of a log of LH_LOG_DEBUG, whose reader wants to see all.
 *
 * Plain data, begun with zeroes (but for at_once). Thread: any; all limits share one lock, which is
 * held for a few instructions. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_log_limit {
    int64_t paid_until_us; /* each line pays for a while */
    uint64_t left_out;     /* since the last one that was written */
    uint32_t at_once;      /* lines; 0: five */
} lh_log_limit;

/* Whether a line may be written at this time of the monotonic clock. Where it may, left_out is what
 * it is to say of those before it: its last field, left_out=%llu. */
bool lh_log_limit_take(lh_log_limit *limit, int64_t now_us, unsigned long long *left_out);
