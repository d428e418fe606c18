/* The scheduler.
 *
 * A chain is a pipeline: it is fast when each of its stages always has a step to compute. One sequence alone
 * cannot do that, since its next token is known only when the last one has come around the ring. Several can:
 * their rows are dealt over as many steps as the pipeline is deep, and whenever one step's tokens return, the
 * same rows leave again with the next step, while the others are on their way:
 *
 *      stage 1  | A B C | D E | A B C | D E |        five sequences, two groups
 *      stage 2          | A B C | D E | A B C | ...
 *
 * A prompt is cut into chunks that follow each other without waiting for anything (row shards), so that it
 * fills the pipeline by itself; only the last chunk draws a token. How it is cut is the planner's (overlap_plan.h), when its
 * first rows leave, and once more for the rest of it where the chain has changed much meanwhile. Decode steps are of a class
 * that overtakes prefill steps on each hop; but a stage finishes what it has begun. So while others' tokens are drawn,
 * chunks are cut further, to what the slowest stage can do within a budget (step_budget.h): a token waits for one such
 * piece at each stage at most. Whose chunk is next is in prefill_forming.c.
 *
 * Sequences wait in a queue until a slot is free and every stage has pages for their history; they get further ones as they
 * grow, and what is not there is not used: so no worker runs out of pages. Who is next is the queue's (wait_queue.h): fair between
 * tenants, then by priority; and who has most of the chain leaves room to the others (fair_share.h). Where pages are short for
 * those that run, cached prefixes go, and then the last one in line is preempted: it gives its pages back, waits in its old place, and is
 * replayed from its history (page_supply.c); so is one of those of a tenant that has it all when another has waited for long with
 * nothing (preemption.c). What a sequence leaves stays cached, and others that begin with the same tokens share it
 * (kv_store.h). Pages are given back with a release, which rides on the next step of its class or goes by itself at once; they count as
 * free when the whole chain has taken it.
 *
 * A sequence whose deadline passes ends there and then. In the queue it has cost nothing; on the chain it is cancelled
 * like one whose client hung up (cancelling.c).
 *
 * Failure modes. All end in the same way: the chain is formed again under a new epoch, and each sequence goes on from its
 * history: from where all workers still have it (chain_change.c), or prefilled anew; positions and counters are the same, so the
 * text goes on as if nothing had been.
 *  - A step is answered with an error, or is long overdue (step_overdue.c), or nothing moves for step_timeout: a fault is reported
 * (lh_scheduler_fault).
 *  - A worker refuses a step's content: its sequences get a strike each. One with a strike travels alone, and
 * a second refusal at the same length fails it; so a poisonous sequence cannot hold up the others.
 *  - A sequence whose replays bring no token: fails after REPLAYS_MAX.
 *  - No chain for replay_timeout: all fail. The time counts from when a step last moved, for that is when the client
 *    last heard something; but at least half of it is left for a replay. While the next chain is being loaded they
 *    wait on, up to takeover_timeout.
 * A result that is late, doubled or of an old epoch finds no step that waits for it, and is ignored.
 *
 * Not done here: which of several chains a sequence goes to (replicas.c of the engine). */
#include "gateway/schedule/scheduler.h"

#include "gateway/schedule/pipeline_depth.h"
#include "gateway/schedule/scheduler_state.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Life
 * -------------------------------------------------------------------------------------------------------- */

static uint32_t segments_max(const lh_scheduler *s) {
    return lh_least(lh_least(s->options.sequences_max, s->options.rows_max), LH_STEP_SEGMENTS_MAX);
}

/* Of one step. */
#define RELEASES_MAX 256u

/* A worker has a table of pages for each sequence, running or cached. */
#define PREFIXES_PER_SEQUENCE 4u

