/* A successor, and when the chain may change for the better. */
#include "gateway/fleet/handover.h"

#include "common/base/log.h"
#include "gateway/fleet/chain_draft.h"
#include "gateway/fleet/teams.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Between two attempts to plan a successor. */
#define ATTEMPT_INTERVAL_US 1000000
/* Between two changes for the better, in units of the delay. */
#define PAUSE_DELAYS 6
/* The pause grows up to this many times its first length. */
#define PAUSE_GROWTH_MAX 16
/* A split into stages rounds to whole layers. */
#define NO_WORSE 0.95
/* A worker that fails says so sooner: it has a few seconds to connect, and a few for the step. */
#define TRIAL_PATIENCE_US 15000000

const lh_chain *lh_handover_successor(const lh_handover *handover) {
    return handover->cause != LH_HANDOVER_NONE ? &handover->chain : NULL;
}

const char *lh_handover_cause_text(const lh_handover *handover) {
    static const char *const names[] = {"", "a worker leaves", "it will be faster"};
    return names[handover->cause];
}

/* ---- Of a successor ---- */

/* Whether the workers of this stage have other layers now, or other parts of them, or are not those
 * that compute it together. */
static bool must_prepare(const lh_handover *handover, const lh_chain *present, uint32_t stage) {
    const lh_chain_stage *next = &handover->chain.stages[stage];
    int index = lh_chain_find(present, next->name);
    return index < 0 || !lh_chain_has_same_parts(&present->stages[index], next);
}

int lh_handover_task(const lh_handover *handover, const lh_chain *present, const char *worker,
                     uint32_t *member, bool *holds) {
    if (handover->cause == LH_HANDOVER_NONE || !handover->is_tried)
        return -1;
    int index = lh_chain_find_member(&handover->chain, worker, member);
    if (index < 0 || !must_prepare(handover, present, (uint32_t)index))
        return -1;
    *holds = handover->holds[index];
    return index;
}

/* ---- Its hops ---- */

lh_new_hops lh_handover_hops(const lh_handover *handover, const lh_handover_view *view) {
    assert(handover->cause != LH_HANDOVER_NONE);
    return (lh_new_hops){view->chain, &handover->chain, view->registry, view->first_trial};
}

int lh_handover_trial(const lh_handover *handover, const lh_handover_view *view,
                      const char *worker) {
    if (handover->cause == LH_HANDOVER_NONE)
        return -1;
    const lh_new_hops hops = lh_handover_hops(handover, view);
    int index = lh_chain_find(&handover->chain, worker);
    return index >= 0 && lh_new_hops_has(&hops, (uint32_t)index + 1) ? index : -1;
}

bool lh_handover_tries_first(const lh_handover *handover, const lh_handover_view *view) {
    if (handover->cause == LH_HANDOVER_NONE)
        return false;
    const lh_new_hops hops = lh_handover_hops(handover, view);
    return lh_new_hops_has(&hops, 0);
}

int lh_handover_failed_hop(const lh_handover *handover, const lh_handover_view *view,
                           int64_t now_us) {
    if (handover->cause == LH_HANDOVER_NONE)
        return -1;
    const lh_new_hops hops = lh_handover_hops(handover, view);
    bool is_over = handover->unproven_since_us > 0 &&
                   now_us >= handover->unproven_since_us + TRIAL_PATIENCE_US;
    if (is_over)
        return lh_new_hops_unproven(&hops);
    /* One that was proven, and is down, has a while to come back: what was loaded is worth it. */
    return handover->is_tried ? -1 : lh_new_hops_failed(&hops);
}

static void follow_trials(lh_handover *handover, const lh_handover_view *view, int64_t now_us) {
    const lh_new_hops hops = lh_handover_hops(handover, view);
    if (lh_new_hops_unproven(&hops) >= 0) {
        if (handover->unproven_since_us == 0)
            handover->unproven_since_us = now_us;
        return;
    }
    handover->unproven_since_us = 0;
    if (!handover->is_tried)
        lh_log(LH_LOG_INFO, "fleet", "the next chain's hops are proven in_ms=%lld",
               (long long)((now_us - handover->planned_us) / 1000));
    handover->is_tried = true;
}

/* ---- Whether it is ready ---- */

/* The worker says this of the very part that it was asked to prepare. */
static bool says(const lh_handover *handover, const lh_worker *worker, uint32_t stage,
                 lh_worker_stage_state state) {
    const lh_chain_stage *next = &handover->chain.stages[stage];
    return worker && worker->report.prepared.state == state &&
           worker->report.prepared.first_layer == next->first_layer &&
           worker->report.prepared.last_layer == next->last_layer &&
           worker->report.prepared.team_epoch == next->team.epoch &&
           worker->report.prepared.holds == handover->holds[stage];
}

