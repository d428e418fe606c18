/* One chain follows another without a gap.
 *
 * A worker that loads other layers cannot serve meanwhile, so a chain that is simply formed anew is away for as long as its
 * slowest worker loads. Therefore the next chain is prepared while this one serves:
 *
 *   present chain   ====== serves ======================|                    (its epoch ends)
 *   successor          planned .. workers fetch, load ..|- forms -|== serves, from replays ==
 *                                                       ^ all are prepared: it takes over
 *
 * The pause is what it takes to tell the workers, to connect them, and to replay the sequences from their histories. It happens
 *
 * - when a worker of the chain is to leave: the others, or a spare, take over what it holds, and only then may it go;
 * - when workers are there with which the slowest stage would be clearly faster: one that has come back after a stall or a
 *   restart, a new one, or one that has turned out to be faster than it was taken for. Only when all of them have been there
 *   for a while, and at most once in a while, which grows where the change did not last: nothing flaps.
 *
 * Failure modes:
 * - a worker of the successor goes, leaves, or cannot load: another successor is planned, without it.
 * - the chain breaks: a successor that is prepared takes over at once; another one is given up, and what is left is planned.
 *   Often that comes to the same stages, and what was being loaded is used.
 * - memory holds one stage, not two: the weights are only fetched beforehand. A worker that leaves is worth the pause in which
 *   they are then loaded; being faster is worth it while nobody asks anything.
 * - nobody can take over: the worker that is to leave is told so, and stays until it is not needed or gives up waiting. */
#include "gateway/fleet/fleet_state.h"

#include "common/log.h"
#include "gateway/fleet/plan_revision.h"

#include <stdio.h>
#include <string.h>

/* So many times as fast must the slowest stage become. */
#define WORTHWHILE 1.25
/* Longer than it takes to change over where everything is prepared. */
#define CHANGE_OVER_US 1000000
/* The pause grows up to so many times its first length. */
#define PAUSE_GROWTH_MAX 16

/* ---- Of one that is planned -------------------------------------------------------------------------------------- */

static const lh_worker *worker_at(const lh_fleet *fleet, uint32_t stage) {
    return lh_registry_find(fleet->registry, fleet->succession.chain.stages[stage].name);
}

bool lh_fleet_must_prepare(const lh_fleet *fleet, uint32_t stage) {
    const lh_chain_stage *next = &fleet->succession.chain.stages[stage];
    int index = lh_chain_find(&fleet->chain, next->name);
    return index < 0 || fleet->chain.stages[index].first_layer != next->first_layer ||
           fleet->chain.stages[index].last_layer != next->last_layer;
}

/* What the worker reports is about this very stage. */
static bool is_reported(const lh_fleet *fleet, uint32_t stage, lh_worker_stage_state state) {
    const lh_chain_stage *next = &fleet->succession.chain.stages[stage];
    const lh_worker *worker = worker_at(fleet, stage);
    return worker && worker->report.prepared.state == state &&
           worker->report.prepared.first_layer == next->first_layer &&
           worker->report.prepared.last_layer == next->last_layer &&
           worker->report.prepared.holds == fleet->succession.holds[stage];
}

static bool is_prepared(const lh_fleet *fleet) {
    for (uint32_t i = 0; i < fleet->succession.chain.stage_count; i++)
        if (lh_fleet_must_prepare(fleet, i) && !is_reported(fleet, i, LH_WORKER_READY))
            return false;
    return true;
}

static bool holds_all(const lh_fleet *fleet) {
    for (uint32_t i = 0; i < fleet->succession.chain.stage_count; i++)
        if (!fleet->succession.holds[i])
            return false;
    return true;
}

/* A pause for loading is too much, for being faster, while sequences run. */
static bool is_worth_it(const lh_fleet *fleet) {
    return fleet->succession.cause == LH_SUCCESSION_LEAVE || holds_all(fleet) || fleet->sequences == 0;
}

/* Whether it could still take over. */
static bool is_sound(const lh_fleet *fleet, int64_t now_us) {
    for (uint32_t i = 0; i < fleet->succession.chain.stage_count; i++) {
        const lh_worker *worker = worker_at(fleet, i);
        if (!worker || worker->report.instance != fleet->succession.chain.stages[i].instance ||
            !lh_fleet_is_eligible(worker, now_us))
            return false;
    }
    return true;
}

static void check_failures(lh_fleet *fleet, int64_t now_us) {
    for (uint32_t i = 0; i < fleet->succession.chain.stage_count; i++) {
        if (!lh_fleet_must_prepare(fleet, i) || !is_reported(fleet, i, LH_WORKER_FAILED))
            continue;
        const lh_worker *worker = worker_at(fleet, i);
        lh_log(LH_LOG_ERROR, "fleet", "worker cannot prepare its stage worker=%s error=\"%s\"",
               worker->report.name, worker->report.prepared.error);
        lh_registry_exclude(fleet->registry, worker->report.name, now_us + LH_EXCLUSION_US);
    }
}

