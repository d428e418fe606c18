/* The scheduler: an owner of parts, which decide, while it acts and tells the sequences' owners.
 *
 *     wait_queue     who waits, and who is next: fair between tenants (fair_share.h)
 *     admission      who is let in, who gets pages, who has to give them up
 *     running_set    who has a place on the chain, in which state
 *     batcher        what goes into the next step
 *     inflight       the steps that are under way, and which of them are overdue
 *     recovery       whether there is a chain, and what becomes of the sequences when it breaks
 *     kv_store       who has the chain's pages
 *     mask_ledger    which masks the last worker keeps
 *     recomputation  an answer that is computed again while nobody else is here
 *
 * A sequence waits until it is its turn and there is room; then its prompt goes in chunks, and each
 * token that comes back leaves again with a further row, until it ends. What it leaves stays
 * cached, and others that begin with the same tokens share it (kv_store.h). Its pages are given
 * back with a truncation, which rides on the next step of its class or goes by itself at once; they
 * count as free when the whole chain has taken it.
 *
 * A sequence whose deadline passes ends there and then. In the queue it has cost nothing; on the
 * chain it is cancelled like one whose client hung up: steps that nobody needs any more are reset.
 *
 * Failure modes. All end in the same way: the chain is formed again under a new epoch, and each
 * sequence goes on from its history: from where all workers still have it (recovery.c), or
 * prefilled anew; positions and counters are the same, so the text goes on as if nothing had been.
 *  - A step is answered with an error, or is long overdue (inflight.c), or nothing moves for the
 *    step timeout: a fault is reported (lh_scheduler_fault).
 *  - A worker refuses a step's content: that counts as a failure of each of its sequences. One that
 *    has failed is quarantined and travels alone, and a second refusal at the same length ends it;
 *    so a poisonous sequence cannot hold up the others.
 *  - A sequence whose replays bring no token fails after a few.
 *  - No chain for replay_timeout: all fail. While the next chain is being loaded they wait on, as
 *    long as no takeover_timeout passes without a further byte.
 * A result that is late, doubled or of an old epoch finds no step that waits for it, and is
 * ignored.
 *
 * Not done here: which of several chains a sequence goes to (the engine's router). */
#include "gateway/schedule/scheduler.h"

#include "common/base/arithmetic.h"
#include "gateway/cost/pipeline_depth.h"
#include "gateway/schedule/admission.h"
#include "gateway/schedule/batcher.h"
#include "gateway/schedule/finish_estimate.h"
#include "gateway/schedule/inflight.h"
#include "gateway/schedule/recovery.h"
#include "gateway/schedule/running_set.h"
#include "gateway/schedule/sequence_ask.h"
#include "gateway/schedule/sequence_index.h"
#include "gateway/schedule/wait_queue.h"

#include <assert.h>
#include <stdlib.h>

/* A worker has a table of pages for each sequence, running or cached. */
#define PREFIXES_PER_SEQUENCE 4u

/* A sequence leaves a chain that works only so long after it came there: there and back would not
 * end where no chain lets it in. */
#define REST_US 200000

/* vLLM's, of request_queue_time_seconds, and two for those that hardly wait. */
static const double queue_time_bounds[] = {0.001, 0.01, 0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,  10,
                                           15,    20,   30,  40,  50,  60, 120, 240, 480, 960};

struct lh_scheduler {
    lh_scheduler_options options;
    lh_scheduler_sink sink;
    lh_scheduler_figures figures; /* what no part counts */
    lh_request_mix mix;
    lh_histogram queue_times;
    double lone_step;  /* times as long as predicted; 0: none since it was last asked for */
    uint64_t *numbers; /* the last one given to a sequence */
    uint64_t own_numbers;

    /* Every sequence is in the index, and in one of the two others by its state. */
    lh_sequence_index *index;
    lh_wait_queue queue;
    lh_running_set running;

    lh_kv_store *store;
    lh_mask_ledger *masks;
    lh_overlap_planner *planner;
    lh_inflight *inflight;
    lh_admission admission;
    lh_batcher *batcher;
    lh_recovery recovery;
    lh_recomputation again;
    lh_answer_record *records; /* to be taken; the latest one first */
};

/* ---- Life ---- */

static uint32_t sequences_max(const lh_scheduler_options *options) {
    return options->sequences_max + options->queue_max;
}

/* What the other parts decide about. */
static lh_status create_sequences(lh_scheduler *s, lh_error *error) {
    const lh_scheduler_options *o = &s->options;
    const lh_kv_store_options store = {o->prefix_cache, PREFIXES_PER_SEQUENCE * o->sequences_max};
    if (lh_share_table_create(o->sequences_max, sequences_max(o), o->group, &s->queue.shares,
                              error) ||
        lh_sequence_index_create(sequences_max(o), &s->index, error) ||
        lh_overlap_planner_create(o->rows_max, LH_PREFILL_DEPTH_MAX, &s->planner, error) ||
        lh_kv_store_create(&store, &s->store, error) || lh_mask_ledger_create(&s->masks, error))
        return LH_ERR_NO_MEMORY;
    s->running.queue = &s->queue;
    return LH_OK;
}

