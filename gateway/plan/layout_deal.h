/* Several chains of one model (replicas): which machines form which. Dealt greedily first: in the
 * order of sites that are near each other, each chain taking machines until it has the memory and
 * its share of the strength; then machines change chains, or places with each other, as long as
 * that helps and a number of searches lasts. Each chain is planned by lh_layout_search from the
 * machines that it has. Not exact.
 *
 * Of the objective throughput the chains' tokens add up; of the others the slowest chain counts.
 *
 * A pure function of the map and the aim, as lh_layout_search. Thread: any. */
#pragma once

#include "gateway/plan/layout_search.h"

#define LH_DEAL_REPLICAS_MAX 8u
#define LH_DEAL_NOBODY       UINT32_MAX

typedef struct lh_layout_deal {
    uint32_t replicas; /* as many as were wanted, or as could be made */
    double value;      /* of the aim, of all chains together */
    lh_layout_plan plans[LH_DEAL_REPLICAS_MAX];
} lh_layout_deal;

/* replica_of[map->machine_count]: each machine's chain, whether it has a stage there or not;
 * LH_DEAL_NOBODY: it is excluded. replicas: 1..LH_DEAL_REPLICAS_MAX. Pins are not for several
 * chains: LH_ERR_UNSUPPORTED. LH_ERR_LIMIT: not even one can be made; and the other errors of
 * lh_layout_search. */
lh_status lh_layout_deal_make(const lh_fleet_map *map, const lh_aim *aim, uint32_t replicas,
                              uint32_t *replica_of, lh_layout_deal *deal, lh_error *error);
/* The same with a tenth of the changes, and plans that are made at once: less than 0.2 s for 64
 * machines at 16 sites and up to 4 replicas, where the other takes up to 5 s. What is found may be
 * much less good: a sum of up to 1.6 times the other's was seen. */
lh_status lh_layout_deal_make_quickly(const lh_fleet_map *map, const lh_aim *aim, uint32_t replicas,
                                      uint32_t *replica_of, lh_layout_deal *deal, lh_error *error);
