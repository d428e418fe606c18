/* A bucket of time. */
#include "common/http2/time_share.h"

#include "common/base/arithmetic.h"

enum {
    /* A fleet of 64 workers that has lost its gateway comes back with four connections each, and a
     * handshake takes half a millisecond: that is done without waiting for the share to grow. */
    SAVED_US_MAX = 200000,
    STRETCH_US_MAX = 500,
    PAUSE_US = 1000
};

void lh_h2_time_share_init(lh_h2_time_share *share, int64_t parts, int64_t now_us) {
    *share = (lh_h2_time_share){.parts = parts, .left_us = SAVED_US_MAX, .grown_at_us = now_us};
}

void lh_h2_time_share_spend(lh_h2_time_share *share, int64_t spent_us, int64_t now_us) {
    share->left_us -= spent_us;
    share->stretch_us += spent_us;
    if (share->stretch_us < STRETCH_US_MAX)
        return;
    share->stretch_us = 0;
    share->pause_until_us = now_us + PAUSE_US;
}

/* Adds what has come into the bucket by now; a fraction of a microsecond is counted next time. */
static void grow(lh_h2_time_share *share, int64_t now_us) {
    int64_t grown_us = (now_us - share->grown_at_us) / share->parts;
    share->grown_at_us += grown_us * share->parts;
    share->left_us = lh_min_i64(share->left_us + grown_us, SAVED_US_MAX);
}

int64_t lh_h2_time_share_wait_us(lh_h2_time_share *share, int64_t now_us) {
    grow(share, now_us);
    int64_t lacks_us = 1 - share->left_us, at_us = share->pause_until_us;
    if (lacks_us > 0)
        at_us = lh_max_i64(at_us, share->grown_at_us + lacks_us * share->parts);
    return lh_max_i64(at_us - now_us, 0);
}