static lh_status create_deciders(lh_scheduler *s, lh_error *error) {
    const lh_scheduler_options *o = &s->options;
    uint32_t segments_max = lh_max_u32(o->sequences_max, LH_RECOMPUTATION_DRAWS + 1);
    segments_max = lh_min_u32(lh_min_u32(segments_max, o->rows_max), LH_STEP_SEGMENTS_MAX);
    const lh_inflight_options inflight = {.store = s->store,
                                          .masks = s->masks,
                                          .planner = s->planner,
                                          .step_timeout_us = o->step_timeout_us,
                                          .steps_max = LH_STEPS_OPEN_MAX,
                                          .segments_max = segments_max};
    if (lh_inflight_create(&inflight, &s->inflight, error))
        return LH_ERR_NO_MEMORY;
    s->admission = (lh_admission){
        .queue = &s->queue, .running = &s->running, .store = s->store, .places = o->sequences_max};
    s->recovery = (lh_recovery){.queue = &s->queue,
                                .running = &s->running,
                                .inflight = s->inflight,
                                .store = s->store,
                                .step_timeout_us = o->step_timeout_us,
                                .replay_timeout_us = o->replay_timeout_us,
                                .takeover_timeout_us = o->takeover_timeout_us};
    const lh_batcher_options batcher = {.running = &s->running,
                                        .inflight = s->inflight,
                                        .store = s->store,
                                        .masks = s->masks,
                                        .planner = s->planner,
                                        .again = &s->again,
                                        .chain_name = o->chain_name,
                                        .overlap = o->overlap,
                                        .rows_max = o->rows_max,
                                        .segments_max = segments_max,
                                        .step_budget_us = o->step_budget_us,
                                        .width = o->width,
                                        .vocabulary = o->vocabulary};
    return lh_batcher_create(&batcher, &s->batcher, error);
}

lh_status lh_scheduler_create(const lh_scheduler_options *options, const lh_scheduler_sink *sink,
                              lh_scheduler **scheduler, lh_error *error) {
    assert(options->sequences_max > 0 && options->rows_max > 0 &&
           options->rows_max <= LH_STEP_ROWS_MAX);
    lh_scheduler *s = calloc(1, sizeof *s);
    if (!s)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the scheduler");
    s->options = *options;
    s->sink = *sink;
    s->numbers = options->numbers ? options->numbers : &s->own_numbers;
    lh_histogram_init(&s->queue_times, queue_time_bounds,
                      sizeof queue_time_bounds / sizeof queue_time_bounds[0]);
    if (create_sequences(s, error) || create_deciders(s, error)) {
        lh_scheduler_destroy(s);
        return LH_ERR_NO_MEMORY;
    }
    *scheduler = s;
    return LH_OK;
}

void lh_scheduler_destroy(lh_scheduler *s) {
    if (!s)
        return;
    for (lh_answer_record *record; (record = lh_scheduler_take_record(s));)
        lh_answer_record_destroy(record);
    lh_sequence_destroy(s->again.sequence);
    lh_batcher_destroy(s->batcher);
    lh_inflight_destroy(s->inflight);
    lh_kv_store_destroy(s->store);
    lh_mask_ledger_destroy(s->masks);
    lh_overlap_planner_destroy(s->planner);
    lh_sequence_index_destroy(s->index);
    lh_running_set_reset(&s->running);
    lh_wait_queue_reset(&s->queue);
    lh_share_table_destroy(s->queue.shares);
    free(s);
}

/* ---- Answers that are computed again ---- */

static void keep_record(lh_scheduler *s, lh_sequence *sequence) {
    lh_answer_record *record = lh_sequence_take_record(sequence);
    if (!record)
        return;
    record->next = s->records;
    s->records = record;
}

lh_answer_record *lh_scheduler_take_record(lh_scheduler *s) {
    lh_answer_record *record = s->records;
    if (record)
        s->records = record->next;
    return record;
}

static void end_again(lh_scheduler *s, lh_recomputation_state state) {
    lh_inflight_detach(s->inflight, s->again.sequence);
    lh_recomputation_end(&s->again, state, s->store);
}

/* For whoever comes: steps of it that are under way are reset. */
static void make_way(lh_scheduler *s) {
    if (s->again.state != LH_RECOMPUTATION_RUNS)
        return;
    end_again(s, LH_RECOMPUTATION_DROPPED);
    lh_inflight_cancel_futile(s->inflight);
}

