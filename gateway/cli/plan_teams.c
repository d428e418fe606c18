/* Site after site, by the verdict of each. */
#include "gateway/cli/plan_teams.h"

#include "gateway/plan/team.h"

#include <math.h>
#include <stdio.h>

void lh_plan_team_name(const lh_team_map *made, uint32_t machine,
                       char text[LH_PLAN_TEAM_NAME_BYTES]) {
    const char *name = made->map.machines[machine].name;
    if (made->teams[machine].count > 1)
        snprintf(text, LH_PLAN_TEAM_NAME_BYTES, "%s +%u", name, made->teams[machine].count - 1);
    else
        snprintf(text, LH_PLAN_TEAM_NAME_BYTES, "%s", name);
}

/* Of one layer. */
static void put_times(lh_text_page *page, const lh_model_profile *model,
                      const lh_team_verdict *verdict) {
    lh_text_page_put(page, "a layer takes %u of them %.3g ms together", verdict->size,
                     verdict->together_us / 1000);
    if (verdict->rows > 1)
        lh_text_page_put(page, " for %u rows", verdict->rows);
    lh_text_page_put(page, " (%.3g for %u gathers), one alone %.3g", verdict->gathers_us / 1000,
                     lh_team_layer_gathers(model), verdict->alone_us / 1000);
}

static void put_members(lh_text_page *page, const lh_fleet_map *alone, const lh_team *team) {
    for (uint32_t i = 0; i < team->count; i++)
        lh_text_page_put(page, "%s%s", i > 0 ? ", " : "  ", alone->machines[team->members[i]].name);
    lh_text_page_put(page, " compute each layer together");
    lh_text_page_break(page);
}

/* Of the site's first team; 0: there is none. */
static uint32_t size_of(const lh_team_map *made, uint32_t site) {
    for (uint32_t m = 0; m < made->map.machine_count; m++)
        if (made->map.machines[m].site == site && made->teams[m].count > 1)
            return made->teams[m].count;
    return 0;
}

static void put_site(lh_text_page *page, const lh_fleet_map *alone, const lh_team_map *made,
                     const lh_aim *aim, uint32_t site) {
    const uint32_t size = size_of(made, site);
    const lh_team_verdict verdict = lh_team_judge(alone, aim, site, size);
    if (verdict.joinable < 2 || isinf(verdict.together_us))
        return;
    lh_text_page_put(page, "%s: ", alone->sites[site]);
    put_times(page, &alone->model, &verdict);
    if (size == 0)
        lh_text_page_put(page, verdict.together_us < verdict.alone_us
                                   ? ": the whole chain gains nothing by it"
                                   : ": they stay behind each other");
    lh_text_page_break(page);
    for (uint32_t m = 0; m < made->map.machine_count; m++)
        if (made->map.machines[m].site == site && made->teams[m].count > 1)
            put_members(page, alone, &made->teams[m]);
}

void lh_plan_teams_put(lh_text_page *page, const lh_fleet_map *alone, const lh_team_map *made,
                       const lh_aim *aim) {
    bool has_any = false;
    for (uint32_t s = 0; s < alone->site_count; s++)
        has_any |= lh_team_joinable(alone, s) >= 2;
    if (!has_any)
        return;
    lh_text_page_break(page);
    for (uint32_t s = 0; s < alone->site_count; s++)
        put_site(page, alone, made, aim, s);
}
