/* Which chain a worker belongs to is replica_members'; here is which one a sequence runs on. */
#include "gateway/engine/router.h"

#include "common/base/arithmetic.h"
#include "gateway/engine/replica_members.h"
#include "gateway/schedule/fair_share.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Predictions of chains are not so exact that a smaller difference should put all sequences onto
 * one of them. */
#define NEARLY 1.2

struct lh_router {
    uint32_t count;
    /* The chain whose actions are looked at first. */
    uint32_t turn;
    int64_t renew_us, lease_us;
    /* NULL: there is one chain. */
    lh_replica_members *members;
    /* The number of the latest sequence of any chain. */
    uint64_t sequence_number;
    /* A tenant's share is of all chains together. */
    lh_fairness_group group;
    /* Sites are the same for all chains. */
    lh_link_matrix *links;
    lh_link_survey survey;
    lh_relays *relays;
    /* A worker keeps its standing in whichever chain it is. */
    lh_misconduct misconduct;
    lh_claims claims;
    lh_spot_checks *checks; /* NULL: no answer is checked */
    lh_chain_controller *controllers[LH_REPLICAS_MAX];
    char names[LH_REPLICAS_MAX][LH_WORKER_NAME_BYTES];
};

/* ---- Life ---- */

/* With several chains, workers have been dealt to this one before its fleet hears of them, so it
 * plans as soon as each has reported again. Any of the queues may come to hold all sequences that
 * wait. */
static lh_status create_controller(lh_router *r, uint32_t index,
                                   const lh_fleet_options *fleet_options,
                                   const lh_scheduler_options *scheduler_options,
                                   const lh_scheduler_sink *sink, int64_t now_us, lh_error *error) {
    lh_fleet_options fleet = *fleet_options;
    lh_scheduler_options scheduler = *scheduler_options;
    fleet.chain_name = r->names[index];
    fleet.links = r->links;
    fleet.origin.relays = r->relays;
    fleet.misconduct = &r->misconduct;
    fleet.claims = &r->claims;
    fleet.epoch_stride = r->count;
    fleet.epoch_offset = index;
    scheduler.chain_name = r->names[index];
    scheduler.numbers = &r->sequence_number;
    scheduler.group = &r->group;
    if (r->count > 1) {
        fleet.workers_expected = 0;
        fleet.plan_delay_us = 2 * fleet.renew_us;
        scheduler.queue_max += (r->count - 1) * scheduler.sequences_max;
    }
    return lh_chain_controller_create(&fleet, &scheduler, sink, now_us, &r->controllers[index],
                                      error);
}

lh_status lh_router_create(uint32_t count, const lh_fleet_options *fleet,
                           const lh_scheduler_options *scheduler, const lh_scheduler_sink *sink,
                           int64_t now_us, lh_router **router, lh_error *error) {
    assert(count >= 1 && count <= LH_REPLICAS_MAX);
    lh_router *r = calloc(1, sizeof *r);
    if (!r)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u chains", count);
    r->count = count;
    r->renew_us = fleet->renew_us;
    r->lease_us = fleet->lease_us;
    lh_status status =
        count > 1 ? lh_replica_members_create(count, fleet, now_us, &r->members, error) : LH_OK;
    if (status == LH_OK)
        status = lh_link_matrix_create(&r->links, error);
    if (status == LH_OK)
        status = lh_relays_create(fleet->lease_us, &r->relays, error);
    lh_link_survey_init(&r->survey, r->links, fleet->origin.site, fleet->survey_bytes);
    for (uint32_t i = 0; i < count && status == LH_OK; i++) {
        lh_replica_name(fleet->chain_name, i, r->names[i]);
        status = create_controller(r, i, fleet, scheduler, sink, now_us, error);
    }
    if (status != LH_OK) {
        lh_router_destroy(r);
        return status;
    }
    *router = r;
    return LH_OK;
}