bool lh_scheduler_is_idle(const lh_scheduler *s) {
    return lh_recovery_is_working(&s->recovery) && s->again.state != LH_RECOMPUTATION_RUNS &&
           s->queue.all.count == 0 && lh_running_set_count(&s->running) == 0 &&
           lh_inflight_total(s->inflight) == 0;
}

lh_status lh_scheduler_recompute(lh_scheduler *s, const lh_answer_record *record, uint64_t *draws,
                                 lh_error *error) {
    assert(lh_scheduler_is_idle(s));
    return lh_recomputation_begin(&s->again, record, draws, ++*s->numbers, s->store, error);
}

lh_recomputation_state lh_scheduler_recomputation(const lh_scheduler *s) {
    return s->again.state;
}

void lh_scheduler_doubt(lh_scheduler *s, const char *reason) {
    if (lh_recovery_is_working(&s->recovery))
        lh_recovery_report_fault(&s->recovery, true, "%s", reason);
}

/* ---- Ends ---- */

static uint32_t count_here(const lh_scheduler *s) {
    return lh_running_set_count(&s->running) + s->queue.all.count;
}

/* After its last event. What its pages are worth stays cached. */
static void forget(lh_scheduler *s, lh_sequence *sequence) {
    bool waits = sequence->schedule.state == LH_SEQUENCE_WAITING;
    if (!waits)
        lh_inflight_detach(s->inflight, sequence);
    lh_sequence_kv_leave(&sequence->kv, s->store);
    if (waits)
        lh_wait_queue_leave(&s->queue, sequence);
    else
        lh_running_set_end(&s->running, sequence);
    lh_sequence_index_remove(s->index, sequence);
    lh_sequence_destroy(sequence);
}

static void emit(lh_scheduler *s, const lh_sequence *sequence, const lh_sequence_event *event) {
    lh_sequence_event told = *event;
    told.chain = s->options.chain_name;
    told.epoch = s->recovery.epoch;
    told.guide_work = lh_guide_work(&sequence->guide);
    s->sink.on_event(s->sink.context, sequence->handle, &told);
}

static void emit_failed(lh_scheduler *s, const lh_sequence *sequence, lh_status status,
                        const char *message) {
    s->figures.failed++;
    emit(s, sequence,
         &(lh_sequence_event){.kind = LH_SEQUENCE_FAILED, .status = status, .message = message});
}

/* After its last event, where steps of it may be under way that nobody else needs. */
static void give_up(lh_scheduler *s, lh_sequence *sequence) {
    bool is_begun = sequence->kv.is_begun;
    forget(s, sequence);
    if (is_begun)
        lh_inflight_cancel_futile(s->inflight);
}

static void fail(lh_scheduler *s, lh_sequence *sequence, lh_status status, const char *message) {
    emit_failed(s, sequence, status, message);
    give_up(s, sequence);
}

/* token: the stop token, where that is the reason. */
static void finish(lh_scheduler *s, lh_sequence *sequence, lh_finish_reason reason,
                   uint32_t token) {
    s->figures.finished++;
    lh_request_mix_note(&s->mix, sequence->request.prompt_tokens,
                        sequence->length - sequence->request.prompt_tokens,
                        lh_running_set_count(&s->running));
    emit(s, sequence,
         &(lh_sequence_event){.kind = LH_SEQUENCE_FINISHED,
                              .reason = reason,
                              .token = token,
                              .cached_tokens = sequence->kv.cached_tokens});
    keep_record(s, sequence);
    forget(s, sequence);
}

static void emit_token(lh_scheduler *s, lh_sequence *sequence, uint32_t position,
                       const lh_row_answer *answer) {
    s->figures.tokens++;
    lh_share_charge(sequence->schedule.share, 1);
    sequence->told++;
    emit(s, sequence,
         &(lh_sequence_event){.kind = LH_SEQUENCE_TOKEN,
                              .token = answer->token,
                              .position = position,
                              .answer = answer,
                              .cached_tokens = sequence->kv.cached_tokens});
}

/* ---- Grammars ----
 *
 * To find what may come next takes a grammar from microseconds to milliseconds, and all streams
 * share this thread. So no more is done at a time than is worth a millisecond or two; sequences
 * whose grammars have not come to their turn stay GUIDED, while steps of the others leave, and
 * go on with the next tick, which is due at once. */

/* In units of lh_constraint_state_work. */
#define GUIDE_WORK_AT_ONCE (1u << 16)

/* The tokens that nobody drew, since no other one may come: the masked distribution gives them all
 * of its probability. */
static void emit_forced(lh_scheduler *s, lh_sequence *sequence) {
    while (sequence->told < sequence->length) {
        lh_token_logprob top;
        const lh_row_answer forced =
            lh_sequence_forced_answer(sequence, sequence->history[sequence->told], &top);
        s->figures.forced_tokens++;
        emit_token(s, sequence, sequence->told, &forced);
    }
}

