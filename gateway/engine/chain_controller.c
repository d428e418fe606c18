/* The fleet's state is passed on to the scheduler, the scheduler's faults to the fleet, and what
 * both want done becomes actions. */
#include "gateway/engine/chain_controller.h"

#include "common/base/arithmetic.h"
#include "common/base/log.h"
#include "gateway/fleet/chain_costs.h"
#include "gateway/fleet/link_notes.h"
#include "gateway/schedule/recovery.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A worker that loads must report again within this time; the last such span is for connecting. */
#define EXPECTATION_US 2000000

struct lh_chain_controller {
    lh_fleet *fleet;
    lh_scheduler *scheduler;
    lh_link_matrix *links; /* NULL: none */
    const char *site;      /* the gateway's */
    const lh_model_profile *model;
    /* The epoch in which the scheduler works while it is up, and the chain as it was when the
     * scheduler last came up. */
    uint32_t up_epoch;
    lh_chain up_chain;
    uint32_t width;
    lh_hop_profile first_hop;
    lh_cost_chain costs;
    lh_claims *claims; /* NULL: all are believed */
    lh_claim_review review;
    lh_load_progress load;
    bool wants_abandon, wants_connect, wants_try, has_stand_in;
    /* Of the last CONNECT; its address "": none yet. */
    lh_way first;
    /* Of the last TRY; its address "": no hop is tried. */
    lh_way tried;
    uint64_t tried_instance;
    lh_step_manifest manifest;
};

lh_status lh_chain_controller_create(const lh_fleet_options *fleet_options,
                                     const lh_scheduler_options *scheduler_options,
                                     const lh_scheduler_sink *sink, int64_t now_us,
                                     lh_chain_controller **controller, lh_error *error) {
    lh_chain_controller *c = calloc(1, sizeof *c);
    if (!c)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the chain controller");
    c->width = scheduler_options->width;
    c->links = fleet_options->links;
    c->site = fleet_options->origin.site;
    c->model = fleet_options->model;
    c->claims = fleet_options->claims;
    lh_status status = lh_fleet_create(fleet_options, now_us, &c->fleet, error);
    if (status == LH_OK)
        status = lh_scheduler_create(scheduler_options, sink, &c->scheduler, error);
    if (status != LH_OK) {
        lh_chain_controller_destroy(c);
        return status;
    }
    *controller = c;
    return LH_OK;
}

void lh_chain_controller_destroy(lh_chain_controller *controller) {
    if (!controller)
        return;
    lh_scheduler_destroy(controller->scheduler);
    lh_fleet_destroy(controller->fleet);
    free(controller);
}

/* ---- Keeping the two in step ---- */

/* The KV caches of the chain's stages, empty, as the workers last reported them. */
static lh_kv_ledger kv_of(const lh_chain_controller *controller) {
    const lh_chain *chain = lh_fleet_chain(controller->fleet);
    lh_kv_ledger ledger = {.stage_count = chain->stage_count};
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker =
            lh_registry_find(lh_fleet_registry(controller->fleet), chain->stages[i].name);
        assert(worker);
        ledger.stages[i].page_positions = worker->report.kv.page_positions;
        ledger.stages[i].pages_total = worker->report.kv.pages_total;
    }
    return ledger;
}

/* Whether the stage's worker still holds what it held when the scheduler's last chain went down. */
static bool has_kept(const lh_chain_controller *controller, const lh_chain_stage *stage,
                     uint32_t index) {
    const lh_worker *worker = lh_registry_find(lh_fleet_registry(controller->fleet), stage->name);
    return index < controller->up_chain.stage_count &&
           controller->up_chain.stages[index].kv_epoch == stage->kv_epoch &&
           worker->report.kv.epoch == stage->kv_epoch;
}

/* Whether the stage's worker was told to keep its KV cache from an earlier epoch. */
static bool is_to_keep(const lh_chain *chain, uint32_t stage) {
    return chain->stages[stage].kv_epoch != chain->epoch;
}

/* How many of the first stages have lost what they held. If one among them was told to keep it, no
 * stage is relied upon: all of them count as lost. */
static uint32_t count_lost(const lh_chain_controller *controller, const lh_chain *chain) {
    uint32_t lost = chain->stage_count;
    while (lost > 0 && is_to_keep(chain, lost - 1) &&
           has_kept(controller, &chain->stages[lost - 1], lost - 1))
        lost--;
    for (uint32_t i = 0; i < lost; i++)
        if (is_to_keep(chain, i))
            return chain->stage_count;
    return lost;
}

