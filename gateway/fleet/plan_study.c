/* A map, a search, and what the present chain would be in the same map. */
#include "gateway/fleet/plan_study.h"

#include "gateway/plan/layout_resplit.h"

#include <stdlib.h>
#include <string.h>

/* Rows of a step by which the replay of sequences is reckoned. */
#define MANY_ROWS 512u

/* A plan that keeps the order of the chain is taken where it is so nearly as good: fewer machines
 * load anything, and no new hop is needed. */
#define NEARLY 1.01

/* The chain in the map of its own teams. False: one of its stages is not in there. */
static bool find_present(const lh_plan_study *s, const lh_chain *chain, lh_layout *layout) {
    if (!lh_live_map_layout(&s->live, chain, layout))
        return false;
    for (uint32_t i = 0; i < layout->stage_count; i++) {
        uint32_t machine = lh_team_map_find(s->present_map, layout->stages[i].machine);
        if (machine == UINT32_MAX ||
            s->present_map->teams[machine].count != chain->stages[i].team.follower_count + 1)
            return false;
        layout->stages[i].machine = machine;
    }
    return true;
}

static lh_status read_chain(lh_plan_study *s, const lh_chain *chain, lh_error *error) {
    const lh_team_sizes sizes = lh_team_sizes_standing(&s->live.map);
    lh_status status = lh_team_map_create(&s->live.map, &sizes, &s->present_map, error);
    if (status != LH_OK)
        return status;
    if (!find_present(s, chain, &s->present))
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "a worker of the chain has not measured its stage yet");
    return lh_layout_is_sound(&s->present, &s->present_map->map)
               ? LH_OK
               : lh_fail(error, LH_ERR_UNAVAILABLE,
                         "a link of the chain has not been measured yet");
}

lh_status lh_plan_study_create(const lh_fleet_options *options, const lh_candidates *candidates,
                               const lh_stage_speeds *speeds, const lh_chain *chain,
                               const lh_aim *aim, int64_t now_us, lh_plan_study **study,
                               lh_error *error) {
    lh_plan_study *s = calloc(1, sizeof *s);
    if (!s)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan");
    s->aim = *aim;
    s->policy = options->teams;
    s->begun_us = now_us;
    lh_status status = lh_live_map_make(options, candidates, speeds, &s->live, error);
    if (status == LH_OK)
        lh_live_map_note_teams(&s->live, speeds, chain);
    if (status == LH_OK)
        status = read_chain(s, chain, error);
    if (status != LH_OK) {
        lh_plan_study_destroy(s);
        return status;
    }
    *study = s;
    return LH_OK;
}

void lh_plan_study_destroy(lh_plan_study *study) {
    if (!study)
        return;
    lh_team_map_destroy(study->map);
    lh_team_map_destroy(study->present_map);
    free(study);
}

/* ---- The search ---- */

static bool is_same_team(const lh_team *a, const lh_team *b) {
    return a->count == b->count &&
           memcmp(a->members, b->members, a->count * sizeof *a->members) == 0;
}

/* The chain as it is in the map of the plan. False: it has a team that is none there. */
static bool keep_present(const lh_plan_study *s, lh_layout *layout) {
    *layout = s->present;
    for (uint32_t i = 0; i < layout->stage_count; i++) {
        const lh_team *team = &s->present_map->teams[s->present.stages[i].machine];
        uint32_t machine = lh_team_map_find(s->map, team->members[0]);
        if (machine == UINT32_MAX || !is_same_team(&s->map->teams[machine], team))
            return false;
        layout->stages[i].machine = machine;
    }
    return true;
}

static lh_status search(lh_plan_study *s) {
    const lh_fleet_map *alone = &s->live.map;
    lh_team_sizes sizes;
    lh_layout present;
    lh_layout_plan kept;
    lh_status status = lh_team_policy_choose(&s->policy, alone, &s->aim, &sizes, &s->error);
    if (status == LH_OK)
        status = lh_team_map_create(alone, &sizes, &s->map, &s->error);
    if (status == LH_OK)
        status = lh_layout_search(&s->map->map, &s->aim, &s->plan, &s->error);
    if (status != LH_OK || !keep_present(s, &present) ||
        lh_layout_resplit(&s->map->map, &s->aim, &present, &kept, &s->error) != LH_OK ||
        kept.value > NEARLY * s->plan.value || kept.kv.pages < s->plan.kv.pages)
        return status;
    kept.bound = s->plan.bound;
    s->plan = kept;
    return LH_OK;
}

