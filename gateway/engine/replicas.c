/* Chains side by side. */
#include "gateway/engine/replicas.h"

#include "gateway/engine/replica_members.h"
#include "gateway/schedule/fair_share.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is predicted of chains is not so exact that a smaller difference should put all sequences onto one of them. */
#define NEARLY 1.2

struct lh_replicas {
    uint32_t count;
    uint32_t turn; /* whose actions are looked at first */
    int64_t renew_us, lease_us;
    lh_replica_members *members; /* NULL: there is one chain */
    uint64_t numbers;            /* of sequences */
    lh_share_circle circle;      /* a tenant's share is of all chains */
    lh_conductor *conductors[LH_REPLICAS_MAX];
    char names[LH_REPLICAS_MAX][LH_WORKER_NAME_BYTES];
};

/* ---- Life -------------------------------------------------------------------------------------------------------- */

static lh_status create_members(lh_replicas *r, const lh_fleet_options *fleet, const lh_model_profile *model,
                                int64_t now_us, lh_error *error) {
    const lh_replica_members_options options = {.replicas = r->count,
                                                .workers_expected = fleet->workers_expected,
                                                .planner = fleet->planner,
                                                .model = model,
                                                .plan_delay_us = fleet->plan_delay_us,
                                                .lease_us = fleet->lease_us};
    return lh_replica_members_create(&options, now_us, &r->members, error);
}

/* Who belongs to a chain has been decided before its fleet hears of them: it waits for their next reports, no longer. Any queue
 * may have to hold all that wait. */
static lh_status create_conductor(lh_replicas *r, uint32_t index, const lh_fleet_options *fleet_options,
                                  const lh_scheduler_options *scheduler_options,
                                  const lh_model_profile *model, const lh_scheduler_sink *sink,
                                  int64_t now_us, lh_error *error) {
    lh_fleet_options fleet = *fleet_options;
    lh_scheduler_options scheduler = *scheduler_options;
    fleet.chain_name = r->names[index];
    fleet.epoch_stride = r->count;
    fleet.epoch_offset = index;
    scheduler.numbers = &r->numbers;
    scheduler.circle = &r->circle;
    if (r->count > 1) {
        fleet.workers_expected = 0;
        fleet.plan_delay_us = 2 * fleet.renew_us;
        scheduler.queue_max += (r->count - 1) * scheduler.sequences_max;
    }
    return lh_conductor_create(&fleet, &scheduler, model, sink, now_us, &r->conductors[index], error);
}

lh_status lh_replicas_create(uint32_t count, const lh_fleet_options *fleet,
                             const lh_scheduler_options *scheduler, const lh_model_profile *model,
                             const lh_scheduler_sink *sink, int64_t now_us, lh_replicas **replicas,
                             lh_error *error) {
    lh_replicas *r = calloc(1, sizeof *r);
    if (!r)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u chains", count);
    r->count = count;
    r->renew_us = fleet->renew_us;
    r->lease_us = fleet->lease_us;
    lh_status status = count > 1 ? create_members(r, fleet, model, now_us, error) : LH_OK;
    for (uint32_t i = 0; i < count && status == LH_OK; i++) {
        snprintf(r->names[i], sizeof r->names[i], i == 0 ? "%s" : "%s-%u", fleet->chain_name, i + 1);
        status = create_conductor(r, i, fleet, scheduler, model, sink, now_us, error);
    }
    if (status != LH_OK) {
        lh_replicas_destroy(r);
        return status;
    }
    *replicas = r;
    return LH_OK;
}

void lh_replicas_destroy(lh_replicas *replicas) {
    if (!replicas)
        return;
    for (uint32_t i = 0; i < replicas->count; i++)
        lh_conductor_destroy(replicas->conductors[i]);
    lh_replica_members_destroy(replicas->members);
    free(replicas);
}

uint32_t lh_replicas_count(const lh_replicas *replicas) {
    return replicas->count;
}

const lh_conductor *lh_replicas_at(const lh_replicas *replicas, uint32_t index) {
    return replicas->conductors[index];
}

const char *lh_replicas_name(const lh_replicas *replicas, uint32_t index) {
    return replicas->names[index];
}

int lh_replicas_find(const lh_replicas *replicas, const char *chain_name) {
    for (uint32_t i = 0; i < replicas->count; i++)
        if (strcmp(replicas->names[i], chain_name) == 0)
            return (int)i;
    return -1;
}

static const lh_scheduler *scheduler_at(const lh_replicas *r, uint32_t index) {
    return lh_conductor_scheduler(r->conductors[index]);
}

static bool is_up(const lh_replicas *r, uint32_t index) {
    return lh_scheduler_chain_is_up(scheduler_at(r, index));
}

/* ---- Workers ----------------------------------------------------------------------------------------------------- */

/* A chain whose sequences could go on elsewhere is missed less. */
static void tell_of_stand_ins(lh_replicas *r) {
    uint32_t up = 0;
    for (uint32_t i = 0; i < r->count; i++)
        up += is_up(r, i);
    for (uint32_t i = 0; i < r->count; i++)
        lh_conductor_note_stand_in(r->conductors[i], up > is_up(r, i));
}

