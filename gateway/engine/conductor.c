/* The fleet's state becomes the scheduler's, the scheduler's faults become the fleet's, and both become
 * actions. */
#include "gateway/engine/conductor.h"

#include "gateway/fleet/chain_costs.h"

#include <stdlib.h>
#include <string.h>

/* A worker that loads has so long until its next word, and then for what is left: to connect. */
#define EXPECTATION_US 2000000

struct lh_conductor {
    lh_fleet *fleet;
    lh_scheduler *scheduler;
    uint32_t up_epoch; /* the epoch that the scheduler works in, while it is up */
    lh_chain up_chain; /* as it was when the scheduler last came up */
    uint32_t width;
    lh_hop_profile first_hop;
    lh_cost_chain costs;
    bool wants_abandon, wants_connect, has_stand_in;
    char address[LH_ADDRESS_BYTES]; /* of the last CONNECT; "": none yet */
    bool tls;
    lh_step_manifest manifest;
};

lh_status lh_conductor_create(const lh_fleet_options *fleet_options,
                              const lh_scheduler_options *scheduler_options, const lh_model_profile *model,
                              const lh_scheduler_sink *sink, int64_t now_us, lh_conductor **conductor,
                              lh_error *error) {
    lh_conductor *c = calloc(1, sizeof *c);
    if (!c)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the conductor");
    c->width = scheduler_options->width;
    lh_status status = lh_fleet_create(fleet_options, model, now_us, &c->fleet, error);
    if (status == LH_OK)
        status = lh_scheduler_create(scheduler_options, sink, now_us, &c->scheduler, error);
    if (status != LH_OK) {
        lh_conductor_destroy(c);
        return status;
    }
    *conductor = c;
    return LH_OK;
}

void lh_conductor_destroy(lh_conductor *conductor) {
    if (!conductor)
        return;
    lh_scheduler_destroy(conductor->scheduler);
    lh_fleet_destroy(conductor->fleet);
    free(conductor);
}

/* ---- Keeping the two in step
 * ------------------------------------------------------------------------------------- */

static lh_kv_ledger kv_of(const lh_conductor *conductor) {
    const lh_chain *chain = lh_fleet_chain(conductor->fleet);
    lh_kv_ledger ledger = {.stage_count = chain->stage_count};
    for (uint32_t i = 0; i < chain->stage_count; i++) {
        const lh_worker *worker =
            lh_registry_find(lh_fleet_registry(conductor->fleet), chain->stages[i].name);
        ledger.stages[i].page_positions = worker->report.kv.page_positions;
        ledger.stages[i].pages_total = worker->report.kv.pages_total;
    }
    return ledger;
}

/* Whether this worker holds what it held when the scheduler's last chain went down. */
static bool has_kept(const lh_conductor *conductor, const lh_chain_stage *stage, uint32_t index) {
    const lh_worker *worker = lh_registry_find(lh_fleet_registry(conductor->fleet), stage->name);
    return index < conductor->up_chain.stage_count &&
           conductor->up_chain.stages[index].kv_epoch == stage->kv_epoch &&
           worker->report.kv.epoch == stage->kv_epoch;
}

static bool is_to_keep(const lh_chain *chain, uint32_t stage) {
    return chain->stages[stage].kv_epoch != chain->epoch;
}

/* How many of the first stages have lost what they held. All, where one of these has kept it: then it is not to be relied upon. */
static uint32_t count_lost(const lh_conductor *conductor, const lh_chain *chain) {
    uint32_t lost = chain->stage_count;
    while (lost > 0 && is_to_keep(chain, lost - 1) && has_kept(conductor, &chain->stages[lost - 1], lost - 1))
        lost--;
    for (uint32_t i = 0; i < lost; i++)
        if (is_to_keep(chain, i))
            return chain->stage_count;
    return lost;
}

static void go_up(lh_conductor *conductor, const lh_chain *chain, int64_t now_us) {
    lh_kv_ledger kv = kv_of(conductor);
    bool is_kept = false;
    for (uint32_t i = 0; i < chain->stage_count; i++)
        is_kept |= is_to_keep(chain, i);
    if (is_kept)
        lh_scheduler_chain_back(conductor->scheduler, chain->epoch, &kv, count_lost(conductor, chain),
                                now_us);
    else
        lh_scheduler_chain_up(conductor->scheduler, chain->epoch, &kv, now_us);
    conductor->up_epoch = chain->epoch;
    conductor->up_chain = *chain;
}

