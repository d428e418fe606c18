/* When to send a probe, bytes that mean nothing, so that a connection's window is open before it is
 * needed, and how large. A pure machine: its owner tells it the time and what is known of the link.
 *
 * TCP begins with ten segments and doubles with each round trip: at 100 Mbit/s and 80 ms it takes
 * six round trips, half a second, until a connection carries what its link does. So after
 * connecting probes of doubling size open the window, until it covers rate times round trip, or
 * grows no more, or the budget is spent.
 *
 * Then nothing is sent, for as long as the window stays. Where the kernel takes it back from an
 * idle connection (socket_tcp_state.h), within some tenths of a second, no sensible amount of
 * probes could keep it; so it is opened anew when the owner expects bulk: a step has been announced
 * and its activations are being computed.
 *
 * A transfer that is through in a millisecond or two tells nothing of the link's rate. Where that
 * goes on for seconds, or the estimate is in doubt, the rate is checked with probes, doubling until
 * one tells. A link that rests is left alone.
 *
 * Where the rate itself is what is wanted (a survey), the window's probes go on doubling until one
 * has kept the link busy for long enough that its rate can be relied upon.
 *
 * The budget is a share of the link's time, as the mean over a minute: a bucket of a minute's
 * share, which may be spent at once. Thread: the owner's. */
#pragma once

#include "common/net/link_meter.h"

/* A probe's size is one of these and all doublings between. */
#define LH_LINK_PROBE_BYTES_MIN (UINT64_C(16) << 10)
#define LH_LINK_PROBE_BYTES_MAX (UINT64_C(8) << 20)

typedef struct lh_link_condition {
    lh_link_estimate estimate;
    uint64_t ready_bytes;
    bool window_decays;
} lh_link_condition;

typedef struct lh_link_warmup {
    double share; /* of the link's time */
    uint64_t bytes_max;
    double spent_us;    /* of the link's time */
    int64_t counted_us; /* spent_us as of then */
    bool is_opening, is_checking;
    bool is_expecting;
    bool is_used; /* bulk was written since the rate was last looked at */
    int64_t used_us;
    uint32_t check_count; /* probes of the check that is under way */
    int64_t in_vain_us;   /* when a check has ended with the doubt left; 0: none */
    uint64_t next_bytes;
    uint64_t before_bytes; /* ready before the probe that is under way */
    int64_t span_us;       /* for which a probe has to last; 0: any will do */
    int64_t lasted_us;     /* the longest one of this connection, but for the way */
} lh_link_warmup;

/* share: 0 sends nothing, 0.01 a hundredth of the time. bytes_max: of one probe; where nothing but
 * small messages will go a small one is enough, which tells the rate of most links, and later it is
 * not checked. */
void lh_link_warmup_init(lh_link_warmup *warmup, double share, uint64_t bytes_max);
/* The rate is wanted: a probe has to last for so long on the link, and for two round trips, of
 * which the first one is the window's. */
void lh_link_warmup_measure(lh_link_warmup *warmup, int64_t span_us);
/* A new, cold connection. */
void lh_link_warmup_connected(lh_link_warmup *warmup);
/* Bulk is going to be written soon, or (false) that is no longer so. */
void lh_link_warmup_expect(lh_link_warmup *warmup, bool is_expecting);
/* Bulk has been written. True: it is time to ask _next whether the rate should be checked, as soon
 * as all has gone. */
bool lh_link_warmup_used(lh_link_warmup *warmup, int64_t now_us);
/* The size of the probe that should go now, while nothing else is to be sent; 0: none. */
uint64_t lh_link_warmup_next(lh_link_warmup *warmup, int64_t now_us,
                             const lh_link_condition *condition);
/* `bytes` of the probe were sent (all, or fewer where bulk came in between), and answered us after
 * it began. */
void lh_link_warmup_probed(lh_link_warmup *warmup, uint64_t bytes, int64_t us,
                           const lh_link_condition *condition);
/* The peer takes no probes. */
void lh_link_warmup_give_up(lh_link_warmup *warmup);
/* Whether _next may become more than 0 as time goes by. */
bool lh_link_warmup_is_waiting(const lh_link_warmup *warmup);