lh_status lh_scheduler_create(const lh_scheduler_options *options, const lh_scheduler_sink *sink,
                              int64_t now_us, lh_scheduler **scheduler, lh_error *error) {
    assert(options->sequences_max > 0 && options->rows_max > 0 && options->rows_max <= LH_STEP_ROWS_MAX);
    lh_scheduler *s = calloc(1, sizeof *s);
    if (!s)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the scheduler");
    s->options = *options;
    s->sink = *sink;
    s->next_step = 1;
    s->numbers = options->numbers ? options->numbers : &s->own_numbers;
    s->down_since_us = INT64_MIN;
    s->progress_us = now_us;
    uint32_t sequences_max = options->sequences_max + options->queue_max;
    const lh_kv_store_options store = {options->prefix_cache, PREFIXES_PER_SEQUENCE * options->sequences_max};
    if (lh_wait_queue_create(options->sequences_max, sequences_max, options->circle, &s->waiting, error) ||
        lh_sequence_book_create(sequences_max, &s->book, error) ||
        lh_overlap_planner_create(options->rows_max, LH_PREFILL_DEPTH_MAX, &s->planner, error) ||
        lh_kv_store_create(&store, &s->store, error) ||
        lh_flight_table_create(LH_STEPS_OPEN_MAX, segments_max(s), RELEASES_MAX, &s->flights, error) ||
        lh_step_builder_create(s->store, options->rows_max, segments_max(s), RELEASES_MAX, &s->builder,
                               error))
        goto fail;
    *scheduler = s;
    return LH_OK;
fail:
    lh_scheduler_destroy(s);
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the scheduler");
}

static void destroy_list(lh_sequence_list *list) {
    while (list->first) {
        lh_sequence *sequence = list->first;
        lh_sequence_list_remove(list, sequence);
        lh_sequence_destroy(sequence);
    }
}

void lh_scheduler_destroy(lh_scheduler *scheduler) {
    if (!scheduler)
        return;
    lh_wait_queue_destroy(scheduler->waiting);
    lh_sequence_book_destroy(scheduler->book);
    destroy_list(&scheduler->prefill);
    destroy_list(&scheduler->ready);
    destroy_list(&scheduler->sampling);
    destroy_list(&scheduler->stalled);
    lh_kv_store_destroy(scheduler->store);
    lh_overlap_planner_destroy(scheduler->planner);
    lh_flight_table_destroy(scheduler->flights);
    lh_step_builder_destroy(scheduler->builder);
    free(scheduler);
}

/* ---- States of a sequence
 * ---------------------------------------------------------------------------------------- */

lh_sequence_list *lh_scheduler_list_of(lh_scheduler *s, lh_sequence_state state) {
    switch (state) {
    case LH_SEQUENCE_PREFILL:
        return &s->prefill;
    case LH_SEQUENCE_READY:
        return &s->ready;
    case LH_SEQUENCE_SAMPLING:
        return &s->sampling;
    case LH_SEQUENCE_STALLED:
        return &s->stalled;
    case LH_SEQUENCE_WAITING:
        break;
    }
    assert(!"a queue, not a list");
    return NULL;
}

void lh_scheduler_move(lh_scheduler *s, lh_sequence *sequence, lh_sequence_state state) {
    if (sequence->state == LH_SEQUENCE_WAITING)
        lh_wait_queue_admit(s->waiting, sequence);
    else
        lh_sequence_list_remove(lh_scheduler_list_of(s, sequence->state), sequence);
    sequence->state = state;
    lh_sequence_list_push(lh_scheduler_list_of(s, state), sequence);
}

uint32_t lh_scheduler_running(const lh_scheduler *s) {
    return s->prefill.count + s->ready.count + s->sampling.count + s->stalled.count;
}

void lh_scheduler_emit_failed(lh_scheduler *s, lh_sequence *sequence, lh_status status, const char *message) {
    s->figures.failed++;
    s->sink.on_event(s->sink.context, sequence->handle,
                     &(lh_sequence_event){.kind = LH_SEQUENCE_FAILED, .status = status, .message = message});
}