static bool is_stage_prepared(const lh_handover *handover, const lh_handover_view *view,
                              uint32_t stage) {
    const lh_worker *member;
    if (!must_prepare(handover, view->chain, stage))
        return true;
    for (uint32_t k = 0; lh_chain_member(&handover->chain, view->registry, stage, k, &member); k++)
        if (!says(handover, member, stage, LH_WORKER_READY))
            return false;
    return true;
}

const lh_worker *lh_handover_failed(const lh_handover *handover, const lh_handover_view *view,
                                    uint32_t stage) {
    const lh_worker *member;
    assert(handover->cause != LH_HANDOVER_NONE && stage < handover->chain.stage_count);
    if (!must_prepare(handover, view->chain, stage))
        return NULL;
    for (uint32_t k = 0; lh_chain_member(&handover->chain, view->registry, stage, k, &member); k++)
        if (says(handover, member, stage, LH_WORKER_FAILED))
            return member;
    return NULL;
}

bool lh_handover_awaits_team(const lh_handover *handover, const lh_handover_view *view,
                             uint32_t stage) {
    const lh_worker *member;
    bool awaits = false;
    assert(handover->cause != LH_HANDOVER_NONE && stage < handover->chain.stage_count);
    if (!must_prepare(handover, view->chain, stage))
        return false;
    for (uint32_t k = 0; lh_chain_member(&handover->chain, view->registry, stage, k, &member);
         k++) {
        const bool is_joining =
            says(handover, member, stage, LH_WORKER_LOADING) && member->report.prepared.is_joining;
        if (!is_joining && !says(handover, member, stage, LH_WORKER_READY))
            return false;
        awaits |= is_joining;
    }
    return awaits;
}

/* Whether it could still take over. */
static bool is_sound(const lh_handover *handover, const lh_registry *registry, int64_t now_us) {
    const lh_chain *next = &handover->chain;
    const lh_worker *member;
    bool restarted;
    if (lh_chain_missing(next, registry, &restarted, NULL) >= 0)
        return false;
    for (uint32_t i = 0; i < next->stage_count; i++)
        for (uint32_t k = 0; lh_chain_member(next, registry, i, k, &member); k++)
            if (!lh_worker_is_usable(member, now_us))
                return false;
    return true;
}

bool lh_handover_is_prepared(const lh_handover *handover, const lh_handover_view *view,
                             int64_t now_us) {
    if (handover->cause == LH_HANDOVER_NONE || !is_sound(handover, view->registry, now_us))
        return false;
    const lh_new_hops hops = lh_handover_hops(handover, view);
    if (lh_new_hops_unproven(&hops) >= 0)
        return false;
    for (uint32_t i = 0; i < handover->chain.stage_count; i++)
        if (!is_stage_prepared(handover, view, i))
            return false;
    return true;
}

/* A pause for loading is too much, for being faster, while sequences run. */
static bool is_worth_it(const lh_handover *handover, uint32_t sequences) {
    bool holds_all = true;
    for (uint32_t i = 0; i < handover->chain.stage_count; i++)
        holds_all &= handover->holds[i];
    return handover->cause == LH_HANDOVER_LEAVE || holds_all || sequences == 0;
}

void lh_handover_drop(lh_handover *handover, const char *why) {
    if (handover->cause == LH_HANDOVER_NONE)
        return;
    lh_log(LH_LOG_INFO, "fleet", "the next chain is given up cause=\"%s\" reason=\"%s\"",
           lh_handover_cause_text(handover), why);
    handover->cause = LH_HANDOVER_NONE;
}

void lh_handover_fail(lh_handover *handover, const char *why, int64_t now_us) {
    assert(handover->cause != LH_HANDOVER_NONE);
    lh_handover_drop(handover, why);
    handover->attempt_not_before_us = now_us + ATTEMPT_INTERVAL_US;
}

static void note_better(lh_handover *handover, int64_t now_us) {
    int64_t first_us = handover->options->rebalance_delay_us * PAUSE_DELAYS;
    if (now_us >= handover->often_until_us)
        handover->pause_us = first_us;
    else if (handover->pause_us < PAUSE_GROWTH_MAX * first_us)
        handover->pause_us *= 2;
    handover->often_until_us = now_us + 2 * handover->pause_us;
    handover->better_not_before_us = now_us + handover->pause_us;
}

void lh_handover_complete(lh_handover *handover, uint32_t epoch, bool by_choice, int64_t now_us) {
    assert(handover->cause != LH_HANDOVER_NONE);
    lh_log(LH_LOG_INFO, "fleet",
           "the next chain takes over epoch=%u cause=\"%s\" prepared_in_ms=%lld", epoch,
           lh_handover_cause_text(handover), (long long)((now_us - handover->planned_us) / 1000));
    if (by_choice && handover->cause == LH_HANDOVER_BETTER)
        note_better(handover, now_us);
    handover->cause = LH_HANDOVER_NONE;
}

