/* The plan of a chain that has to be formed at once: the first one, or what is left of one that has
 * lost a worker. It is made for the aim, of what is known at the time, by the search that studies
 * run (plan_study.h), cut short: what is overlooked a study finds later, while the chain serves.
 *
 * Of a chain that has lost somebody these are compared: the same stages, spares standing in; those
 * that are left, in their order, with other layers; and whatever the search finds. The one is taken
 * with which most is gained in the first minute: until its stages are loaded it gives nothing, and
 * then it is as fast as its cost says.
 *
 * Pure; thread: any. At most some 50 ms for LH_WORKERS_MAX workers. */
#pragma once

#include "gateway/fleet/live_map.h"

/* present, plan: in indices of the candidates. present: as it was, with NOBODY where a worker is
 * gone; without stages: there was none. It stays where nobody is gone. An aim's bound that no plan
 * keeps does not count. LH_ERR_LIMIT: no plan was found; LH_ERR_UNAVAILABLE: there is no candidate;
 * LH_ERR_NO_MEMORY. */
lh_status lh_aimed_plan_make(const lh_fleet_options *options, const lh_candidates *candidates,
                             const lh_stage_speeds *speeds, const lh_aim *aim,
                             const lh_layout *present, lh_layout *plan, lh_error *error);
