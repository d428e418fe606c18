/* Fleets made up from a seed: for tests of the planner, and for its simulation. */
#pragma once

#include "gateway/plan/fleet_map.h"

/* Of up to so many machines, sites and layers: machines up to eight times as fast as others, links
 * of 10 to 1000 Mbit/s and 0.5 to 100 ms between sites, memory that is short now and then. The
 * machines' array is the map's until random_map_reset. */
void random_map_make(uint64_t *seed, uint32_t machines_max, uint32_t sites_max, uint32_t layers_max,
                     lh_fleet_map *map);
/* The same fleet in another order of machines and sites, and with other indices; its names stay. */
void random_map_shuffle(uint64_t *seed, const lh_fleet_map *map, lh_fleet_map *shuffled);
/* Every other machine has room for keys and values in a part of the layers alone, or, one of them,
 * in none. */
void random_map_bound_kv(uint64_t *seed, lh_fleet_map *map);
void random_map_reset(lh_fleet_map *map);
