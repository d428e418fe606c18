/* The scheduler: the chain breaks and is there again (the essay is in scheduler.c).
 *
 * Down: no step is under way any more. Sequences go back into the queue; one of which the workers surely have something keeps its
 * holding (kv_store_roll.c), in case that they go on with what they have. Where a worker has refused a step, what it has is not what
 * it should be: then nothing of it counts.
 *
 * Back, with the caches that were: whoever has a holding goes on from what is surely there, without waiting in the queue, since it has
 * its pages. A roll call goes out before everything else. Where some worker is new, the ones before it have to compute the history
 * again, to produce what it takes; those after it need not: so what they have is sent in steps that end at the new one.
 *
 *      worker 1, kept  | positions 0 .. 499 again | 500 .. |
 *      worker 2, new   |    0 .. 499              | 500 .. |
 *      worker 3, kept  |    (nothing)             | 500 .. |
 *
 * Up, with empty caches: all are replayed, as the queue lets them in. */
#include "gateway/schedule/scheduler_state.h"

#define REPLAYS_MAX 5u
#define STRIKES_MAX 2u

void lh_scheduler_let_go(lh_scheduler *s, lh_sequence *sequence) {
    if (sequence->kv)
        lh_kv_store_leave(s->store, sequence->kv, lh_kv_holding_written(sequence->kv));
    sequence->kv = NULL;
    sequence->fed = sequence->restored = 0;
    sequence->is_begun = sequence->has_plan = false;
}

/* ---- Down -------------------------------------------------------------------------------------------------------- */

static void drop_flights(lh_scheduler *s) {
    lh_flight *next = lh_flight_table_next(s->flights, NULL);
    while (next) {
        lh_flight *flight = next;
        next = lh_flight_table_next(s->flights, flight);
        for (uint32_t i = 0; i < flight->segment_count; i++)
            lh_kv_store_land(s->store, flight->segments[i].holding, flight->segments[i].source,
                             flight->is_through, flight->step_class);
        lh_flight_table_land(s->flights, flight);
    }
}

static void let_go_unsent(lh_scheduler *s) {
    for (lh_sequence *sequence = s->prefill.first; sequence; sequence = sequence->next)
        if (!sequence->is_begun)
            lh_scheduler_let_go(s, sequence);
}

static void lose(lh_scheduler *s, lh_sequence *sequence) {
    if (sequence->is_begun) {
        sequence->replays = sequence->replay_length == sequence->length ? sequence->replays + 1 : 1;
        sequence->replay_length = sequence->length;
        s->figures.replays++;
    }
    if (sequence->kv && lh_kv_holding_is_sound(sequence->kv))
        sequence->fed = lh_kv_holding_written(sequence->kv);
    else
        lh_scheduler_let_go(s, sequence);
    lh_scheduler_send_back(s, sequence);
}

/* What the workers held is nobody's any more. */
static void forget_caches(lh_scheduler *s, const lh_kv_ledger *chain) {
    for (lh_sequence *sequence = lh_wait_queue_walk(s->waiting, NULL); sequence;
         sequence = lh_wait_queue_walk(s->waiting, sequence)) {
        sequence->kv = NULL;
        lh_scheduler_let_go(s, sequence);
    }
    lh_kv_store_reset(s->store, chain);
}

static void fail_hopeless(lh_scheduler *s) {
    for (lh_sequence *sequence = lh_wait_queue_walk(s->waiting, NULL), *next; sequence; sequence = next) {
        next = lh_wait_queue_walk(s->waiting, sequence);
        if (sequence->strikes >= STRIKES_MAX)
            lh_scheduler_emit_failed(s, sequence, LH_ERR_INTERNAL, "a worker refused the sequence twice");
        else if (sequence->replays > REPLAYS_MAX)
            lh_scheduler_emit_failed(s, sequence, LH_ERR_UNAVAILABLE,
                                     "the chain broke again and again at the same token");
        else
            continue;
        lh_scheduler_forget(s, sequence);
    }
}

