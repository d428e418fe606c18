/* What one direction of a connection carries, learned from the transfers themselves. A pure
 * machine: its owner tells it the time and what TCP says.
 *
 * The rate is that at which acknowledgements come while there is a backlog, for then they come as
 * fast as the narrowest place of the way lets the bytes through. What must not be taken for the
 * link's rate:
 *
 *     bytes acknowledged
 *      |            ___/ 4     1  the first round trip of a transfer: nothing comes back yet
 *      |         __/           2  acknowledgements come at the link's rate: this counts
 *      |     3 _|              3  the window was too small, the sender stood still (slow start)
 *      |   2 /                 4  nothing more to send: the rest of this piece does not count
 *      |____/_______ time
 *         1
 *
 * - (1) counts nowhere: an interval begins and ends with progress.
 * - (3) is left out while the window is still in slow start, since it will grow; the interval
 *   before it is left out too, for it ended somewhere within. Once TCP has settled (congestion
 *   avoidance) standing still is what the connection carries, and counts: losses, a window held
 *   down.
 * - (4) The owner marks the positions at which it ran dry. An interval in which such a position is
 *   acknowledged, all but a few segments, is left out: the receiver may keep the last
 *   acknowledgement back until the next piece comes, and between two samples a short piece is over.
 *
 * Intervals add up to slots of some milliseconds; the estimate is the mean over the last slots by
 * time. When the newest two are both more than twice as fast as three quarters of those before
 * them, or both not half as fast, the link has changed, and those are forgotten; after the first
 * fast one the estimate is in doubt. (Mere means would not do: a fast slot is short and weighs
 * little, and where losses hold a connection up now and then, neither kind is new.) A slot that is
 * not a quarter as fast as all the others together is held back: the program at one end may have
 * been stopped. Another one within half a minute, and both kinds are what the connection carries.
 * Where everything is always acknowledged at once (loopback) no interval forms; then the greatest
 * lower bound that the owner knows stands in.
 *
 * The round trip is the least PING of the last seconds; when several in a row have taken much
 * longer, the way has got longer, and the least of those counts at once. A PING that was sent
 * behind bytes of ours waits for them, so it may lower the estimate and never raise it. Thread: the
 * owner's. */
#pragma once

#include "common/net/socket_tcp_state.h"

enum {
    LH_LINK_SLOTS = 16,
    LH_LINK_MARKS = 32,
    LH_LINK_SLOT_US_MIN = 8000,
    LH_LINK_BULK_BYTES = 8 << 10, /* with less on the way there is nothing to learn of the rate */
    /* two segments and a few frames: a receiver delays their acknowledgement */
    LH_LINK_TAIL_BYTES = 4 << 10
};

typedef struct lh_link_estimate {
    int64_t round_trip_us;         /* 0: unknown */
    double bytes_per_us;           /* 0: unknown */
    double bytes_per_us_deviation; /* mean absolute deviation of the slots */
    bool bytes_per_us_is_bound;    /* it is at least that: nothing has filled the link yet */
    bool bytes_per_us_is_doubtful; /* the newest slot is much faster than most before it */
    int64_t age_us;                /* of the rate's newest sample */
} lh_link_estimate;

/* All zeros is a meter that knows nothing. */
typedef struct lh_link_meter {
    /* Bytes and the active time that they took. */
    struct lh_link_slot {
        double bytes;
        int64_t us, at_us;
    } slots[LH_LINK_SLOTS], open, pending;
    uint32_t slot_count, slot_next;
    int64_t stalled_us; /* when the last slot was so slow that it stood alone; 0: none was */
    /* Ranges of positions within which the sender ran dry, ascending; those that are acknowledged
     * go. */
    struct lh_link_mark {
        uint64_t first, last;
    } marks[LH_LINK_MARKS];
    uint32_t mark_count;
    uint64_t acked_bytes;
    /* the last time at which acknowledgements had come in this run of transfers; 0: none */
    int64_t progress_us;
    double bound; /* bytes_per_us */
    int64_t bound_us;
    int64_t round_trip_us;
    int64_t quiet_min_us[2], quiet_since_us; /* of this and the last period; 0: none */
    uint32_t longer_count; /* quiet PINGs in a row that took much longer than the estimate */
    int64_t longer_min_us;
} lh_link_meter;

/* A new connection to the same place: positions begin again, the estimates stay. */
void lh_link_meter_connected(lh_link_meter *meter);
/* TCP has been given all there is, `position` bytes since the connection began. */
void lh_link_meter_ran_dry(lh_link_meter *meter, uint64_t position);
/* Call often once LH_LINK_BULK_BYTES are on their way, until LH_LINK_TAIL_BYTES are: every 2 ms in
 * slow start, 10 ms beyond. */
void lh_link_meter_sample(lh_link_meter *meter, int64_t now_us, const lh_tcp_state *state);
/* `bytes` went through in `us`, perhaps at less than the link's rate. */
void lh_link_meter_bound(lh_link_meter *meter, int64_t now_us, double bytes, int64_t us);
/* A PING was answered; loaded: bulk was on its way when it was sent, or is now. */
void lh_link_meter_round_trip(lh_link_meter *meter, int64_t now_us, int64_t round_trip_us,
                              bool loaded);
lh_link_estimate lh_link_meter_read(const lh_link_meter *meter, int64_t now_us);

/* The window that the next transfer begins with: TCP's, less what an idle time takes from it where
 * it decays (tcp_cwnd_restart: halved with each retransmission timeout, down to ten segments). */
uint64_t lh_link_ready_bytes(const lh_tcp_state *state, bool window_decays);
