/* The bucket and the doubling; see link_warmth.h. */
#include "common/link_warmth.h"

#include <math.h>

enum {
    BUDGET_US = 60000000,
    UNKNOWN_LINK_BYTES = 4 << 20, /* may be spent before a rate is known: a slow link shows after a few KiB */
    BOUND_BYTES = 2 << 20,        /* a probe of this size that fills no link: there is nothing to open */
    CHECK_BYTES_MAX = 1 << 20,    /* a link of which this tells nothing is not what a step waits for */
    CHECK_PROBES = 8,
    USED_US = 1000000, /* how often to look whether the rate is in doubt */
    STALE_US = 5000000 /* a rate of this age is, if bulk goes by all the same */
};
/* The window grows by the bytes that were acknowledged; less is none. */
static const double GROWTH = 1.1;
/* Of what fills the way: as good as all. More would only fill queues, and lose what is in them. */
static const double WARM_SHARE = 0.9;

void lh_link_warmth_init(lh_link_warmth *warmth, double share, uint64_t bytes_max) {
    *warmth = (lh_link_warmth){.share = share, .bytes_max = bytes_max};
}

static void begin_opening(lh_link_warmth *warmth, uint64_t bytes) {
    warmth->is_opening = warmth->share > 0;
    warmth->is_checking = false;
    warmth->next_bytes = bytes;
}

void lh_link_warmth_connected(lh_link_warmth *warmth) {
    warmth->is_expecting = false;
    begin_opening(warmth, LH_LINK_PROBE_BYTES_MIN);
}

void lh_link_warmth_expect(lh_link_warmth *warmth, bool is_expecting) {
    warmth->is_expecting = is_expecting;
}

void lh_link_warmth_give_up(lh_link_warmth *warmth) {
    warmth->is_opening = warmth->is_checking = warmth->is_used = false;
    warmth->share = 0;
}

bool lh_link_warmth_used(lh_link_warmth *warmth, int64_t now_us) {
    bool is_for_bulk = warmth->bytes_max >= CHECK_BYTES_MAX;
    if (warmth->share <= 0 || !is_for_bulk || now_us - warmth->used_us < USED_US)
        return false;
    warmth->is_used = true;
    warmth->used_us = now_us;
    return true;
}

bool lh_link_warmth_is_waiting(const lh_link_warmth *warmth) {
    return warmth->is_opening || warmth->is_checking || warmth->is_used;
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

static bool is_within_budget(lh_link_warmth *warmth, int64_t now_us, const lh_link_condition *condition,
                             uint64_t bytes) {
    warmth->spent_us -= warmth->counted_us ? warmth->share * (double)(now_us - warmth->counted_us) : 0;
    warmth->spent_us = fmax(warmth->spent_us, 0);
    warmth->counted_us = now_us;
    double budget_us = warmth->share * BUDGET_US;
    if (condition->estimate.bytes_per_us_is_bound)
        budget_us = fmax(budget_us, time_us(condition, UNKNOWN_LINK_BYTES));
    return warmth->spent_us + time_us(condition, bytes) <= budget_us;
}

/* The largest doubling that the window's first round trip can use: smaller ones would open nothing. */
static uint64_t size_for(const lh_link_warmth *warmth, uint64_t ready_bytes) {
    uint64_t bytes = LH_LINK_PROBE_BYTES_MIN;
    while (bytes < ready_bytes && bytes < warmth->bytes_max)
        bytes *= 2;
    return bytes;
}

static bool is_in_doubt(const lh_link_condition *condition) {
    const lh_link_estimate *estimate = &condition->estimate;
    return !estimate->bytes_per_us_is_bound &&
           (estimate->bytes_per_us_is_doubtful || estimate->age_us > STALE_US);
}

static void consider_check(lh_link_warmth *warmth, int64_t now_us, const lh_link_condition *condition) {
    if (!is_in_doubt(condition)) {
        warmth->is_checking = false;
    } else if (warmth->is_used && !warmth->is_checking &&
               (!warmth->in_vain_us || now_us - warmth->in_vain_us >= STALE_US)) {
        warmth->is_checking = true;
        warmth->check_count = 0;
        warmth->next_bytes = LH_LINK_PROBE_BYTES_MIN;
    }
    warmth->is_used = false;
}

uint64_t lh_link_warmth_next(lh_link_warmth *warmth, int64_t now_us, const lh_link_condition *condition) {
    if (!warmth->is_opening && warmth->share > 0 && warmth->is_expecting && condition->window_decays &&
        !is_warm(condition))
        begin_opening(warmth, size_for(warmth, condition->ready_bytes));
    if (is_known(condition, 0) && is_warm(condition))
        warmth->is_opening = false; /* other bytes have opened it */
    if (!warmth->is_opening)
        consider_check(warmth, now_us, condition);
    if (!lh_link_warmth_is_waiting(warmth) ||
        !is_within_budget(warmth, now_us, condition, warmth->next_bytes))
        return 0;
    warmth->before_bytes = condition->ready_bytes;
    return warmth->next_bytes;
}

/* The next one is larger, as long as it leaves in one go: a pause for want of window is no rate. */
static void checked(lh_link_warmth *warmth, const lh_link_condition *condition) {
    uint64_t twice = warmth->next_bytes * 2;
    if (twice <= condition->ready_bytes && twice <= CHECK_BYTES_MAX)
        warmth->next_bytes = twice;
    if (++warmth->check_count < CHECK_PROBES)
        return;
    warmth->is_checking = false;
    warmth->in_vain_us = warmth->counted_us;
}

void lh_link_warmth_probed(lh_link_warmth *warmth, uint64_t bytes, const lh_link_condition *condition) {
    warmth->spent_us += time_us(condition, bytes);
    bool was_whole = bytes >= warmth->next_bytes;
    if (warmth->is_checking) {
        if (was_whole)
            checked(warmth, condition);
        return;
    }
    bool has_grown = (double)condition->ready_bytes > GROWTH * (double)warmth->before_bytes;
    bool is_at_its_limit = was_whole && bytes >= warmth->before_bytes && !has_grown;
    if (is_known(condition, bytes) && (is_warm(condition) || is_at_its_limit))
        warmth->is_opening = false;
    else if (was_whole && warmth->next_bytes >= warmth->bytes_max)
        warmth->is_opening = false;
    else if (was_whole)
        warmth->next_bytes *= 2;
}
