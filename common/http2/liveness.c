/* PINGs, silence, and deadlines that a slow or hostile peer must keep. */
#include "common/http2/liveness.h"

#include "common/base/arithmetic.h"
#include "common/base/clock.h"

enum {
    TICKS_PER_LIMIT = 6,    /* resolution of the limits */
    HEADERS_MS_MAX = 10000, /* of one request, begun to complete */
    STALLED_MS_MAX = 30000, /* for 64 KiB: the peer does not read */
    UNUSED_MS_MAX = 120000, /* a connection with no stream and not a byte */
    /* A PING that is not answered in this many times the limit of silence: the peer's stream of
     * frames is out of step, and it swallows ours as a body that never ends. Bytes of its own may
     * come all the while. */
    UNANSWERED_LIMITS = 3
};

void lh_h2_liveness_init(lh_h2_liveness *liveness, const lh_h2_limits *limits) {
    int64_t tick_ms =
        lh_min_i64(limits->dead_after_ms, limits->connect_timeout_ms) / TICKS_PER_LIMIT;
    int64_t interval_ms = lh_min_i64(limits->ping_interval_ms, limits->dead_after_ms / 2);
    if (interval_ms > 0)
        tick_ms = lh_min_i64(tick_ms, interval_ms);
    *liveness = (lh_h2_liveness){
        .limits = limits, .tick_ms = tick_ms > 1 ? tick_ms : 1, .ping_interval_ms = interval_ms};
}

static uint64_t next_ping(lh_h2_liveness *liveness) {
    liveness->since_ping_ms = 0;
    liveness->ping_sent_us = lh_clock_us();
    return ++liveness->ping_number;
}

uint64_t lh_h2_liveness_start(lh_h2_liveness *liveness) {
    liveness->started = true;
    return liveness->ping_interval_ms > 0 ? next_ping(liveness) : 0;
}

void lh_h2_liveness_heard(lh_h2_liveness *liveness) {
    liveness->heard = true;
}

void lh_h2_liveness_written(lh_h2_liveness *liveness) {
    liveness->stalled_ms = 0;
}

int64_t lh_h2_liveness_answered(lh_h2_liveness *liveness, uint64_t number) {
    if (liveness->ping_sent_us == 0 || number != liveness->ping_number)
        return 0;
    int64_t sample = lh_clock_us() - liveness->ping_sent_us;
    if (sample < 1)
        sample = 1;
    liveness->ping_sent_us = 0;
    return sample;
}

static void count(lh_h2_liveness *liveness, const lh_h2_activity *activity) {
    int64_t tick_ms = liveness->tick_ms;
    liveness->age_ms += tick_ms;
    liveness->since_ping_ms += tick_ms;
    liveness->silent_ms = liveness->heard ? 0 : liveness->silent_ms + tick_ms;
    liveness->headers_ms = activity->mid_headers ? liveness->headers_ms + tick_ms : 0;
    liveness->stalled_ms = activity->writing ? liveness->stalled_ms + tick_ms : 0;
    liveness->heard = false;
}

static lh_status check(const lh_h2_liveness *liveness, const lh_h2_activity *activity,
                       lh_error *error) {
    const lh_h2_limits *limits = liveness->limits;
    if (!activity->ready && liveness->age_ms >= limits->connect_timeout_ms)
        return lh_fail(error, LH_ERR_TIMEOUT, "no HTTP/2 connection within %lld ms",
                       (long long)limits->connect_timeout_ms);
    if (liveness->headers_ms >= HEADERS_MS_MAX)
        return lh_fail(error, LH_ERR_TIMEOUT, "a request's headers took more than %d ms",
                       HEADERS_MS_MAX);
    if (liveness->stalled_ms >= STALLED_MS_MAX)
        return lh_fail(error, LH_ERR_TIMEOUT, "the peer has not read for %d ms", STALLED_MS_MAX);
    if (!activity->watched && liveness->silent_ms >= UNUSED_MS_MAX)
        return lh_fail(error, LH_ERR_TIMEOUT, "unused for %d ms", UNUSED_MS_MAX);
    if (liveness->ping_sent_us && activity->watched &&
        liveness->since_ping_ms >= UNANSWERED_LIMITS * limits->dead_after_ms)
        return lh_fail(error, LH_ERR_TIMEOUT, "no PING answer for %lld ms",
                       (long long)liveness->since_ping_ms);
    if (liveness->ping_sent_us && activity->watched && liveness->silent_ms >= limits->dead_after_ms)
        return lh_fail(error, LH_ERR_TIMEOUT, "no byte and no PING answer for %lld ms",
                       (long long)limits->dead_after_ms);
    return LH_OK;
}

lh_status lh_h2_liveness_tick(lh_h2_liveness *liveness, const lh_h2_activity *activity,
                              uint64_t *ping, lh_error *error) {
    *ping = 0;
    count(liveness, activity);
    lh_status status = check(liveness, activity, error);
    bool due =
        liveness->ping_interval_ms > 0 && liveness->since_ping_ms >= liveness->ping_interval_ms;
    if (status == LH_OK && due && liveness->started && activity->watched && !liveness->ping_sent_us)
        *ping = next_ping(liveness);
    return status;
}