void lh_scheduler_emit_finished(lh_scheduler *s, lh_sequence *sequence, lh_finish_reason reason) {
    s->figures.finished++;
    s->sink.on_event(s->sink.context, sequence->handle,
                     &(lh_sequence_event){.kind = LH_SEQUENCE_FINISHED,
                                          .reason = reason,
                                          .cached_tokens = sequence->cached_tokens});
}

void lh_scheduler_retire(lh_scheduler *s, lh_sequence *sequence) {
    lh_flight_table_detach(s->flights, sequence);
    lh_scheduler_forget(s, sequence);
}

void lh_scheduler_forget(lh_scheduler *s, lh_sequence *sequence) {
    lh_scheduler_let_go(s, sequence);
    if (sequence->state != LH_SEQUENCE_WAITING)
        lh_sequence_list_remove(lh_scheduler_list_of(s, sequence->state), sequence);
    lh_wait_queue_leave(s->waiting, sequence);
    lh_sequence_book_remove(s->book, sequence);
    lh_sequence_destroy(sequence);
}

lh_status lh_scheduler_submit(lh_scheduler *scheduler, lh_sequence *sequence, int64_t now_us,
                              lh_error *error) {
    lh_scheduler *s = scheduler;
    lh_status status = LH_OK;
    uint64_t room = lh_kv_ledger_positions(lh_kv_store_ledger(s->store));
    if (lh_scheduler_running(s) + lh_wait_queue_count(s->waiting) >=
        s->options.sequences_max + s->options.queue_max)
        status = lh_fail(error, LH_ERR_BUSY, "the queue is full: %u sequences run and %u wait",
                         lh_scheduler_running(s), lh_wait_queue_count(s->waiting));
    else if (sequence->deadline_us != 0 && now_us >= sequence->deadline_us)
        status = lh_fail(error, LH_ERR_TIMEOUT, "the deadline had passed when the sequence came");
    else if (now_us >= lh_scheduler_open_until_us(s))
        status = lh_fail(error, LH_ERR_UNAVAILABLE, "no complete chain of workers is there");
    else if (s->is_up && lh_sequence_positions(sequence) > room)
        status = lh_fail(
            error, LH_ERR_LIMIT,
            "%u prompt tokens and %u more do not fit: the KV cache of the workers holds %llu positions",
            sequence->prompt_tokens, sequence->max_tokens, (unsigned long long)room);
    sequence->id = ++*s->numbers;
    sequence->submitted_us = now_us;
    if (status == LH_OK && lh_wait_queue_push(s->waiting, sequence, now_us) != LH_OK)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a sequence that waits");
    if (status == LH_OK)
        lh_sequence_book_add(s->book, sequence);
    else
        lh_sequence_destroy(sequence);
    return status;
}

/* ---- The chain
 * --------------------------------------------------------------------------------------------------- */

void lh_scheduler_set_costs(lh_scheduler *scheduler, const lh_cost_chain *costs) {
    lh_overlap_planner_update(scheduler->planner, costs);
}

const lh_overlap_planner *lh_scheduler_planner(const lh_scheduler *scheduler) {
    return scheduler->planner;
}

int64_t lh_scheduler_open_until_us(const lh_scheduler *scheduler) {
    if (scheduler->is_up)
        return INT64_MAX;
    if (scheduler->down_since_us == INT64_MIN)
        return INT64_MIN;
    return scheduler->expected_us > scheduler->gives_up_us ? scheduler->expected_us : scheduler->gives_up_us;
}

bool lh_scheduler_chain_is_up(const lh_scheduler *scheduler) {
    return scheduler->is_up;
}

void lh_scheduler_expect_chain(lh_scheduler *scheduler, int64_t until_us) {
    lh_scheduler *s = scheduler;
    if (s->is_up || s->down_since_us == INT64_MIN)
        return;
    int64_t limit_us = s->down_since_us + s->options.takeover_timeout_us;
    until_us = until_us < limit_us ? until_us : limit_us;
    if (until_us > s->expected_us)
        s->expected_us = until_us;
}

