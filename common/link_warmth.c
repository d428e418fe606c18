/* The bucket and the doubling; see link_warmth.h. */
#include "common/link_warmth.h"

enum {
    BUDGET_US = 60000000,
    UNKNOWN_LINK_BYTES = 4 << 20, /* may be spent before a rate is known: a slow link shows after a few KiB */
    BOUND_BYTES = 2 << 20         /* a probe of this size that fills no link: there is nothing to open */
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
    warmth->is_opening = false;
    warmth->share = 0;
}

bool lh_link_warmth_is_waiting(const lh_link_warmth *warmth) {
    return warmth->is_opening;
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

static bool is_within_budget(lh_link_warmth *warmth, int64_t now_us, const lh_link_condition *condition,
                             uint64_t bytes) {
    double rate = warmth->share * condition->estimate.bytes_per_us;
    double passed_us = (double)(now_us - warmth->counted_us);
    warmth->spent_bytes -= warmth->counted_us ? rate * passed_us : 0;
    if (warmth->spent_bytes < 0)
        warmth->spent_bytes = 0;
    warmth->counted_us = now_us;
    double budget = rate * BUDGET_US;
    if (condition->estimate.bytes_per_us_is_bound && budget < UNKNOWN_LINK_BYTES)
        budget = UNKNOWN_LINK_BYTES;
    return warmth->spent_bytes + (double)bytes <= budget;
}

/* The largest doubling that the window's first round trip can use: smaller ones would open nothing. */
static uint64_t size_for(const lh_link_warmth *warmth, uint64_t ready_bytes) {
    uint64_t bytes = LH_LINK_PROBE_BYTES_MIN;
    while (bytes < ready_bytes && bytes < warmth->bytes_max)
        bytes *= 2;
    return bytes;
}

uint64_t lh_link_warmth_next(lh_link_warmth *warmth, int64_t now_us, const lh_link_condition *condition) {
    if (!warmth->is_opening && warmth->share > 0 && warmth->is_expecting && condition->window_decays &&
        !is_warm(condition))
        begin_opening(warmth, size_for(warmth, condition->ready_bytes));
    if (is_known(condition, 0) && is_warm(condition))
        warmth->is_opening = false; /* other bytes have opened it */
    if (!warmth->is_opening || !is_within_budget(warmth, now_us, condition, warmth->next_bytes))
        return 0;
    warmth->before_bytes = condition->ready_bytes;
    return warmth->next_bytes;
}

void lh_link_warmth_probed(lh_link_warmth *warmth, uint64_t bytes, const lh_link_condition *condition) {
    warmth->spent_bytes += (double)bytes;
    bool was_whole = bytes >= warmth->next_bytes;
    bool has_grown = (double)condition->ready_bytes > GROWTH * (double)warmth->before_bytes;
    bool is_at_its_limit = was_whole && bytes >= warmth->before_bytes && !has_grown;
    if (is_known(condition, bytes) && (is_warm(condition) || is_at_its_limit))
        warmth->is_opening = false;
    else if (was_whole && warmth->next_bytes >= warmth->bytes_max)
        warmth->is_opening = false;
    else if (was_whole)
        warmth->next_bytes *= 2;
}