const char *lh_succession_cause_name(lh_succession_cause cause) {
    static const char *const names[] = {"", "a worker leaves", "it will be faster"};
    return names[cause];
}

void lh_fleet_drop_successor(lh_fleet *fleet, const char *why) {
    lh_succession *succession = &fleet->succession;
    if (succession->cause == LH_SUCCESSION_NONE)
        return;
    lh_log(LH_LOG_INFO, "fleet", "the next chain is given up cause=\"%s\" reason=\"%s\"",
           lh_succession_cause_name(succession->cause), why);
    succession->cause = LH_SUCCESSION_NONE;
}

static bool take_over(lh_fleet *fleet, int64_t now_us) {
    lh_succession *succession = &fleet->succession;
    lh_error error;
    if (lh_fleet_take_over(fleet, &succession->chain, now_us, &error) != LH_OK) {
        lh_fleet_drop_successor(fleet, error.message);
        succession->not_before_us = now_us + LH_FORM_INTERVAL_US;
        return false;
    }
    lh_log(LH_LOG_INFO, "fleet", "the next chain takes over epoch=%u cause=\"%s\" prepared_in_ms=%lld",
           fleet->chain.epoch, lh_succession_cause_name(succession->cause),
           (long long)((now_us - succession->planned_us) / 1000));
    succession->cause = LH_SUCCESSION_NONE;
    return true;
}

/* ---- Planning one ------------------------------------------------------------------------------------------------ */

static uint64_t bytes_held(const lh_fleet *fleet, const char *worker) {
    int index = lh_chain_find(&fleet->chain, worker);
    const lh_chain_stage *stage = &fleet->chain.stages[index < 0 ? 0 : index];
    return index < 0 ? 0 : lh_planner_stage_bytes(fleet->model, stage->first_layer, stage->last_layer);
}

static void begin(lh_fleet *fleet, const lh_chain *chain, lh_succession_cause cause, int64_t now_us) {
    lh_succession *succession = &fleet->succession;
    lh_chain_wires wires;
    succession->cause = cause;
    succession->chain = *chain;
    succession->planned_us = now_us;
    succession->problem[0] = 0;
    lh_chain_wires_start(&wires, &fleet->options.wire, fleet->model->width);
    lh_chain_wires_apply(&wires, &succession->chain);
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *stage = &chain->stages[i];
        uint64_t next = lh_planner_stage_bytes(fleet->model, stage->first_layer, stage->last_layer);
        succession->holds[i] =
            !lh_fleet_must_prepare(fleet, i) ||
            next + bytes_held(fleet, stage->name) <= worker_at(fleet, i)->report.memory_bytes;
    }
}

static void log_planned(const lh_fleet *fleet) {
    const lh_succession *succession = &fleet->succession;
    for (uint32_t i = 0; i < succession->chain.stage_count; i++) {
        const lh_chain_stage *stage = &succession->chain.stages[i];
        const char *loads = !lh_fleet_must_prepare(fleet, i) ? "no" : succession->holds[i] ? "now" : "then";
        lh_log(LH_LOG_INFO, "fleet", "next chain planned cause=\"%s\" worker=%s layers=%u-%u loads=%s",
               lh_succession_cause_name(succession->cause), stage->name, stage->first_layer,
               stage->last_layer - 1, loads);
    }
}

static bool has_leaver(const lh_fleet *fleet) {
    for (uint32_t i = 0; i < fleet->chain.stage_count; i++) {
        const lh_worker *worker = lh_registry_find(fleet->registry, fleet->chain.stages[i].name);
        if (worker && worker->report.leaving)
            return true;
    }
    return false;
}

/* Nobody can take over. While no sequence needs the chain its worker may as well go, and the chain with it. */
static void let_go_or_wait(lh_fleet *fleet, const char *problem, int64_t now_us) {
    lh_succession *succession = &fleet->succession;
    if (!succession->problem[0])
        lh_log(LH_LOG_WARN, "fleet", "a worker is to leave and nobody can take over chain=%s reason=\"%s\"",
               fleet->chain.name, problem);
    snprintf(succession->problem, sizeof succession->problem, "nobody can take over: %.200s", problem);
    if (fleet->sequences > 0) {
        succession->not_before_us = now_us + LH_FORM_INTERVAL_US;
        return;
    }
    lh_fleet_replan(fleet, now_us);
    fleet->form_not_before_us = now_us + LH_FORM_INTERVAL_US; /* nothing has changed until then */
}

static void plan_without_leavers(lh_fleet *fleet, int64_t now_us) {
    lh_chain next = fleet->chain;
    lh_error error;
    if (lh_fleet_draft(fleet, 0, now_us, &next, &error) != LH_OK) {
        let_go_or_wait(fleet, error.message, now_us);
        return;
    }
    begin(fleet, &next, LH_SUCCESSION_LEAVE, now_us);
    log_planned(fleet);
}

