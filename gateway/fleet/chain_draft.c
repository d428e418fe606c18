/* Candidates, a plan, a chain. */
#include "gateway/fleet/chain_draft.h"

#include "gateway/fleet/aimed_plan.h"
#include "gateway/fleet/held_plan.h"
#include "gateway/fleet/teams.h"
#include "gateway/plan/even_split.h"

#include <stdlib.h>

/* An even split, and its machines. */
typedef struct evenly {
    lh_map_machine *machines;
    lh_even_split *split;
} evenly;

/* Makes machines of the candidates, and of `others` behind them, so that all are comparable. */
static lh_status split_create(const lh_fleet_options *options, const lh_candidates *candidates,
                              const lh_candidates *others, evenly *e, lh_error *error) {
    const uint32_t count = candidates->count + others->count;
    *e = (evenly){.machines = calloc((size_t)count + 1, sizeof *e->machines)};
    if (!e->machines)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory to plan for %u workers", count);
    lh_candidates_machines_beside(candidates, others, options->model, options->aim.sites,
                                  e->machines);
    return lh_even_split_create(options->model, e->machines, count, &options->aim, &e->split,
                                error);
}

static void split_destroy(evenly *e) {
    lh_even_split_destroy(e->split);
    free(e->machines);
}

static lh_status revise(const lh_fleet_options *options, const lh_candidates *candidates,
                        const lh_layout *before, lh_layout *plan, lh_error *error) {
    static const lh_candidates none;
    evenly e;
    lh_status status = split_create(options, candidates, &none, &e, error);
    if (status == LH_OK)
        status = lh_even_split_revise(e.split, before, plan, error);
    split_destroy(&e);
    return status;
}

/* What a search that is cut short finds no place for may still fit; and where it does not, the
 * split says in figures why. */
static lh_status make_plan(const lh_fleet_options *options, const lh_live_planner *planner,
                           const lh_candidates *candidates, const lh_layout *before,
                           lh_layout *plan, lh_error *error) {
    lh_status status = LH_ERR_LIMIT;
    if (options->aim.goal != LH_GOAL_EVEN) {
        const lh_aim aim = lh_live_planner_aim(planner);
        status =
            lh_aimed_plan_make(options, candidates, &planner->speeds, &aim, before, plan, error);
    }
    return status == LH_ERR_LIMIT ? revise(options, candidates, before, plan, error) : status;
}

/* What is made, and when. */
typedef struct drafting {
    const lh_fleet_options *options;
    const lh_live_planner *planner;
    const lh_chain *present;
    uint32_t epoch;
    int64_t now_us;
} drafting;

static lh_status make_of(const drafting *d, const lh_candidates *candidates, lh_chain *chain,
                         lh_error *error) {
    const lh_fleet_options *options = d->options;
    lh_layout plan, before = lh_chain_layout(d->present, candidates->workers, candidates->count);
    if (before.stage_count == 0)
        lh_held_plan(candidates->workers, candidates->count, options->model->layers,
                     options->model_digest, &before);
    lh_status status = make_plan(options, d->planner, candidates, &before, &plan, error);
    if (status == LH_OK)
        status = lh_chain_form(chain, &plan, candidates->workers, &options->origin, d->epoch,
                               d->now_us, error);
    if (status == LH_OK)
        lh_teams_enlist(candidates, chain);
    return status;
}

lh_status lh_draft_make(const lh_fleet_options *options, const lh_draft_view *view,
                        const lh_chain *present, uint32_t epoch, int64_t now_us, lh_chain *chain,
                        lh_error *error) {
    lh_candidates alone;
    lh_candidates_find(view->registry, view->avoidance, now_us, &alone);
    const drafting d = {options, view->planner, present, epoch, now_us};
    lh_candidates teams = alone;
    if (alone.count == 0 && lh_registry_count(view->registry) > 0)
        return lh_fail(error, LH_ERR_UNAVAILABLE,
                       "every worker is leaving, has failed to load its stage, is suspended or is "
                       "not reached");
    lh_status status = lh_teams_draw(options, view->planner, present, &teams, error);
    if (status == LH_OK)
        status = make_of(&d, &teams, chain, error);
    /* A team has room for what its members' parts have room for, by their speeds: one that is fast
     * and small keeps large ones from holding what they could. */
    return status == LH_ERR_LIMIT && teams.count < alone.count ? make_of(&d, &alone, chain, error)
                                                               : status;
}

bool lh_draft_is_possible(const lh_fleet_options *options, const lh_draft_view *view,
                          const lh_chain *present, int64_t now_us) {
    static const lh_link_avoidance nobody;
    lh_chain draft = *present;
    const lh_draft_view all = {view->registry, &nobody, view->planner};
    return lh_draft_make(options, &all, present, 0, now_us, &draft, NULL) == LH_OK;
}

/* The workers of a chain, with their teams, out of all that are alone; in *plan what they have.
 * False: one is not among them. */
static bool find_members(const lh_chain *chain, const lh_candidates *alone, lh_candidates *members,
                         lh_layout *plan) {
    *members = (lh_candidates){0};
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *stage = &chain->stages[i];
        lh_candidate_team team = {.follower_count = stage->team.follower_count};
        const lh_worker *leader = lh_candidates_search(alone, stage->name);
        for (uint32_t k = 0; k < team.follower_count; k++) {
            team.followers[k] = lh_candidates_search(alone, stage->team.followers[k].name);
            if (!team.followers[k])
                return false;
        }
        if (!leader)
            return false;
        members->workers[members->count] = leader;
        members->teams[members->count++] = team;
    }
    *plan = lh_chain_layout(chain, members->workers, members->count);
    return true;
}

/* How much faster the best split of these is than what the members have; 0: they have no split. */
static lh_status split_gain(const lh_fleet_options *options, const lh_candidates *candidates,
                            const lh_candidates *members, const lh_layout *before, lh_layout *plan,
                            double *gain) {
    uint32_t all[LH_WORKERS_MAX];
    evenly e;
    lh_layout present = *before;
    *gain = 0;
    for (uint32_t i = 0; i < candidates->count; i++)
        all[i] = i;
    for (uint32_t i = 0; i < present.stage_count; i++)
        present.stages[i].machine += candidates->count;
    lh_status status = split_create(options, candidates, members, &e, NULL);
    if (status == LH_OK)
        status = lh_even_split_find(e.split, all, candidates->count, plan, NULL);
    if (status == LH_OK)
        *gain =
            lh_even_split_slowest_us(e.split, &present) / lh_even_split_slowest_us(e.split, plan);
    split_destroy(&e);
    return status;
}

double lh_draft_gain(const lh_fleet_options *options, const lh_live_planner *planner,
                     const lh_chain *present, lh_candidates *candidates, lh_layout *plan) {
    const lh_candidates alone = *candidates;
    lh_candidates members;
    lh_layout before;
    lh_error error;
    double gain;
    if (!find_members(present, candidates, &members, &before) ||
        lh_teams_draw(options, planner, present, candidates, &error) != LH_OK)
        return 0;
    lh_status status = split_gain(options, candidates, &members, &before, plan, &gain);
    if (status == LH_ERR_LIMIT && candidates->count < alone.count) {
        *candidates = alone;
        split_gain(options, candidates, &members, &before, plan, &gain);
    }
    return gain;
}