/* Its last token has been taken in: it goes on, or has ended. */
static void go_on(lh_scheduler *s, lh_sequence *sequence) {
    emit_forced(s, sequence);
    if (lh_sequence_is_whole(sequence))
        finish(s, sequence, LH_FINISH_STOP, LH_STEP_NO_TOKEN);
    else if (lh_sequence_generated(sequence) < sequence->request.max_tokens)
        lh_running_set_move(&s->running, sequence, LH_SEQUENCE_READY);
    else
        finish(s, sequence, LH_FINISH_LENGTH, 0);
}

/* The grammar of a GUIDED sequence takes its last token, which may be its end. Gives the work. */
static uint64_t follow(lh_scheduler *s, lh_sequence *sequence) {
    lh_error error;
    uint64_t before = lh_guide_work(&sequence->guide);
    lh_status status = lh_sequence_follow(sequence, &error);
    uint64_t work = lh_guide_work(&sequence->guide) - before;
    if (status == LH_OK)
        go_on(s, sequence);
    else
        fail(s, sequence, status, error.message);
    return work;
}

/* Until so much work is done; UINT64_MAX: until none is left. */
static void follow_all(lh_scheduler *s, uint64_t work_max) {
    uint64_t work = 0;
    for (lh_sequence *next; work < work_max && (next = lh_running_set_next_guided(&s->running));)
        work += follow(s, next);
}

/* Its place and its pages are others' now; it is replayed later from its history. One that has to
 * follow its grammar first may end by that. */
static void preempt(lh_scheduler *s, lh_sequence *sequence) {
    if (sequence->schedule.state == LH_SEQUENCE_GUIDED) {
        follow(s, sequence);
        return;
    }
    lh_inflight_detach(s->inflight, sequence);
    lh_sequence_kv_leave(&sequence->kv, s->store);
    lh_running_set_put_back(&s->running, sequence);
    sequence->schedule.preemptions++;
    s->figures.preemptions++;
}

/* ---- Sequences ---- */

static lh_status check_submission(const lh_scheduler *s, const lh_sequence *sequence,
                                  int64_t now_us, lh_error *error) {
    uint64_t room = lh_kv_ledger_positions(lh_scheduler_ledger(s));
    if (count_here(s) >= sequences_max(&s->options))
        return lh_fail(error, LH_ERR_BUSY, "the queue is full: %u sequences run and %u wait",
                       lh_running_set_count(&s->running), s->queue.all.count);
    if (sequence->request.deadline_us != 0 && now_us >= sequence->request.deadline_us)
        return lh_fail(error, LH_ERR_TIMEOUT, "the deadline had passed when the sequence came");
    if (sequence->guide.mask && sequence->guide.mask->vocabulary != s->options.vocabulary)
        return lh_fail(error, LH_ERR_INVALID, "the grammar is over %u tokens; the model has %u",
                       sequence->guide.mask->vocabulary, s->options.vocabulary);
    if (now_us >= lh_scheduler_open_until_us(s))
        return lh_fail(error, LH_ERR_UNAVAILABLE, "no complete chain of workers is there");
    if (lh_scheduler_chain_is_up(s) && lh_sequence_positions(sequence) > room)
        return lh_fail(error, LH_ERR_LIMIT,
                       "%u prompt tokens and %u more do not fit: the KV cache of the workers holds "
                       "%llu positions",
                       sequence->request.prompt_tokens, sequence->request.max_tokens,
                       (unsigned long long)room);
    return LH_OK;
}

lh_status lh_scheduler_submit(lh_scheduler *s, lh_sequence *sequence, int64_t now_us,
                              lh_error *error) {
    lh_status status = check_submission(s, sequence, now_us, error);
    sequence->schedule.id = ++*s->numbers;
    sequence->schedule.submitted_us = now_us;
    if (status == LH_OK && lh_wait_queue_push(&s->queue, sequence, now_us) != LH_OK)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a sequence that waits");
    if (status != LH_OK) {
        lh_sequence_destroy(sequence);
        return status;
    }
    lh_sequence_index_add(s->index, sequence);
    make_way(s);
    return LH_OK;
}

void lh_scheduler_cancel(lh_scheduler *s, uint64_t handle) {
    lh_sequence *sequence = lh_sequence_index_find(s->index, handle);
    if (!sequence)
        return;
    s->figures.cancelled++;
    keep_record(s, sequence);
    give_up(s, sequence);
}

bool lh_scheduler_next_cancel(lh_scheduler *s, uint64_t *step) {
    return lh_inflight_next_cancel(s->inflight, step);
}

