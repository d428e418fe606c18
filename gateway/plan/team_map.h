/* A map in which machines that compute each layer together are one. Thread: one at a time. */
#pragma once

#include "gateway/plan/team_draw.h"

/* map.machines are the teams, in their order. */
typedef struct lh_team_map {
    lh_fleet_map map;
    lh_team *teams; /* [map.machine_count], in indices of the map of machines alone; owned */
} lh_team_map;

/* Of a map of machines alone that has passed its check. LH_ERR_NO_MEMORY. */
lh_status lh_team_map_create(const lh_fleet_map *alone, const lh_team_sizes *sizes,
                             lh_team_map **made, lh_error *error);
void lh_team_map_destroy(lh_team_map *made);
/* The machine of `made` that this one of the map of machines alone leads, or UINT32_MAX. */
uint32_t lh_team_map_find(const lh_team_map *made, uint32_t leader);