/* A chain of less room serves, and refuses what is longer. */
static void tell_room(const lh_chain_controller *controller, const lh_chain *chain) {
    const uint64_t positions = lh_kv_ledger_positions(lh_scheduler_ledger(controller->scheduler)),
                   asked = (uint64_t)controller->model->kv.pages * LH_KV_NEED_PAGE;
    if (positions < asked)
        lh_log(LH_LOG_WARN, "fleet",
               "--kv-bytes of the chain's workers have less room than is asked for chain=%s "
               "tokens=%llu asked=%llu",
               chain->name, (unsigned long long)positions, (unsigned long long)asked);
}

static void go_up(lh_chain_controller *controller, const lh_chain *chain, int64_t now_us) {
    assert(chain->state == LH_CHAIN_READY && chain->stage_count > 0);
    assert(!lh_scheduler_chain_is_up(controller->scheduler));
    lh_kv_ledger kv = kv_of(controller);
    bool is_kept = false;
    for (uint32_t i = 0; i < chain->stage_count; i++)
        is_kept |= is_to_keep(chain, i);
    if (is_kept)
        lh_scheduler_chain_back(controller->scheduler, chain->epoch, &kv,
                                count_lost(controller, chain), now_us);
    else
        lh_scheduler_chain_up(controller->scheduler, chain->epoch, &kv, now_us);
    tell_room(controller, chain);
    controller->up_epoch = chain->epoch;
    controller->up_chain = *chain;
}

/* Wants a new connection where the first worker is another one now, or has another address. */
static void follow_first_worker(lh_chain_controller *controller, int64_t now_us) {
    const lh_chain *chain = lh_fleet_chain(controller->fleet);
    if (chain->stage_count == 0)
        return;
    if (lh_way_is_same(&chain->stages[0].way, &controller->first))
        return;
    controller->first = chain->stages[0].way;
    controller->wants_connect = true;
    lh_fleet_first_hop(controller->fleet, false, false, now_us, "the first worker changed");
}

/* The hop to the first worker of the next chain, where that is another one. */
static void follow_first_try(lh_chain_controller *controller) {
    static const lh_chain_stage none;
    const lh_chain_stage *stage = lh_fleet_first_try(controller->fleet);
    stage = stage ? stage : &none;
    if (stage->instance == controller->tried_instance &&
        lh_way_is_same(&stage->way, &controller->tried))
        return;
    controller->tried = stage->way;
    controller->tried_instance = stage->instance;
    controller->wants_try = true;
    lh_fleet_first_trial(controller->fleet, &(lh_hop_trial_report){0});
}

static void go_down(lh_chain_controller *controller, int64_t now_us) {
    if (!lh_scheduler_chain_is_up(controller->scheduler))
        return;
    lh_scheduler_chain_down(controller->scheduler, now_us);
    controller->wants_abandon = true;
}

/* While the chain takes steps, they are planned by what was reported last. */
static void update_costs(lh_chain_controller *controller) {
    if (!lh_scheduler_chain_is_up(controller->scheduler))
        return;
    lh_chain_costs_read(controller->fleet, controller->width, &controller->first_hop,
                        &controller->costs);
    lh_scheduler_set_costs(controller->scheduler, &controller->costs);
}

/* Of the scheduler's, with whose fault it is where that is known. */
static void report_fault(lh_chain_controller *controller, const char *fault, const char *refused_by,
                         int64_t now_us) {
    static const lh_worker_fault faults[] = {[LH_RESULTS_BAD] = LH_WORKER_FAULT_BAD_RESULT,
                                             [LH_RESULTS_MISSING] = LH_WORKER_FAULT_NO_RESULT};
    lh_result_fault results = lh_scheduler_result_fault(controller->scheduler);
    if (results == LH_RESULTS_FINE && refused_by[0])
        lh_fleet_blame_hop(controller->fleet, controller->up_epoch, refused_by, now_us, fault);
    else if (results == LH_RESULTS_FINE)
        lh_fleet_fault(controller->fleet, controller->up_epoch, now_us, fault);
    else
        lh_fleet_blame_last(controller->fleet, controller->up_epoch, faults[results], now_us,
                            fault);
}

/* After everything that the fleet or the scheduler was told. refused_by: the worker that is said to
 * have refused the step of which they were told; "": none was. */
static void settle_after(lh_chain_controller *controller, const char *refused_by, int64_t now_us) {
    const char *fault = lh_scheduler_fault(controller->scheduler);
    if (fault) {
        report_fault(controller, fault, refused_by, now_us);
        lh_fleet_tick(controller->fleet, now_us);
    }
    follow_first_worker(controller, now_us);
    follow_first_try(controller);
    const lh_chain *chain = lh_fleet_chain(controller->fleet);
    if (chain->state != LH_CHAIN_READY || chain->epoch != controller->up_epoch)
        go_down(controller, now_us);
    if (chain->state == LH_CHAIN_READY && !lh_scheduler_chain_is_up(controller->scheduler)) {
        go_up(controller, chain, now_us);
        update_costs(controller);
    }
}