/* The chain that it leaves sees it leave, and prepares to do without it. */
static lh_status put_to_old_chain(lh_replicas *r, const lh_replica_place *place,
                                  const lh_worker_report *report, int64_t now_us, lh_fleet_answer *answer,
                                  bool *has_moved, lh_error *error) {
    lh_conductor *old = r->conductors[place->replica];
    lh_worker_report leaver = *report;
    leaver.leaving = true;
    lh_status status = lh_conductor_put(old, &leaver, now_us, answer, error);
    *has_moved = status == LH_OK && answer->may_go && !report->leaving;
    answer->is_leaving = report->leaving;
    if (*has_moved) {
        lh_conductor_forget(old, report->name, now_us);
        lh_replica_members_moved(r->members, report->name);
    }
    return status;
}

lh_status lh_replicas_put(lh_replicas *replicas, const lh_worker_report *report, int64_t now_us,
                          lh_fleet_answer *answer, lh_error *error) {
    lh_replicas *r = replicas;
    lh_replica_place place = {0, LH_REPLICA_NONE};
    if (r->count > 1) {
        tell_of_stand_ins(r);
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
    return lh_conductor_put(r->conductors[place.replica], report, now_us, answer, error);
}

void lh_replicas_first_hop(lh_replicas *replicas, uint32_t index, bool connected, int64_t now_us,
                           const char *reason) {
    lh_conductor_first_hop(replicas->conductors[index], connected, now_us, reason);
}

void lh_replicas_measure_first_hop(lh_replicas *replicas, uint32_t index, const lh_hop_profile *profile) {
    lh_conductor_measure_first_hop(replicas->conductors[index], profile);
}

void lh_replicas_hold(lh_replicas *replicas, const char *reason) {
    for (uint32_t i = 0; i < replicas->count; i++)
        lh_conductor_hold(replicas->conductors[i], reason);
}

/* ---- Sequences --------------------------------------------------------------------------------------------------- */

static uint64_t positions_of(const lh_replicas *r, uint32_t index) {
    return lh_kv_ledger_positions(lh_scheduler_ledger(scheduler_at(r, index)));
}

/* What speaks for a chain. */
typedef struct candidate {
    uint32_t index, sequences;
    bool is_known; /* its costs are, and finish_us with them */
    double finish_us;
} candidate;

/* The chains that are up and can hold the sequence. */
static uint32_t find_candidates(const lh_replicas *r, const lh_sequence *sequence, bool needs_room,
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
        c->is_known = lh_scheduler_expect_finish(scheduler, sequence, &c->finish_us);
    }
    return count;
}

/* Of those that are expected to be through with it first, or nearly so, the one that has the fewest sequences; NONE: there is none.
 * Where one chain's costs are not known, that alone counts. */
