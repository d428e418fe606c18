/* Intervals, slots and marks; see link_meter.h. */
#include "common/net/link_meter.h"

#include <math.h>
#include <string.h>

enum {
    SLOT_BYTES_MIN = 16 << 10,
    SLOT_US_MAX = 50000,        /* a slow link fills a slot with less */
    SLOT_AGE_US_MAX = 30000000, /* older than the newest one by more than that: of another time */
    /* in slow start: without an acknowledgement for longer, the sender stood still */
    GAP_US_MIN = 8000,
    QUIET_PERIOD_US = 10000000,
    /* quiet PINGs in a row: the way has got longer (jitter brings a short one among them) */
    LONGER_COUNT = 6,
    LONGER_SLACK_US = 2000,
    START_SEGMENTS = 10 /* the initial window (RFC 6928) */
};
/* Of a link that has changed; what swings by less is its variance. */
static const double CHANGE = 2;
/* So much slower than all others together is held back, where there are as many. */
static const double STALL = 4;
enum { STALL_SLOTS_MIN = 4 };
static const double CHANGE_BYTES_MIN = 8 << 10; /* acknowledgements come for two segments each */

typedef struct lh_link_slot slot;
typedef struct lh_link_mark mark;

void lh_link_meter_connected(lh_link_meter *meter) {
    meter->mark_count = 0;
    meter->acked_bytes = 0;
    meter->progress_us = 0;
    meter->pending = (slot){0};
}

/* ---- Marks ---- */

void lh_link_meter_ran_dry(lh_link_meter *meter, uint64_t position) {
    mark *last = meter->mark_count ? &meter->marks[meter->mark_count - 1] : NULL;
    if (position <= meter->acked_bytes || (last && position <= last->last))
        return;
    if (meter->mark_count == LH_LINK_MARKS) {
        last->last = position; /* all between counts as dry */
        return;
    }
    meter->marks[meter->mark_count++] = (mark){position, position};
}

/* The last dry position in (from, to], or so little behind `to` that it counts as `to`; else 0.
 * Marks that are acknowledged go. */
static uint64_t cross_marks(lh_link_meter *meter, uint64_t from, uint64_t to) {
    uint64_t crossed = 0;
    uint32_t gone = 0;
    for (uint32_t i = 0; i < meter->mark_count; i++) {
        const mark *m = &meter->marks[i];
        if (m->first <= to + LH_LINK_TAIL_BYTES && m->last > from)
            crossed = m->last < to ? m->last : to;
        gone += m->last <= to;
    }
    meter->mark_count -= gone;
    memmove(meter->marks, meter->marks + gone, meter->mark_count * sizeof meter->marks[0]);
    return crossed;
}

/* ---- Slots ---- */

static double rate_of(const slot *s) {
    return s->bytes / (double)s->us;
}

/* The slot that was closed `age` slots before the newest one. */
static const slot *slot_before(const lh_link_meter *meter, uint32_t age) {
    return &meter->slots[(meter->slot_next + LH_LINK_SLOTS - 1 - age) % LH_LINK_SLOTS];
}

/* 1: more than twice as fast as three quarters of the slots of this age and older; -1: not half as
 * fast; else 0. */
static int compare(const lh_link_meter *meter, const slot *s, uint32_t age) {
    uint32_t older = 0, slower = 0, faster = 0;
    for (; age < meter->slot_count; age++, older++) {
        slower += rate_of(slot_before(meter, age)) * CHANGE < rate_of(s);
        faster += rate_of(slot_before(meter, age)) > rate_of(s) * CHANGE;
    }
    return older == 0 ? 0 : slower * 4 >= older * 3 ? 1 : faster * 4 >= older * 3 ? -1 : 0;
}

/* (At least two: acknowledgements that were held up come in one burst.) */
static void forget_other_link(lh_link_meter *meter) {
    const slot newest = *slot_before(meter, 0), second = *slot_before(meter, 1);
    int change = compare(meter, &newest, 2);
    if (change == 0 || compare(meter, &second, 2) != change)
        return;
    meter->slots[0] = second;
    meter->slots[1] = newest;
    meter->slot_next = meter->slot_count = 2;
}

