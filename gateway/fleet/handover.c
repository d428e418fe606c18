/* A successor, and when the chain may change for the better. */
#include "gateway/fleet/handover.h"

#include "common/base/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Between two attempts to plan a successor. */
#define ATTEMPT_INTERVAL_US 1000000
/* Between two changes for the better, in units of the delay. */
#define PAUSE_DELAYS 6
/* The pause grows up to this many times its first length. */
#define PAUSE_GROWTH_MAX 16
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

/* Whether the worker at this stage has other layers now. */
static bool must_prepare(const lh_handover *handover, const lh_chain *present, uint32_t stage) {
    const lh_chain_stage *next = &handover->chain.stages[stage];
    int index = lh_chain_find(present, next->name);
    return index < 0 || present->stages[index].first_layer != next->first_layer ||
           present->stages[index].last_layer != next->last_layer;
}

const lh_chain_stage *lh_handover_task(const lh_handover *handover, const lh_chain *present,
                                       const char *worker, bool *holds) {
    int index = handover->cause != LH_HANDOVER_NONE ? lh_chain_find(&handover->chain, worker) : -1;
    if (index < 0 || !handover->is_tried || !must_prepare(handover, present, (uint32_t)index))
        return NULL;
    *holds = handover->holds[index];
    return &handover->chain.stages[index];
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

/* The worker says this of the very stage that it was asked to prepare. */
static bool is_reported(const lh_handover *handover, const lh_registry *registry, uint32_t stage,
                        lh_worker_stage_state state) {
    const lh_chain_stage *next = &handover->chain.stages[stage];
    const lh_worker *worker = lh_chain_worker(&handover->chain, registry, stage);
    return worker && worker->report.prepared.state == state &&
           worker->report.prepared.first_layer == next->first_layer &&
           worker->report.prepared.last_layer == next->last_layer &&
           worker->report.prepared.holds == handover->holds[stage];
}

bool lh_handover_has_failed(const lh_handover *handover, const lh_handover_view *view,
                            uint32_t stage) {
    assert(handover->cause != LH_HANDOVER_NONE && stage < handover->chain.stage_count);
    return must_prepare(handover, view->chain, stage) &&
           is_reported(handover, view->registry, stage, LH_WORKER_FAILED);
}

/* Whether it could still take over. */
static bool is_sound(const lh_handover *handover, const lh_registry *registry, int64_t now_us) {
    for (uint32_t i = 0; i < handover->chain.stage_count; i++) {
        const lh_worker *worker = lh_chain_worker(&handover->chain, registry, i);
        if (!worker || worker->report.instance != handover->chain.stages[i].instance ||
            !lh_worker_is_usable(worker, now_us))
            return false;
    }
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
        if (must_prepare(handover, view->chain, i) &&
            !is_reported(handover, view->registry, i, LH_WORKER_READY))
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

static uint64_t stage_bytes(const lh_handover *handover, const lh_chain_stage *stage) {
    return lh_planner_stage_bytes(handover->options->model, stage->first_layer, stage->last_layer);
}

static void begin(lh_handover *handover, const lh_handover_view *view, const lh_chain *chain,
                  lh_handover_cause cause, int64_t now_us) {
    assert(handover->cause == LH_HANDOVER_NONE && chain->epoch == 0);
    handover->cause = cause;
    handover->chain = *chain;
    handover->planned_us = now_us;
    handover->is_tried = false;
    handover->unproven_since_us = 0;
    handover->problem[0] = 0;
    lh_wire_choice_begin(&handover->options->wire, &handover->chain);
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *next = &handover->chain.stages[i];
        int index = lh_chain_find(view->chain, next->name);
        uint64_t held = index < 0 ? 0 : stage_bytes(handover, &view->chain->stages[index]);
        handover->holds[i] =
            !must_prepare(handover, view->chain, i) ||
            stage_bytes(handover, next) + held <=
                lh_chain_worker(&handover->chain, view->registry, i)->report.memory_bytes;
    }
}

static void log_planned(const lh_handover *handover, const lh_chain *present) {
    for (uint32_t i = 0; i < handover->chain.stage_count; i++) {
        const lh_chain_stage *stage = &handover->chain.stages[i];
        const char *loads = !must_prepare(handover, present, i) ? "no"
                            : handover->holds[i]                ? "now"
                                                                : "then";
        lh_log(LH_LOG_INFO, "fleet",
               "next chain planned cause=\"%s\" worker=%s layers=%u-%u loads=%s",
               lh_handover_cause_text(handover), stage->name, stage->first_layer,
               stage->last_layer - 1, loads);
    }
}

static bool has_leaver(const lh_handover_view *view) {
    for (uint32_t i = 0; i < view->chain->stage_count; i++) {
        const lh_worker *worker = lh_chain_worker(view->chain, view->registry, i);
        if (worker && worker->report.leaving)
            return true;
    }
    return false;
}

static lh_handover_decision plan_without_leavers(lh_handover *handover,
                                                 const lh_handover_view *view, int64_t now_us) {
    lh_chain next = *view->chain;
    lh_error error;
    if (lh_draft_make(handover->options, view->registry, view->avoidance, view->chain, 0, now_us,
                      &next, &error) == LH_OK) {
        begin(handover, view, &next, LH_HANDOVER_LEAVE, now_us);
        log_planned(handover, view->chain);
        return LH_HANDOVER_WAIT;
    }
    if (!handover->problem[0])
        lh_log(LH_LOG_WARN, "fleet",
               "a worker is to leave and nobody can take over chain=%s reason=\"%s\"",
               view->chain->name, error.message);
    const lh_passed_over *passed = lh_link_avoidance_any(view->avoidance, now_us);
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
    const lh_candidates all = lh_draft_candidates(view->registry, view->avoidance, now_us);
    uint32_t members = 0;
    stable->count = 0;
    for (uint32_t i = 0; i < all.count; i++) {
        if (now_us - all.workers[i]->joined_us < handover->options->rebalance_delay_us)
            continue;
        members += lh_chain_find(view->chain, all.workers[i]->report.name) >= 0;
        stable->workers[stable->count++] = all.workers[i];
    }
    return members == view->chain->stage_count;
}

static void plan_for_the_better(lh_handover *handover, const lh_handover_view *view,
                                int64_t now_us) {
    const lh_fleet_options *options = handover->options;
    lh_candidates stable;
    lh_plan plan;
    lh_error error;
    lh_chain next = *view->chain;
    if (!find_stable(handover, view, now_us, &stable) ||
        lh_draft_gain(options, view->chain, &stable, &plan) < LH_HANDOVER_WORTHWHILE ||
        lh_chain_form(&next, &plan, stable.workers, &options->origin, 0, now_us, &error) != LH_OK)
        return;
    begin(handover, view, &next, LH_HANDOVER_BETTER, now_us);
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
                                        int64_t now_us) {
    lh_handover_decision decision = LH_HANDOVER_WAIT;
    assert(view->chain->state != LH_CHAIN_NONE);
    if (handover->cause != LH_HANDOVER_NONE && !is_sound(handover, view->registry, now_us))
        lh_handover_drop(handover, "a worker of it is gone, is to leave, or cannot load");
    else if (handover->cause != LH_HANDOVER_NONE && !is_worth_it(handover, view->sequences))
        lh_handover_drop(handover,
                         "a worker's memory holds no two stages, and requests need the chain");
    if (handover->cause == LH_HANDOVER_NONE && has_leaver(view)) {
        if (now_us >= handover->attempt_not_before_us)
            decision = plan_without_leavers(handover, view, now_us);
    } else if (handover->cause == LH_HANDOVER_NONE) {
        handover->problem[0] = 0;
        if (is_time_for_the_better(handover, view->chain, now_us)) {
            handover->better_not_before_us = now_us + ATTEMPT_INTERVAL_US;
            plan_for_the_better(handover, view, now_us);
        }
    }
    if (handover->cause != LH_HANDOVER_NONE)
        follow_trials(handover, view, now_us);
    return lh_handover_is_prepared(handover, view, now_us) ? LH_HANDOVER_TAKE_OVER : decision;
}
