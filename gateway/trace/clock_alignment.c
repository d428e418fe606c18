/* Bounds on differences of clocks. */
#include "gateway/trace/clock_alignment.h"

#include <assert.h>
#include <stddef.h>

static int64_t floor_divide(int64_t value, int64_t by) {
    return value >= 0 ? value / by : -((-value + by - 1) / by);
}

static int64_t slice_of(int64_t near_us) {
    return floor_divide(near_us, LH_CLOCK_SLICE_US);
}

/* The record of that moment's slice; NULL: it is of a time that has been forgotten. */
static lh_clock_bounds *find_slice(lh_clock_hop *hop, int64_t near_us) {
    int64_t slice = slice_of(near_us);
    uint32_t place = (uint32_t)(((slice % LH_CLOCK_SLICES) + LH_CLOCK_SLICES) % LH_CLOCK_SLICES);
    lh_clock_bounds *bounds = &hop->slices[place];
    if (hop->is_used[place] && slice_of(bounds->near_us) == slice)
        return bounds;
    if (hop->is_used[place] && slice_of(bounds->near_us) > slice)
        return NULL;
    hop->is_used[place] = true;
    *bounds = (lh_clock_bounds){near_us, INT64_MIN, INT64_MAX};
    return bounds;
}

void lh_clock_hop_bound(lh_clock_hop *hop, const lh_clock_bounds *more) {
    lh_clock_bounds *bounds = find_slice(hop, more->near_us);
    if (!bounds)
        return;
    if (more->lowest_us > bounds->lowest_us)
        bounds->lowest_us = more->lowest_us;
    if (more->highest_us < bounds->highest_us)
        bounds->highest_us = more->highest_us;
}

void lh_clock_hop_forth(lh_clock_hop *hop, int64_t near_left_us, int64_t far_came_us) {
    lh_clock_hop_bound(hop,
                       &(lh_clock_bounds){near_left_us, INT64_MIN, far_came_us - near_left_us});
}

void lh_clock_hop_back(lh_clock_hop *hop, int64_t far_left_us, int64_t near_came_us) {
    lh_clock_hop_bound(hop,
                       &(lh_clock_bounds){near_came_us, far_left_us - near_came_us, INT64_MAX});
}

/* How far the clocks may have drifted apart between two moments. */
static int64_t drift(int64_t one_us, int64_t other_us) {
    int64_t apart = one_us > other_us ? one_us - other_us : other_us - one_us;
    return apart / (1000000 / LH_CLOCK_DRIFT_PPM);
}

bool lh_clock_hop_at(const lh_clock_hop *hop, int64_t near_us, lh_clock_bounds *found) {
    *found = (lh_clock_bounds){near_us, INT64_MIN, INT64_MAX};
    for (uint32_t i = 0; i < LH_CLOCK_SLICES; i++) {
        const lh_clock_bounds *bounds = &hop->slices[i];
        if (!hop->is_used[i])
            continue;
        int64_t loose = drift(near_us, bounds->near_us);
        if (bounds->lowest_us != INT64_MIN && bounds->lowest_us - loose > found->lowest_us)
            found->lowest_us = bounds->lowest_us - loose;
        if (bounds->highest_us != INT64_MAX && bounds->highest_us + loose < found->highest_us)
            found->highest_us = bounds->highest_us + loose;
    }
    if (found->lowest_us == INT64_MIN || found->highest_us == INT64_MAX)
        return false;
    if (found->lowest_us > found->highest_us) {
        int64_t lowest = found->highest_us;
        found->highest_us = found->lowest_us;
        found->lowest_us = lowest;
    }
    return true;
}

/* ---- The ring ---- */

/* Bounds of a clock against the gateway's. */
typedef struct span {
    int64_t lowest_us, highest_us;
    bool is_known;
} span;

static int64_t newest_near_us(const lh_clock_hop *hop) {
    int64_t newest = INT64_MIN;
    for (uint32_t i = 0; i < LH_CLOCK_SLICES; i++)
        if (hop->is_used[i] && hop->slices[i].near_us > newest)
            newest = hop->slices[i].near_us;
    return newest;
}

/* A hop's bounds at a moment of the gateway's clock. Where its near clock is not known, of late. */
static span hop_span(const lh_clock_hop *hop, span near, int64_t gateway_us) {
    lh_clock_bounds bounds;
    int64_t near_us = near.is_known ? gateway_us + floor_divide(near.lowest_us + near.highest_us, 2)
                                    : newest_near_us(hop);
    bool is_known = lh_clock_hop_at(hop, near_us, &bounds);
    return (span){bounds.lowest_us, bounds.highest_us, is_known};
}

static span intersect(span one, span other) {
    if (!one.is_known || !other.is_known)
        return one.is_known ? one : other;
    span both = {one.lowest_us > other.lowest_us ? one.lowest_us : other.lowest_us,
                 one.highest_us < other.highest_us ? one.highest_us : other.highest_us, true};
    if (both.lowest_us > both.highest_us)
        both = (span){both.highest_us, both.lowest_us, true};
    return both;
}

static span add(span near, span hop) {
    if (!near.is_known || !hop.is_known)
        return (span){0, 0, false};
    return (span){near.lowest_us + hop.lowest_us, near.highest_us + hop.highest_us, true};
}

void lh_clock_ring_align(const lh_clock_hop *hops, uint32_t count, int64_t gateway_us,
                         lh_clock_offset *clocks) {
    span forth[LH_CLOCK_RING_MAX], steps[LH_CLOCK_RING_MAX], back = {0, 0, true};
    assert(count > 0 && count <= LH_CLOCK_RING_MAX);
    forth[0] = back;
    for (uint32_t i = 0; i < count; i++) {
        steps[i] = hop_span(&hops[i], forth[i], gateway_us);
        if (i + 1 < count)
            forth[i + 1] = add(forth[i], steps[i]);
    }
    clocks[0] = (lh_clock_offset){0, 0};
    for (uint32_t i = count - 1; i > 0; i--) {
        back.is_known &= steps[i].is_known;
        if (back.is_known)
            back = (span){back.lowest_us - steps[i].highest_us,
                          back.highest_us - steps[i].lowest_us, true};
        span both = intersect(forth[i], back);
        clocks[i] = both.is_known
                        ? (lh_clock_offset){floor_divide(both.lowest_us + both.highest_us, 2),
                                            (both.highest_us - both.lowest_us + 1) / 2}
                        : (lh_clock_offset){0, -1};
    }
}
