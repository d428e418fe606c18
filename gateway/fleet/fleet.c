/* Keeping the chain formed. */
#include "gateway/fleet/fleet_state.h"

#include "common/log.h"
#include "gateway/fleet/held_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long the first plan waits for the expected workers before it takes those that are there: one that has
 * died while the gateway was away must not keep the others idle for ever. */
#define EXPECTED_PATIENCE_US 60000000
lh_status lh_fleet_create(const lh_fleet_options *options, const lh_model_profile *model, int64_t now_us,
                          lh_fleet **fleet, lh_error *error) {
    lh_fleet *f = calloc(1, sizeof *f);
    if (!f)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the fleet");
    if (lh_registry_create(options->lease_us, &f->registry, error) != LH_OK) {
        free(f);
        return LH_ERR_NO_MEMORY;
    }
    f->options = *options;
    f->model = model;
    f->created_us = f->changed_us = f->form_not_before_us = now_us;
    f->due_us = INT64_MAX;
    f->rebalance.pause_us = options->rebalance_delay_us * LH_REBALANCE_PAUSE;
    f->rebalance.last_us = INT64_MIN;
    f->detour.until_us = f->detour.not_before_us = INT64_MIN;
    f->detour.awaited = -1;
    snprintf(f->chain.name, sizeof f->chain.name, "%s", options->chain_name);
    snprintf(f->reason, sizeof f->reason, "no worker is registered");
    *fleet = f;
    return LH_OK;
}

void lh_fleet_destroy(lh_fleet *fleet) {
    if (!fleet)
        return;
    lh_registry_destroy(fleet->registry);
    free(fleet);
}

/* ---- What happens
 * ------------------------------------------------------------------------------------------------ */

void lh_fleet_fault(lh_fleet *fleet, uint32_t epoch, int64_t now_us, const char *reason) {
    if (fleet->chain.state != LH_CHAIN_READY || epoch != fleet->chain.epoch)
        return;
    lh_log(LH_LOG_WARN, "fleet", "chain is broken chain=%s epoch=%u reason=\"%s\"", fleet->chain.name, epoch,
           reason);
    snprintf(fleet->reason, sizeof fleet->reason, "%s", reason);
    fleet->broken_us = now_us;
    for (uint32_t i = 0; i < fleet->chain.stage_count; i++)
        lh_registry_suspect(fleet->registry, fleet->chain.stages[i].name,
                            now_us + fleet->options.probation_us);
    lh_fleet_demand(fleet, LH_FLEET_RENEW);
}

void lh_fleet_first_hop(lh_fleet *fleet, bool connected, bool refused, int64_t now_us, const char *reason) {
    fleet->first_hop = connected;
    fleet->first_hop_refused = refused;
    if (!connected && fleet->chain.state == LH_CHAIN_READY) {
        char text[LH_ERROR_MESSAGE_BYTES];
        snprintf(text, sizeof text, "the connection to worker %s is down: %s", fleet->chain.stages[0].name,
                 reason);
        lh_fleet_fault(fleet, fleet->chain.epoch, now_us, text);
    }
}

static void expire(lh_fleet *fleet, int64_t now_us) {
    lh_worker gone;
    while (lh_registry_expire(fleet->registry, now_us, &gone)) {
        fleet->changed_us = now_us;
        lh_log(LH_LOG_WARN, "fleet", "worker is gone worker=%s site=%s last_seen_ms=%lld", gone.report.name,
               gone.report.site, (long long)((now_us - gone.renewed_us) / 1000));
    }
}

/* Another set of workers needs no back-off: the chain that was tried meanwhile had no chance. */
static void check_members(lh_fleet *fleet, int64_t now_us) {
    bool restarted;
    int missing = lh_chain_missing(&fleet->chain, fleet->registry, &restarted);
    if (missing < 0)
        return;
    snprintf(fleet->reason, sizeof fleet->reason, "worker %s %s", fleet->chain.stages[missing].name,
             restarted ? "was restarted" : "is gone");
    fleet->form_not_before_us = now_us;
    if (fleet->chain.state == LH_CHAIN_READY)
        fleet->broken_us = now_us;
    lh_fleet_demand(fleet, restarted ? LH_FLEET_RENEW : LH_FLEET_REPLAN);
}