/* Ends those whose deadline has passed. */
static void expire(lh_scheduler *s, int64_t now_us) {
    for (lh_sequence *due;
         (due = lh_sequence_index_next_due(s->index)) && now_us >= due->request.deadline_us;) {
        s->figures.expired++;
        fail(s, due, LH_ERR_TIMEOUT,
             due->schedule.state == LH_SEQUENCE_WAITING
                 ? "the deadline passed while the sequence waited"
                 : "the deadline passed before the sequence was through");
    }
}

/* ---- Between chains: a history is all that a sequence needs, so whoever waits, because its chain
 * is full or has broken, may as well wait elsewhere ---- */

bool lh_scheduler_has_room(const lh_scheduler *s) {
    return lh_recovery_is_working(&s->recovery) && s->queue.all.count == 0 &&
           lh_admission_has_place(&s->admission);
}

static bool may_go(const lh_scheduler *s, const lh_sequence *sequence, uint64_t positions_max,
                   int64_t now_us) {
    int64_t moved_us = sequence->schedule.moved_us;
    bool has_rested = !lh_scheduler_chain_is_up(s) || moved_us == 0 || now_us - moved_us >= REST_US;
    return has_rested && lh_sequence_positions(sequence) <= positions_max;
}

lh_sequence *lh_scheduler_migrate_out(lh_scheduler *s, uint64_t positions_max, int64_t now_us) {
    lh_sequence *sequence = lh_wait_queue_next(&s->queue, 1, now_us);
    if (!sequence || !may_go(s, sequence, positions_max, now_us))
        sequence = s->queue.all.first;
    while (sequence && !may_go(s, sequence, positions_max, now_us))
        sequence = sequence->next;
    if (!sequence)
        return NULL;
    lh_sequence_kv_leave(&sequence->kv, s->store);
    lh_wait_queue_leave(&s->queue, sequence);
    lh_sequence_index_remove(s->index, sequence);
    return sequence;
}

void lh_scheduler_migrate_in(lh_scheduler *s, lh_sequence *sequence, int64_t now_us) {
    sequence->schedule.moved_us = now_us;
    if (lh_wait_queue_push(&s->queue, sequence, now_us) == LH_OK) {
        lh_sequence_index_add(s->index, sequence);
        make_way(s);
        return;
    }
    emit_failed(s, sequence, LH_ERR_NO_MEMORY, "no memory for a sequence that waits");
    lh_sequence_destroy(sequence);
}

bool lh_scheduler_expect_finish(const lh_scheduler *s, const lh_sequence *sequence, double *us) {
    const lh_cost_chain *costs = lh_overlap_planner_costs(s->planner);
    uint32_t here = count_here(s);
    *us = here;
    if (!costs)
        return false;
    uint64_t rows = s->queue.rows + sequence->length;
    if (lh_sequence_is_scored(sequence))
        rows -= lh_kv_store_cached_positions(s->store, lh_sequence_scope(sequence),
                                             sequence->history, sequence->length);
    const lh_sequence *prompt = s->running.lists[LH_SEQUENCE_PREFILL].first;
    for (; prompt; prompt = prompt->next)
        rows += lh_sequence_pending(prompt);
    *us = lh_finish_estimate_us(costs, sequence, rows, s->options.rows_max, here,
                                s->options.sequences_max);
    return true;
}

/* ---- The chain ---- */

static void fail_hopeless(lh_scheduler *s) {
    for (lh_sequence *sequence = s->queue.all.first, *next; sequence; sequence = next) {
        lh_status status;
        const char *reason = lh_recovery_gives_up_on(sequence, &status);
        next = sequence->next;
        if (reason)
            fail(s, sequence, status, reason);
    }
}

void lh_scheduler_chain_down(lh_scheduler *s, int64_t now_us) {
    if (!s->recovery.is_up)
        return;
    follow_all(s, UINT64_MAX);
    make_way(s);
    lh_recovery_chain_down(&s->recovery, now_us);
    fail_hopeless(s);
}

void lh_scheduler_chain_up(lh_scheduler *s, uint32_t epoch, const lh_kv_ledger *chain,
                           int64_t now_us) {
    lh_scheduler_chain_down(s, now_us);
    lh_recovery_chain_up(&s->recovery, epoch, chain);
    lh_batcher_begin_chain(s->batcher, epoch, chain->stage_count, 0);
}

void lh_scheduler_chain_back(lh_scheduler *s, uint32_t epoch, const lh_kv_ledger *chain,
                             uint32_t lost_stages, int64_t now_us) {
    lh_scheduler_chain_down(s, now_us);
    lh_recovery_chain_back(&s->recovery, epoch, chain, lost_stages);
    lh_batcher_begin_chain(s->batcher, epoch, chain->stage_count, lost_stages);
}

bool lh_scheduler_chain_is_up(const lh_scheduler *s) {
    return s->recovery.is_up;
}

const char *lh_scheduler_chain_name(const lh_scheduler *s) {
    return s->options.chain_name;
}

