/* Around a hop that does not come up.
 *
 * Two workers may both be well and heard of, and yet not reach each other: a broken line, a firewall, a route. The chain
 * then forms for ever. So where all is ready but one hop, and it is down for longer than connecting takes, the chain is
 * planned without one of its two ends: the far one first, then the near one. That end is not barred for good, but
 * passed over for a while; when the model does not fit without it, the chain goes on waiting for the hop. */
#include "gateway/fleet/fleet_state.h"

#include "common/log.h"

#include <stdio.h>
#include <string.h>

/* A hop that has been up before comes up again within a few round trips; a new one may have more before it: names,
 * certificates, a worker that is just starting. */
#define RETURN_US      700000
#define ROUND_TRIPS    8
#define FIRST_TIME_US  5000000
#define PASSED_OVER_US 10000000
#define RETRY_US       2000000

bool lh_fleet_passes_over(const lh_fleet *fleet, const char *worker, int64_t now_us) {
    return now_us < fleet->detour.until_us && strcmp(fleet->detour.worker, worker) == 0;
}

static int64_t patience_us(const lh_fleet *fleet, uint32_t hop) {
    if (fleet->chain.epoch == fleet->planned_epoch)
        return FIRST_TIME_US;
    const lh_worker *near =
        hop > 0 ? lh_registry_find(fleet->registry, fleet->chain.stages[hop - 1].name) : NULL;
    return RETURN_US + (near ? ROUND_TRIPS * near->report.next.round_trip_us : 0);
}

static bool plan_without(lh_fleet *fleet, const char *worker, int64_t now_us) {
    snprintf(fleet->detour.worker, sizeof fleet->detour.worker, "%s", worker);
    fleet->detour.until_us = now_us + PASSED_OVER_US;
    if (lh_fleet_plan(fleet, now_us)) {
        lh_log(LH_LOG_WARN, "fleet", "a hop does not come up: planned without worker=%s",
               fleet->detour.worker);
        return true;
    }
    fleet->detour.until_us = INT64_MIN;
    return false;
}

/* The time that stages take to load is none that a hop has had: it counts from when the chain waits for the hop alone. */
static int64_t awaited_since_us(lh_fleet *fleet, int hop, int64_t now_us) {
    if (hop != fleet->detour.awaited || fleet->chain.epoch != fleet->detour.epoch) {
        fleet->detour.awaited = hop;
        fleet->detour.epoch = fleet->chain.epoch;
        fleet->detour.since_us = now_us;
    }
    return fleet->detour.since_us;
}

void lh_fleet_take_detour(lh_fleet *fleet, int64_t now_us) {
    const lh_chain *chain = &fleet->chain;
    int hop = lh_chain_awaited_hop(chain, fleet->registry, fleet->first_hop);
    int64_t since_us = awaited_since_us(fleet, hop, now_us);
    if (hop < 0 || now_us < fleet->detour.not_before_us ||
        now_us < since_us + patience_us(fleet, (uint32_t)hop))
        return;
    char reason[LH_ERROR_MESSAGE_BYTES], near[LH_WORKER_NAME_BYTES] = "";
    memcpy(reason, fleet->reason, sizeof reason);
    fleet->detour.not_before_us = now_us + RETRY_US;
    if (hop > 0)
        memcpy(near, chain->stages[hop - 1].name, sizeof near);
    bool is_found =
        (uint32_t)hop < chain->stage_count && plan_without(fleet, chain->stages[hop].name, now_us);
    if (!is_found && hop > 0)
        is_found = plan_without(fleet, near, now_us);
    if (!is_found)
        memcpy(fleet->reason, reason, sizeof reason);
}
