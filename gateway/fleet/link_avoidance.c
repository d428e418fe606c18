/* One hop that is awaited. */
#include "gateway/fleet/link_avoidance.h"

#include <assert.h>

/* A hop that has been up before comes up again within a few round trips; a new one may have more
 * before it: names, certificates, a worker that is just starting. */
#define RETURN_US     700000
#define ROUND_TRIPS   8
#define FIRST_TIME_US 5000000

/* Between two plans around a hop. */
#define RETRY_US 2000000

static int64_t patience_us(const lh_chain *chain, const lh_registry *registry, int hop) {
    if (chain->epoch == chain->planned_epoch)
        return FIRST_TIME_US;
    const lh_worker *near = hop > 0 ? lh_chain_worker(chain, registry, (uint32_t)hop - 1) : NULL;
    return RETURN_US + (near ? ROUND_TRIPS * near->report.next.round_trip_us : 0);
}

int lh_link_avoidance_overdue_hop(lh_link_avoidance *avoidance, const lh_chain *chain,
                                  const lh_registry *registry, bool first_hop, int64_t now_us) {
    int hop = lh_chain_awaited_hop(chain, registry, first_hop);
    assert(hop >= -1 && hop <= (int)chain->stage_count);
    /* Stages that load take no time from a hop: it counts from when the chain waits for it alone.
     */
    if (hop != avoidance->awaited || chain->epoch != avoidance->epoch) {
        avoidance->awaited = hop;
        avoidance->epoch = chain->epoch;
        avoidance->since_us = now_us;
    }
    if (hop < 0 || now_us < avoidance->not_before_us ||
        now_us < avoidance->since_us + patience_us(chain, registry, hop))
        return -1;
    avoidance->not_before_us = now_us + RETRY_US;
    return hop;
}
