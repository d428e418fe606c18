/* A hop that does not come up although the workers at both its ends are well, and which workers are
 * passed over because of that.
 *
 * Two workers may both be well and heard of, and yet not reach each other: a broken line, a
 * firewall, a wrong address, another's certificate. So a plan does without one of the two ends. It
 * is not barred for good, but passed over for a while: PASSED_OVER_US at first, twice as long each
 * time that it fails again, PASSED_OVER_MAX_US at most, until it serves in a chain that is ready.
 * Where the model does not fit without it, it is planned all the same.
 *
 * Sans-I/O. Thread: one at a time. */
#pragma once

#include "gateway/fleet/chain.h"

typedef struct lh_passed_over {
    char worker[LH_WORKER_NAME_BYTES];
    int64_t until_us, pause_us;
    char reason[LH_ERROR_MESSAGE_BYTES]; /* who does not reach whom, and why */
} lh_passed_over;

/* All zero: nobody is passed over, and no hop was ever awaited. */
typedef struct lh_link_avoidance {
    lh_passed_over workers[LH_WORKERS_MAX]; /* also those whose time is over, for their pauses */
    uint32_t count;
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
/* Plans do without this worker for a while. Returns for how long. */
int64_t lh_link_avoidance_pass_over(lh_link_avoidance *avoidance, const char *worker,
                                    const char *reason, int64_t now_us);
/* It works, or is no longer what it was: if it fails again, the first pause is short. */
void lh_link_avoidance_forget(lh_link_avoidance *avoidance, const char *worker);
/* Nobody is passed over for now, since whoever is there is needed; pauses go on growing. */
void lh_link_avoidance_relent(lh_link_avoidance *avoidance);
/* One of those that are passed over now; NULL: nobody is. Valid as below. */
const lh_passed_over *lh_link_avoidance_any(const lh_link_avoidance *avoidance, int64_t now_us);
/* NULL: it is not passed over now. Valid until the next call that is not const. */
const lh_passed_over *lh_link_avoidance_find(const lh_link_avoidance *avoidance, const char *worker,
                                             int64_t now_us);
