/* The chain that the workers that are there could make, as little unlike the present one as may be.
 * Pure. Thread: any. */
#pragma once

#include "gateway/fleet/fleet_options.h"
#include "gateway/fleet/link_avoidance.h"

/* Workers that may be planned, in the order of their names. Pointers as those of the registry. */
typedef struct lh_candidates {
    uint32_t count;
    const lh_worker *workers[LH_WORKERS_MAX];
} lh_candidates;

/* All but those that leave, are excluded or passed over. */
lh_candidates lh_draft_candidates(const lh_registry *registry, const lh_link_avoidance *avoidance,
                                  int64_t now_us);
/* Into *chain, whose name and ready_us stay, under this epoch, from all candidates: the stages of
 * `present` where that is nearly as good as a new split, else those that the candidates hold where
 * there is no present chain, else new ones. `present` may be `chain`. LH_ERR_UNAVAILABLE,
 * LH_ERR_NO_MEMORY: the chain is unchanged. */
lh_status lh_draft_make(const lh_fleet_options *options, const lh_registry *registry,
                        const lh_link_avoidance *avoidance, const lh_chain *present, uint32_t epoch,
                        int64_t now_us, lh_chain *chain, lh_error *error);
/* The best split among these candidates into *plan, in indices of theirs, and how many times as
 * fast its slowest stage is as that of the present chain. 0: no split is possible, or a worker of
 * the present chain is not among them; INFINITY: the present one no longer fits somebody's memory.
 */
double lh_draft_gain(const lh_fleet_options *options, const lh_chain *present,
                     const lh_candidates *candidates, lh_plan *plan);
