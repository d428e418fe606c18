/* A plan for workers that have changed since another plan was made: one that disturbs as little as it may. Where a spare can
 * take the place of one that is gone, with its very layers, nobody else has to load anything; that is worth a slowest stage
 * that is not quite as fast as the planner could make it. A pure function. */
#pragma once

#include "gateway/fleet/held_plan.h"

/* present: as it was, with NOBODY where a worker is gone; NULL, or without stages: there was none, and this is lh_planner_split. Not
 * kept where it has more stages than the options allow. Errors: those of the split. */
lh_status lh_plan_revise(const lh_model_profile *model, const lh_plan_worker *workers, uint32_t count,
                         const lh_planner_options *options, const lh_plan *present, lh_plan *plan,
                         lh_error *error);