static int64_t gives_up_us(const lh_scheduler *s, int64_t now_us) {
    int64_t timeout_us = s->options.replay_timeout_us;
    int64_t latest_us = now_us + timeout_us, least_us = now_us + timeout_us / 2;
    int64_t due_us = lh_flight_table_total(s->flights) ? s->progress_us + timeout_us : latest_us;
    return due_us < least_us ? least_us : due_us;
}

void lh_scheduler_chain_down(lh_scheduler *scheduler, int64_t now_us) {
    lh_scheduler *s = scheduler;
    if (!s->is_up)
        return;
    s->is_up = false;
    s->has_fault = false;
    s->down_since_us = now_us;
    s->gives_up_us = gives_up_us(s, now_us);
    s->expected_us = INT64_MIN;
    let_go_unsent(s);
    drop_flights(s);
    lh_kv_store_break(s->store);
    for (lh_sequence *sequence; (sequence = lh_scheduler_next_running(s, NULL));)
        lose(s, sequence);
    if (s->doubts_caches)
        forget_caches(s, &(lh_kv_ledger){.stage_count = 0});
    fail_hopeless(s);
}

/* ---- Up ---------------------------------------------------------------------------------------------------------- */

static void open_chain(lh_scheduler *s, uint32_t epoch, uint32_t stages, int64_t now_us) {
    s->is_up = true;
    s->has_fault = s->doubts_caches = s->owes_roll_call = false;
    s->epoch = epoch;
    s->stages = stages;
    if (lh_overlap_planner_chain(s->planner)->stage_count != s->stages)
        lh_overlap_planner_forget(s->planner, s->stages);
    s->next_step = 1;
    s->deal = (lh_decode_deal){0};
    s->progress_us = now_us;
}

void lh_scheduler_chain_up(lh_scheduler *scheduler, uint32_t epoch, const lh_kv_ledger *chain,
                           int64_t now_us) {
    lh_scheduler_chain_down(scheduler, now_us);
    forget_caches(scheduler, chain);
    open_chain(scheduler, epoch, chain->stage_count, now_us);
}

/* It goes on from what all workers have of it. */
static bool resume(lh_scheduler *s, lh_sequence *sequence) {
    if (!lh_kv_store_resume(s->store, sequence->kv, sequence->length))
        return false;
    sequence->fed = lh_kv_holding_written(sequence->kv);
    sequence->restored = 0;
    return true;
}

/* The last workers have of it what they had; the first ones get that again. */
static bool restart(lh_scheduler *s, lh_sequence *sequence) {
    if (!lh_kv_store_restart(s->store, sequence->kv))
        return false;
    sequence->fed = 0;
    sequence->restored = lh_kv_holding_standing(sequence->kv);
    return true;
}

/* Those that have a holding go on from it, as many as a roll call has room for. */
static void go_on(lh_scheduler *s) {
    uint32_t count = 0;
    for (lh_sequence *sequence = lh_wait_queue_walk(s->waiting, NULL), *next; sequence; sequence = next) {
        next = lh_wait_queue_walk(s->waiting, sequence);
        if (!sequence->kv)
            continue;
        bool goes_on = s->lost_stages > 0 ? restart(s, sequence) : resume(s, sequence);
        if (!goes_on || count == LH_STEP_RELEASES_MAX) {
            lh_scheduler_let_go(s, sequence);
            continue;
        }
        lh_scheduler_move(s, sequence,
                          lh_sequence_pending(sequence) == 1 ? LH_SEQUENCE_READY : LH_SEQUENCE_PREFILL);
        count++;
    }
}

void lh_scheduler_chain_back(lh_scheduler *scheduler, uint32_t epoch, const lh_kv_ledger *chain,
                             uint32_t lost_stages, int64_t now_us) {
    lh_scheduler *s = scheduler;
    lh_scheduler_chain_down(s, now_us);
    open_chain(s, epoch, chain->stage_count, now_us);
    s->owes_roll_call = true;
    s->lost_stages = lost_stages;
    if (lost_stages > 0)
        lh_kv_store_drop_cached(s->store);
    if (lost_stages < chain->stage_count && lh_kv_store_move_to(s->store, chain))
        go_on(s);
    else
        forget_caches(s, chain);
}