static void settle(lh_chain_controller *controller, int64_t now_us) {
    settle_after(controller, "", now_us);
}

lh_load_estimate lh_chain_controller_load(const lh_chain_controller *controller, int64_t now_us) {
    return lh_load_progress_estimate(&controller->load, now_us);
}

/* ---- What happens ---- */

/* Sequences that could go on with another chain do not keep a worker that is to leave. */
static void note_load(lh_chain_controller *controller) {
    lh_scheduler_figures figures = lh_scheduler_current_figures(controller->scheduler);
    const lh_kv_ledger *ledger = lh_scheduler_ledger(controller->scheduler);
    const lh_fleet_load load = {
        .sequences = controller->has_stand_in ? 0 : figures.running + figures.waiting,
        .has_stand_in = controller->has_stand_in,
        .positions = ledger->blocks_live * ledger->block_positions,
        .mix = *lh_scheduler_mix(controller->scheduler)};
    lh_fleet_note_load(controller->fleet, &load);
}

/* What the report and the gateway's own hop say of the links. */
static void note_links(lh_chain_controller *controller, const lh_worker_report *report,
                       int64_t now_us) {
    const lh_link_notes notes = {.links = controller->links,
                                 .gateway_site = controller->site,
                                 .chain = lh_fleet_chain(controller->fleet),
                                 .registry = lh_fleet_registry(controller->fleet)};
    lh_link_notes_take(&notes, report, now_us);
    if (strcmp(report->name, controller->first.worker) == 0)
        lh_link_notes_take_first_hop(&notes, controller->first.worker, &controller->first_hop,
                                     now_us);
}

lh_status lh_chain_controller_put(lh_chain_controller *controller, const lh_worker_report *report,
                                  int64_t now_us, lh_fleet_answer *answer, lh_error *error) {
    note_load(controller);
    lh_status status = lh_fleet_put(controller->fleet, report, now_us, answer, error);
    note_links(controller, report, now_us);
    lh_load_progress_observe(&controller->load, lh_fleet_chain(controller->fleet),
                             lh_fleet_registry(controller->fleet), now_us);
    if (controller->load.is_loading)
        lh_scheduler_expect_chain(controller->scheduler, now_us + EXPECTATION_US,
                                  controller->load.grown_us);
    settle(controller, now_us);
    if (lh_chain_find(lh_fleet_chain(controller->fleet), report->name) >= 0)
        update_costs(controller);
    return status;
}

void lh_chain_controller_first_hop(lh_chain_controller *controller, bool connected, int64_t now_us,
                                   const char *reason) {
    lh_fleet_first_hop(controller->fleet, connected, !connected && controller->first_hop.refused,
                       now_us, reason);
    lh_fleet_tick(controller->fleet, now_us);
    settle(controller, now_us);
}

void lh_chain_controller_first_trial(lh_chain_controller *controller,
                                     const lh_hop_trial_report *trial, int64_t now_us) {
    if (strcmp(trial->address, controller->tried.address) != 0)
        return;
    lh_fleet_first_trial(controller->fleet, trial);
    lh_fleet_tick(controller->fleet, now_us);
    settle(controller, now_us);
}

void lh_chain_controller_measure_first_hop(lh_chain_controller *controller,
                                           const lh_hop_profile *profile) {
    controller->first_hop = *profile;
}

bool lh_chain_controller_takes_results_of(const lh_chain_controller *controller,
                                          const lh_tls_identity *peer) {
    const lh_chain *chain = lh_fleet_chain(controller->fleet);
    return chain->stage_count == 0 ||
           lh_tls_identity_is_worker(peer, chain->stages[chain->stage_count - 1].name);
}

/* By the gateway's own clock. */
static void review_claims(lh_chain_controller *controller, int64_t now_us) {
    double times = lh_scheduler_take_lone_step(controller->scheduler);
    const lh_claim_view view = {.chain = lh_fleet_chain(controller->fleet),
                                .registry = lh_fleet_registry(controller->fleet),
                                .model = controller->model,
                                .costs = &controller->costs};
    if (controller->claims && times > 0)
        lh_claims_note_step(controller->claims, &controller->review, &view, times, now_us);
}

lh_status lh_chain_controller_results(lh_chain_controller *controller, uint32_t epoch,
                                      uint64_t step, const lh_step_result *results, uint32_t count,
                                      int64_t now_us, lh_error *error) {
    lh_status status =
        lh_scheduler_results(controller->scheduler, epoch, step, results, count, now_us, error);
    review_claims(controller, now_us);
    settle(controller, now_us);
    return status;
}

void lh_chain_controller_refuse_results(lh_chain_controller *controller, uint32_t epoch,
                                        uint64_t step, const char *message, int64_t now_us) {
    lh_scheduler_refuse_results(controller->scheduler, epoch, step, message);
    settle(controller, now_us);
}

