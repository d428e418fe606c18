/* Forming the chain: planned anew, or the same stages under the next epoch. */
#include "gateway/fleet/fleet_state.h"

#include "common/log.h"
#include "gateway/fleet/plan_revision.h"
#include "gateway/fleet/plan_speeds.h"

#include <stdio.h>
#include <string.h>

/* Years that a clock may have been ahead. A worker that reports more is not believed, or the numbers would end.
 */
#define EPOCH_LEAD_MAX (1u << 28)

static uint32_t next_epoch(const lh_fleet *fleet, int64_t now_us) {
    uint32_t by_clock = fleet->options.first_epoch + (uint32_t)((now_us - fleet->created_us) / 1000000);
    uint32_t epoch = by_clock > fleet->epoch ? by_clock : fleet->epoch + 1;
    uint32_t stride = fleet->options.epoch_stride ? fleet->options.epoch_stride : 1;
    return epoch + (stride + fleet->options.epoch_offset - epoch % stride) % stride;
}

void lh_fleet_skip_epochs(lh_fleet *fleet, uint64_t generation, int64_t now_us) {
    if (generation > fleet->epoch && generation < (uint64_t)next_epoch(fleet, now_us) + EPOCH_LEAD_MAX)
        fleet->epoch = (uint32_t)generation;
}

bool lh_fleet_is_eligible(const lh_worker *worker, int64_t now_us) {
    return !worker->report.leaving && worker->excluded_until_us <= now_us;
}

uint32_t lh_fleet_eligible(const lh_fleet *fleet, int64_t now_us, const lh_worker **workers) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < lh_registry_count(fleet->registry); i++) {
        const lh_worker *worker = lh_registry_at(fleet->registry, i);
        if (lh_fleet_is_eligible(worker, now_us) && !lh_fleet_passes_over(fleet, worker->report.name, now_us))
            workers[count++] = worker;
    }
    return count;
}

void lh_fleet_offers(const lh_worker *const *workers, uint32_t count, lh_plan_worker *offers) {
    for (uint32_t i = 0; i < count; i++)
        offers[i] =
            (lh_plan_worker){workers[i]->report.name, workers[i]->report.site, workers[i]->report.threads,
                             workers[i]->report.memory_bytes, workers[i]->report.speed};
    lh_plan_speeds_compare(offers, count);
}

lh_plan lh_fleet_present_plan(const lh_chain *chain, const lh_worker *const *workers, uint32_t count) {
    lh_plan plan = {.stage_count = chain->stage_count};
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *stage = &chain->stages[i];
        plan.stages[i] = (lh_plan_stage){LH_PLAN_NOBODY, stage->first_layer, stage->last_layer};
        for (uint32_t k = 0; k < count; k++)
            if (strcmp(workers[k]->report.name, stage->name) == 0)
                plan.stages[i].worker = k;
    }
    return plan;
}

lh_status lh_fleet_draft(const lh_fleet *fleet, uint32_t epoch, int64_t now_us, lh_chain *chain,
                         lh_error *error) {
    const lh_worker *workers[LH_WORKERS_MAX];
    lh_plan_worker offers[LH_WORKERS_MAX];
    lh_plan plan;
    uint32_t count = lh_fleet_eligible(fleet, now_us, workers);
    if (count == 0 && lh_registry_count(fleet->registry) > 0)
        return lh_fail(error, LH_ERR_UNAVAILABLE, "every worker is leaving or has failed to load its stage");
    lh_fleet_offers(workers, count, offers);
    lh_plan present = lh_fleet_present_plan(&fleet->chain, workers, count);
    if (present.stage_count == 0)
        lh_held_plan(workers, count, fleet->model->layers, fleet->options.model_digest, &present);
    lh_status status =
        lh_plan_revise(fleet->model, offers, count, &fleet->options.planner, &present, &plan, error);
    if (status == LH_OK)
        status = lh_chain_form(chain, &plan, workers, &fleet->options.origin, epoch, now_us, error);
    return status;
}