/* ---- Planning one ---- */

/* Of what one member of a stage holds: its share, and all of the embedding. */
static uint64_t part_bytes(const lh_handover *handover, const lh_chain_stage *stage,
                           uint32_t member) {
    const lh_model_profile *model = handover->options->model;
    const lh_chain_team *team = &stage->team;
    uint64_t bytes =
        lh_layout_stage_bytes(model, (lh_map_layers){stage->first_layer, stage->last_layer});
    uint64_t whole = stage->first_layer == 0 ? model->embedding_bytes : 0, weights = 0;
    if (team->follower_count == 0)
        return bytes;
    for (uint32_t i = 0; i <= team->follower_count; i++)
        weights += team->weights[i];
    return whole + (uint64_t)((double)(bytes - whole) * team->weights[member] / (double)weights);
}

/* Of what the worker has in the present chain. */
static uint64_t held_bytes(const lh_handover *handover, const lh_chain *present,
                           const char *worker) {
    uint32_t number;
    int index = lh_chain_find_member(present, worker, &number);
    return index < 0 ? 0 : part_bytes(handover, &present->stages[index], number);
}

/* Whether all of its workers have room for it beside what they have. Where one has not, none of
 * them loads: they are a team, or none. */
static bool is_room_for(const lh_handover *handover, const lh_handover_view *view, uint32_t stage) {
    const lh_chain_stage *next = &handover->chain.stages[stage];
    const lh_worker *member;
    for (uint32_t k = 0; lh_chain_member(&handover->chain, view->registry, stage, k, &member); k++)
        if (part_bytes(handover, next, k) + held_bytes(handover, view->chain, member->report.name) >
            member->report.memory_bytes)
            return false;
    return true;
}

static void begin(lh_handover *handover, const lh_handover_view *view, const lh_chain *chain,
                  lh_handover_cause cause, uint32_t epoch, int64_t now_us) {
    assert(handover->cause == LH_HANDOVER_NONE && chain->epoch == 0);
    handover->cause = cause;
    handover->chain = *chain;
    handover->planned_us = now_us;
    handover->is_tried = false;
    handover->unproven_since_us = 0;
    handover->problem[0] = 0;
    lh_wire_choice_begin(&handover->options->wire, &handover->chain);
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        lh_chain_stage *next = &handover->chain.stages[i];
        bool is_new = must_prepare(handover, view->chain, i);
        handover->holds[i] = !is_new || is_room_for(handover, view, i);
        if (is_new && next->team.follower_count > 0)
            lh_chain_found_team(&next->team, epoch);
    }
}

static void log_planned(const lh_handover *handover, const lh_chain *present) {
    for (uint32_t i = 0; i < handover->chain.stage_count; i++) {
        const lh_chain_stage *stage = &handover->chain.stages[i];
        const char *loads = !must_prepare(handover, present, i) ? "no"
                            : handover->holds[i]                ? "now"
                                                                : "then";
        lh_log(LH_LOG_INFO, "fleet",
               "next chain planned cause=\"%s\" worker=%s layers=%u-%u members=%u loads=%s",
               lh_handover_cause_text(handover), stage->name, stage->first_layer,
               stage->last_layer - 1, stage->team.follower_count + 1, loads);
    }
}

static lh_handover_decision plan_without_leavers(lh_handover *handover,
                                                 const lh_handover_view *view, uint32_t epoch,
                                                 int64_t now_us) {
    lh_chain next = *view->chain;
    lh_error error;
    const lh_draft_view all = {view->registry, view->avoidance, view->planner};
    if (lh_draft_make(handover->options, &all, view->chain, 0, now_us, &next, &error) == LH_OK) {
        begin(handover, view, &next, LH_HANDOVER_LEAVE, epoch, now_us);
        log_planned(handover, view->chain);
        return LH_HANDOVER_WAIT;
    }
    if (!handover->problem[0])
        lh_log(LH_LOG_WARN, "fleet",
               "a worker is to leave and nobody can take over chain=%s reason=\"%s\"",
               view->chain->name, error.message);
    const lh_passed_over *passed = lh_passed_list_any(&view->avoidance->passed, now_us);
    snprintf(handover->problem, sizeof handover->problem, "nobody can take over: %.120s%s%.150s",
             error.message, passed ? "; " : "", passed ? passed->reason : "");
    if (view->sequences == 0)
        return LH_HANDOVER_LET_GO;
    handover->attempt_not_before_us = now_us + ATTEMPT_INTERVAL_US;
    return LH_HANDOVER_WAIT;
}

