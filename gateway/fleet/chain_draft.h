/* The chain that the workers that are there could make, as little unlike the present one as may be.
 * Pure. Thread: any. */
#pragma once

#include "gateway/fleet/live_planner.h"

/* What it is made from. */
typedef struct lh_draft_view {
    const lh_registry *registry;
    const lh_link_avoidance *avoidance;
    const lh_live_planner *planner; /* asked where the fleet has an aim */
} lh_draft_view;

/* Into *chain, whose name and ready_us stay, under this epoch, from all candidates: the stages of
 * `present` (where there is no present chain: those that the candidates hold), with spares in the
 * places of those that are gone, where that is nearly as good as a new split; else that split.
 * Where the fleet has an aim: what is best for it of what is known now (aimed_plan.h). Workers are
 * the teams that the options ask for, but where the model fits only if each is alone. `present` may
 * be `chain`. LH_ERR_LIMIT: the model does not fit; LH_ERR_UNAVAILABLE, LH_ERR_NO_MEMORY. On
 * errors the chain is unchanged. */
lh_status lh_draft_make(const lh_fleet_options *options, const lh_draft_view *view,
                        const lh_chain *present, uint32_t epoch, int64_t now_us, lh_chain *chain,
                        lh_error *error);
/* Whether lh_draft_make would make a chain, if need be with those that are passed over. */
bool lh_draft_is_possible(const lh_fleet_options *options, const lh_draft_view *view,
                          const lh_chain *present, int64_t now_us);
/* The best split among these candidates, who are alone, into *plan, in indices of theirs, and how
 * many times as fast its slowest stage is as that of the present chain. They are the teams then
 * that the options ask for (teams.h), or still alone, where the model fits only so. 0: no split is
 * possible, or a worker of the present chain is not among them; INFINITY: the present one no longer
 * fits somebody's memory. */
double lh_draft_gain(const lh_fleet_options *options, const lh_live_planner *planner,
                     const lh_chain *present, lh_candidates *candidates, lh_layout *plan);
