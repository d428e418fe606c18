/* A map of offers, dealt by the planner. */
#include "gateway/fleet/aimed_deal.h"

#include "gateway/fleet/live_map.h"
#include "gateway/plan/layout_deal.h"

#include <assert.h>
#include <stdlib.h>

static_assert(LH_REPLICAS_MAX <= LH_DEAL_REPLICAS_MAX, "a deal has room for all replicas");

typedef struct dealing {
    lh_live_map live;
    lh_layout_deal deal;
} dealing;

static lh_status deal(dealing *d, const lh_fleet_options *options, const lh_replica_table *table,
                      uint32_t *replica_of) {
    lh_status status =
        lh_live_map_offer(options, table->machines, table->sites, table->count, &d->live, NULL);
    if (status == LH_OK)
        status = lh_layout_deal_make_quickly(&d->live.map, &options->aim, table->replicas,
                                             replica_of, &d->deal, NULL);
    return status;
}

uint32_t lh_aimed_deal(const lh_fleet_options *options, const lh_replica_table *table,
                       uint32_t *replica_of) {
    dealing *d = calloc(1, sizeof *d);
    uint32_t replicas = 0;
    if (d && deal(d, options, table, replica_of) == LH_OK)
        replicas = d->deal.replicas;
    free(d);
    if (replicas == 0)
        return lh_replica_deal(table, replica_of);
    /* One that has no room for a layer is of no use to any chain. */
    for (uint32_t i = 0; i < table->count; i++)
        if (replica_of[i] == LH_DEAL_NOBODY)
            replica_of[i] = 0;
    return replicas;
}
