/* A map is drawn, and what it says is done with the candidates. */
#include "gateway/fleet/teams.h"

#include <stdlib.h>
#include <string.h>

static lh_status draw(const lh_fleet_options *options, const lh_live_planner *planner,
                      const lh_chain *present, lh_candidates *candidates, lh_live_map *live,
                      lh_error *error) {
    static const lh_stage_speeds nothing; /* that counts beside offers */
    const bool is_of_stages = lh_live_map_is_of_stages(candidates, &planner->speeds);
    const bool has_objective = options->aim.goal != LH_GOAL_EVEN;
    const lh_aim aim = has_objective ? lh_live_planner_aim(planner) : options->aim;
    lh_team_sizes sizes;
    lh_team_map *drawn = NULL;
    lh_status status = lh_live_map_assume(options, candidates, &planner->speeds, live, error);
    if (status != LH_OK)
        return status;
    lh_live_map_note_teams(live, is_of_stages ? &planner->speeds : &nothing, present);
    if (options->teams.is_auto && !has_objective)
        sizes = lh_team_sizes_fastest(&live->map, &aim);
    else
        status = lh_team_policy_choose_quickly(&options->teams, &live->map, &aim, &sizes, error);
    if (status == LH_OK)
        status = lh_team_map_create(&live->map, &sizes, &drawn, error);
    if (status == LH_OK)
        lh_candidates_join(candidates, &live->map, drawn, NULL);
    lh_team_map_destroy(drawn);
    return status;
}

lh_status lh_teams_draw(const lh_fleet_options *options, const lh_live_planner *planner,
                        const lh_chain *present, lh_candidates *candidates, lh_error *error) {
    if (!lh_team_policy_makes_teams(&options->teams) || candidates->count < 2)
        return LH_OK;
    lh_live_map *live = calloc(1, sizeof *live);
    lh_status status = live ? draw(options, planner, present, candidates, live, error)
                            : lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan");
    free(live);
    return status;
}

/* ---- Into a chain ---- */

static void enlist(lh_chain_team *team, const lh_worker *leader, const lh_candidate_team *from) {
    *team = (lh_chain_team){.follower_count = from->follower_count};
    for (uint32_t i = 0; i < from->follower_count; i++) {
        const lh_worker_report *report = &from->followers[i]->report;
        memcpy(team->followers[i].name, report->name, sizeof team->followers[i].name);
        team->followers[i].instance = report->instance;
    }
    if (from->follower_count > 0)
        lh_candidates_weigh(leader, from, team->weights);
}

void lh_teams_enlist(const lh_candidates *candidates, lh_chain *chain) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        for (uint32_t k = 0; k < candidates->count; k++)
            if (strcmp(candidates->workers[k]->report.name, chain->stages[i].name) == 0)
                enlist(&chain->stages[i].team, candidates->workers[k], &candidates->teams[k]);
}
