/* The chain breaks and is there again: who is replayed, from where, and who is given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/kv/block_table.h"
#include "gateway/schedule/recovery.h"
#include "tests/gateway/support/scheduler_bench.h"
#include "tests/support/failing_malloc.h"

#include <string.h>

/* The same prompt and tokens are sent again under the new epoch, and the counter goes on. */
static void a_broken_chain_is_replayed(void **state) {
    (void)state;
    lh_scheduler *s = create_with_prompt(64, 10, 20);
    next_step(s);
    assert_int_equal(bring_token(s, 7, 1, 1, 10, 5), LH_OK);
    next_step(s);
    lh_scheduler_step_done(s, 7, 2, LH_ERR_UNAVAILABLE, "gone", 0);
    assert_non_null(lh_scheduler_fault(s));
    lh_scheduler_chain_down(s, 0);
    assert_no_step(s);
    bring_chain_up(s, 9, 0);
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.epoch, 9);
    assert_int_equal(m.rows, 11);
    assert_int_equal(m.tokens[10], 5);
    assert_int_equal(m.segments[0].first_position, 0);
    assert_int_equal(m.segments[0].ask.sampling.counter, 11);
    uint64_t number = m.segments[0].sequence;
    assert_int_equal(bring_token(s, 7, m.step, number, 11, 6), LH_ERR_STALE);
    assert_int_equal(bring_token(s, 9, m.step, number, 11, 6), LH_OK);
    assert_int_equal(ears[0].count, 2);
    assert_int_equal(lh_scheduler_current_figures(s).replays, 1);
    lh_scheduler_destroy(s);
}

/* Both epochs number their steps from 1. */
static void an_answer_of_an_old_epoch_is_not_the_new_ones(void **state) {
    (void)state;
    lh_scheduler *s = create_with_prompt(16, 40, 20);
    next_step(s);
    lh_scheduler_chain_down(s, 0);
    lh_scheduler_step_done(s, 7, 1, LH_OK, "", 0); /* there is no chain */
    bring_chain_up(s, 8, 0);
    assert_int_equal(next_step(s).step, 1);
    lh_scheduler_step_done(s, 7, 1, LH_OK, "", 0);
    assert_int_equal(lh_scheduler_current_figures(s).prefill_steps, 1);
    assert_int_equal(lh_scheduler_progress_us(s), 0); /* it is still under way */
    lh_scheduler_step_done(s, 7, 1, LH_ERR_INTERNAL, "boom", 0);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_step_done(s, 8, 1, LH_OK, "", 0);
    assert_int_equal(lh_scheduler_current_figures(s).prefill_steps, 0);
    assert_int_equal(lh_scheduler_progress_us(s), INT64_MAX);
    lh_scheduler_destroy(s);
}

static void a_step_that_lands_is_progress_of_those_behind_it(void **state) {
    (void)state;
    lh_scheduler *s = create_with_prompt(16, 40, 20);
    for (uint64_t step = 1; step <= 2; step++)
        assert_int_equal(next_step(s).step, step);
    lh_scheduler_step_done(s, 7, 1, LH_OK, "", 500);
    assert_int_equal(lh_scheduler_current_figures(s).prefill_steps, 1);
    assert_int_equal(lh_scheduler_progress_us(s), 500);
    lh_scheduler_destroy(s);
}

static void a_sequence_that_is_refused_twice_fails_alone(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = request_of(10, 20);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(submit_request(s, &request, i, 0), LH_OK);
    assert_int_equal(next_step(s).segment_count, 3);
    lh_scheduler_step_done(s, 7, 1, LH_ERR_INTERNAL, "boom", 0);
    lh_scheduler_chain_down(s, 0);
    bring_chain_up(s, 8, 0);
    lh_step_manifest m = next_step(s);
    uint64_t first = m.segments[0].sequence;
    assert_int_equal(m.segment_count, 1);
    m = next_step(s);
    assert_int_equal(m.segment_count, 1);
    assert_int_not_equal(m.segments[0].sequence, first);
    assert_int_equal(bring_token(s, 8, 1, first, 10, 5), LH_OK);
    lh_scheduler_step_done(s, 8, 2, LH_ERR_INTERNAL, "boom", 0);
    lh_scheduler_chain_down(s, 0);
    assert_false(ears[0].is_failed);
    assert_true(ears[1].is_failed);
    assert_int_equal(ears[1].status, LH_ERR_INTERNAL);
    assert_false(ears[2].is_failed);
    lh_scheduler_destroy(s);
}