static bool is_stall(const lh_link_meter *meter, const slot *s) {
    double bytes = 0, us = 0;
    for (uint32_t i = 0; i < meter->slot_count; i++) {
        bytes += meter->slots[i].bytes;
        us += (double)meter->slots[i].us;
    }
    return meter->slot_count >= STALL_SLOTS_MIN && rate_of(s) * STALL * us < bytes;
}

/* The first stall since long. */
static bool is_held_back(const lh_link_meter *meter, const slot *s) {
    bool has_others = meter->stalled_us != 0 && s->at_us - meter->stalled_us <= SLOT_AGE_US_MAX;
    return !has_others && is_stall(meter, s);
}

static void push_slot(lh_link_meter *meter, const slot *s) {
    meter->slots[meter->slot_next] = *s;
    meter->slot_next = (meter->slot_next + 1) % LH_LINK_SLOTS;
    meter->slot_count += meter->slot_count < LH_LINK_SLOTS;
    forget_other_link(meter);
}

static void close_slot(lh_link_meter *meter) {
    const slot closed = meter->open;
    bool counts = !is_held_back(meter, &closed);
    meter->open = (slot){0};
    if (is_stall(meter, &closed))
        meter->stalled_us = closed.at_us;
    if (counts)
        push_slot(meter, &closed);
}

static bool says_something(const slot *open) {
    return open->us >= LH_LINK_SLOT_US_MIN / 8;
}

/* What is much faster than what was before is not mixed with it: it may be the first of a faster
 * link. */
static void begin_faster_slot(lh_link_meter *meter, const slot *interval) {
    slot *open = &meter->open;
    if (open->us == 0 || interval->bytes < CHANGE_BYTES_MIN || compare(meter, interval, 0) <= 0 ||
        rate_of(interval) < CHANGE * rate_of(open))
        return;
    if (says_something(open))
        close_slot(meter);
    *open = (slot){0};
}

static void commit_pending(lh_link_meter *meter) {
    slot *open = &meter->open;
    if (meter->pending.us == 0)
        return; /* the last interval did not count */
    begin_faster_slot(meter, &meter->pending);
    open->bytes += meter->pending.bytes;
    open->us += meter->pending.us;
    open->at_us = meter->pending.at_us;
    meter->pending = (slot){0};
    if (open->us >= SLOT_US_MAX ||
        (open->us >= LH_LINK_SLOT_US_MIN && open->bytes >= SLOT_BYTES_MIN))
        close_slot(meter);
}

/* The sender stood still for want of window. Longer than a round trip explains it is something
 * else. */
static bool is_slow_start_gap(const lh_tcp_state *state, int64_t us) {
    int64_t round_trip = state->round_trip_min_us;
    return lh_tcp_is_in_slow_start(state) && us > GAP_US_MIN && us > round_trip / 4 &&
           us <= round_trip * 3 / 2 + GAP_US_MIN;
}

void lh_link_meter_sample(lh_link_meter *meter, int64_t now_us, const lh_tcp_state *state) {
    uint64_t from = meter->acked_bytes, to = state->acked_bytes;
    int64_t us = now_us - meter->progress_us;
    bool is_over = state->in_flight_bytes == 0 && state->unsent_bytes == 0;
    if (to > from) {
        bool is_first = meter->progress_us == 0;
        uint64_t dry = cross_marks(meter, from, to);
        bool is_gap = !is_first && is_slow_start_gap(state, us);
        if (!is_first && !is_gap)
            commit_pending(meter);
        meter->pending = (slot){0};
        if (!is_first && !is_gap && !dry && us > 0)
            meter->pending = (slot){.bytes = (double)(to - from), .us = us, .at_us = now_us};
        meter->acked_bytes = to;
        meter->progress_us = now_us;
        is_over = is_over || dry == to; /* what follows has only just left */
    }
    if (is_over) {
        meter->progress_us = 0;
        meter->pending = (slot){0};
    }
}

void lh_link_meter_bound(lh_link_meter *meter, int64_t now_us, double bytes, int64_t us) {
    double rate = us > 0 ? bytes / (double)us : 0;
    if (rate >= meter->bound || now_us - meter->bound_us > SLOT_AGE_US_MAX) {
        meter->bound = rate;
        meter->bound_us = now_us;
    }
}

/* ---- Round trip ---- */