void lh_scheduler_expect_chain(lh_scheduler *s, int64_t until_us, int64_t grown_us) {
    lh_recovery_expect_chain(&s->recovery, until_us, grown_us);
}

int64_t lh_scheduler_progress_us(const lh_scheduler *s) {
    bool is_under_way = lh_inflight_total(s->inflight) > 0;
    return is_under_way ? s->recovery.progress_us : INT64_MAX;
}

void lh_scheduler_set_costs(lh_scheduler *s, const lh_cost_chain *costs) {
    lh_overlap_planner_update(s->planner, costs);
}

const lh_overlap_planner *lh_scheduler_planner(const lh_scheduler *s) {
    return s->planner;
}

int64_t lh_scheduler_open_until_us(const lh_scheduler *s) {
    return lh_recovery_open_until_us(&s->recovery);
}

const char *lh_scheduler_fault(const lh_scheduler *s) {
    return s->recovery.has_fault ? s->recovery.fault_reason : NULL;
}

lh_result_fault lh_scheduler_result_fault(const lh_scheduler *s) {
    return s->recovery.has_fault ? s->recovery.result_fault : LH_RESULTS_FINE;
}

/* ---- Steps ---- */

/* Pages for those that stall, by what is cached or else by preemption, and some kept free for those
 * that grow. */
static void supply_pages(lh_scheduler *s) {
    lh_admission_wake_stalled(&s->admission);
    for (lh_sequence *victim; (victim = lh_admission_next_victim(&s->admission));)
        preempt(s, victim);
    lh_admission_keep_free(&s->admission);
}

/* It has its block table. */
static void note_entry(lh_scheduler *s, lh_sequence *sequence, int64_t now_us) {
    lh_sequence_schedule *schedule = &sequence->schedule;
    if (schedule->admitted_us == 0)
        lh_histogram_observe_us(&s->queue_times, now_us - schedule->submitted_us);
    if (s->options.prefix_cache)
        s->figures.looked_up_tokens += sequence->length;
    schedule->admitted_us = now_us;
}

/* Lets in those that wait, as far as places and pages go. */
static void admit(lh_scheduler *s, int64_t now_us) {
    for (;;) {
        const lh_admission_decision decision = lh_admission_next(&s->admission, now_us);
        switch (decision.verdict) {
        case LH_ADMISSION_NOBODY:
            return;
        case LH_ADMISSION_ENTER:
            note_entry(s, decision.sequence, now_us);
            lh_running_set_enter(&s->running, decision.sequence, LH_SEQUENCE_PREFILL);
            break;
        case LH_ADMISSION_PREEMPT:
            preempt(s, decision.sequence);
            break;
        case LH_ADMISSION_TOO_LONG:
            fail(s, decision.sequence, LH_ERR_UNAVAILABLE,
                 "the KV cache of the workers that are left is too small");
            break;
        }
    }
}

bool lh_scheduler_next_step(lh_scheduler *s, int64_t now_us, lh_step_manifest *manifest) {
    if (!lh_recovery_is_working(&s->recovery))
        return false;
    bool was_idle = lh_inflight_total(s->inflight) == 0;
    if (lh_recovery_take_resync(&s->recovery)) {
        lh_batcher_resync(s->batcher, now_us, manifest);
    } else {
        expire(s, now_us);
        supply_pages(s);
        admit(s, now_us);
        if (!lh_batcher_next(s->batcher, now_us, manifest))
            return false;
    }
    if (was_idle)
        lh_recovery_note_progress(&s->recovery, now_us);
    return true;
}

uint32_t lh_scheduler_traced_parts(const lh_scheduler *s, uint64_t step, lh_trace_part *parts,
                                   uint32_t max) {
    const lh_inflight_step *found = lh_inflight_find(s->inflight, step);
    return found ? lh_inflight_step_traced_parts(found, parts, max) : 0;
}

uint32_t lh_scheduler_believed_us(const lh_scheduler *s, uint64_t step, double *us) {
    const lh_inflight_step *found = lh_inflight_find(s->inflight, step);
    return found ? lh_inflight_step_believed_us(s->inflight, found, us) : 0;
}

/* ---- What comes back: tokens around the ring, and answers from the first hop ---- */

/* The last worker lost the mask: it gets it again with the replay. One that has lost it once more
 * at the same token is at fault. */
static void draw_again(lh_scheduler *s, lh_inflight_segment *segment) {
    lh_sequence *sequence = segment->sequence;
    lh_kept_mask_note_missing(segment->mask);
    if (!sequence)
        return;
    if (lh_sequence_is_quarantined(sequence)) {
        lh_recovery_report_results(&s->recovery, LH_RESULTS_BAD,
                                   "the last worker has no mask that was sent to it twice");
        return;
    }
    lh_sequence_note_refusal(sequence);
    preempt(s, sequence);
}