/* Whoever is up already goes down first: what is under way is lost, and replayed. */
static void a_chain_that_is_formed_again_without_a_break_begins_anew(void **state) {
    (void)state;
    for (int back = 0; back < 2; back++) {
        lh_scheduler *s = create_with_prompt(64, 10, 20);
        next_step(s);
        if (back)
            bring_chain_back(s, 8, 2);
        else
            bring_chain_up(s, 8, 0);
        lh_scheduler_figures figures = lh_scheduler_current_figures(s);
        assert_int_equal(figures.replays, 1);
        assert_int_equal(figures.prefill_steps, 0);
        if (back)
            assert_true(next_step(s).resyncs);
        assert_int_equal(next_step(s).rows, 10);
        lh_scheduler_destroy(s);
    }
}

/* The chain breaks after its first step, and is there again. */
static void break_once(lh_scheduler *s, uint32_t *epoch) {
    next_step(s);
    lh_scheduler_chain_down(s, 0);
    bring_chain_up(s, ++*epoch, 0);
}

/* Five are tried at the same token; one that comes makes five of five more. */
static void replays_without_a_token_come_to_an_end(void **state) {
    (void)state;
    uint32_t epoch = 7;
    lh_scheduler *s = create_with_prompt(64, 10, 20);
    for (int i = 0; i < 5; i++)
        break_once(s, &epoch);
    lh_step_manifest m = next_step(s);
    assert_int_equal(bring_token(s, epoch, m.step, m.segments[0].sequence, 10, 5), LH_OK);
    lh_scheduler_step_done(s, epoch, m.step, LH_OK, "", 0);
    for (int i = 0; i < 5; i++)
        break_once(s, &epoch);
    assert_false(ears[0].is_failed);
    break_once(s, &epoch);
    assert_true(ears[0].is_failed);
    assert_int_equal(ears[0].status, LH_ERR_UNAVAILABLE);
    lh_scheduler_destroy(s);
}

static void timeouts(void **state) {
    (void)state;
    lh_scheduler *s = create_scheduler(64);
    lh_sequence_request request = request_of(10, 20);
    assert_int_equal(lh_scheduler_deadline_us(s), INT64_MAX);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_ERR_UNAVAILABLE);
    bring_chain_up(s, 7, 0);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    lh_step_manifest manifest;
    assert_true(lh_scheduler_next_step(s, 1000 * MS, &manifest));
    assert_int_equal(lh_scheduler_deadline_us(s), 31000 * MS);
    lh_scheduler_tick(s, 31000 * MS - 1);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_tick(s, 31000 * MS);
    assert_string_equal(lh_scheduler_fault(s), "no step has moved for 30000 ms");
    lh_scheduler_chain_down(s, 31000 * MS);
    /* half of the time for a replay is left */
    assert_int_equal(lh_scheduler_deadline_us(s), 33500 * MS);
    assert_int_equal(submit_request(s, &request, 1, 33499 * MS), LH_OK);
    assert_int_equal(submit_request(s, &request, 2, 33500 * MS), LH_ERR_UNAVAILABLE);
    lh_scheduler_tick(s, 33500 * MS);
    assert_true(ears[0].is_failed && ears[1].is_failed);
    assert_int_equal(ears[0].status, LH_ERR_UNAVAILABLE);
    assert_int_equal(lh_scheduler_deadline_us(s), INT64_MAX);
    lh_scheduler_destroy(s);
}