static int64_t least(int64_t a, int64_t b) {
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* A way that has got longer shows in every PING; the old minimum must not hide it for the rest of
 * its periods. */
static void notice_longer(lh_link_meter *meter, int64_t round_trip_us) {
    if (meter->round_trip_us == 0 ||
        round_trip_us <= meter->round_trip_us + meter->round_trip_us / 4 + LONGER_SLACK_US) {
        meter->longer_count = 0;
        meter->longer_min_us = 0;
        return;
    }
    meter->longer_min_us = least(meter->longer_min_us, round_trip_us);
    if (++meter->longer_count >= LONGER_COUNT) {
        meter->quiet_min_us[0] = meter->longer_min_us;
        meter->quiet_min_us[1] = 0;
    }
}

void lh_link_meter_round_trip(lh_link_meter *meter, int64_t now_us, int64_t round_trip_us,
                              bool loaded) {
    if (loaded) {
        meter->round_trip_us = least(meter->round_trip_us, round_trip_us);
        return;
    }
    int64_t periods = (now_us - meter->quiet_since_us) / QUIET_PERIOD_US;
    if (periods > 0) {
        meter->quiet_min_us[1] = periods == 1 ? meter->quiet_min_us[0] : 0;
        meter->quiet_min_us[0] = 0;
        meter->quiet_since_us = now_us;
    }
    notice_longer(meter, round_trip_us);
    meter->quiet_min_us[0] = least(meter->quiet_min_us[0], round_trip_us);
    meter->round_trip_us = least(meter->quiet_min_us[0], meter->quiet_min_us[1]);
}

/* ---- Reading ---- */

/* The slots that count, the open one among them if it says anything. */
static uint32_t gather(const lh_link_meter *meter, slot slots[LH_LINK_SLOTS + 1]) {
    uint32_t count = 0;
    int64_t newest_us = 0;
    for (uint32_t i = 0; i < meter->slot_count; i++)
        slots[count++] = meter->slots[i];
    if (says_something(&meter->open) && !is_held_back(meter, &meter->open))
        slots[count++] = meter->open;
    for (uint32_t i = 0; i < count; i++)
        newest_us = slots[i].at_us > newest_us ? slots[i].at_us : newest_us;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++)
        if (newest_us - slots[i].at_us <= SLOT_AGE_US_MAX)
            slots[kept++] = slots[i];
    return kept;
}

lh_link_estimate lh_link_meter_read(const lh_link_meter *meter, int64_t now_us) {
    slot slots[LH_LINK_SLOTS + 1];
    uint32_t count = gather(meter, slots);
    double bytes = 0, us = 0, deviation = 0;
    lh_link_estimate estimate = {.round_trip_us = meter->round_trip_us,
                                 .bytes_per_us = meter->bound,
                                 .bytes_per_us_is_bound = true,
                                 .age_us = meter->bound_us ? now_us - meter->bound_us : 0};
    if (count == 0)
        return estimate;
    estimate.age_us = now_us - slots[0].at_us;
    for (uint32_t i = 0; i < count; i++) {
        bytes += slots[i].bytes;
        us += (double)slots[i].us;
        if (now_us - slots[i].at_us < estimate.age_us)
            estimate.age_us = now_us - slots[i].at_us;
    }
    for (uint32_t i = 0; i < count; i++)
        deviation += fabs(slots[i].bytes - bytes / us * (double)slots[i].us);
    estimate.bytes_per_us = bytes / us;
    estimate.bytes_per_us_deviation = deviation / us;
    estimate.bytes_per_us_is_bound = false;
    estimate.bytes_per_us_is_doubtful =
        (says_something(&meter->open) ? compare(meter, &meter->open, 0)
                                      : compare(meter, slot_before(meter, 0), 1)) > 0;
    return estimate;
}

uint64_t lh_link_ready_bytes(const lh_tcp_state *state, bool window_decays) {
    uint64_t window = state->window_bytes,
             least_window = (uint64_t)START_SEGMENTS * state->segment_bytes;
    if (!window_decays || state->in_flight_bytes || state->retransmit_timeout_us <= 0)
        return window;
    int64_t idle_us = state->idle_us;
    while (idle_us > state->retransmit_timeout_us && window > least_window) {
        window /= 2;
        idle_us -= state->retransmit_timeout_us;
    }
    return window > least_window || state->window_bytes < least_window ? window : least_window;
}