/* A worker that reports that it cannot hold its stage is left out for a while. */
static void check_failures(lh_fleet *fleet, int64_t now_us) {
    for (uint32_t i = 0; i < fleet->chain.stage_count; i++) {
        const lh_worker *worker = lh_registry_find(fleet->registry, fleet->chain.stages[i].name);
        if (!worker || worker->report.assignment.state != LH_WORKER_FAILED ||
            worker->report.assignment.generation != fleet->chain.epoch || worker->excluded_until_us > now_us)
            continue;
        lh_log(LH_LOG_ERROR, "fleet", "worker cannot hold its stage worker=%s error=\"%s\"",
               worker->report.name, worker->report.assignment.error);
        snprintf(fleet->reason, sizeof fleet->reason, "worker %s cannot hold its stage: %.220s",
                 worker->report.name, worker->report.assignment.error);
        lh_registry_exclude(fleet->registry, worker->report.name, now_us + LH_EXCLUSION_US);
        lh_fleet_demand(fleet, LH_FLEET_REPLAN);
    }
}

/* One that is to leave before it has loaded what it was given is replaced at once. */
static void check_leavers(lh_fleet *fleet, int64_t now_us) {
    if (fleet->chain.state == LH_CHAIN_READY || fleet->pending != LH_FLEET_NOTHING ||
        now_us < fleet->form_not_before_us)
        return;
    for (uint32_t i = 0; i < fleet->chain.stage_count; i++) {
        const lh_worker *worker = lh_registry_find(fleet->registry, fleet->chain.stages[i].name);
        if (worker && worker->report.leaving && worker->report.assignment.state != LH_WORKER_READY) {
            lh_fleet_plan(fleet, now_us);
            return;
        }
    }
}

/* The chain could serve. False: it waits for what its wire types depend on, or forms again since they are to change. */
static bool settle_wires(lh_fleet *fleet, int64_t now_us) {
    if (fleet->wires.is_settled)
        return true;
    if (lh_chain_wires_are_awaited(&fleet->wires, &fleet->chain, fleet->registry, now_us)) {
        snprintf(fleet->reason, sizeof fleet->reason, "its stages and hops are being measured");
        return false;
    }
    fleet->wires.is_settled = true;
    if (!lh_chain_wires_choose(&fleet->wires, &fleet->chain, fleet->registry))
        return true;
    lh_fleet_renew(fleet, now_us);
    return false;
}

static void check_readiness(lh_fleet *fleet, int64_t now_us) {
    char reason[LH_ERROR_MESSAGE_BYTES];
    bool complete =
        lh_chain_is_complete(&fleet->chain, fleet->registry, fleet->first_hop, reason, sizeof reason);
    if (fleet->chain.state == LH_CHAIN_READY) {
        if (!complete)
            lh_fleet_fault(fleet, fleet->chain.epoch, now_us, reason);
        return;
    }
    memcpy(fleet->reason, reason, sizeof fleet->reason);
    if (!complete || !settle_wires(fleet, now_us))
        return;
    fleet->chain.state = LH_CHAIN_READY;
    fleet->chain.ready_us = now_us;
    lh_log(LH_LOG_INFO, "fleet", "chain is ready chain=%s epoch=%u stages=%u after_ms=%lld",
           fleet->chain.name, fleet->chain.epoch, fleet->chain.stage_count,
           (long long)((now_us - fleet->chain.formed_us) / 1000));
}

/* When the workers that are there may be planned without a chain to go by. INT64_MAX: not yet, by time alone.
 */
static int64_t first_plan_due_us(const lh_fleet *fleet, int64_t now_us) {
    const lh_worker *workers[LH_WORKERS_MAX];
    uint32_t count = lh_fleet_eligible(fleet, now_us, workers);
    int64_t stable_us = fleet->changed_us + fleet->options.plan_delay_us;
    int64_t patience_us = fleet->created_us + EXPECTED_PATIENCE_US;
    lh_plan held;
    if (count == 0 || fleet->hold)
        return INT64_MAX;
    if (lh_held_plan(workers, count, fleet->model->layers, fleet->options.model_digest, &held))
        return fleet->changed_us; /* they are a chain already: who comes later is used later */
    if (fleet->has_served)
        return fleet->changed_us; /* sequences may be waiting; who comes later is used later */
    if (fleet->options.workers_expected == 0)
        return stable_us;
    if (count >= fleet->options.workers_expected)
        return fleet->changed_us;
    return patience_us > stable_us ? patience_us : stable_us;
}

void lh_fleet_hold(lh_fleet *fleet, const char *reason) {
    fleet->hold = reason;
}

static void start_chain(lh_fleet *fleet, int64_t now_us) {
    if (fleet->hold) {
        snprintf(fleet->reason, sizeof fleet->reason, "%s", fleet->hold);
        return;
    }
    if (now_us >= first_plan_due_us(fleet, now_us)) {
        if (!lh_fleet_plan(fleet, now_us))
            fleet->form_not_before_us = now_us + LH_FORM_INTERVAL_US;
        return;
    }
    uint32_t count = lh_registry_count(fleet->registry);
    if (count < fleet->options.workers_expected && !fleet->has_served)
        snprintf(fleet->reason, sizeof fleet->reason, "%u of %u expected workers are registered", count,
                 fleet->options.workers_expected);
    else if (count == 0)
        snprintf(fleet->reason, sizeof fleet->reason, "no worker is registered");
}