static uint32_t pick(const lh_replicas *r, const lh_sequence *sequence, bool needs_room) {
    candidate candidates[LH_REPLICAS_MAX];
    uint32_t count = find_candidates(r, sequence, needs_room, candidates), best = LH_REPLICA_NONE, fewest = 0;
    double limit_us = INFINITY;
    for (uint32_t i = 0; i < count; i++)
        limit_us = fmin(limit_us, NEARLY * candidates[i].finish_us);
    for (uint32_t i = 0; i < count; i++)
        if (!candidates[i].is_known)
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

/* None can take it now: the one that will be back, or says why not. */
static uint32_t pick_otherwise(const lh_replicas *r) {
    uint32_t best = 0;
    for (uint32_t i = 1; i < r->count; i++) {
        int64_t until_us = lh_scheduler_open_until_us(scheduler_at(r, i));
        int64_t best_us = lh_scheduler_open_until_us(scheduler_at(r, best));
        if (until_us > best_us || (until_us == best_us && positions_of(r, i) > positions_of(r, best)))
            best = i;
    }
    return best;
}

lh_status lh_replicas_submit(lh_replicas *replicas, lh_sequence *sequence, int64_t now_us, lh_error *error) {
    uint32_t index = replicas->count > 1 ? pick(replicas, sequence, false) : 0;
    if (index == LH_REPLICA_NONE)
        index = pick_otherwise(replicas);
    return lh_conductor_submit(replicas->conductors[index], sequence, now_us, error);
}

/* Where it is is not kept: it may have moved. */
void lh_replicas_cancel(lh_replicas *replicas, uint64_t handle) {
    for (uint32_t i = 0; i < replicas->count; i++)
        lh_conductor_cancel(replicas->conductors[i], handle);
}

/* From a chain that is down to any that is up; from one that lets nobody in now to one that has room. */
static bool move_one_from(lh_replicas *r, uint32_t from, int64_t now_us) {
    bool was_up = is_up(r, from);
    uint64_t most = 0;
    for (uint32_t i = 0; i < r->count; i++)
        if (i != from && is_up(r, i) && (!was_up || lh_scheduler_has_room(scheduler_at(r, i))) &&
            positions_of(r, i) > most)
            most = positions_of(r, i);
    lh_sequence *sequence = most > 0 ? lh_conductor_surrender(r->conductors[from], most, now_us) : NULL;
    if (!sequence)
        return false;
    uint32_t to = pick(r, sequence, was_up);
    if (to == LH_REPLICA_NONE)
        to = from;
    lh_conductor_adopt(r->conductors[to], sequence, now_us);
    return to != from;
}

/* When no chain has anything to do any more, whoever still waits is stuck. A chain that only changes over is waited for. */
static bool move_one(lh_replicas *r, int64_t now_us) {
    for (uint32_t i = 0; r->count > 1 && i < r->count; i++)
        if (!lh_fleet_is_changing_over(lh_conductor_fleet(r->conductors[i]), now_us) &&
            lh_scheduler_current_figures(scheduler_at(r, i)).waiting > 0 && move_one_from(r, i, now_us))
            return true;
    return false;
}

/* ---- Steps and time ---------------------------------------------------------------------------------------------- */

lh_status lh_replicas_results(lh_replicas *replicas, uint32_t index, uint32_t epoch, uint64_t step,
                              const lh_step_result *results, uint32_t count, int64_t now_us,
                              lh_error *error) {
    return lh_conductor_results(replicas->conductors[index], epoch, step, results, count, now_us, error);
}

void lh_replicas_step_done(lh_replicas *replicas, uint32_t index, uint32_t epoch, uint64_t step,
                           lh_status status, const char *message, int64_t now_us) {
    lh_conductor_step_done(replicas->conductors[index], epoch, step, status, message, now_us);
}

void lh_replicas_tick(lh_replicas *replicas, int64_t now_us) {
    tell_of_stand_ins(replicas);
    for (uint32_t i = 0; i < replicas->count; i++)
        lh_conductor_tick(replicas->conductors[i], now_us);
}

int64_t lh_replicas_deadline_us(const lh_replicas *replicas) {
    int64_t least_us = INT64_MAX;
    for (uint32_t i = 0; i < replicas->count; i++) {
        int64_t due_us = lh_conductor_deadline_us(replicas->conductors[i]);
        least_us = due_us < least_us ? due_us : least_us;
    }
    return least_us;
}

bool lh_replicas_next_action(lh_replicas *replicas, int64_t now_us, uint32_t *index, lh_action *action) {
    lh_replicas *r = replicas;
    do {
        for (uint32_t i = 0; i < r->count; i++) {
            *index = (r->turn + i) % r->count;
            if (lh_conductor_next_action(r->conductors[*index], now_us, action)) {
                r->turn = *index;
                return true;
            }
        }
    } while (move_one(r, now_us));
    return false;
}

/* ---- All together ------------------------------------------------------------------------------------------------ */

lh_scheduler_figures lh_replicas_figures(const lh_replicas *replicas) {
    lh_scheduler_figures sum = lh_scheduler_current_figures(scheduler_at(replicas, 0));
    for (uint32_t i = 1; i < replicas->count; i++) {
        lh_scheduler_figures f = lh_scheduler_current_figures(scheduler_at(replicas, i));
        sum.running += f.running;
        sum.waiting += f.waiting;
        sum.releasing += f.releasing;
        sum.decode_steps += f.decode_steps;
        sum.prefill_steps += f.prefill_steps;
        sum.release_steps += f.release_steps;
        sum.steps += f.steps;
        sum.rows += f.rows;
        sum.tokens += f.tokens;
        sum.stalled += f.stalled;
        sum.prefixes += f.prefixes;
        sum.preemptions += f.preemptions;
        sum.prefix_hits += f.prefix_hits;
        sum.cached_tokens += f.cached_tokens;
        sum.evicted_blocks += f.evicted_blocks;
        sum.replays += f.replays;
        sum.replayed_rows += f.replayed_rows;
        sum.cancelled += f.cancelled;
        sum.failed += f.failed;
        sum.finished += f.finished;
        sum.expired += f.expired;
        sum.results_ignored += f.results_ignored;
    }
    return sum;
}

bool lh_replicas_is_up(const lh_replicas *replicas) {
    for (uint32_t i = 0; i < replicas->count; i++)
        if (is_up(replicas, i))
            return true;
    return false;
}

bool lh_replicas_is_changing_over(const lh_replicas *replicas, int64_t now_us) {
    for (uint32_t i = 0; i < replicas->count; i++)
        if (lh_fleet_is_changing_over(lh_conductor_fleet(replicas->conductors[i]), now_us))
            return true;
    return false;
}

int64_t lh_replicas_open_until_us(const lh_replicas *replicas) {
    return lh_scheduler_open_until_us(scheduler_at(replicas, pick_otherwise(replicas)));
}

void lh_replicas_positions(const lh_replicas *replicas, uint64_t *most, uint64_t *free) {
    *most = *free = lh_replicas_is_up(replicas) ? 0 : UINT64_MAX;
    for (uint32_t i = 0; i < replicas->count; i++) {
        if (!is_up(replicas, i))
            continue;
        const lh_kv_ledger *ledger = lh_scheduler_ledger(scheduler_at(replicas, i));
        uint64_t positions = lh_kv_ledger_positions(ledger);
        *most = positions > *most ? positions : *most;
        *free += lh_kv_ledger_positions_free(ledger);
    }
}