int64_t lh_scheduler_progress_us(const lh_scheduler *scheduler) {
    bool is_under_way = scheduler->is_up && lh_flight_table_total(scheduler->flights) > 0;
    return is_under_way ? scheduler->progress_us : INT64_MAX;
}

void lh_scheduler_report_fault(lh_scheduler *s, const char *format, ...) {
    if (s->has_fault)
        return;
    s->has_fault = true;
    va_list args;
    va_start(args, format);
    vsnprintf(s->fault_reason, sizeof s->fault_reason, format, args);
    va_end(args);
}

const char *lh_scheduler_fault(const lh_scheduler *scheduler) {
    return scheduler->is_up && scheduler->has_fault ? scheduler->fault_reason : NULL;
}

/* ---- Time
 * -------------------------------------------------------------------------------------------------------- */

static void fail_all_waiting(lh_scheduler *s) {
    for (lh_sequence *sequence; (sequence = lh_wait_queue_walk(s->waiting, NULL));) {
        lh_scheduler_emit_failed(s, sequence, LH_ERR_UNAVAILABLE, "no complete chain of workers is there");
        lh_scheduler_forget(s, sequence);
    }
}

/* Of the chain, not of a sequence. */
static int64_t patience_ends_us(const lh_scheduler *s) {
    if (!s->is_up)
        return lh_wait_queue_count(s->waiting) ? lh_scheduler_open_until_us(s) : INT64_MAX;
    return lh_flight_table_total(s->flights) ? s->progress_us + s->options.step_timeout_us : INT64_MAX;
}

static int64_t first_of(int64_t a_us, int64_t b_us) {
    return a_us < b_us ? a_us : b_us;
}

int64_t lh_scheduler_deadline_us(const lh_scheduler *scheduler) {
    const lh_sequence *due = lh_sequence_book_next_due(scheduler->book);
    int64_t chain_us = first_of(patience_ends_us(scheduler), lh_scheduler_overdue_us(scheduler));
    return due ? first_of(due->deadline_us, chain_us) : chain_us;
}

void lh_scheduler_tick(lh_scheduler *scheduler, int64_t now_us) {
    lh_scheduler *s = scheduler;
    lh_scheduler_expire(s, now_us);
    lh_scheduler_weigh_overdue(s, now_us);
    if (now_us < patience_ends_us(s))
        return;
    if (!s->is_up)
        fail_all_waiting(s);
    else
        lh_scheduler_report_fault(s, "no step has moved for %lld ms",
                                  (long long)((now_us - s->progress_us) / 1000));
}

/* ---- Figures
 * ----------------------------------------------------------------------------------------------------- */

lh_scheduler_figures lh_scheduler_current_figures(const lh_scheduler *scheduler) {
    const lh_scheduler *s = scheduler;
    lh_scheduler_figures figures = s->figures;
    figures.running = lh_scheduler_running(s);
    figures.waiting = lh_wait_queue_count(s->waiting);
    figures.stalled = s->stalled.count;
    lh_kv_store_figures pages = lh_kv_store_current_figures(s->store);
    figures.releasing = s->is_up ? pages.releasing : 0;
    figures.prefixes = pages.cached;
    figures.prefix_hits = pages.forks;
    figures.cached_tokens = pages.shared_positions;
    figures.evicted_blocks = pages.evicted_blocks;
    figures.decode_steps = lh_flight_table_count(s->flights, LH_STEP_DECODE);
    figures.prefill_steps = lh_flight_table_count(s->flights, LH_STEP_PREFILL);
    figures.release_steps = lh_flight_table_empties(s->flights);
    figures.decode_groups = s->deal.groups.count;
    figures.decode_period_us = s->deal.groups.period_us;
    return figures;
}

const lh_kv_ledger *lh_scheduler_ledger(const lh_scheduler *scheduler) {
    return lh_kv_store_ledger(scheduler->store);
}
