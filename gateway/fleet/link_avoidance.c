/* One hop that is awaited, and a list of workers. */
#include "gateway/fleet/link_avoidance.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A hop that has been up before comes up again within a few round trips; a new one may have more
 * before it: names, certificates, a worker that is just starting. */
#define RETURN_US     700000
#define ROUND_TRIPS   8
#define FIRST_TIME_US 5000000

#define PASSED_OVER_US     10000000
#define PASSED_OVER_MAX_US 600000000
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

static lh_passed_over *entry_of(lh_link_avoidance *avoidance, const char *worker) {
    for (uint32_t i = 0; i < avoidance->count; i++)
        if (strcmp(avoidance->workers[i].worker, worker) == 0)
            return &avoidance->workers[i];
    return NULL;
}

/* In a full list, that of the one whose time is over first. */
static lh_passed_over *new_entry(lh_link_avoidance *avoidance) {
    lh_passed_over *first = &avoidance->workers[0];
    if (avoidance->count < LH_WORKERS_MAX)
        return &avoidance->workers[avoidance->count++];
    for (uint32_t i = 1; i < avoidance->count; i++)
        if (avoidance->workers[i].until_us < first->until_us)
            first = &avoidance->workers[i];
    return first;
}

int64_t lh_link_avoidance_pass_over(lh_link_avoidance *avoidance, const char *worker,
                                    const char *reason, int64_t now_us) {
    lh_passed_over *entry = entry_of(avoidance, worker);
    int64_t pause_us = entry ? lh_min_i64(2 * entry->pause_us, PASSED_OVER_MAX_US) : PASSED_OVER_US;
    if (!entry)
        entry = new_entry(avoidance);
    *entry = (lh_passed_over){.until_us = now_us + pause_us, .pause_us = pause_us};
    snprintf(entry->worker, sizeof entry->worker, "%s", worker);
    snprintf(entry->reason, sizeof entry->reason, "%s", reason);
    return pause_us;
}

void lh_link_avoidance_forget(lh_link_avoidance *avoidance, const char *worker) {
    lh_passed_over *entry = entry_of(avoidance, worker);
    if (entry)
        *entry = avoidance->workers[--avoidance->count];
}

void lh_link_avoidance_relent(lh_link_avoidance *avoidance) {
    for (uint32_t i = 0; i < avoidance->count; i++)
        avoidance->workers[i].until_us = 0;
}

const lh_passed_over *lh_link_avoidance_find(const lh_link_avoidance *avoidance, const char *worker,
                                             int64_t now_us) {
    for (uint32_t i = 0; i < avoidance->count; i++)
        if (strcmp(avoidance->workers[i].worker, worker) == 0)
            return now_us < avoidance->workers[i].until_us ? &avoidance->workers[i] : NULL;
    return NULL;
}

const lh_passed_over *lh_link_avoidance_any(const lh_link_avoidance *avoidance, int64_t now_us) {
    for (uint32_t i = 0; i < avoidance->count; i++)
        if (now_us < avoidance->workers[i].until_us)
            return &avoidance->workers[i];
    return NULL;
}
