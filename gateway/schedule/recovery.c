/* The chain breaks and is there again.
 *
 * Down: no step is under way any more. Sequences go back into the queue; one of which the workers
 * surely have something keeps its block table (gateway/kv/resync.h), in case that they go on with
 * what they have. Where a worker has refused a step, what it has is not what it should be: then
 * nothing of it counts.
 *
 * Back, with the caches that were: whoever has a block table goes on from what is surely there,
 * without waiting in the queue, since it has its pages. A KV resync goes out before everything
 * else. Where some worker is new, the ones before it have to compute the history again, to produce
 * what it takes; those after it need not: so what they have is sent in steps that end at the new
 * one.
 *
 *      worker 1, kept  | positions 0 .. 499 again | 500 .. |
 *      worker 2, new   |    0 .. 499              | 500 .. |
 *      worker 3, kept  |    (nothing)             | 500 .. |
 *
 * Up, with empty caches: all are replayed, as the queue lets them in.
 *
 * A sequence that a worker refuses twice at the same length fails, and so does one that is replayed
 * again and again without a token. */
#include "gateway/schedule/recovery.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define REPLAYS_MAX  5u
#define REFUSALS_MAX 2u

bool lh_recovery_is_working(const lh_recovery *recovery) {
    return recovery->is_up && !recovery->has_fault;
}

/* ---- Down ---- */

/* Those that nothing was sent of have nothing to keep. */
static void let_go_unsent(lh_recovery *recovery) {
    for (lh_sequence *sequence = recovery->running->lists[LH_SEQUENCE_PREFILL].first; sequence;
         sequence = sequence->next)
        if (!sequence->kv.is_begun)
            lh_sequence_kv_leave(&sequence->kv, recovery->store);
}

static void count_replay(lh_recovery *recovery, lh_sequence *sequence) {
    lh_sequence_schedule *schedule = &sequence->schedule;
    schedule->replays = schedule->replay_length == sequence->length ? schedule->replays + 1 : 1;
    schedule->replay_length = sequence->length;
    recovery->replays++;
}

static void send_all_back(lh_recovery *recovery) {
    lh_running_set *running = recovery->running;
    for (lh_sequence *sequence; (sequence = lh_running_set_next(running, NULL));) {
        if (sequence->kv.is_begun)
            count_replay(recovery, sequence);
        lh_sequence_kv_break(&sequence->kv, recovery->store);
        lh_running_set_put_back(running, sequence);
    }
}

/* What the workers held is nobody's any more. */
static void forget_caches(lh_recovery *recovery, const lh_kv_ledger *chain) {
    for (lh_sequence *sequence = recovery->queue->all.first; sequence; sequence = sequence->next)
        lh_sequence_kv_drop(&sequence->kv);
    lh_kv_store_reset(recovery->store, chain);
}

/* The time counts from when a step last moved, for that is when the clients last heard something;
 * but at least half of it is left for a replay. */
static int64_t give_up_us(const lh_recovery *recovery, int64_t now_us) {
    int64_t timeout_us = recovery->replay_timeout_us;
    if (lh_inflight_total(recovery->inflight) == 0)
        return now_us + timeout_us;
    return lh_max_i64(recovery->progress_us + timeout_us, now_us + timeout_us / 2);
}

void lh_recovery_chain_down(lh_recovery *recovery, int64_t now_us) {
    assert(recovery->is_up);
    recovery->is_up = recovery->has_fault = recovery->owes_resync = false;
    recovery->result_fault = LH_RESULTS_FINE;
    recovery->down_since_us = now_us;
    recovery->gives_up_us = give_up_us(recovery, now_us);
    recovery->expected_us = INT64_MIN;
    let_go_unsent(recovery);
    lh_inflight_drop_all(recovery->inflight);
    lh_kv_store_break(recovery->store);
    send_all_back(recovery);
    if (recovery->doubts_caches)
        forget_caches(recovery, &(lh_kv_ledger){.stage_count = 0});
}

const char *lh_recovery_gives_up_on(const lh_sequence *sequence, lh_status *status) {
    if (sequence->schedule.failure_count >= REFUSALS_MAX) {
        *status = LH_ERR_INTERNAL;
        return "a worker refused the sequence twice";
    }
    if (sequence->schedule.replays > REPLAYS_MAX) {
        *status = LH_ERR_UNAVAILABLE;
        return "the chain broke again and again at the same token";
    }
    return NULL;
}

/* ---- Up ---- */

static void open_chain(lh_recovery *recovery, uint32_t epoch) {
    assert(!recovery->is_up && epoch > 0 && lh_inflight_total(recovery->inflight) == 0);
    assert(lh_running_set_count(recovery->running) == 0);
    recovery->is_up = true;
    recovery->doubts_caches = false;
    recovery->epoch = epoch;
}

void lh_recovery_chain_up(lh_recovery *recovery, uint32_t epoch, const lh_kv_ledger *chain) {
    open_chain(recovery, epoch);
    forget_caches(recovery, chain);
}

/* Those that have a block table go on from it, as many as a KV resync has room for. */
static void go_on(lh_recovery *recovery, uint32_t lost_stages) {
    lh_kv_store *store = recovery->store;
    uint32_t count = 0;
    for (lh_sequence *sequence = recovery->queue->all.first, *next; sequence; sequence = next) {
        next = sequence->next;
        lh_sequence_kv *kv = &sequence->kv;
        if (!kv->table)
            continue;
        bool goes_on = lost_stages > 0 ? lh_sequence_kv_restart(kv, store)
                                       : lh_sequence_kv_resume(kv, store, sequence->length);
        if (!goes_on || count == LH_STEP_TRUNCATIONS_MAX) {
            lh_sequence_kv_leave(kv, store);
            continue;
        }
        bool is_decoding = lh_sequence_pending(sequence) == 1;
        lh_running_set_enter(recovery->running, sequence,
                             is_decoding ? LH_SEQUENCE_READY : LH_SEQUENCE_PREFILL);
        count++;
    }
}