void lh_router_destroy(lh_router *router) {
    if (!router)
        return;
    lh_spot_checks_destroy(router->checks);
    for (uint32_t i = 0; i < router->count; i++)
        lh_chain_controller_destroy(router->controllers[i]);
    lh_replica_members_destroy(router->members);
    lh_link_matrix_destroy(router->links);
    lh_relays_destroy(router->relays);
    free(router);
}

lh_status lh_router_check_answers(lh_router *router, double rate, uint64_t secret,
                                  lh_error *error) {
    const lh_spot_options options = {rate, secret, router->count, router->controllers,
                                     &router->misconduct};
    assert(!router->checks && rate >= 0 && rate <= 1);
    return rate > 0 && router->count > 1 ? lh_spot_checks_create(&options, &router->checks, error)
                                         : LH_OK;
}

lh_spot_figures lh_router_spot_figures(const lh_router *router) {
    return router->checks ? lh_spot_checks_figures(router->checks) : (lh_spot_figures){0};
}

uint32_t lh_router_count(const lh_router *router) {
    return router->count;
}

lh_chain_controller *lh_router_controller(const lh_router *router, uint32_t index) {
    assert(index < router->count);
    return router->controllers[index];
}

const lh_link_matrix *lh_router_links(const lh_router *router) {
    return router->links;
}

const lh_misconduct *lh_router_misconduct(const lh_router *router) {
    return &router->misconduct;
}

const lh_claims *lh_router_claims(const lh_router *router) {
    return &router->claims;
}

const char *lh_router_name(const lh_router *router, uint32_t index) {
    assert(index < router->count);
    return router->names[index];
}

int lh_router_find(const lh_router *router, const char *chain_name) {
    for (uint32_t i = 0; i < router->count; i++)
        if (strcmp(router->names[i], chain_name) == 0)
            return (int)i;
    return -1;
}

static lh_scheduler *scheduler_at(const lh_router *r, uint32_t index) {
    return lh_chain_controller_scheduler(r->controllers[index]);
}

static bool is_up(const lh_router *r, uint32_t index) {
    return lh_scheduler_chain_is_up(scheduler_at(r, index));
}

static uint32_t count_up(const lh_router *r) {
    uint32_t up = 0;
    for (uint32_t i = 0; i < r->count; i++)
        up += is_up(r, i);
    return up;
}

/* ---- Workers ---- */

/* A chain whose sequences could go on elsewhere may let a worker go sooner. */
static void note_stand_ins(lh_router *r) {
    uint32_t up = count_up(r);
    for (uint32_t i = 0; i < r->count; i++)
        lh_chain_controller_note_stand_in(r->controllers[i], up > is_up(r, i));
}

/* To the chain that it is to come from, the worker's report says that it leaves: so that chain
 * prepares to do without it. */
static lh_status put_to_old_chain(lh_router *r, const lh_replica_place *place,
                                  const lh_worker_report *report, int64_t now_us,
                                  lh_fleet_answer *answer, bool *has_moved, lh_error *error) {
    assert(place->replica < r->count && place->moving_to < r->count);
    lh_chain_controller *old = r->controllers[place->replica];
    lh_worker_report leaver = *report;
    leaver.leaving = true;
    lh_status status = lh_chain_controller_put(old, &leaver, now_us, answer, error);
    *has_moved = status == LH_OK && answer->may_go && !report->leaving;
    answer->is_leaving = report->leaving;
    if (*has_moved) {
        lh_chain_controller_forget(old, report->name, now_us);
        lh_replica_members_moved(r->members, report->name);
    }
    return status;
}

static lh_status put_to_chain(lh_router *r, const lh_worker_report *report, int64_t now_us,
                              lh_fleet_answer *answer, lh_error *error) {
    lh_replica_place place = {0, LH_REPLICA_NONE};
    if (r->count > 1) {
        note_stand_ins(r);
        lh_status status = lh_replica_members_note(r->members, report, now_us, &place, error);
        if (status != LH_OK)
            return status;
    }
    if (place.replica == LH_REPLICA_NONE) {
        *answer = (lh_fleet_answer){.renew_us = r->renew_us,
                                    .lease_us = r->lease_us,
                                    .is_leaving = report->leaving,
                                    .may_go = true,
                                    .leave_reason = "it has no part in a chain"};
        return LH_OK;
    }
    if (place.moving_to != LH_REPLICA_NONE) {
        bool has_moved;
        lh_status status = put_to_old_chain(r, &place, report, now_us, answer, &has_moved, error);
        if (!has_moved)
            return status;
        place.replica = place.moving_to;
    }
    return lh_chain_controller_put(r->controllers[place.replica], report, now_us, answer, error);
}