void lh_fleet_forget(lh_fleet *fleet, const char *worker, int64_t now_us) {
    lh_registry_suspect(fleet->registry, worker, now_us);
    lh_fleet_tick(fleet, now_us);
}

void lh_fleet_note_load(lh_fleet *fleet, uint32_t sequences) {
    fleet->sequences = sequences;
}

void lh_fleet_tick(lh_fleet *fleet, int64_t now_us) {
    lh_fleet_forgive_absence(fleet, now_us);
    lh_fleet_weigh_evidence(fleet, now_us);
    expire(fleet, now_us);
    if (fleet->chain.state != LH_CHAIN_NONE) {
        check_members(fleet, now_us);
        check_failures(fleet, now_us);
        check_leavers(fleet, now_us);
    }
    if (fleet->pending != LH_FLEET_NOTHING && now_us >= fleet->form_not_before_us) {
        if (fleet->pending == LH_FLEET_RENEW)
            lh_fleet_renew(fleet, now_us);
        else
            lh_fleet_replan(fleet, now_us);
    }
    if (fleet->chain.state == LH_CHAIN_NONE && now_us >= fleet->form_not_before_us)
        start_chain(fleet, now_us);
    if (fleet->chain.state != LH_CHAIN_NONE)
        lh_fleet_succeed(fleet, now_us);
    if (fleet->chain.state != LH_CHAIN_NONE && fleet->pending == LH_FLEET_NOTHING)
        check_readiness(fleet, now_us);
    if (fleet->chain.state == LH_CHAIN_FORMING && fleet->pending == LH_FLEET_NOTHING)
        lh_fleet_take_detour(fleet, now_us);
    fleet->ticked_us = now_us;
    fleet->due_us = lh_fleet_deadline_us(fleet);
}

int64_t lh_fleet_deadline_us(const lh_fleet *fleet) {
    int64_t deadline = lh_registry_deadline_us(fleet->registry);
    if (fleet->pending != LH_FLEET_NOTHING && fleet->form_not_before_us < deadline)
        deadline = fleet->form_not_before_us;
    if (fleet->chain.state == LH_CHAIN_NONE) {
        int64_t due_us = first_plan_due_us(fleet, fleet->form_not_before_us);
        if (due_us != INT64_MAX && due_us < fleet->form_not_before_us)
            due_us = fleet->form_not_before_us;
        if (due_us < deadline)
            deadline = due_us;
    }
    return deadline;
}

/* ---- The workers' reports
 * ---------------------------------------------------------------------------------------- */

static void log_change(const lh_worker_report *report, lh_registry_change change) {
    if (change != LH_REGISTRY_RENEWED)
        lh_log(
            LH_LOG_INFO, "fleet", "worker %s worker=%s site=%s isa=%s threads=%u memory_mib=%llu version=%s",
            change == LH_REGISTRY_JOINED ? "joined" : "was restarted", report->name, report->site,
            report->isa, report->threads, (unsigned long long)(report->memory_bytes >> 20), report->version);
}

lh_status lh_fleet_put(lh_fleet *fleet, const lh_worker_report *report, int64_t now_us,
                       lh_fleet_answer *answer, lh_error *error) {
    lh_registry_change change;
    lh_status status = lh_registry_put(fleet->registry, report, now_us, &change, error);
    if (status != LH_OK)
        return status;
    if (change != LH_REGISTRY_RENEWED) {
        fleet->changed_us = now_us;
        if (fleet->chain.state == LH_CHAIN_NONE)
            fleet->form_not_before_us = now_us; /* what could not be planned without it perhaps can now */
    }
    log_change(report, change);
    lh_fleet_skip_epochs(fleet, report->assignment.generation, now_us);
    lh_fleet_tick(fleet, now_us);
    lh_fleet_fill_answer(fleet, report, answer);
    return LH_OK;
}

const lh_chain *lh_fleet_chain(const lh_fleet *fleet) {
    return &fleet->chain;
}

const lh_chain *lh_fleet_successor(const lh_fleet *fleet, const char **cause) {
    *cause = lh_succession_cause_name(fleet->succession.cause);
    return fleet->succession.cause != LH_SUCCESSION_NONE ? &fleet->succession.chain : NULL;
}

const lh_registry *lh_fleet_registry(const lh_fleet *fleet) {
    return fleet->registry;
}

const char *lh_fleet_reason(const lh_fleet *fleet) {
    return fleet->chain.state == LH_CHAIN_READY ? "" : fleet->reason;
}