static void take_token(lh_scheduler *s, lh_sequence *sequence, const lh_step_result *result,
                       int64_t now_us) {
    assert(sequence->schedule.state == LH_SEQUENCE_SAMPLING &&
           result->position == sequence->length);
    if (sequence->record)
        lh_answer_record_note_draw(sequence->record, s->options.chain_name, &result->answer);
    if (sequence->schedule.sampling_class == LH_STEP_PREFILL)
        lh_batcher_note_first_token(s->batcher, sequence, now_us);
    if (sequence->request.max_tokens == 0) { /* all that was wanted is told */
        finish(s, sequence, LH_FINISH_LENGTH, 0);
        return;
    }
    emit_forced(s, sequence);
    if (lh_sequence_stops_at(sequence, result->answer.token)) {
        s->figures.tokens++;
        lh_share_charge(sequence->schedule.share, 1);
        finish(s, sequence, LH_FINISH_STOP, result->answer.token);
        return;
    }
    sequence->schedule.sampling_class = LH_STEP_DECODE; /* all its prefill is done */
    lh_sequence_append(sequence, result->answer.token);
    emit_token(s, sequence, result->position, &result->answer);
    if (sequence->guide.state)
        lh_running_set_move(&s->running, sequence, LH_SEQUENCE_GUIDED);
    else
        go_on(s, sequence);
}

/* Rows of a prompt of which something was asked. */
static void take_prompt_answer(lh_scheduler *s, const lh_inflight_segment *segment,
                               const lh_row_answer *answer, int64_t now_us) {
    lh_sequence *sequence = segment->sequence;
    lh_prompt_part part;
    lh_error error;
    if (lh_sequence_take_prompt_answer(sequence, segment, answer, &part, &error) != LH_OK) {
        fail(s, sequence, error.status, error.message);
        return;
    }
    if (!part.is_due)
        return;
    assert(!part.is_end || sequence->schedule.state == LH_SEQUENCE_SAMPLING);
    if (part.is_end)
        lh_batcher_note_first_token(s->batcher, sequence, now_us);
    emit(s, sequence,
         &(lh_sequence_event){.kind = LH_SEQUENCE_PROMPT,
                              .position = part.position,
                              .answer = &part.answer,
                              .cached_tokens = sequence->kv.cached_tokens});
    if (part.is_end)
        finish(s, sequence, LH_FINISH_LENGTH, 0);
}

static lh_status take_result(lh_scheduler *s, lh_inflight_step *step, const lh_step_result *result,
                             int64_t now_us, lh_error *error) {
    lh_inflight_segment *segment = step ? lh_inflight_step_awaits(step, result) : NULL;
    if (!segment) {
        s->figures.results_ignored++;
        return LH_OK;
    }
    if (!lh_answer_is_plausible(segment, &result->answer, s->options.vocabulary,
                                s->options.width)) {
        lh_recovery_report_results(&s->recovery, LH_RESULTS_BAD,
                                   "the last worker sent an impossible token for step %llu",
                                   (unsigned long long)step->step);
        return lh_fail(error, LH_ERR_MALFORMED, "%s", lh_scheduler_fault(s));
    }
    lh_inflight_step_note_result(step, segment);
    if (segment->sequence && segment->sequence == s->again.sequence) {
        if (lh_recomputation_take(&s->again, result))
            end_again(s, LH_RECOMPUTATION_DONE);
        return LH_OK;
    }
    if (segment->sequence && lh_row_due_is_of_prompt(&segment->due))
        take_prompt_answer(s, segment, &result->answer, now_us);
    if (lh_answer_lacks_mask(segment, &result->answer))
        draw_again(s, segment);
    else if (segment->sequence && segment->due.draws)
        take_token(s, segment->sequence, result, now_us);
    return LH_OK;
}

static void note_lone_step(lh_scheduler *s, const lh_inflight_step *step, int64_t now_us) {
    double times = lh_inflight_times_as_long(s->inflight, step, now_us);
    if (times > 0)
        s->lone_step = times;
}

double lh_scheduler_take_lone_step(lh_scheduler *s) {
    double times = s->lone_step;
    s->lone_step = 0;
    return times;
}

/* Chunks that sample nothing come around the ring, too, without a result: so their places are free
 * before their answers are back. */
lh_status lh_scheduler_results(lh_scheduler *s, uint32_t epoch, uint64_t step,
                               const lh_step_result *results, uint32_t count, int64_t now_us,
                               lh_error *error) {
    if (!s->recovery.is_up || epoch != s->recovery.epoch) {
        s->figures.results_ignored += count;
        return lh_fail(error, LH_ERR_STALE, "step %llu is of epoch %u, the chain is in epoch %u",
                       (unsigned long long)step, epoch, s->recovery.epoch);
    }
    lh_inflight_step *found = lh_inflight_find(s->inflight, step);
    for (uint32_t i = 0; i < count && lh_recovery_is_working(&s->recovery); i++)
        if (take_result(s, found, &results[i], now_us, error) != LH_OK)
            return LH_ERR_MALFORMED;
    follow_all(s, GUIDE_WORK_AT_ONCE);
    if (found && found->results_due == 0) {
        note_lone_step(s, found, now_us);
        lh_inflight_pass(s->inflight, found);
        lh_recovery_note_progress(&s->recovery, now_us);
    }
    return LH_OK;
}