/* Whether some chain serves, and none forms or is prepared. */
static bool is_quiet(const lh_router *r) {
    bool is_served = false;
    for (uint32_t i = 0; i < r->count; i++) {
        const lh_fleet *fleet = lh_chain_controller_fleet(r->controllers[i]);
        lh_chain_state state = lh_fleet_chain(fleet)->state;
        const char *cause;
        is_served |= state == LH_CHAIN_READY;
        if (state == LH_CHAIN_FORMING || lh_fleet_successor(fleet, &cause))
            return false;
    }
    return is_served;
}

static uint32_t collect_machines(const lh_router *r, lh_survey_machine machines[LH_WORKERS_MAX]) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const lh_fleet *fleet = lh_chain_controller_fleet(r->controllers[i]);
        const lh_registry *registry = lh_fleet_registry(fleet);
        lh_scheduler_figures figures = lh_scheduler_current_figures(scheduler_at(r, i));
        lh_survey_use use = figures.running + figures.waiting > 0 ? LH_SURVEY_BUSY : LH_SURVEY_IDLE;
        for (uint32_t w = 0; w < lh_registry_count(registry) && count < LH_WORKERS_MAX; w++) {
            const lh_worker_report *report = &lh_registry_at(registry, w)->report;
            bool has_part = lh_chain_find(lh_fleet_chain(fleet), report->name) >= 0;
            machines[count++] = (lh_survey_machine){report, has_part ? use : LH_SURVEY_SPARE};
        }
    }
    return count;
}

/* The link that this worker is to measure for the matrix, if it is its turn. */
static void survey_links(lh_router *r, const lh_worker_report *report, int64_t now_us,
                         lh_fleet_answer *answer) {
    lh_survey_machine machines[LH_WORKERS_MAX];
    lh_link_survey_take(&r->survey, report, now_us);
    if (lh_link_survey_is_due(&r->survey, now_us))
        lh_link_survey_look(&r->survey, machines, collect_machines(r, machines), is_quiet(r),
                            now_us);
    const lh_survey_task *task = lh_link_survey_task(&r->survey, report->name);
    answer->has_survey = task;
    if (task)
        answer->survey = *task;
}

/* Of what the worker says, what is believed. */
static lh_status put_believed(lh_router *router, const lh_worker_report *report, int64_t now_us,
                              lh_fleet_answer *answer, lh_error *error) {
    lh_relays_note(router->relays, report, now_us);
    lh_status status = put_to_chain(router, report, now_us, answer, error);
    if (status != LH_OK)
        return status;
    survey_links(router, report, now_us, answer);
    answer->relayed_count = lh_relays_list(router->relays, report, &answer->relayed);
    return LH_OK;
}

lh_status lh_router_put(lh_router *router, const lh_worker_report *report, int64_t now_us,
                        lh_fleet_answer *answer, lh_error *error) {
    const lh_claim *claim = lh_claims_find(&router->claims, report->name);
    if (!claim)
        return put_believed(router, report, now_us, answer, error);
    lh_worker_report believed = *report;
    lh_claim_correct(claim, &believed.speed);
    return put_believed(router, &believed, now_us, answer, error);
}

void lh_router_forget(lh_router *router, const char *worker, int64_t now_us) {
    lh_relays_suspect(router->relays, worker, now_us);
    for (uint32_t i = 0; i < router->count; i++)
        lh_chain_controller_forget(router->controllers[i], worker, now_us);
}

void lh_router_hold(lh_router *router, const char *reason) {
    for (uint32_t i = 0; i < router->count; i++)
        lh_chain_controller_hold(router->controllers[i], reason);
}