void lh_chain_controller_step_done(lh_chain_controller *controller, uint32_t epoch, uint64_t step,
                                   lh_status status, const char *blamed, const char *message,
                                   int64_t now_us) {
    bool is_refused = lh_status_is_refusal(status) && epoch == controller->up_epoch;
    lh_scheduler_step_done(controller->scheduler, epoch, step, status, message, now_us);
    if (status == LH_OK && epoch == controller->up_epoch &&
        lh_scheduler_chain_is_up(controller->scheduler))
        lh_fleet_moved(controller->fleet, now_us);
    settle_after(controller, is_refused ? blamed : "", now_us);
}

void lh_chain_controller_forget(lh_chain_controller *controller, const char *worker,
                                int64_t now_us) {
    lh_fleet_forget(controller->fleet, worker, now_us);
    settle(controller, now_us);
}

void lh_chain_controller_blame(lh_chain_controller *controller, const char *reason,
                               int64_t now_us) {
    note_load(controller);
    lh_scheduler_doubt(controller->scheduler, reason);
    lh_fleet_blame_all(controller->fleet, LH_WORKER_FAULT_WRONG_ANSWER, now_us, reason);
    settle(controller, now_us);
}

void lh_chain_controller_note_stand_in(lh_chain_controller *controller, bool has_stand_in) {
    controller->has_stand_in = has_stand_in;
}

void lh_chain_controller_studied(lh_chain_controller *controller, lh_plan_study *study,
                                 int64_t now_us) {
    lh_fleet_studied(controller->fleet, study, now_us);
    settle(controller, now_us);
}

void lh_chain_controller_hold(lh_chain_controller *controller, const char *reason) {
    lh_fleet_hold(controller->fleet, reason);
}

/* When a worker is to be taken for failed if no step has moved until then; INT64_MAX: no step is in
 * flight. */
static int64_t failure_due_us(const lh_chain_controller *controller) {
    int64_t progress_us = lh_scheduler_progress_us(controller->scheduler);
    return progress_us == INT64_MAX ? INT64_MAX
                                    : lh_fleet_failure_due_us(controller->fleet, progress_us);
}

void lh_chain_controller_tick(lh_chain_controller *controller, int64_t now_us) {
    if (now_us >= failure_due_us(controller))
        lh_fleet_stalled(controller->fleet, lh_scheduler_progress_us(controller->scheduler),
                         now_us);
    note_load(controller);
    lh_fleet_tick(controller->fleet, now_us);
    settle(controller, now_us);
    bool had_fault = lh_scheduler_fault(controller->scheduler);
    lh_scheduler_tick(controller->scheduler, now_us);
    /* No step moves any more: perhaps because of the connection, so the next chain has a new one.
     */
    if (!had_fault && lh_scheduler_fault(controller->scheduler))
        controller->first.address[0] = '\0';
    settle(controller, now_us);
}

int64_t lh_chain_controller_deadline_us(const lh_chain_controller *controller) {
    int64_t due_us = lh_min_i64(lh_fleet_deadline_us(controller->fleet),
                                lh_scheduler_deadline_us(controller->scheduler));
    return lh_min_i64(due_us, failure_due_us(controller));
}

bool lh_chain_controller_next_action(lh_chain_controller *controller, int64_t now_us,
                                     lh_action *action) {
    lh_chain_controller *c = controller;
    if (c->wants_abandon) {
        c->wants_abandon = false;
        *action = (lh_action){.kind = LH_ACTION_ABANDON};
        return true;
    }
    if (c->wants_connect) {
        c->wants_connect = false;
        *action = (lh_action){.kind = LH_ACTION_CONNECT, .way = &c->first};
        return true;
    }
    /* After a CONNECT, which may use the connection that was tried. */
    if (c->wants_try) {
        c->wants_try = false;
        *action = (lh_action){.kind = LH_ACTION_TRY, .way = &c->tried, .width = c->width};
        return true;
    }
    lh_plan_study *study = lh_fleet_next_study(c->fleet, now_us);
    if (study) {
        *action = (lh_action){.kind = LH_ACTION_STUDY, .study = study};
        return true;
    }
    uint64_t step;
    if (lh_scheduler_next_cancel(c->scheduler, &step)) {
        *action = (lh_action){.kind = LH_ACTION_CANCEL, .step = step};
        return true;
    }
    if (lh_scheduler_next_step(c->scheduler, now_us, &c->manifest)) {
        assert(c->manifest.epoch == c->up_epoch);
        *action = (lh_action){.kind = LH_ACTION_SUBMIT, .manifest = &c->manifest};
        return true;
    }
    return false;
}

const lh_fleet *lh_chain_controller_fleet(const lh_chain_controller *controller) {
    return controller->fleet;
}

lh_scheduler *lh_chain_controller_scheduler(const lh_chain_controller *controller) {
    return controller->scheduler;
}
