/* A chain's stages, addresses and readiness. */
#include "gateway/fleet/chain.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Plain inside a site; between sites TLS where both have it. */
static lh_status choose_address(const char *sender, lh_chain_origin from,
                                const lh_worker_report *to, lh_chain_stage *stage,
                                lh_error *error) {
    bool tls_possible = to->tls_address[0] && from.has_tls;
    bool same_site = strcmp(from.site, to->site) == 0;
    stage->tls = tls_possible && !(same_site && to->plain_address[0]);
    const char *address = stage->tls ? to->tls_address : to->plain_address;
    if (!address[0])
        return lh_fail(
            error, LH_ERR_UNAVAILABLE, "%s cannot send to worker %s: %s", sender, to->name,
            to->tls_address[0] ? "it takes TLS alone and the sender has no certificate (--tls-cert)"
                               : "it has no address");
    memcpy(stage->address, address, sizeof stage->address);
    return LH_OK;
}

lh_status lh_chain_form(lh_chain *chain, const lh_plan *plan, const lh_worker *const *workers,
                        const lh_chain_origin *origin, uint32_t epoch, int64_t now_us,
                        lh_error *error) {
    assert(plan->stage_count > 0 && plan->stage_count <= LH_PLAN_STAGES_MAX);
    assert(epoch == 0 || epoch > chain->epoch);
    lh_chain formed = *chain;
    const char *sender = "the gateway";
    lh_chain_origin from = *origin;
    formed.stage_count = plan->stage_count;
    for (uint32_t i = 0; i < plan->stage_count; i++) {
        assert(plan->stages[i].worker != LH_PLAN_NOBODY);
        assert(plan->stages[i].first_layer == (i > 0 ? plan->stages[i - 1].last_layer : 0));
        assert(plan->stages[i].first_layer < plan->stages[i].last_layer);
        const lh_worker_report *report = &workers[plan->stages[i].worker]->report;
        lh_chain_stage *stage = &formed.stages[i];
        *stage = (lh_chain_stage){.instance = report->instance,
                                  .first_layer = plan->stages[i].first_layer,
                                  .last_layer = plan->stages[i].last_layer,
                                  .wire = stage->wire};
        memcpy(stage->name, report->name, sizeof stage->name);
        lh_status status = choose_address(sender, from, report, stage, error);
        if (status != LH_OK)
            return status;
        sender = report->name;
        from = (lh_chain_origin){report->site, report->tls_address[0] != 0};
    }
    formed.state = LH_CHAIN_FORMING;
    formed.epoch = formed.planned_epoch = epoch;
    formed.formed_us = now_us;
    *chain = formed;
    return LH_OK;
}

lh_status lh_chain_renew(lh_chain *chain, const lh_registry *registry,
                         const lh_chain_origin *origin, uint32_t epoch, int64_t now_us,
                         lh_error *error) {
    lh_plan plan = {.stage_count = chain->stage_count};
    const lh_worker *workers[LH_PLAN_STAGES_MAX];
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_chain_stage *stage = &chain->stages[i];
        workers[i] = lh_registry_find(registry, stage->name);
        if (!workers[i])
            return lh_fail(error, LH_ERR_NOT_FOUND, "worker %s is gone", stage->name);
        plan.stages[i] = (lh_plan_stage){i, stage->first_layer, stage->last_layer};
    }
    uint32_t planned_epoch = chain->planned_epoch;
    lh_status status = lh_chain_form(chain, &plan, workers, origin, epoch, now_us, error);
    if (status == LH_OK && planned_epoch != 0)
        chain->planned_epoch = planned_epoch;
    return status;
}

void lh_chain_note_ready(lh_chain *chain, int64_t now_us) {
    assert(chain->state == LH_CHAIN_FORMING && chain->stage_count > 0 && chain->epoch > 0);
    chain->state = LH_CHAIN_READY;
    chain->ready_us = now_us;
}

void lh_chain_break(lh_chain *chain) {
    assert(chain->state != LH_CHAIN_NONE);
    chain->state = LH_CHAIN_FORMING;
}

void lh_chain_drop(lh_chain *chain) {
    assert(chain->state != LH_CHAIN_NONE);
    chain->state = LH_CHAIN_NONE;
    chain->stage_count = 0;
}

static bool is_same_stage(const lh_chain_stage *a, const lh_chain_stage *b) {
    return a->instance == b->instance && a->first_layer == b->first_layer &&
           a->last_layer == b->last_layer && strcmp(a->name, b->name) == 0;
}

/* The layers are divided in the same way, and numbers rounded alike between them. */
static bool is_same_arithmetic(const lh_chain *a, const lh_chain *b) {
    if (a->stage_count != b->stage_count)
        return false;
    for (uint32_t i = 0; i < a->stage_count; i++)
        if (a->stages[i].last_layer != b->stages[i].last_layer ||
            a->stages[i].wire != b->stages[i].wire)
            return false;
    return true;
}

