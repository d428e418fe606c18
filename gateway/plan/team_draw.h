/* Which machines of a map are teams, given how many of each site compute a layer together. The
 * order of the map's machines changes nothing. Pure; thread: any. */
#pragma once

#include "gateway/plan/team.h"

/* Of each of the map's sites: so many machines each; 0, 1: alone. */
typedef struct lh_team_sizes {
    uint32_t of[LH_MAP_SITES_MAX];
} lh_team_sizes;

/* Of all sites the same. */
lh_team_sizes lh_team_sizes_alike(uint32_t size);
/* Of each site that of the first team that stands there; else 0. */
lh_team_sizes lh_team_sizes_standing(const lh_fleet_map *map);
/* How many machines of the site may join others: not those that do not say where, are excluded or
 * pinned, or where nothing is known of the site's own link or of what a layer gathers. */
uint32_t lh_team_joinable(const lh_fleet_map *map, uint32_t site);
/* Every machine in one team, into teams[map->machine_count]; returns how many. Those that stand, as
 * the map knows, stay together where their site's size is theirs and all may join; others are
 * joined in the order of their names, the first of them leads. Who finds no team stays alone. */
uint32_t lh_team_sizes_draw(const lh_fleet_map *map, const lh_team_sizes *sizes, lh_team *teams);
