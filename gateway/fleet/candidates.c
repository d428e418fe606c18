/* The registry's workers, but for some. */
#include "gateway/fleet/candidates.h"

#include "gateway/plan/even_split.h"
#include "gateway/plan/team.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define WEIGHT_OF_FASTEST 1000.0

void lh_candidates_find(const lh_registry *registry, const lh_link_avoidance *avoidance,
                        int64_t now_us, lh_candidates *candidates) {
    candidates->count = 0; /* the places behind it stay as they are: there are many */
    for (uint32_t i = 0; i < lh_registry_count(registry); i++) {
        const lh_worker *worker = lh_registry_at(registry, i);
        if (!lh_worker_is_usable(worker, now_us) ||
            lh_passed_list_find(&avoidance->passed, worker->report.name, now_us))
            continue;
        candidates->teams[candidates->count] = (lh_candidate_team){0};
        candidates->workers[candidates->count++] = worker;
    }
}

lh_map_machine lh_candidates_machine_of(const lh_worker_report *report) {
    lh_map_machine machine = {.threads = report->threads,
                              .memory_bytes = report->memory_bytes,
                              .start = report->speed,
                              .kv_bytes = report->kv_bytes};
    snprintf(machine.name, sizeof machine.name, "%s", report->name);
    return machine;
}

static const lh_worker_report *report_of(const lh_worker *leader, const lh_candidate_team *team,
                                         uint32_t member) {
    return &(member == 0 ? leader : team->followers[member - 1])->report;
}

/* By the parts that members have where their speeds are known. */
static uint64_t join_kv(const lh_kv_need *kv, const lh_worker *leader,
                        const lh_candidate_team *team) {
    uint64_t offered[LH_TEAM_MEMBERS_MAX];
    double parts[LH_TEAM_MEMBERS_MAX];
    bool is_known = true;
    for (uint32_t i = 0; i <= team->follower_count; i++) {
        const lh_worker_report *report = report_of(leader, team, i);
        offered[i] = report->kv_bytes;
        is_known &= lh_machine_speed_is_known(&report->speed);
        parts[i] = report->speed.token_us > 0 ? 1 / report->speed.token_us : 1;
    }
    for (uint32_t i = 0; i <= team->follower_count && !is_known; i++)
        parts[i] = 1;
    return lh_kv_need_together(kv, offered, parts, team->follower_count + 1);
}

void lh_candidates_weigh(const lh_worker *leader, const lh_candidate_team *team,
                         uint32_t *weights) {
    lh_map_machine machines[LH_TEAM_MEMBERS_MAX];
    double fastest_us = 0;
    for (uint32_t i = 0; i <= team->follower_count; i++)
        machines[i] = lh_candidates_machine_of(report_of(leader, team, i));
    lh_even_compare_speeds(machines, team->follower_count + 1);
    for (uint32_t i = 0; i <= team->follower_count; i++)
        if (fastest_us == 0 || machines[i].start.token_us < fastest_us)
            fastest_us = machines[i].start.token_us;
    for (uint32_t i = 0; i <= team->follower_count; i++) {
        double weight = WEIGHT_OF_FASTEST * fastest_us / machines[i].start.token_us;
        weights[i] = weight > 1 ? (uint32_t)(weight + 0.5) : 1;
    }
}

/* The first member whose part does not fit is what limits all. */
static void join_memory(lh_map_machine *machine, const lh_worker *leader,
                        const lh_candidate_team *team, uint64_t embedding_bytes) {
    uint32_t weights[LH_TEAM_MEMBERS_MAX];
    double sum = 0;
    lh_team_memory memory = lh_team_memory_begin();
    lh_candidates_weigh(leader, team, weights);
    for (uint32_t i = 0; i <= team->follower_count; i++)
        sum += weights[i];
    for (uint32_t i = 0; i <= team->follower_count; i++)
        lh_team_memory_add(&memory, report_of(leader, team, i)->memory_bytes, sum / weights[i],
                           embedding_bytes);
    machine->memory_bytes = (uint64_t)memory.bytes;
    machine->first_extra_bytes = lh_team_memory_first_extra(&memory, embedding_bytes);
}

