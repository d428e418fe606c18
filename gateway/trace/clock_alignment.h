/* How the clocks of a chain stand to each other. Each program has a monotonic clock of its own;
 * what is known are moments at which something left one and came to the next, in the clocks of the
 * two ends. Nothing comes before it has left, so each such pair bounds the difference of the two
 * clocks from one side: a request from above, its answer from below.
 *
 *      near clock   --- left ----------------------- heard ---    offset = far clock - near clock
 *                          \  offset <= came - left   /
 *      far clock    -------- came -------- answered ---           offset >= answered - heard
 *
 * The tightest pair in each direction counts, as the sample with the least delay does in NTP: what
 * waited in a queue bounds little and does no harm. The middle of the two bounds is the estimate
 * (the way is taken to be as long in both directions), half their distance its error and also the
 * one-way delay. Clocks drift, so a bound loosens with its age.
 *
 * Plain arithmetic, no clock of its own. Thread: the owner's. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LH_CLOCK_RING_MAX 65      /* clocks of a ring: 64 workers and the gateway */
#define LH_CLOCK_SLICES   32      /* that a hop remembers */
#define LH_CLOCK_SLICE_US 1000000 /* of each slice of time the tightest bounds are kept */
#define LH_CLOCK_DRIFT_PPM                                                                         \
    100 /* by which two clocks may drift apart: quartz is within 50 of true */

typedef struct lh_clock_bounds {
    int64_t near_us;               /* when, in the near clock */
    int64_t lowest_us, highest_us; /* of far - near; INT64_MIN and INT64_MAX: not bounded */
} lh_clock_bounds;

typedef struct lh_clock_hop {
    lh_clock_bounds slices[LH_CLOCK_SLICES]; /* by near_us / LH_CLOCK_SLICE_US */
    bool is_used[LH_CLOCK_SLICES];
} lh_clock_hop; /* {0}: nothing is known */

/* Something left the near end and came to the far end; or the other way. */
void lh_clock_hop_forth(lh_clock_hop *hop, int64_t near_left_us, int64_t far_came_us);
void lh_clock_hop_back(lh_clock_hop *hop, int64_t far_left_us, int64_t near_came_us);
/* What another hop record knew. */
void lh_clock_hop_bound(lh_clock_hop *hop, const lh_clock_bounds *bounds);
/* What is known for a moment. False: not bounded from both sides. Bounds that contradict each
 * other, since a clock drifts more than it may, give the middle and the width of the contradiction.
 */
bool lh_clock_hop_at(const lh_clock_hop *hop, int64_t near_us, lh_clock_bounds *bounds);

/* One clock against the gateway's. */
typedef struct lh_clock_offset {
    int64_t offset_us; /* to be subtracted from its times */
    int64_t error_us;  /* at most; -1: nothing is known, and offset_us is 0 */
} lh_clock_offset;

/* The clocks of a ring at a moment of the gateway's clock: hop i goes from clock i to clock i + 1,
 * the last one back to clock 0, the gateway's. Bounds add up along the ring in both directions, and
 * each clock is put into the middle of what is left: then no hop's bounds are broken, so nothing
 * that was seen comes before it has left. hops[count], clocks[count]; clocks[0] is the gateway's
 * own. */
void lh_clock_ring_align(const lh_clock_hop *hops, uint32_t count, int64_t gateway_us,
                         lh_clock_offset *clocks);
