/* Which workers of a site compute a stage together (tensor parallelism): so many each, of those
 * that say where others of a team connect to them. Pure. Thread: any. */
#pragma once

#include "gateway/fleet/candidates.h"
#include "gateway/fleet/live_planner.h"

/* Of candidates that are alone makes the teams that the options ask for. Those of the
 * present chain stay together where they all are candidates and their size is still the right one;
 * others are joined in the order of their names, the first of them being the candidate that is
 * left. Who finds no team stays alone. An automatic policy, with an aim: for that; without one:
 * wherever a token becomes faster. LH_ERR_NO_MEMORY; LH_ERR_LIMIT: more sites than a map has room
 * for. */
lh_status lh_teams_draw(const lh_fleet_options *options, const lh_live_planner *planner,
                        const lh_chain *present, lh_candidates *candidates, lh_error *error);
/* Into a chain that has just been formed of these candidates. */
void lh_teams_enlist(const lh_candidates *candidates, lh_chain *chain);