static void join_in(lh_map_machine *machine, const lh_worker *leader, const lh_candidate_team *team,
                    const lh_model_profile *model) {
    const uint32_t members = team->follower_count + 1;
    if (members == 1)
        return;
    for (uint32_t i = 0; i < team->follower_count; i++)
        machine->threads += team->followers[i]->report.threads;
    join_memory(machine, leader, team, model->embedding_bytes);
    machine->kv_bytes = join_kv(&model->kv, leader, team);
    machine->start.prompt_us /= members;
    machine->start.token_us /= members;
}

static void list_machines(const lh_candidates *candidates, const lh_model_profile *model,
                          lh_map_machine *machines, const char **sites) {
    for (uint32_t i = 0; i < candidates->count; i++) {
        machines[i] = lh_candidates_machine_of(&candidates->workers[i]->report);
        join_in(&machines[i], candidates->workers[i], &candidates->teams[i], model);
        sites[i] = candidates->workers[i]->report.site;
    }
}

void lh_candidates_machines_beside(const lh_candidates *candidates, const lh_candidates *others,
                                   const lh_model_profile *model, const char *site_order,
                                   lh_map_machine *machines) {
    const uint32_t first = candidates->count, count = first + others->count;
    const char *sites[2 * LH_WORKERS_MAX];
    assert(first <= LH_WORKERS_MAX && others->count <= LH_WORKERS_MAX);
    list_machines(candidates, model, machines, sites);
    list_machines(others, model, machines + first, sites + first);
    lh_even_compare_speeds(machines, count);
    lh_even_order_sites(machines, sites, count, site_order);
}

void lh_candidates_machines(const lh_candidates *candidates, const lh_model_profile *model,
                            const char *site_order, lh_map_machine *machines) {
    static const lh_candidates none;
    lh_candidates_machines_beside(candidates, &none, model, site_order, machines);
}

const lh_worker *lh_candidates_search(const lh_candidates *candidates, const char *name) {
    for (uint32_t i = 0; i < candidates->count; i++)
        if (strcmp(candidates->workers[i]->report.name, name) == 0)
            return candidates->workers[i];
    return NULL;
}

/* ---- Teams ---- */

static const lh_worker *find(const lh_candidates *candidates, const lh_fleet_map *alone,
                             uint32_t machine) {
    return lh_candidates_search(candidates, alone->machines[machine].name);
}

/* False: one of it is not there, or computes alone. */
static bool add_team(const lh_candidates *from, const lh_fleet_map *alone, const lh_team *team,
                     lh_candidates *to) {
    lh_candidate_team made = {.follower_count = team->count - 1};
    const lh_worker *leader = find(from, alone, team->members[0]);
    for (uint32_t i = 1; i < team->count; i++) {
        made.followers[i - 1] = find(from, alone, team->members[i]);
        if (!made.followers[i - 1] || made.followers[i - 1]->is_alone)
            return false;
    }
    if (!leader || (leader->is_alone && team->count > 1))
        return false;
    to->teams[to->count] = made;
    to->workers[to->count++] = leader;
    return true;
}

static bool has_machine(const lh_layout *layout, uint32_t machine) {
    for (uint32_t i = 0; layout && i < layout->stage_count; i++)
        if (layout->stages[i].machine == machine)
            return true;
    return false;
}

bool lh_candidates_join(lh_candidates *candidates, const lh_fleet_map *alone,
                        const lh_team_map *drawn, const lh_layout *needed) {
    lh_candidates made = {0};
    for (uint32_t i = 0; i < drawn->map.machine_count; i++)
        if (!add_team(candidates, alone, &drawn->teams[i], &made) && has_machine(needed, i))
            return false;
    *candidates = made;
    return true;
}