/* ---- Sequences ---- */

static uint64_t positions_of(const lh_router *r, uint32_t index) {
    return lh_kv_ledger_positions(lh_scheduler_ledger(scheduler_at(r, index)));
}

/* A chain that could take a sequence, and what speaks for it. */
typedef struct candidate {
    uint32_t index, sequences;
    /* Whether its costs are known; else finish_us is how many sequences it has. */
    bool has_costs;
    double finish_us;
} candidate;

/* The chains that are up and can hold the sequence. */
static uint32_t find_candidates(const lh_router *r, const lh_sequence *sequence, bool needs_room,
                                candidate *candidates) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const lh_scheduler *scheduler = scheduler_at(r, i);
        if (!is_up(r, i) || positions_of(r, i) < lh_sequence_positions(sequence) ||
            (needs_room && !lh_scheduler_has_room(scheduler)))
            continue;
        lh_scheduler_figures figures = lh_scheduler_current_figures(scheduler);
        candidate *c = &candidates[count++];
        *c = (candidate){.index = i, .sequences = figures.running + figures.waiting};
        c->has_costs = lh_scheduler_expect_finish(scheduler, sequence, &c->finish_us);
    }
    return count;
}

/* Of the chains that are expected to be through with the sequence first, or nearly so, the one that
 * has the fewest sequences; where a chain's costs are not known, the one that has the fewest of
 * all. NONE: no chain can take it. */
static uint32_t pick(const lh_router *r, const lh_sequence *sequence, bool needs_room) {
    candidate candidates[LH_REPLICAS_MAX];
    uint32_t count = find_candidates(r, sequence, needs_room, candidates), best = LH_REPLICA_NONE,
             fewest = 0;
    double limit_us = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        limit_us = fmin(limit_us, NEARLY * candidates[i].finish_us);
    for (uint32_t i = 0; i < count; i++)
        if (!candidates[i].has_costs)
            limit_us = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        const candidate *c = &candidates[i];
        if (c->finish_us > limit_us || (best != LH_REPLICA_NONE && c->sequences >= fewest))
            continue;
        best = c->index;
        fewest = c->sequences;
    }
    return best;
}

/* Where no chain can take a sequence now: the one that is expected to be back, or that has the best
 * reason to refuse. */
static uint32_t pick_without_room(const lh_router *r) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < r->count; i++) {
        int64_t until_us = lh_scheduler_open_until_us(scheduler_at(r, i));
        int64_t best_us = lh_scheduler_open_until_us(scheduler_at(r, best));
        if (until_us > best_us ||
            (until_us == best_us && positions_of(r, i) > positions_of(r, best)))
            best = i;
    }
    return best;
}

lh_status lh_router_submit(lh_router *router, lh_sequence *sequence, int64_t now_us,
                           lh_error *error) {
    uint32_t index = router->count > 1 ? pick(router, sequence, false) : 0;
    if (index == LH_REPLICA_NONE)
        index = pick_without_room(router);
    if (router->checks)
        lh_spot_checks_choose(router->checks, index, sequence, now_us);
    return lh_scheduler_submit(scheduler_at(router, index), sequence, now_us, error);
}

/* The router does not keep which chain has it: it may have migrated since. */
void lh_router_cancel(lh_router *router, uint64_t handle) {
    for (uint32_t i = 0; i < router->count; i++)
        lh_scheduler_cancel(scheduler_at(router, i), handle);
}

/* From a chain that is down to any that is up; from one that admits nobody now to one that has
 * room. */
static bool migrate_one_from(lh_router *r, uint32_t from, int64_t now_us) {
    bool was_up = is_up(r, from);
    uint64_t most = 0;
    for (uint32_t i = 0; i < r->count; i++)
        if (i != from && is_up(r, i) && (!was_up || lh_scheduler_has_room(scheduler_at(r, i))) &&
            positions_of(r, i) > most)
            most = positions_of(r, i);
    lh_sequence *sequence =
        most > 0 ? lh_scheduler_migrate_out(scheduler_at(r, from), most, now_us) : NULL;
    if (!sequence)
        return false;
    uint32_t to = pick(r, sequence, was_up);
    if (to == LH_REPLICA_NONE)
        to = from;
    lh_scheduler_migrate_in(scheduler_at(r, to), sequence, now_us);
    return to != from;
}