/* The patience without a chain counts from the last progress; a chain that is being loaded is
 * waited for, as long as bytes come. */
static void patience_without_a_chain(void **state) {
    (void)state;
    lh_scheduler *s = create_scheduler(64);
    lh_sequence_request request = request_of(10, 20);
    lh_step_manifest manifest;
    bring_chain_up(s, 7, 0);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    assert_true(lh_scheduler_next_step(s, 1000 * MS, &manifest));
    lh_scheduler_expect_chain(s, 9000 * MS, 0); /* it is up: nothing is waited for */
    lh_scheduler_chain_down(s, 3000 * MS);
    assert_int_equal(lh_scheduler_open_until_us(s), 6000 * MS);
    lh_scheduler_expect_chain(s, 5000 * MS, 0);
    assert_int_equal(lh_scheduler_open_until_us(s), 6000 * MS);
    lh_scheduler_expect_chain(s, 20000 * MS, 0);
    lh_scheduler_expect_chain(s, 7000 * MS, 0);
    assert_int_equal(lh_scheduler_deadline_us(s), 20000 * MS);
    lh_scheduler_expect_chain(s, 90000 * MS, 0);
    assert_int_equal(lh_scheduler_deadline_us(s), 63000 * MS);
    lh_scheduler_expect_chain(s, 90000 * MS, 12000 * MS);
    assert_int_equal(lh_scheduler_deadline_us(s), 72000 * MS);
    bring_chain_up(s, 8, 10000 * MS);
    lh_scheduler_chain_down(s, 11000 * MS);
    assert_int_equal(lh_scheduler_deadline_us(s), 16000 * MS);
    lh_scheduler_destroy(s);
}

/* A token has come, the next row is under way, and the way breaks. */
static lh_scheduler *create_broken(lh_status status) {
    lh_scheduler *s = create_with_prompt(64, 40, 20);
    next_step(s);
    assert_int_equal(bring_token(s, 7, 1, 1, 40, 5), LH_OK);
    lh_scheduler_step_done(s, 7, 1, LH_OK, "", 0);
    next_step(s);
    lh_scheduler_step_done(s, 7, 2, status, "broken", 0);
    lh_scheduler_chain_down(s, 0);
    assert_no_step(s);
    return s;
}

/* Nothing is computed again but the row that was under way, and the first step says what there is.
 */
static void where_caches_are_kept_only_what_was_under_way_is_sent_again(void **state) {
    (void)state;
    lh_scheduler *s = create_broken(LH_ERR_UNAVAILABLE);
    bring_chain_back(s, 8, 0);
    lh_step_manifest m = next_step(s);
    assert_true(m.resyncs);
    assert_int_equal(m.step, 1);
    assert_int_equal(m.rows, 0);
    assert_int_equal(m.step_class, LH_STEP_DECODE);
    assert_int_equal(m.truncation_count, 1);
    assert_int_equal(m.truncations[0].sequence, 1);
    assert_int_equal(m.truncations[0].length, 40);
    m = next_step(s);
    assert_false(m.resyncs);
    assert_int_equal(m.rows, 1);
    assert_int_equal(m.tokens[0], 5);
    assert_int_equal(m.segments[0].sequence, 1);
    assert_int_equal(m.segments[0].first_position, 40);
    assert_int_equal(m.segments[0].ask.sampling.counter, 41);
    lh_scheduler_step_done(s, 8, 1, LH_OK, "", 0);
    assert_int_equal(bring_token(s, 8, 2, 1, 41, 6), LH_OK);
    assert_int_equal(ears[0].count, 2);
    assert_int_equal(lh_scheduler_current_figures(s).replayed_rows, 1);
    assert_int_equal(blocks_held(s), 3);
    lh_scheduler_destroy(s);
}

