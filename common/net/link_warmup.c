/* The bucket and the doubling; see link_warmup.h. */
#include "common/net/link_warmup.h"

#include <math.h>

enum {
    BUDGET_US = 60000000,
    /* may be spent before a rate is known: a slow link shows after a few KiB */
    UNKNOWN_LINK_BYTES = 4 << 20,
    /* a probe of this size that fills no link: there is nothing to open */
    BOUND_BYTES = 2 << 20,
    /* a link of which this tells nothing is not what a step waits for */
    CHECK_BYTES_MAX = 1 << 20,
    CHECK_PROBES = 8,
    USED_US = 1000000, /* how often to look whether the rate is in doubt */
    STALE_US = 5000000 /* a rate of this age is, if bulk goes by all the same */
};
/* The window grows by the bytes that were acknowledged; less is none. */
static const double GROWTH = 1.1;
/* Of what fills the way: as good as all. More would only fill queues, and lose what is in them. */
static const double WARM_SHARE = 0.9;

void lh_link_warmup_init(lh_link_warmup *warmup, double share, uint64_t bytes_max) {
    *warmup = (lh_link_warmup){.share = share, .bytes_max = bytes_max};
}

static void begin_opening(lh_link_warmup *warmup, uint64_t bytes) {
    warmup->is_opening = warmup->share > 0;
    warmup->is_checking = false;
    warmup->next_bytes = bytes;
}

void lh_link_warmup_measure(lh_link_warmup *warmup, int64_t span_us) {
    warmup->span_us = span_us;
}

void lh_link_warmup_connected(lh_link_warmup *warmup) {
    warmup->lasted_us = 0;
    warmup->is_expecting = false;
    begin_opening(warmup, LH_LINK_PROBE_BYTES_MIN);
}

void lh_link_warmup_expect(lh_link_warmup *warmup, bool is_expecting) {
    warmup->is_expecting = is_expecting;
}

void lh_link_warmup_give_up(lh_link_warmup *warmup) {
    warmup->is_opening = warmup->is_checking = warmup->is_used = false;
    warmup->share = 0;
}

bool lh_link_warmup_used(lh_link_warmup *warmup, int64_t now_us) {
    bool is_for_bulk = warmup->bytes_max >= CHECK_BYTES_MAX;
    if (warmup->share <= 0 || !is_for_bulk || now_us - warmup->used_us < USED_US)
        return false;
    warmup->is_used = true;
    warmup->used_us = now_us;
    return true;
}

bool lh_link_warmup_is_waiting(const lh_link_warmup *warmup) {
    return warmup->is_opening || warmup->is_checking || warmup->is_used;
}

/* What fills the way: with less under way the sender stands still. */
static double need(const lh_link_condition *condition) {
    return condition->estimate.bytes_per_us * (double)condition->estimate.round_trip_us;
}

static bool is_known(const lh_link_condition *condition, uint64_t probed_bytes) {
    const lh_link_estimate *estimate = &condition->estimate;
    return estimate->round_trip_us > 0 && estimate->bytes_per_us > 0 &&
           (!estimate->bytes_per_us_is_bound || probed_bytes >= BOUND_BYTES);
}

static bool is_warm(const lh_link_condition *condition) {
    return (double)condition->ready_bytes >= WARM_SHARE * need(condition);
}

/* In the time that the link is taken for: what it carried when it was faster is no debt. */
static double time_us(const lh_link_condition *condition, uint64_t bytes) {
    double rate = condition->estimate.bytes_per_us;
    return rate > 0 ? (double)bytes / rate : 0;
}

/* A link of which there is only a bound is none that a longer probe would fill. By the clock, not
 * by the estimate: that may be of the first few segments, which somebody has held up. */
static bool has_lasted(const lh_link_warmup *warmup, const lh_link_condition *condition) {
    const lh_link_estimate *estimate = &condition->estimate;
    if (warmup->span_us == 0 || estimate->bytes_per_us_is_bound)
        return true;
    int64_t two_us = 2 * estimate->round_trip_us;
    return !estimate->bytes_per_us_is_doubtful && warmup->lasted_us >= warmup->span_us &&
           warmup->lasted_us >= two_us;
}

