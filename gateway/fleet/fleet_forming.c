/* Forming the chain: planned anew, or the same stages under the next epoch. */
#include "gateway/fleet/fleet_state.h"

#include "common/log.h"

#include <stdio.h>

/* Years that a clock may have been ahead. A worker that reports more is not believed, or the numbers would end.
 */
#define EPOCH_LEAD_MAX (1u << 28)

static uint32_t next_epoch(const lh_fleet *fleet, int64_t now_us) {
    uint32_t by_clock = fleet->options.first_epoch + (uint32_t)((now_us - fleet->created_us) / 1000000);
    return by_clock > fleet->epoch ? by_clock : fleet->epoch + 1;
}

void lh_fleet_skip_epochs(lh_fleet *fleet, uint64_t generation, int64_t now_us) {
    if (generation > fleet->epoch && generation < (uint64_t)next_epoch(fleet, now_us) + EPOCH_LEAD_MAX)
        fleet->epoch = (uint32_t)generation;
}

static bool is_eligible(const lh_worker *worker, int64_t now_us) {
    return !worker->report.leaving && worker->excluded_until_us <= now_us;
}

uint32_t lh_fleet_eligible(const lh_fleet *fleet, int64_t now_us, const lh_worker **workers) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < lh_registry_count(fleet->registry); i++) {
        const lh_worker *worker = lh_registry_at(fleet->registry, i);
        if (is_eligible(worker, now_us))
            workers[count++] = worker;
    }
    return count;
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
    fleet->epoch = fleet->chain.epoch;
    fleet->has_served = true;
    fleet->pending = LH_FLEET_NOTHING;
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
    const lh_worker *workers[LH_WORKERS_MAX];
    lh_plan_worker offers[LH_WORKERS_MAX];
    lh_plan split;
    lh_error error;
    uint32_t count = lh_fleet_eligible(fleet, now_us, workers);
    for (uint32_t i = 0; i < count; i++)
        offers[i] = (lh_plan_worker){workers[i]->report.name, workers[i]->report.site,
                                     workers[i]->report.threads, workers[i]->report.memory_bytes};
    lh_status status =
        count == 0 && lh_registry_count(fleet->registry) > 0
            ? lh_fail(&error, LH_ERR_UNAVAILABLE, "every worker is leaving or has failed to load its stage")
            : lh_planner_split(fleet->model, offers, count, &fleet->options.planner, &split, &error);
    if (status == LH_OK)
        status = lh_chain_form(&fleet->chain, &split, workers, &fleet->options.origin,
                               next_epoch(fleet, now_us), now_us, &error);
    if (status != LH_OK) {
        explain(fleet, error.message, now_us);
        return false;
    }
    lh_chain_wires_start(&fleet->wires, &fleet->options.wire, fleet->model->width);
    fleet->planned_epoch = fleet->chain.epoch;
    note_formed(fleet, now_us);
    return true;
}

void lh_fleet_replan(lh_fleet *fleet, int64_t now_us) {
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