void lh_recovery_chain_back(lh_recovery *recovery, uint32_t epoch, const lh_kv_ledger *chain,
                            uint32_t lost_stages) {
    lh_kv_store *store = recovery->store;
    assert(lost_stages <= chain->stage_count);
    open_chain(recovery, epoch);
    recovery->owes_resync = true;
    if (lost_stages > 0)
        lh_kv_store_drop_cached(store);
    if (lost_stages < chain->stage_count && lh_kv_store_move_to(store, chain))
        go_on(recovery, lost_stages);
    else
        forget_caches(recovery, chain);
}

bool lh_recovery_take_resync(lh_recovery *recovery) {
    bool owed = recovery->owes_resync;
    recovery->owes_resync = false;
    return owed;
}

/* ---- Faults ---- */

bool lh_status_is_refusal(lh_status status) {
    return status == LH_ERR_MALFORMED || status == LH_ERR_INVALID || status == LH_ERR_LIMIT ||
           status == LH_ERR_UNSUPPORTED || status == LH_ERR_INTERNAL;
}

static void note_fault(lh_recovery *recovery, bool doubts_caches, lh_result_fault result_fault,
                       const char *format, va_list args) {
    assert(recovery->is_up);
    if (recovery->has_fault)
        return;
    recovery->has_fault = true;
    recovery->doubts_caches = doubts_caches;
    recovery->result_fault = result_fault;
    vsnprintf(recovery->fault_reason, sizeof recovery->fault_reason, format, args);
}

void lh_recovery_report_fault(lh_recovery *recovery, bool doubts_caches, const char *format, ...) {
    va_list args;
    va_start(args, format);
    note_fault(recovery, doubts_caches, LH_RESULTS_FINE, format, args);
    va_end(args);
}

void lh_recovery_report_results(lh_recovery *recovery, lh_result_fault fault, const char *format,
                                ...) {
    va_list args;
    assert(fault != LH_RESULTS_FINE);
    va_start(args, format);
    note_fault(recovery, true, fault, format, args);
    va_end(args);
}

/* It happened on the way, or to a worker that is gone: it says nothing against what the workers
 * hold. */
static bool is_of_the_way(lh_status status) {
    return status == LH_ERR_UNAVAILABLE || status == LH_ERR_CLOSED || status == LH_ERR_CORRUPT ||
           status == LH_ERR_CANCELLED || status == LH_ERR_STALE || status == LH_ERR_TIMEOUT ||
           status == LH_ERR_PROTOCOL || status == LH_ERR_IO;
}

void lh_recovery_report_answer(lh_recovery *recovery, const lh_inflight_step *step,
                               lh_status status, const char *message) {
    assert(status != LH_OK);
    for (uint32_t i = 0; i < step->segment_count && lh_status_is_refusal(status); i++)
        if (step->segments[i].sequence)
            lh_sequence_note_refusal(step->segments[i].sequence);
    lh_recovery_report_fault(recovery, !is_of_the_way(status), "step %llu failed: %s (%s)",
                             (unsigned long long)step->step, lh_status_text(status), message);
}

void lh_recovery_find_fault(lh_recovery *recovery, int64_t now_us) {
    const lh_inflight_step *step = lh_recovery_is_working(recovery)
                                       ? lh_inflight_find_overdue(recovery->inflight, now_us)
                                       : NULL;
    if (step)
        lh_recovery_report_fault(recovery, false,
                                 "step %llu has been under way for %lld ms, though alone on the "
                                 "chain it would take %.0f",
                                 (unsigned long long)step->step,
                                 (long long)((now_us - step->submitted_us) / 1000),
                                 step->alone_us / 1000);
    if (recovery->is_up && now_us >= lh_recovery_deadline_us(recovery))
        lh_recovery_report_fault(recovery, false, "no step has moved for %lld ms",
                                 (long long)((now_us - recovery->progress_us) / 1000));
}

/* ---- Time ---- */

void lh_recovery_note_progress(lh_recovery *recovery, int64_t now_us) {
    recovery->progress_us = now_us;
}

void lh_recovery_expect_chain(lh_recovery *recovery, int64_t until_us, int64_t grown_us) {
    int64_t limit_us =
        lh_max_i64(recovery->down_since_us, grown_us) + recovery->takeover_timeout_us;
    recovery->expected_us = lh_max_i64(recovery->expected_us, lh_min_i64(until_us, limit_us));
}

int64_t lh_recovery_open_until_us(const lh_recovery *recovery) {
    if (recovery->is_up)
        return INT64_MAX;
    if (recovery->epoch == 0)
        return INT64_MIN;
    return lh_max_i64(recovery->expected_us, recovery->gives_up_us);
}

int64_t lh_recovery_deadline_us(const lh_recovery *recovery) {
    if (!recovery->is_up)
        return recovery->queue->all.count > 0 ? lh_recovery_open_until_us(recovery) : INT64_MAX;
    return lh_inflight_total(recovery->inflight) > 0
               ? recovery->progress_us + recovery->step_timeout_us
               : INT64_MAX;
}