static bool is_within_budget(lh_link_warmup *warmup, int64_t now_us,
                             const lh_link_condition *condition, uint64_t bytes) {
    warmup->spent_us -=
        warmup->counted_us ? warmup->share * (double)(now_us - warmup->counted_us) : 0;
    warmup->spent_us = fmax(warmup->spent_us, 0);
    warmup->counted_us = now_us;
    double budget_us = warmup->share * BUDGET_US;
    if (condition->estimate.bytes_per_us_is_bound)
        budget_us = fmax(budget_us, time_us(condition, UNKNOWN_LINK_BYTES));
    return warmup->spent_us + time_us(condition, bytes) <= budget_us;
}

/* The largest doubling that the window's first round trip can use: smaller ones would open nothing.
 */
static uint64_t size_for(const lh_link_warmup *warmup, uint64_t ready_bytes) {
    uint64_t bytes = LH_LINK_PROBE_BYTES_MIN;
    while (bytes < ready_bytes && bytes < warmup->bytes_max)
        bytes *= 2;
    return bytes;
}

static bool is_in_doubt(const lh_link_condition *condition) {
    const lh_link_estimate *estimate = &condition->estimate;
    return !estimate->bytes_per_us_is_bound &&
           (estimate->bytes_per_us_is_doubtful || estimate->age_us > STALE_US);
}

static void consider_check(lh_link_warmup *warmup, int64_t now_us,
                           const lh_link_condition *condition) {
    if (!is_in_doubt(condition)) {
        warmup->is_checking = false;
    } else if (warmup->is_used && !warmup->is_checking &&
               (!warmup->in_vain_us || now_us - warmup->in_vain_us >= STALE_US)) {
        warmup->is_checking = true;
        warmup->check_count = 0;
        warmup->next_bytes = LH_LINK_PROBE_BYTES_MIN;
    }
    warmup->is_used = false;
}

uint64_t lh_link_warmup_next(lh_link_warmup *warmup, int64_t now_us,
                             const lh_link_condition *condition) {
    if (!warmup->is_opening && warmup->share > 0 && warmup->is_expecting &&
        condition->window_decays && !is_warm(condition))
        begin_opening(warmup, size_for(warmup, condition->ready_bytes));
    if (is_known(condition, 0) && is_warm(condition) && has_lasted(warmup, condition))
        warmup->is_opening = false; /* other bytes have opened it */
    if (!warmup->is_opening)
        consider_check(warmup, now_us, condition);
    if (!lh_link_warmup_is_waiting(warmup) ||
        !is_within_budget(warmup, now_us, condition, warmup->next_bytes))
        return 0;
    warmup->before_bytes = condition->ready_bytes;
    return warmup->next_bytes;
}

/* The next one is larger, as long as it leaves in one go: a pause for want of window is no rate. */
static void checked(lh_link_warmup *warmup, const lh_link_condition *condition) {
    uint64_t twice = warmup->next_bytes * 2;
    if (twice <= condition->ready_bytes && twice <= CHECK_BYTES_MAX)
        warmup->next_bytes = twice;
    if (++warmup->check_count < CHECK_PROBES)
        return;
    warmup->is_checking = false;
    warmup->in_vain_us = warmup->counted_us;
}

void lh_link_warmup_probed(lh_link_warmup *warmup, uint64_t bytes, int64_t us,
                           const lh_link_condition *condition) {
    warmup->spent_us += time_us(condition, bytes);
    bool was_whole = bytes >= warmup->next_bytes;
    int64_t lasted_us = us - condition->estimate.round_trip_us;
    if (was_whole && lasted_us > warmup->lasted_us)
        warmup->lasted_us = lasted_us;
    if (warmup->is_checking) {
        if (was_whole)
            checked(warmup, condition);
        return;
    }
    bool has_grown = (double)condition->ready_bytes > GROWTH * (double)warmup->before_bytes;
    bool is_at_its_limit = was_whole && bytes >= warmup->before_bytes && !has_grown;
    if (is_known(condition, bytes) && (is_warm(condition) || is_at_its_limit) &&
        has_lasted(warmup, condition))
        warmup->is_opening = false;
    else if (was_whole && warmup->next_bytes >= warmup->bytes_max)
        warmup->is_opening = false;
    else if (was_whole)
        warmup->next_bytes *= 2;
}