/* Asked when no chain has anything to do any more: a sequence that still waits is stuck, unless its
 * chain is only changing over. */
static bool migrate_one(lh_router *r, int64_t now_us) {
    for (uint32_t i = 0; r->count > 1 && i < r->count; i++)
        if (!lh_fleet_is_changing_over(lh_chain_controller_fleet(r->controllers[i]), now_us) &&
            lh_scheduler_current_figures(scheduler_at(r, i)).waiting > 0 &&
            migrate_one_from(r, i, now_us))
            return true;
    return false;
}

/* ---- Time and actions ---- */

/* True: a chain has something to do. */
static bool check_answers(lh_router *r, int64_t now_us) {
    return r->checks && lh_spot_checks_act(r->checks, now_us);
}

void lh_router_tick(lh_router *router, int64_t now_us) {
    note_stand_ins(router);
    for (uint32_t i = 0; i < router->count; i++)
        lh_chain_controller_tick(router->controllers[i], now_us);
    check_answers(router, now_us);
}

int64_t lh_router_deadline_us(const lh_router *router) {
    int64_t least_us = router->checks ? lh_spot_checks_deadline_us(router->checks) : INT64_MAX;
    for (uint32_t i = 0; i < router->count; i++)
        least_us = lh_min_i64(least_us, lh_chain_controller_deadline_us(router->controllers[i]));
    return least_us;
}

bool lh_router_next_action(lh_router *router, int64_t now_us, uint32_t *index, lh_action *action) {
    lh_router *r = router;
    do {
        for (uint32_t i = 0; i < r->count; i++) {
            *index = (r->turn + i) % r->count;
            if (lh_chain_controller_next_action(r->controllers[*index], now_us, action)) {
                r->turn = *index;
                return true;
            }
        }
    } while (migrate_one(r, now_us) || check_answers(r, now_us));
    return false;
}

/* ---- All together ---- */

void lh_router_load(const lh_router *router, uint32_t *running, uint32_t *waiting) {
    *running = *waiting = 0;
    for (uint32_t i = 0; i < router->count; i++) {
        lh_scheduler_figures figures = lh_scheduler_current_figures(scheduler_at(router, i));
        *running += figures.running;
        *waiting += figures.waiting;
    }
}

bool lh_router_is_up(const lh_router *router) {
    return count_up(router) > 0;
}

bool lh_router_is_changing_over(const lh_router *router, int64_t now_us) {
    for (uint32_t i = 0; i < router->count; i++)
        if (lh_fleet_is_changing_over(lh_chain_controller_fleet(router->controllers[i]), now_us))
            return true;
    return false;
}

const char *lh_router_refusal(const lh_router *router) {
    const char *refusal = "";
    for (uint32_t i = 0; i < router->count && !refusal[0] && !lh_router_is_up(router); i++)
        refusal = lh_fleet_refusal(lh_chain_controller_fleet(router->controllers[i]));
    return refusal;
}

int64_t lh_router_open_until_us(const lh_router *router) {
    return lh_scheduler_open_until_us(scheduler_at(router, pick_without_room(router)));
}

void lh_router_positions(const lh_router *router, uint64_t *most, uint64_t *free) {
    *most = *free = lh_router_is_up(router) ? 0 : UINT64_MAX;
    for (uint32_t i = 0; i < router->count; i++) {
        if (!is_up(router, i))
            continue;
        const lh_kv_ledger *ledger = lh_scheduler_ledger(scheduler_at(router, i));
        uint64_t positions = lh_kv_ledger_positions(ledger);
        *most = positions > *most ? positions : *most;
        *free += lh_kv_ledger_positions_free(ledger);
    }
}