void lh_chain_inherit(lh_chain *chain, const lh_chain *before) {
    assert(before->epoch < chain->epoch);
    bool stays = is_same_arithmetic(chain, before);
    for (uint32_t i = chain->stage_count; i-- > 0;) {
        stays = stays && is_same_stage(&chain->stages[i], &before->stages[i]);
        chain->stages[i].kv_epoch = stays ? before->stages[i].kv_epoch : chain->epoch;
    }
}

lh_plan lh_chain_plan(const lh_chain *chain, const lh_worker *const *workers, uint32_t count) {
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

int lh_chain_find(const lh_chain *chain, const char *worker) {
    for (uint32_t i = 0; i < chain->stage_count; i++)
        if (strcmp(chain->stages[i].name, worker) == 0)
            return (int)i;
    return -1;
}

const lh_worker *lh_chain_worker(const lh_chain *chain, const lh_registry *registry,
                                 uint32_t stage) {
    assert(stage < chain->stage_count);
    return lh_registry_find(registry, chain->stages[stage].name);
}

lh_worker_stage_state lh_chain_stage_state(const lh_chain *chain, const lh_registry *registry,
                                           uint32_t stage) {
    const lh_worker *worker = lh_chain_worker(chain, registry, stage);
    return worker && worker->report.assignment.generation == chain->epoch
               ? worker->report.assignment.state
               : LH_WORKER_IDLE;
}

int lh_chain_missing(const lh_chain *chain, const lh_registry *registry, bool *restarted) {
    int first_restarted = -1;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_chain_worker(chain, registry, i);
        *restarted = false;
        if (!worker)
            return (int)i;
        if (worker->report.instance != chain->stages[i].instance && first_restarted < 0)
            first_restarted = (int)i;
    }
    *restarted = first_restarted >= 0;
    return first_restarted;
}

bool lh_chain_is_loading(const lh_chain *chain, const lh_registry *registry) {
    if (chain->state != LH_CHAIN_FORMING)
        return false;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        lh_worker_stage_state state = lh_chain_stage_state(chain, registry, i);
        if (state == LH_WORKER_FETCHING || state == LH_WORKER_LOADING)
            return true;
    }
    return false;
}

/* "" when the worker holds its stage and its hop is connected. */
static void describe_stage(const lh_worker_report *report, lh_worker_stage_state state,
                           const char *next, char *reason, size_t bytes) {
    static const char *const doing[] = {"has not taken its assignment yet", "fetches its layers",
                                        "loads its layers", "", "cannot load its layers"};
    reason[0] = 0;
    if (state == LH_WORKER_IDLE)
        snprintf(reason, bytes, "worker %s %s", report->name, doing[state]);
    else if (state == LH_WORKER_FAILED)
        snprintf(reason, bytes, "worker %s %s: %s", report->name, doing[state],
                 report->assignment.error);
    else if (state != LH_WORKER_READY)
        snprintf(reason, bytes, "worker %s %s: %.0f %%", report->name, doing[state],
                 report->assignment.total_bytes ? 100.0 * (double)report->assignment.done_bytes /
                                                      (double)report->assignment.total_bytes
                                                : 0.0);
    else if (!report->kv.present)
        snprintf(reason, bytes, "worker %s has not told its KV cache yet", report->name);
    else if (!report->next.present || !report->next.connected)
        snprintf(reason, bytes, "worker %s is not connected to %s%s%s", report->name, next,
                 report->next_error[0] ? ": " : "", report->next_error);
}

int lh_chain_awaited_hop(const lh_chain *chain, const lh_registry *registry, bool first_hop) {
    int hop = first_hop ? -1 : 0;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_chain_worker(chain, registry, i);
        if (lh_chain_stage_state(chain, registry, i) != LH_WORKER_READY ||
            !worker->report.next.present)
            return -1;
        if (hop < 0 && !worker->report.next.connected)
            hop = (int)i + 1;
    }
    return chain->stage_count > 0 ? hop : -1;
}

bool lh_chain_is_complete(const lh_chain *chain, const lh_registry *registry,
                          const char *first_hop_problem, char *reason, size_t reason_bytes) {
    reason[0] = 0;
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker = lh_chain_worker(chain, registry, i);
        if (!worker) {
            snprintf(reason, reason_bytes, "worker %s is gone", chain->stages[i].name);
            return false;
        }
        const char *next = i + 1 < chain->stage_count ? chain->stages[i + 1].name : "the gateway";
        describe_stage(&worker->report, lh_chain_stage_state(chain, registry, i), next, reason,
                       reason_bytes);
        if (reason[0])
            return false;
    }
    if (first_hop_problem && chain->stage_count > 0)
        snprintf(reason, reason_bytes, "the gateway is not connected to worker %s%s%.200s",
                 chain->stages[0].name, first_hop_problem[0] ? ": " : "", first_hop_problem);
    return chain->stage_count > 0 && !first_hop_problem;
}