/* The first worker may be another one now, or reached in another way. */
static void follow_first_worker(lh_conductor *conductor, int64_t now_us) {
    const lh_chain *chain = lh_fleet_chain(conductor->fleet);
    if (chain->stage_count == 0)
        return;
    const lh_chain_stage *first = &chain->stages[0];
    if (first->tls == conductor->tls && strcmp(first->address, conductor->address) == 0)
        return;
    memcpy(conductor->address, first->address, sizeof conductor->address);
    conductor->tls = first->tls;
    conductor->wants_connect = true;
    lh_fleet_first_hop(conductor->fleet, false, false, now_us, "the first worker changed");
}

static void go_down(lh_conductor *conductor, int64_t now_us) {
    if (!lh_scheduler_chain_is_up(conductor->scheduler))
        return;
    lh_scheduler_chain_down(conductor->scheduler, now_us);
    conductor->wants_abandon = true;
}

/* The chain takes steps: they are planned by what was reported last. */
static void tell_costs(lh_conductor *conductor) {
    if (!lh_scheduler_chain_is_up(conductor->scheduler))
        return;
    lh_chain_costs_read(conductor->fleet, conductor->width, &conductor->first_hop, &conductor->costs);
    lh_scheduler_set_costs(conductor->scheduler, &conductor->costs);
}

static void settle(lh_conductor *conductor, int64_t now_us) {
    const char *fault = lh_scheduler_fault(conductor->scheduler);
    if (fault) {
        lh_fleet_fault(conductor->fleet, conductor->up_epoch, now_us, fault);
        lh_fleet_tick(conductor->fleet, now_us);
    }
    follow_first_worker(conductor, now_us);
    const lh_chain *chain = lh_fleet_chain(conductor->fleet);
    if (chain->state != LH_CHAIN_READY || chain->epoch != conductor->up_epoch)
        go_down(conductor, now_us);
    if (chain->state == LH_CHAIN_READY && !lh_scheduler_chain_is_up(conductor->scheduler)) {
        go_up(conductor, chain, now_us);
        tell_costs(conductor);
    }
}

/* ---- What happens
 * ------------------------------------------------------------------------------------------------ */

static void tell_load(lh_conductor *conductor) {
    lh_scheduler_figures figures = lh_scheduler_current_figures(conductor->scheduler);
    uint32_t here = figures.running + figures.waiting;
    lh_fleet_note_load(conductor->fleet, conductor->has_stand_in ? 0 : here);
}

lh_status lh_conductor_put(lh_conductor *conductor, const lh_worker_report *report, int64_t now_us,
                           lh_fleet_answer *answer, lh_error *error) {
    tell_load(conductor);
    lh_status status = lh_fleet_put(conductor->fleet, report, now_us, answer, error);
    if (lh_fleet_is_loading(conductor->fleet))
        lh_scheduler_expect_chain(conductor->scheduler, now_us + EXPECTATION_US);
    settle(conductor, now_us);
    if (lh_chain_find(lh_fleet_chain(conductor->fleet), report->name) >= 0)
        tell_costs(conductor);
    return status;
}

void lh_conductor_first_hop(lh_conductor *conductor, bool connected, int64_t now_us, const char *reason) {
    lh_fleet_first_hop(conductor->fleet, connected, !connected && conductor->first_hop.refused, now_us,
                       reason);
    lh_fleet_tick(conductor->fleet, now_us);
    settle(conductor, now_us);
}

void lh_conductor_measure_first_hop(lh_conductor *conductor, const lh_hop_profile *profile) {
    conductor->first_hop = *profile;
}

lh_status lh_conductor_submit(lh_conductor *conductor, lh_sequence *sequence, int64_t now_us,
                              lh_error *error) {
    return lh_scheduler_submit(conductor->scheduler, sequence, now_us, error);
}

void lh_conductor_cancel(lh_conductor *conductor, uint64_t handle) {
    lh_scheduler_cancel(conductor->scheduler, handle);
}

