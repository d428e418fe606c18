/* Which hop of a forming chain does not come up, and which worker is passed over because of that.
 *
 * Two workers may both be well and heard of, and yet not reach each other: a broken line, a
 * firewall, a route. The chain then forms for ever. So where all is ready but one hop, and it is
 * down for longer than connecting takes, its owner plans the chain without one of its two ends: the
 * far one first, then the near one. That end is not barred for good, but passed over for a while;
 * when the model does not fit without it, the chain goes on waiting for the hop.
 *
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/fleet/chain.h"

/* All zero: nobody is passed over, and no hop was ever awaited. */
typedef struct lh_link_avoidance {
    char worker[LH_WORKER_NAME_BYTES]; /* passed over until then; "": nobody is */
    int64_t until_us;
    int64_t not_before_us; /* no hop is named before then */
    int awaited;           /* the one hop that the chain waits for, in this epoch; -1: none */
    uint32_t epoch;
    int64_t since_us;
} lh_link_avoidance;

/* The hop for which a forming chain waits alone, and has waited for too long, by the stage to which
 * it leads (stage_count: the gateway); -1: there is none, or one was named a moment ago.
 * first_hop: the gateway is connected to the first worker. To be asked at each tick, since waiting
 * counts from when it first saw the hop. */
int lh_link_avoidance_overdue_hop(lh_link_avoidance *avoidance, const lh_chain *chain,
                                  const lh_registry *registry, bool first_hop, int64_t now_us);
/* Plans do without this worker for a while; the one before it is no longer passed over. */
void lh_link_avoidance_pass_over(lh_link_avoidance *avoidance, const char *worker, int64_t now_us);
/* Nobody is passed over. */
void lh_link_avoidance_clear(lh_link_avoidance *avoidance);
bool lh_link_avoidance_passes_over(const lh_link_avoidance *avoidance, const char *worker,
                                   int64_t now_us);
