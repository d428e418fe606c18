/* Draws, and joins each. */
#include "gateway/plan/team_map.h"

#include <stdlib.h>

lh_status lh_team_map_create(const lh_fleet_map *alone, const lh_team_sizes *sizes,
                             lh_team_map **made, lh_error *error) {
    lh_team_map *m = malloc(sizeof *m);
    lh_map_machine *machines = calloc((size_t)alone->machine_count + 1, sizeof *machines);
    lh_team *teams = calloc((size_t)alone->machine_count + 1, sizeof *teams);
    if (!m || !machines || !teams) {
        free(teams);
        free(machines);
        free(m);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan for %u machines",
                       alone->machine_count);
    }
    m->map = *alone;
    m->map.machines = machines;
    m->teams = teams;
    m->map.machine_count = lh_team_sizes_draw(alone, sizes, teams);
    for (uint32_t i = 0; i < m->map.machine_count; i++)
        lh_team_join(alone, &teams[i], &machines[i]);
    m->map.teams = NULL;
    m->map.team_count = 0;
    *made = m;
    return LH_OK;
}

void lh_team_map_destroy(lh_team_map *made) {
    if (!made)
        return;
    free(made->teams);
    free(made->map.machines);
    free(made);
}

uint32_t lh_team_map_find(const lh_team_map *made, uint32_t leader) {
    for (uint32_t i = 0; i < made->map.machine_count; i++)
        if (made->teams[i].members[0] == leader)
            return i;
    return UINT32_MAX;
}