lh_status lh_conductor_results(lh_conductor *conductor, uint32_t epoch, uint64_t step,
                               const lh_step_result *results, uint32_t count, int64_t now_us,
                               lh_error *error) {
    lh_status status = lh_scheduler_results(conductor->scheduler, epoch, step, results, count, now_us, error);
    settle(conductor, now_us);
    return status;
}

void lh_conductor_step_done(lh_conductor *conductor, uint32_t epoch, uint64_t step, lh_status status,
                            const char *message, int64_t now_us) {
    lh_scheduler_step_done(conductor->scheduler, epoch, step, status, message, now_us);
    if (status == LH_OK && epoch == conductor->up_epoch && lh_scheduler_chain_is_up(conductor->scheduler))
        lh_fleet_moved(conductor->fleet, now_us);
    settle(conductor, now_us);
}

lh_sequence *lh_conductor_surrender(lh_conductor *conductor, uint64_t positions_max, int64_t now_us) {
    return lh_scheduler_surrender(conductor->scheduler, positions_max, now_us);
}

void lh_conductor_adopt(lh_conductor *conductor, lh_sequence *sequence, int64_t now_us) {
    lh_scheduler_adopt(conductor->scheduler, sequence, now_us);
}

void lh_conductor_forget(lh_conductor *conductor, const char *worker, int64_t now_us) {
    lh_fleet_forget(conductor->fleet, worker, now_us);
    settle(conductor, now_us);
}

void lh_conductor_note_stand_in(lh_conductor *conductor, bool has_stand_in) {
    conductor->has_stand_in = has_stand_in;
}

void lh_conductor_hold(lh_conductor *conductor, const char *reason) {
    lh_fleet_hold(conductor->fleet, reason);
}

/* When somebody may be missing while steps stand still; INT64_MAX: no step is under way. */
static int64_t suspicion_due_us(const lh_conductor *conductor) {
    int64_t progress_us = lh_scheduler_progress_us(conductor->scheduler);
    return progress_us == INT64_MAX ? INT64_MAX : lh_fleet_suspicion_due_us(conductor->fleet, progress_us);
}

void lh_conductor_tick(lh_conductor *conductor, int64_t now_us) {
    if (now_us >= suspicion_due_us(conductor))
        lh_fleet_stalled(conductor->fleet, lh_scheduler_progress_us(conductor->scheduler), now_us);
    tell_load(conductor);
    lh_fleet_tick(conductor->fleet, now_us);
    settle(conductor, now_us);
    bool had_fault = lh_scheduler_fault(conductor->scheduler) != NULL;
    lh_scheduler_tick(conductor->scheduler, now_us);
    if (!had_fault && lh_scheduler_fault(conductor->scheduler))
        conductor->address[0] =
            '\0'; /* nothing moves: perhaps it is the connection, so the next chain has another one */
    settle(conductor, now_us);
}

int64_t lh_conductor_deadline_us(const lh_conductor *conductor) {
    int64_t fleet = lh_fleet_deadline_us(conductor->fleet);
    int64_t scheduler = lh_scheduler_deadline_us(conductor->scheduler);
    int64_t suspicion = suspicion_due_us(conductor);
    int64_t least = fleet < scheduler ? fleet : scheduler;
    return suspicion < least ? suspicion : least;
}

bool lh_conductor_next_action(lh_conductor *conductor, int64_t now_us, lh_action *action) {
    lh_conductor *c = conductor;
    if (c->wants_abandon) {
        c->wants_abandon = false;
        *action = (lh_action){.kind = LH_ACTION_ABANDON};
        return true;
    }
    if (c->wants_connect) {
        c->wants_connect = false;
        *action = (lh_action){.kind = LH_ACTION_CONNECT, .address = c->address, .tls = c->tls};
        return true;
    }
    uint64_t step;
    if (lh_scheduler_next_cancel(c->scheduler, &step)) {
        *action = (lh_action){.kind = LH_ACTION_CANCEL, .step = step};
        return true;
    }
    if (lh_scheduler_next_step(c->scheduler, now_us, &c->manifest)) {
        *action = (lh_action){.kind = LH_ACTION_SUBMIT, .manifest = &c->manifest};
        return true;
    }
    return false;
}

const lh_fleet *lh_conductor_fleet(const lh_conductor *conductor) {
    return conductor->fleet;
}

const lh_scheduler *lh_conductor_scheduler(const lh_conductor *conductor) {
    return conductor->scheduler;
}
