/* A mean and the end of a virtual queue. */
#include "gateway/auth/retry_estimator.h"

#include <assert.h>

/* Before any sequence has left. */
#define INTERVAL_GUESS_US 1000000
/* One part in so many of the mean is the newest; of the first ones each counts the same. */
#define MEAN_WEIGHT 16
/* Sequences that came together leave together, so the intervals are uneven; but when none has left
 * for this many intervals, they have become longer. */
#define SILENCE 8

void lh_retry_estimator_enter(lh_retry_estimator *estimator, uint32_t count, int64_t now_us) {
    if (estimator->inside == 0)
        estimator->last_us = now_us;
    estimator->inside += count;
}

void lh_retry_estimator_leave(lh_retry_estimator *estimator, uint32_t count, int64_t now_us) {
    assert(count && count <= estimator->inside);
    int64_t each_us = (now_us - estimator->last_us) / count;
    for (uint32_t i = 0; i < count; i++) {
        estimator->known += estimator->known < MEAN_WEIGHT;
        estimator->interval_us += (each_us - estimator->interval_us) / estimator->known;
    }
    estimator->inside -= count;
    estimator->last_us = now_us;
}

static int64_t interval_now_us(const lh_retry_estimator *estimator, int64_t now_us) {
    int64_t interval_us = estimator->known ? estimator->interval_us : INTERVAL_GUESS_US;
    int64_t silent_us = estimator->inside ? now_us - estimator->last_us : 0;
    if (silent_us > SILENCE * interval_us)
        interval_us = silent_us;
    return interval_us > 0 ? interval_us : 1;
}

int64_t lh_retry_estimator_wait_us(lh_retry_estimator *estimator, uint32_t count, int64_t now_us) {
    int64_t interval_us = interval_now_us(estimator, now_us), needed_us = interval_us * count;
    int64_t begin_us = estimator->line_us > now_us ? estimator->line_us : now_us;
    if (begin_us - now_us > interval_us * estimator->inside)
        begin_us = now_us;
    estimator->line_us = begin_us + needed_us;
    return estimator->line_us - now_us;
}