static void appraise(lh_plan_study *s, lh_cost_chain *costs) {
    const lh_fleet_map *map = &s->map->map;
    lh_layout_costs(&s->present, &s->present_map->map, s->aim.wire, costs);
    s->present_value = lh_aim_judge(&s->aim, costs, NULL);
    lh_layout_costs(&s->plan.layout, map, s->aim.wire, costs);
    s->prompt_row_us = lh_cost_busiest_us(costs, 0, MANY_ROWS) / MANY_ROWS;
    s->loading_us = lh_layout_loading_us(map, &s->plan.layout);
}

void lh_plan_study_run(lh_plan_study *study) {
    lh_cost_chain *costs = malloc(sizeof *costs);
    study->status =
        costs ? search(study) : lh_fail(&study->error, LH_ERR_NO_MEMORY, "no memory to plan");
    if (study->status == LH_OK)
        study->status = lh_idle_reasons_find(&study->map->map, &study->aim, &study->plan,
                                             study->idle, &study->error);
    if (study->status == LH_OK)
        appraise(study, costs);
    free(costs);
}

/* ---- What it found ---- */

static bool is_same_worker(const lh_plan_study *study, uint32_t one, const lh_plan_study *other,
                           uint32_t two) {
    return study->live.instances[one] == other->live.instances[two] &&
           strcmp(study->live.machines[one].name, other->live.machines[two].name) == 0;
}

static bool are_same_workers(const lh_plan_study *study, uint32_t machine,
                             const lh_plan_study *other, uint32_t other_machine) {
    const lh_team *one = &study->map->teams[machine], *two = &other->map->teams[other_machine];
    bool is_same = one->count == two->count;
    for (uint32_t i = 0; i < one->count && is_same; i++)
        is_same = is_same_worker(study, one->members[i], other, two->members[i]);
    return is_same;
}

static bool is_same(const lh_plan_study *study, const lh_layout *a, const lh_plan_study *other,
                    const lh_layout *b) {
    if (a->stage_count != b->stage_count)
        return false;
    for (uint32_t i = 0; i < a->stage_count; i++) {
        const lh_layout_stage *one = &a->stages[i], *two = &b->stages[i];
        if (one->layers.first != two->layers.first || one->layers.last != two->layers.last ||
            !are_same_workers(study, one->machine, other, two->machine))
            return false;
    }
    return true;
}

bool lh_plan_study_is_content(const lh_plan_study *study) {
    return study->plan.value * LH_MOVE_BETTER_MIN > study->present_value;
}

bool lh_plan_study_agrees(const lh_plan_study *study, const lh_plan_study *other) {
    return study->status == LH_OK && other->status == LH_OK &&
           is_same(study, &study->plan.layout, other, &other->plan.layout);
}

bool lh_plan_study_knows(const lh_plan_study *study, const lh_chain *chain) {
    lh_layout layout;
    return find_present(study, chain, &layout) &&
           layout.stage_count == study->present.stage_count &&
           memcmp(layout.stages, study->present.stages,
                  layout.stage_count * sizeof *layout.stages) == 0;
}

uint32_t lh_plan_study_machine(const lh_plan_study *study, const char *worker) {
    uint32_t index = lh_fleet_map_find_machine(&study->live.map, worker);
    for (uint32_t m = 0; study->map && m < study->map->map.machine_count; m++)
        for (uint32_t i = 0; i < study->map->teams[m].count; i++)
            if (study->map->teams[m].members[i] == index)
                return m;
    return UINT32_MAX;
}

/* ---- The plan for workers ---- */

static uint32_t find_worker(const lh_candidates *workers, const lh_plan_study *study,
                            uint32_t machine) {
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->workers[i]->report.instance == study->live.instances[machine] &&
            strcmp(workers->workers[i]->report.name, study->live.machines[machine].name) == 0)
            return i;
    return LH_LAYOUT_NOBODY;
}

static bool are_there(const lh_candidates *workers, const lh_plan_study *study) {
    const lh_layout *layout = &study->plan.layout;
    for (uint32_t i = 0; i < layout->stage_count; i++) {
        const lh_team *team = &study->map->teams[layout->stages[i].machine];
        for (uint32_t k = 0; k < team->count; k++)
            if (find_worker(workers, study, team->members[k]) == LH_LAYOUT_NOBODY)
                return false;
    }
    return true;
}

bool lh_plan_study_plan(const lh_plan_study *study, lh_candidates *workers, lh_layout *plan) {
    const lh_layout *layout = &study->plan.layout;
    if (!are_there(workers, study) ||
        !lh_candidates_join(workers, &study->live.map, study->map, layout))
        return false;
    plan->stage_count = layout->stage_count;
    for (uint32_t i = 0; i < layout->stage_count; i++) {
        const lh_layout_stage *stage = &layout->stages[i];
        const lh_team *team = &study->map->teams[stage->machine];
        plan->stages[i] =
            (lh_layout_stage){find_worker(workers, study, team->members[0]), stage->layers};
    }
    return true;
}