static void log_formed(const lh_fleet *fleet) {
    const lh_chain *chain = &fleet->chain;
    for (uint32_t i = 0; i < chain->stage_count; i++)
        lh_log(LH_LOG_INFO, "fleet",
               "stage planned chain=%s epoch=%u worker=%s layers=%u-%u address=%s tls=%d wire=%s",
               chain->name, chain->epoch, chain->stages[i].name, chain->stages[i].first_layer,
               chain->stages[i].last_layer - 1, chain->stages[i].address, chain->stages[i].tls,
               lh_wire_name(chain->stages[i].wire));
}

static void note_formed(lh_fleet *fleet, int64_t now_us) {
    lh_chain_wires_apply(&fleet->wires, &fleet->chain);
    lh_chain_inherit(&fleet->chain, &fleet->formed);
    fleet->formed = fleet->chain;
    fleet->epoch = fleet->chain.epoch;
    fleet->has_served = true;
    fleet->pending = LH_FLEET_NOTHING;
    fleet->is_changing_over = false;
    fleet->form_not_before_us = now_us + LH_FORM_INTERVAL_US;
    fleet->reason[0] = 0;
    log_formed(fleet);
}

/* Why no plan could be made, with what one of the workers that are left out has to say. */
static void explain(lh_fleet *fleet, const char *problem, int64_t now_us) {
    snprintf(fleet->reason, sizeof fleet->reason, "%s", problem);
    for (uint32_t i = 0; i < lh_registry_count(fleet->registry); i++) {
        const lh_worker *worker = lh_registry_at(fleet->registry, i);
        if (worker->excluded_until_us <= now_us || !worker->report.assignment.error[0])
            continue;
        snprintf(fleet->reason, sizeof fleet->reason, "%.120s; worker %s: %.120s", problem,
                 worker->report.name, worker->report.assignment.error);
        return;
    }
}

bool lh_fleet_plan(lh_fleet *fleet, int64_t now_us) {
    lh_error error;
    if (lh_fleet_draft(fleet, next_epoch(fleet, now_us), now_us, &fleet->chain, &error) != LH_OK) {
        explain(fleet, error.message, now_us);
        return false;
    }
    lh_fleet_drop_successor(fleet, "the chain was planned anew");
    lh_chain_wires_start(&fleet->wires, &fleet->options.wire, fleet->model->width);
    fleet->planned_epoch = fleet->chain.epoch;
    note_formed(fleet, now_us);
    return true;
}

lh_status lh_fleet_take_over(lh_fleet *fleet, const lh_chain *next, int64_t now_us, lh_error *error) {
    lh_chain chain = *next;
    lh_status status = lh_chain_renew(&chain, fleet->registry, &fleet->options.origin,
                                      next_epoch(fleet, now_us), now_us, error);
    if (status != LH_OK)
        return status;
    chain.ready_us = fleet->chain.ready_us;
    fleet->chain = chain;
    lh_chain_wires_start(&fleet->wires, &fleet->options.wire, fleet->model->width);
    fleet->planned_epoch = fleet->chain.epoch;
    note_formed(fleet, now_us);
    fleet->is_changing_over = true;
    return LH_OK;
}

void lh_fleet_replan(lh_fleet *fleet, int64_t now_us) {
    if (lh_fleet_succeed_now(fleet, now_us))
        return;
    lh_fleet_drop_successor(fleet, "the chain has lost a worker");
    if (lh_fleet_plan(fleet, now_us))
        return;
    fleet->detour.until_us = INT64_MIN; /* now whoever is there is needed */
    if (lh_fleet_plan(fleet, now_us))
        return;
    lh_log(LH_LOG_WARN, "fleet", "chain is down chain=%s reason=\"%s\"", fleet->chain.name, fleet->reason);
    lh_chain_drop(&fleet->chain);
    fleet->pending = LH_FLEET_NOTHING;
}

void lh_fleet_renew(lh_fleet *fleet, int64_t now_us) {
    lh_error error;
    lh_chain_wires_choose(&fleet->wires, &fleet->chain, fleet->registry);
    if (lh_chain_renew(&fleet->chain, fleet->registry, &fleet->options.origin, next_epoch(fleet, now_us),
                       now_us, &error) == LH_OK)
        note_formed(fleet, now_us);
    else
        lh_fleet_replan(fleet, now_us);
}

void lh_fleet_demand(lh_fleet *fleet, lh_fleet_change change) {
    if (fleet->pending < change)
        fleet->pending = change;
    fleet->chain.state = LH_CHAIN_FORMING;
}