/* Those that have been there for long enough; 0: one of the chain's has not. */
static uint32_t find_stable(const lh_fleet *fleet, int64_t now_us, const lh_worker **workers) {
    uint32_t count = 0, members = 0, all = lh_fleet_eligible(fleet, now_us, workers);
    for (uint32_t i = 0; i < all; i++) {
        if (now_us - workers[i]->joined_us < fleet->options.rebalance_delay_us)
            continue;
        members += lh_chain_find(&fleet->chain, workers[i]->report.name) >= 0;
        workers[count++] = workers[i];
    }
    return members == fleet->chain.stage_count ? count : 0;
}

static void plan_for_the_better(lh_fleet *fleet, int64_t now_us) {
    const lh_worker *workers[LH_WORKERS_MAX];
    lh_plan_worker offers[LH_WORKERS_MAX];
    lh_plan plan;
    lh_error error;
    lh_chain next = fleet->chain;
    uint32_t count = find_stable(fleet, now_us, workers);
    if (count == 0)
        return;
    lh_fleet_offers(workers, count, offers);
    const lh_plan present = lh_fleet_present_plan(&fleet->chain, workers, count);
    if (lh_planner_split(fleet->model, offers, count, &fleet->options.planner, &plan, &error) != LH_OK ||
        lh_planner_slowest(fleet->model, offers, &present) <
            WORTHWHILE * lh_planner_slowest(fleet->model, offers, &plan) ||
        lh_chain_form(&next, &plan, workers, &fleet->options.origin, 0, now_us, &error) != LH_OK)
        return;
    begin(fleet, &next, LH_SUCCESSION_BETTER, now_us);
    if (is_worth_it(fleet))
        log_planned(fleet);
    else
        fleet->succession.cause = LH_SUCCESSION_NONE;
}

/* Not while the chain is young, nor soon after the last change; later and later where changes do not last. */
static void consider_the_better(lh_fleet *fleet, int64_t now_us) {
    lh_rebalance *rebalance = &fleet->rebalance;
    int64_t delay_us = fleet->options.rebalance_delay_us;
    if (delay_us == 0 || fleet->chain.state != LH_CHAIN_READY || now_us < fleet->chain.ready_us + delay_us ||
        now_us < rebalance->not_before_us)
        return;
    rebalance->not_before_us = now_us + LH_FORM_INTERVAL_US; /* of the next look */
    plan_for_the_better(fleet, now_us);
}

static void note_change_for_the_better(lh_fleet *fleet, int64_t now_us) {
    lh_rebalance *rebalance = &fleet->rebalance;
    int64_t first_us = fleet->options.rebalance_delay_us * LH_REBALANCE_PAUSE;
    bool is_often = rebalance->last_us != INT64_MIN && now_us - rebalance->last_us < 2 * rebalance->pause_us;
    if (!is_often)
        rebalance->pause_us = first_us;
    else if (rebalance->pause_us < PAUSE_GROWTH_MAX * first_us)
        rebalance->pause_us *= 2;
    rebalance->last_us = now_us;
    rebalance->not_before_us = now_us + rebalance->pause_us;
}

bool lh_fleet_is_changing_over(const lh_fleet *fleet, int64_t now_us) {
    return fleet->is_changing_over && fleet->chain.state == LH_CHAIN_FORMING &&
           now_us < fleet->chain.formed_us + CHANGE_OVER_US;
}

/* ---- What is to be done now -------------------------------------------------------------------------------------- */

bool lh_fleet_succeed_now(lh_fleet *fleet, int64_t now_us) {
    return fleet->succession.cause != LH_SUCCESSION_NONE && is_sound(fleet, now_us) && is_prepared(fleet) &&
           take_over(fleet, now_us);
}

static void plan_one(lh_fleet *fleet, int64_t now_us) {
    if (!has_leaver(fleet)) {
        fleet->succession.problem[0] = 0;
        consider_the_better(fleet, now_us);
    } else if (now_us >= fleet->succession.not_before_us) {
        plan_without_leavers(fleet, now_us);
    }
}

void lh_fleet_succeed(lh_fleet *fleet, int64_t now_us) {
    lh_succession *succession = &fleet->succession;
    if (succession->cause != LH_SUCCESSION_NONE) {
        check_failures(fleet, now_us);
        if (!is_sound(fleet, now_us))
            lh_fleet_drop_successor(fleet, "a worker of it is gone, is to leave, or cannot load");
        else if (!is_worth_it(fleet))
            lh_fleet_drop_successor(fleet,
                                    "a worker's memory holds no two stages, and requests need the chain");
    }
    if (succession->cause == LH_SUCCESSION_NONE)
        plan_one(fleet, now_us);
    bool is_better = succession->cause == LH_SUCCESSION_BETTER;
    if (lh_fleet_succeed_now(fleet, now_us) && is_better)
        note_change_for_the_better(fleet, now_us);
}