void lh_scheduler_refuse_results(lh_scheduler *s, uint32_t epoch, uint64_t step,
                                 const char *message) {
    if (!lh_recovery_is_working(&s->recovery) || (epoch != 0 && epoch != s->recovery.epoch))
        return;
    const lh_inflight_step *found = lh_inflight_find(s->inflight, step);
    if (found && !found->is_answered)
        lh_recovery_report_results(&s->recovery, LH_RESULTS_BAD,
                                   "the last worker's results of step %llu cannot be read: %s",
                                   (unsigned long long)step, message);
}

void lh_scheduler_step_done(lh_scheduler *s, uint32_t epoch, uint64_t step, lh_status status,
                            const char *message, int64_t now_us) {
    if (!lh_recovery_is_working(&s->recovery) || epoch != s->recovery.epoch)
        return;
    lh_inflight_step *found = lh_inflight_find(s->inflight, step);
    if (!found || found->is_answered)
        return;
    if (status != LH_OK && found->is_cancelled) {
        found->is_answered = true;
    } else if (status != LH_OK) {
        lh_recovery_report_answer(&s->recovery, found, status, message);
    } else if (found->results_due > 0) {
        lh_recovery_report_results(&s->recovery, LH_RESULTS_MISSING,
                                   "step %llu was taken, but its tokens did not come",
                                   (unsigned long long)step);
    } else {
        lh_inflight_land(s->inflight, found);
        lh_recovery_note_progress(&s->recovery, now_us);
    }
}

/* ---- Time ---- */

int64_t lh_scheduler_deadline_us(const lh_scheduler *s) {
    const lh_sequence *due = lh_sequence_index_next_due(s->index);
    if (lh_running_set_next_guided(&s->running))
        return 0; /* at once */
    int64_t chain_us =
        lh_min_i64(lh_recovery_deadline_us(&s->recovery), lh_inflight_overdue_us(s->inflight));
    return due ? lh_min_i64(due->request.deadline_us, chain_us) : chain_us;
}

static void fail_all_waiting(lh_scheduler *s) {
    for (lh_sequence *sequence; (sequence = s->queue.all.first);)
        fail(s, sequence, LH_ERR_UNAVAILABLE, "no complete chain of workers is there");
}

void lh_scheduler_tick(lh_scheduler *s, int64_t now_us) {
    expire(s, now_us);
    follow_all(s, GUIDE_WORK_AT_ONCE);
    lh_recovery_find_fault(&s->recovery, now_us);
    if (!s->recovery.is_up && now_us >= lh_recovery_deadline_us(&s->recovery))
        fail_all_waiting(s);
}

/* ---- Figures ---- */

const lh_request_mix *lh_scheduler_mix(const lh_scheduler *s) {
    return &s->mix;
}

lh_scheduler_figures lh_scheduler_current_figures(const lh_scheduler *s) {
    const lh_kv_store_figures pages = lh_kv_store_current_figures(s->store);
    const lh_batcher_figures steps = lh_batcher_current_figures(s->batcher);
    lh_scheduler_figures figures = s->figures;
    figures.running = lh_running_set_count(&s->running);
    figures.waiting = s->queue.all.count;
    figures.stalled = s->running.lists[LH_SEQUENCE_STALLED].count;
    figures.truncating = lh_scheduler_chain_is_up(s) ? pages.truncating : 0;
    figures.prefixes = pages.cached;
    figures.prefix_hits = pages.forks;
    figures.cached_tokens = pages.shared_positions;
    figures.evicted_blocks = pages.evicted_blocks;
    figures.decode_steps = lh_inflight_count(s->inflight, LH_STEP_DECODE);
    figures.prefill_steps = lh_inflight_count(s->inflight, LH_STEP_PREFILL);
    figures.truncation_steps = lh_inflight_empties(s->inflight);
    figures.decode_groups = steps.groups.count;
    figures.decode_period_us = steps.groups.period_us;
    figures.steps = steps.steps;
    figures.rows = steps.rows;
    figures.replayed_rows = steps.replayed_rows;
    figures.replays = s->recovery.replays;
    return figures;
}

const lh_histogram *lh_scheduler_queue_times(const lh_scheduler *s) {
    return &s->queue_times;
}

const lh_kv_ledger *lh_scheduler_ledger(const lh_scheduler *s) {
    return lh_kv_store_ledger(s->store);
}