/* Each time an empty roll, and all from the beginning. */
static void caches_that_are_not_as_they_were_are_emptied(void **state) {
    (void)state;
    static const struct {
        lh_status status;
        uint32_t lost_stages;
    } cases[] = {{LH_ERR_UNAVAILABLE, 2}, {LH_ERR_INVALID, 0}, {LH_ERR_BUSY, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_scheduler *s = create_broken(cases[i].status);
        bring_chain_back(s, 8, cases[i].lost_stages);
        lh_step_manifest m = next_step(s);
        assert_true(m.resyncs);
        assert_int_equal(m.truncation_count, 0);
        m = next_step(s);
        assert_int_equal(m.segments[0].first_position, 0);
        assert_int_equal(m.rows, 41);
        assert_int_equal(lh_scheduler_current_figures(s).replayed_rows, 41);
        lh_scheduler_destroy(s);
    }
}

/* A prompt of which a part has come around goes on from there; one of which none has begins anew.
 */
static void a_prompt_goes_on_from_its_last_chunk(void **state) {
    (void)state;
    for (int passed = 0; passed < 2; passed++) {
        lh_scheduler *s = create_with_prompt(16, 50, 20);
        next_step(s);
        next_step(s);
        if (passed)
            lh_scheduler_step_done(s, 7, 1, LH_OK, "", 0);
        lh_scheduler_chain_down(s, 0);
        bring_chain_back(s, 8, 0);
        lh_step_manifest m = next_step(s);
        assert_int_equal(m.truncation_count, passed);
        m = next_step(s);
        assert_int_equal(m.segments[0].first_position, passed ? 16 : 0);
        assert_int_equal(m.rows, 16);
        lh_scheduler_destroy(s);
    }
}

/* Prefixes that are cached on all stages are shared after the break as before. */
static void what_is_cached_stays_where_no_stage_is_new(void **state) {
    (void)state;
    for (uint32_t lost_stages = 0; lost_stages < 2; lost_stages++) {
        lh_scheduler *s = create_sharing(64);
        lh_sequence_request request = request_of(40, 1);
        assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
        next_step(s);
        assert_int_equal(bring_token(s, 7, 1, 1, 40, 5), LH_OK);
        answer_step(s, 1);
        assert_true(ears[0].is_finished);
        lh_scheduler_chain_down(s, 0);
        bring_chain_back(s, 8, lost_stages);
        assert_int_equal(next_step(s).truncation_count, lost_stages == 0);
        assert_int_equal(submit_request(s, &request, 1, 0), LH_OK);
        assert_int_equal(next_step(s).segments[0].first_position, lost_stages == 0 ? 32 : 0);
        lh_scheduler_destroy(s);
    }
}

/* Who hangs up while there is no chain is not named. */
static void who_hangs_up_meanwhile_is_forgotten(void **state) {
    (void)state;
    lh_scheduler *s = create_broken(LH_ERR_UNAVAILABLE);
    lh_scheduler_cancel(s, 0);
    bring_chain_back(s, 8, 0);
    assert_int_equal(next_step(s).truncation_count, 0);
    assert_no_step(s);
    assert_int_equal(blocks_held(s), 0);
    lh_scheduler_destroy(s);
}

/* The first of the two is new: it gets the history in steps that end there, the second one only
 * what comes then. */
static void a_new_first_stage_gets_the_history_alone(void **state) {
    (void)state;
    lh_scheduler *s = create_broken(LH_ERR_UNAVAILABLE);
    bring_chain_back(s, 8, 1);
    lh_step_manifest m = next_step(s);
    assert_true(m.resyncs);
    assert_int_equal(m.truncations[0].length, 40);
    m = next_step(s);
    assert_int_equal(m.hop_limit, 1);
    assert_int_equal(m.rows, 40);
    assert_int_equal(m.segments[0].first_position, 0);
    assert_false(m.segments[0].ask.draws);
    m = next_step(s);
    assert_int_equal(m.hop_limit, 0);
    assert_int_equal(m.rows, 1);
    assert_int_equal(m.segments[0].first_position, 40);
    assert_true(m.segments[0].ask.draws);
    for (uint64_t step = 1; step <= 2; step++)
        lh_scheduler_step_done(s, 8, step, LH_OK, "", 0);
    assert_int_equal(bring_token(s, 8, 3, 1, 41, 6), LH_OK);
    assert_int_equal(ears[0].count, 2);
    assert_int_equal(blocks_held(s), 3);
    lh_scheduler_destroy(s);
}

/* It broke again: what has come to the new one meanwhile is what there is. */
static void what_was_given_again_counts_at_the_next_break(void **state) {
    (void)state;
    for (int passed = 0; passed < 2; passed++) {
        lh_scheduler *s = create_with_prompt(16, 40, 20);
        for (uint64_t step = 1; step <= 3; step++) {
            next_step(s);
            if (step < 3)
                lh_scheduler_step_done(s, 7, step, LH_OK, "", 0);
        }
        lh_scheduler_chain_down(s, 0);
        bring_chain_back(s, 8, 1);
        assert_int_equal(next_step(s).truncations[0].length, 32);
        assert_int_equal(next_step(s).hop_limit, 1);
        if (passed)
            lh_scheduler_step_done(s, 8, 2, LH_OK, "", 0);
        lh_scheduler_chain_down(s, 0);
        bring_chain_back(s, 9, 0);
        lh_step_manifest m = next_step(s);
        assert_int_equal(m.truncation_count, passed);
        if (passed)
            assert_int_equal(m.truncations[0].length, 16);
        m = next_step(s);
        assert_int_equal(m.hop_limit, 0);
        assert_int_equal(m.segments[0].first_position, passed ? 16 : 0);
        lh_scheduler_destroy(s);
    }
}

/* Two long prompts, and a chunk of the first one is under way. */
static void only_what_was_sent_counts_as_replayed(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(16);
    lh_sequence_request request = request_of(40, 20);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    assert_int_equal(submit_request(s, &request, 1, 0), LH_OK);
    assert_int_equal(next_step(s).segment_count, 1);
    assert_int_equal(lh_scheduler_current_figures(s).running, 2);
    lh_scheduler_chain_down(s, 0);
    assert_int_equal(lh_scheduler_current_figures(s).running, 0);
    assert_int_equal(lh_scheduler_current_figures(s).waiting, 2);
    assert_int_equal(lh_scheduler_current_figures(s).replays, 1);
    bring_chain_up(s, 8, 0);
    lh_step_manifest m = next_step(s);
    assert_int_equal(lh_scheduler_current_figures(s).replayed_rows, m.rows);
    lh_scheduler_destroy(s);
}

static void the_first_reason_stays(void **state) {
    (void)state;
    lh_scheduler *s = create_with_prompt(16, 40, 20);
    next_step(s);
    next_step(s);
    assert_true(lh_scheduler_chain_is_up(s));
    lh_scheduler_step_done(s, 7, 1, LH_ERR_UNAVAILABLE, "first", 0);
    lh_scheduler_step_done(s, 7, 2, LH_ERR_INTERNAL, "second", 0);
    lh_scheduler_tick(s, 40000 * MS);
    assert_non_null(strstr(lh_scheduler_fault(s), "first"));
    assert_false(lh_scheduler_has_room(s));
    lh_scheduler_chain_down(s, 40000 * MS);
    assert_null(lh_scheduler_fault(s));
    assert_false(lh_scheduler_chain_is_up(s));
    lh_scheduler_destroy(s);
}

/* A step that a worker could not take for what is in it says that its caches are not as they should
 * be; one that was lost on the way does not. */
static void a_refusal_is_of_the_content_or_of_the_way(void **state) {
    (void)state;
    static const struct {
        lh_status status;
        bool counts, keeps_caches;
    } cases[] = {{LH_ERR_MALFORMED, true, false},   {LH_ERR_INVALID, true, false},
                 {LH_ERR_LIMIT, true, false},       {LH_ERR_UNSUPPORTED, true, false},
                 {LH_ERR_INTERNAL, true, false},    {LH_ERR_BUSY, false, false},
                 {LH_ERR_UNAVAILABLE, false, true}, {LH_ERR_CLOSED, false, true},
                 {LH_ERR_CORRUPT, false, true},     {LH_ERR_CANCELLED, false, true},
                 {LH_ERR_STALE, false, true},       {LH_ERR_TIMEOUT, false, true},
                 {LH_ERR_PROTOCOL, false, true},    {LH_ERR_IO, false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_scheduler *s = create_with_prompt(16, 40, 20);
        next_step(s);
        answer_step(s, 1);
        next_step(s);
        lh_scheduler_step_done(s, 7, 2, cases[i].status, "refused", 0);
        lh_scheduler_chain_down(s, 0);
        bring_chain_back(s, 8, 0);
        assert_int_equal(next_step(s).truncation_count, cases[i].keeps_caches);
        assert_int_equal(next_step(s).segments[0].first_position, cases[i].keeps_caches ? 16 : 0);
        lh_scheduler_step_done(s, 8, 2, LH_ERR_INTERNAL, "refused", 0);
        lh_scheduler_chain_down(s, 0);
        assert_int_equal(ears[0].is_failed, cases[i].counts); /* for the second time */
        lh_scheduler_destroy(s);
    }
}

/* ---- The part alone ---- */

/* What is in the record behind its segments is of an earlier step. */
static void only_who_is_in_the_step_is_refused(void **state) {
    (void)state;
    lh_recovery recovery = {.is_up = true};
    lh_sequence in_it = {.length = 10}, before = {.length = 10};
    lh_inflight_segment segments[] = {
        {.sequence = &in_it}, {.sequence = NULL}, {.sequence = &before}};
    const lh_inflight_step step = {.step = 3, .segment_count = 2, .segments = segments};
    lh_recovery_report_answer(&recovery, &step, LH_ERR_MALFORMED, "nonsense");
    assert_int_equal(in_it.schedule.failure_count, 1);
    assert_int_equal(before.schedule.failure_count, 0);
    assert_true(recovery.has_fault && recovery.doubts_caches);
    assert_non_null(strstr(recovery.fault_reason, "step 3 failed: "));
    assert_non_null(strstr(recovery.fault_reason, "(nonsense)"));
}

/* So many sequences have each a block on a chain that is down. */
typedef struct parts {
    lh_wait_queue queue;
    lh_running_set running;
    lh_kv_store *store;
    lh_inflight *inflight;
    lh_mask_ledger *masks;
    lh_overlap_planner *planner;
    lh_recovery recovery;
    lh_kv_ledger chain;
} parts;

static void open_parts(parts *p, uint32_t sequences) {
    static const uint32_t prompt[10];
    const lh_sequence_request request = {.prompt = prompt,
                                         .prompt_tokens = 10,
                                         .max_tokens = 5,
                                         .sampling = {.repetition_penalty = 1}};
    *p = (parts){.chain = {.stage_count = 1, .stages = {{16, 2000}}}};
    assert_int_equal(lh_share_table_create(2000, 2000, NULL, &p->queue.shares, NULL), LH_OK);
    assert_int_equal(lh_kv_store_create(&(lh_kv_store_options){0}, &p->store, NULL), LH_OK);
    assert_int_equal(lh_overlap_planner_create(64, 64, &p->planner, NULL), LH_OK);
    lh_kv_store_reset(p->store, &p->chain);
    assert_int_equal(lh_mask_ledger_create(&p->masks, NULL), LH_OK);
    const lh_inflight_options inflight = {.store = p->store,
                                          .masks = p->masks,
                                          .planner = p->planner,
                                          .steps_max = 8,
                                          .segments_max = 1};
    assert_int_equal(lh_inflight_create(&inflight, &p->inflight, NULL), LH_OK);
    p->running.queue = &p->queue;
    p->recovery = (lh_recovery){
        .queue = &p->queue, .running = &p->running, .inflight = p->inflight, .store = p->store};
    for (uint32_t i = 0; i < sequences; i++) {
        lh_sequence *sequence;
        assert_int_equal(lh_sequence_create(&request, i, 100, &sequence, NULL), LH_OK);
        sequence->schedule.id = i + 1;
        assert_true(lh_sequence_kv_begin(&sequence->kv, p->store, i + 1, (lh_prefix_scope){0, 0},
                                         prompt, 10, true, 0));
        lh_sequence_kv_send(&sequence->kv, p->store, sequence->history, 5, LH_STEP_PREFILL);
        lh_kv_store_pass(sequence->kv.table, NULL, 5, LH_STEP_PREFILL);
        lh_kv_store_land(sequence->kv.table, NULL, true, LH_STEP_PREFILL);
        assert_int_equal(lh_wait_queue_push(&p->queue, sequence, 0), LH_OK);
    }
    lh_kv_store_break(p->store);
}

static void close_parts(parts *p) {
    lh_inflight_destroy(p->inflight);
    lh_kv_store_destroy(p->store);
    lh_mask_ledger_destroy(p->masks);
    lh_overlap_planner_destroy(p->planner);
    lh_running_set_reset(&p->running);
    lh_wait_queue_reset(&p->queue);
    lh_share_table_destroy(p->queue.shares);
}

/* The others wait, and have nothing on the chain. */
static void as_many_go_on_as_a_resync_has_room_for(void **state) {
    (void)state;
    static parts p;
    open_parts(&p, LH_STEP_TRUNCATIONS_MAX + 2);
    lh_recovery_chain_back(&p.recovery, 8, &p.chain, 0);
    assert_int_equal(lh_running_set_count(&p.running), LH_STEP_TRUNCATIONS_MAX);
    assert_int_equal(p.queue.all.count, 2);
    for (const lh_sequence *s = p.queue.all.first; s; s = s->next)
        assert_null(s->kv.table);
    close_parts(&p);
}

/* One that has all of its tokens there already has nothing to send, and begins anew. */
static void who_cannot_go_on_waits(void **state) {
    (void)state;
    static parts p;
    open_parts(&p, 3);
    p.queue.all.first->next->kv.table->written = 10;
    lh_recovery_chain_back(&p.recovery, 8, &p.chain, 0);
    assert_int_equal(lh_running_set_count(&p.running), 2);
    assert_int_equal(p.queue.all.count, 1);
    assert_null(p.queue.all.first->kv.table);
    assert_int_equal(p.queue.all.first->handle, 1);
    close_parts(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_chain_is_replayed),
        cmocka_unit_test(an_answer_of_an_old_epoch_is_not_the_new_ones),
        cmocka_unit_test(a_step_that_lands_is_progress_of_those_behind_it),
        cmocka_unit_test(a_sequence_that_is_refused_twice_fails_alone),
        cmocka_unit_test(replays_without_a_token_come_to_an_end),
        cmocka_unit_test(a_chain_that_is_formed_again_without_a_break_begins_anew),
        cmocka_unit_test(only_who_is_in_the_step_is_refused),
        cmocka_unit_test(as_many_go_on_as_a_resync_has_room_for),
        cmocka_unit_test(who_cannot_go_on_waits),
        cmocka_unit_test(timeouts),
        cmocka_unit_test(patience_without_a_chain),
        cmocka_unit_test(where_caches_are_kept_only_what_was_under_way_is_sent_again),
        cmocka_unit_test(caches_that_are_not_as_they_were_are_emptied),
        cmocka_unit_test(a_prompt_goes_on_from_its_last_chunk),
        cmocka_unit_test(what_is_cached_stays_where_no_stage_is_new),
        cmocka_unit_test(who_hangs_up_meanwhile_is_forgotten),
        cmocka_unit_test(a_new_first_stage_gets_the_history_alone),
        cmocka_unit_test(what_was_given_again_counts_at_the_next_break),
        cmocka_unit_test(only_what_was_sent_counts_as_replayed),
        cmocka_unit_test(the_first_reason_stays),
        cmocka_unit_test(a_refusal_is_of_the_content_or_of_the_way),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
