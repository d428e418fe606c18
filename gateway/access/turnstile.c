/* A mean and the end of a line. */
#include "gateway/access/turnstile.h"

#include <assert.h>

/* Before anybody has left. */
#define INTERVAL_GUESS_US 1000000
/* One part in so many of the mean is the newest; of the first ones each counts the same. */
#define MEAN_WEIGHT 16
/* Those who came together leave together, so the times between are uneven; but when nobody has left for so many intervals, they have
 * become longer. */
#define SILENCE 8

void lh_turnstile_enter(lh_turnstile *turnstile, uint32_t count, int64_t now_us) {
    if (turnstile->inside == 0)
        turnstile->last_us = now_us;
    turnstile->inside += count;
}

void lh_turnstile_leave(lh_turnstile *turnstile, uint32_t count, int64_t now_us) {
    assert(count && count <= turnstile->inside);
    int64_t each_us = (now_us - turnstile->last_us) / count;
    for (uint32_t i = 0; i < count; i++) {
        turnstile->known += turnstile->known < MEAN_WEIGHT;
        turnstile->interval_us += (each_us - turnstile->interval_us) / turnstile->known;
    }
    turnstile->inside -= count;
    turnstile->last_us = now_us;
}

static int64_t interval_now_us(const lh_turnstile *turnstile, int64_t now_us) {
    int64_t interval_us = turnstile->known ? turnstile->interval_us : INTERVAL_GUESS_US;
    int64_t silent_us = turnstile->inside ? now_us - turnstile->last_us : 0;
    if (silent_us > SILENCE * interval_us)
        interval_us = silent_us;
    return interval_us > 0 ? interval_us : 1;
}

int64_t lh_turnstile_turn_us(lh_turnstile *turnstile, uint32_t count, int64_t now_us) {
    int64_t interval_us = interval_now_us(turnstile, now_us), needed_us = interval_us * count;
    int64_t begin_us = turnstile->line_us > now_us ? turnstile->line_us : now_us;
    if (begin_us - now_us > interval_us * turnstile->inside)
        begin_us = now_us;
    turnstile->line_us = begin_us + needed_us;
    return turnstile->line_us - now_us;
}
