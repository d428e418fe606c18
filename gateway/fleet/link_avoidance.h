/* A hop that does not come up although the workers at both its ends are well, and which workers are
 * passed over because of that.
 *
 * Two workers may both be well and heard of, and yet not reach each other: a broken line, a
 * firewall, a wrong address, another's certificate. So a plan does without one of the two ends. It
 * is not barred for good, but passed over for a while (passed_list.h), until it serves in a chain
 * that is ready.
 * Where the model does not fit without it, it is planned all the same.
 *
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/fleet/chain.h"
#include "gateway/fleet/passed_list.h"

/* All zero: nobody is passed over, and no hop was ever awaited. */
typedef struct lh_link_avoidance {
    lh_passed_list passed; /* workers that plans do without, and who does not reach whom */
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