/* Those that have been there for long enough. False: one of the chain's is not among them. */
static bool find_stable(const lh_handover *handover, const lh_handover_view *view, int64_t now_us,
                        lh_candidates *stable) {
    lh_candidates all;
    lh_candidates_find(view->registry, view->avoidance, now_us, &all);
    uint32_t members = 0, wanted = 0;
    *stable = (lh_candidates){0};
    for (uint32_t i = 0; i < view->chain->stage_count; i++)
        wanted += view->chain->stages[i].team.follower_count + 1;
    for (uint32_t i = 0; i < all.count; i++) {
        if (now_us - all.workers[i]->joined_us < handover->options->rebalance_delay_us)
            continue;
        members += lh_chain_find_member(view->chain, all.workers[i]->report.name, NULL) >= 0;
        stable->workers[stable->count++] = all.workers[i];
    }
    return members == wanted;
}

/* Whether a team that did not form some time ago is among them again. */
static bool has_probation(const lh_candidates *candidates) {
    for (uint32_t i = 0; i < candidates->count; i++)
        if (candidates->teams[i].follower_count > 0 && candidates->workers[i]->is_on_probation)
            return true;
    return false;
}

/* A plan of these workers, who are teams then, that is worth a change. A team that is planned but
 * for its not having formed need not be better than what stands in for it. */
static bool find_better(const lh_fleet_options *options, const lh_handover_view *view,
                        lh_candidates *stable, int64_t now_us, lh_layout *plan) {
    if (options->aim.goal != LH_GOAL_EVEN)
        return lh_live_planner_proposes(view->planner, view->chain, stable, now_us, plan);
    const double gain = lh_draft_gain(options, view->planner, view->chain, stable, plan);
    return gain >= (has_probation(stable) ? NO_WORSE : LH_HANDOVER_WORTHWHILE);
}

static void plan_for_the_better(lh_handover *handover, const lh_handover_view *view, uint32_t epoch,
                                int64_t now_us) {
    const lh_fleet_options *options = handover->options;
    lh_candidates stable;
    lh_layout plan;
    lh_error error;
    lh_chain next = *view->chain;
    if (!find_stable(handover, view, now_us, &stable) ||
        !find_better(options, view, &stable, now_us, &plan) ||
        lh_chain_form(&next, &plan, stable.workers, &options->origin, 0, now_us, &error) != LH_OK)
        return;
    lh_teams_enlist(&stable, &next);
    begin(handover, view, &next, LH_HANDOVER_BETTER, epoch, now_us);
    if (is_worth_it(handover, view->sequences))
        log_planned(handover, view->chain);
    else
        handover->cause = LH_HANDOVER_NONE;
}

/* Not while the chain is young, nor soon after the last change; later and later where changes do
 * not last. */
static bool is_time_for_the_better(const lh_handover *handover, const lh_chain *chain,
                                   int64_t now_us) {
    return handover->options->rebalance_delay_us > 0 && chain->state == LH_CHAIN_READY &&
           now_us >= chain->ready_us + handover->options->rebalance_delay_us &&
           now_us >= handover->better_not_before_us;
}

lh_handover_decision lh_handover_review(lh_handover *handover, const lh_handover_view *view,
                                        uint32_t epoch, int64_t now_us) {
    lh_handover_decision decision = LH_HANDOVER_WAIT;
    assert(view->chain->state != LH_CHAIN_NONE);
    if (handover->cause != LH_HANDOVER_NONE && !is_sound(handover, view->registry, now_us))
        lh_handover_drop(handover, "a worker of it is gone, is to leave, or cannot load");
    else if (handover->cause != LH_HANDOVER_NONE && !is_worth_it(handover, view->sequences))
        lh_handover_drop(handover,
                         "a worker's memory holds no two stages, and requests need the chain");
    if (handover->cause == LH_HANDOVER_NONE && lh_chain_has_leaver(view->chain, view->registry)) {
        if (now_us >= handover->attempt_not_before_us)
            decision = plan_without_leavers(handover, view, epoch, now_us);
    } else if (handover->cause == LH_HANDOVER_NONE) {
        handover->problem[0] = 0;
        if (is_time_for_the_better(handover, view->chain, now_us)) {
            handover->better_not_before_us = now_us + ATTEMPT_INTERVAL_US;
            plan_for_the_better(handover, view, epoch, now_us);
        }
    }
    if (handover->cause != LH_HANDOVER_NONE)
        follow_trials(handover, view, now_us);
    return lh_handover_is_prepared(handover, view, now_us) ? LH_HANDOVER_TAKE_OVER : decision;
}
