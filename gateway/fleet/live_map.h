/* What a plan is made from (gateway/plan/fleet_map.h), taken from the fleet as it is: its workers,
 * what their stages have measured, and the links between their sites. Pure; thread: any. */
#pragma once

#include "gateway/fleet/candidates.h"
#include "gateway/fleet/fleet_options.h"
#include "gateway/fleet/link_matrix.h"
#include "gateway/fleet/stage_speeds.h"
#include "gateway/plan/layout.h"
#include "gateway/plan/team.h"

/* Machines behind a relay are a site of their own in the map, "SITE.via.RELAY": the way there is
 * that to the fleet's site and, behind it, that inside; the way from there is as from the fleet's
 * site. */
typedef struct lh_live_site {
    char site[LH_NAME_BYTES];
    char relay[LH_NAME_BYTES]; /* "": it is the fleet's site itself */
} lh_live_site;

/* Those of a chain, and others that have measured something. */
#define LH_LIVE_TEAMS_MAX (LH_LAYOUT_STAGES_MAX + LH_STAGE_SPEEDS_MAX)

typedef struct lh_live_map {
    lh_fleet_map map; /* map.machines are the ones below */
    lh_map_machine machines[LH_WORKERS_MAX];
    lh_map_team teams[LH_LIVE_TEAMS_MAX];  /* map.teams */
    uint64_t instances[LH_WORKERS_MAX];    /* of the machines */
    lh_live_site places[LH_MAP_SITES_MAX]; /* of the map's sites: what they are in the fleet */
} lh_live_map;

/* A map of the model, with the gateway's site and nothing else. */
void lh_live_map_begin(const lh_fleet_options *options, lh_live_map *map);
/* Adds those candidates whose speed is known, their sites, and the links between all sites.
 * LH_ERR_LIMIT: more sites or machines than a map has room for. */
lh_status lh_live_map_add(const lh_fleet_options *options, const lh_candidates *candidates,
                          const lh_stage_speeds *speeds, lh_live_map *map, lh_error *error);
/* Machines are those candidates whose speed is known. A link between two sites that nobody has
 * measured is no way; within a site it is taken for a local network's. To a site from the gateway
 * the link is taken for what it is the other way. A gateway that has no site is at one that is
 * called "gateway". Into *map. LH_ERR_UNAVAILABLE: no machine has
 * measured anything; LH_ERR_LIMIT: more sites than a map has room for. */
lh_status lh_live_map_make(const lh_fleet_options *options, const lh_candidates *candidates,
                           const lh_stage_speeds *speeds, lh_live_map *map, lh_error *error);
/* Machines that are known by what they say of themselves alone, with comparable speeds
 * (even_split.h), in their order, each reached directly at the site of this name; and every two
 * sites have a way: links that nobody has measured are one class, 100 Mbit/s and 10 ms. Into *map.
 * LH_ERR_LIMIT as above. */
lh_status lh_live_map_offer(const lh_fleet_options *options, const lh_map_machine *machines,
                            const char *const *sites, uint32_t count, lh_live_map *map,
                            lh_error *error);
/* As _make, at once, for whoever has to plan with what is known: every candidate is a machine, or
 * one together with its team, in their order, all by what they say where the speed of one is not
 * known from stages; and every two sites have a way. LH_ERR_UNAVAILABLE: there is no candidate;
 * LH_ERR_LIMIT as above. */
lh_status lh_live_map_assume(const lh_fleet_options *options, const lh_candidates *candidates,
                             const lh_stage_speeds *speeds, lh_live_map *map, lh_error *error);
/* Whether _assume goes by what stages have measured of these candidates, who are alone. */
bool lh_live_map_is_of_stages(const lh_candidates *candidates, const lh_stage_speeds *speeds);
/* Notes which teams stand in this chain (NULL: none does) and what teams have measured, as far as
 * all of their members are in the map. */
void lh_live_map_note_teams(lh_live_map *map, const lh_stage_speeds *speeds, const lh_chain *chain);
/* The chain as a layout of the map's machines. False: one of them is not in it. */
bool lh_live_map_layout(const lh_live_map *map, const lh_chain *chain, lh_layout *layout);
/* Whether another plan may be right than for `before`: machines came or went, or a speed, a rate or
 * a delay is another one by more than a tenth. */
bool lh_live_map_has_drifted(const lh_live_map *map, const lh_live_map *before);
