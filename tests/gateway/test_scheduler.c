/* The scheduler, step by step, without a fleet: what it sends, what it believes, what it gives up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/scheduler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000

typedef struct heard {
    uint32_t tokens[64], count, position;
    bool is_finished, is_failed;
    lh_finish_reason reason;
    lh_status status;
} heard;

static heard ears[8];

static void on_event(void *context, uint64_t handle, const lh_engine_event *event) {
    (void)context;
    heard *h = &ears[handle];
    assert_false(h->is_finished || h->is_failed);
    if (event->kind == LH_ENGINE_TOKEN) {
        h->tokens[h->count++] = event->token;
        h->position = event->position;
    }
    h->is_finished = event->kind == LH_ENGINE_FINISHED;
    h->is_failed = event->kind == LH_ENGINE_FAILED;
    h->reason = event->reason;
    h->status = event->status;
}

static lh_scheduler *create(uint32_t chunk_rows) {
    const lh_scheduler_options options = {.sequences_max = 4,
                                          .queue_max = 2,
                                          .overlap = {LH_OVERLAP_MANUAL, chunk_rows, 1},
                                          .rows_max = 64,
                                          .vocabulary = 1000,
                                          .step_timeout_us = 30000 * MS,
                                          .replay_timeout_us = 5000 * MS};
    const lh_scheduler_sink sink = {NULL, on_event};
    lh_scheduler *scheduler;
    memset(ears, 0, sizeof ears);
    assert_int_equal(lh_scheduler_create(&options, &sink, 0, &scheduler, NULL), LH_OK);
    return scheduler;
}

static void bring_up(lh_scheduler *scheduler, uint32_t epoch, int64_t now_us) {
    const lh_kv_ledger ledger = {.stage_count = 2, .stages = {{16, 100, 0}, {16, 100, 0}}};
    lh_scheduler_chain_up(scheduler, epoch, &ledger, now_us);
}

static lh_engine_request request_of(uint32_t prompt_tokens, uint32_t max_tokens) {
    static uint32_t prompt[200];
    for (uint32_t i = 0; i < 200; i++)
        prompt[i] = i % 50;
    return (lh_engine_request){.prompt = prompt,
                               .prompt_tokens = prompt_tokens,
                               .max_tokens = max_tokens,
                               .sampling = {.top_p = 1, .repetition_penalty = 1}};
}

static lh_status submit(lh_scheduler *scheduler, const lh_engine_request *request, uint64_t handle,
                        int64_t now_us) {
    lh_sequence *sequence;
    lh_error error;
    assert_int_equal(lh_sequence_create(request, handle, 1000, &sequence, NULL), LH_OK);
    return lh_scheduler_submit(scheduler, sequence, now_us, &error);
}

static lh_step_manifest next(lh_scheduler *scheduler) {
    lh_step_manifest manifest;
    assert_true(lh_scheduler_next_step(scheduler, 0, &manifest));
    return manifest;
}

static void assert_idle(lh_scheduler *scheduler) {
    lh_step_manifest manifest;
    assert_false(lh_scheduler_next_step(scheduler, 0, &manifest));
}

static lh_status bring(lh_scheduler *scheduler, uint32_t epoch, uint64_t step, uint64_t sequence,
                       uint32_t position, uint32_t token) {
    lh_step_result result = {.sequence = sequence, .position = position, .token = token};
    lh_error error;
    return lh_scheduler_results(scheduler, epoch, step, &result, 1, 0, &error);
}

static void answer(lh_scheduler *scheduler, uint64_t step) {
    lh_scheduler_step_done(scheduler, 7, step, LH_OK, "", 0);
}

static void a_prompt_goes_in_chunks_and_only_the_last_draws(void **state) {
    (void)state;
    lh_scheduler *s = create(16);
    bring_up(s, 7, 0);
    lh_engine_request request = request_of(40, 3);
    assert_int_equal(submit(s, &request, 0, 0), LH_OK);
    const uint32_t rows[] = {16, 16, 8};
    for (uint32_t i = 0; i < 3; i++) {
        lh_step_manifest m = next(s);
        assert_int_equal(m.epoch, 7);
        assert_int_equal(m.step, i + 1);
        assert_int_equal(m.step_class, LH_STEP_PREFILL);
        assert_int_equal(m.rows, rows[i]);
        assert_int_equal(m.segments[0].first_position, 16 * i);
        assert_int_equal(m.segments[0].sample, i == 2);
        assert_int_equal(m.tokens[0], 16 * i % 50);
    }
    assert_idle(s);
    assert_int_equal(bring(s, 7, 3, 1, 40, 77), LH_OK);
    assert_int_equal(ears[0].tokens[0], 77);
    assert_int_equal(ears[0].position, 40);
    lh_step_manifest m = next(s);
    assert_int_equal(m.step_class, LH_STEP_DECODE);
    assert_int_equal(m.rows, 1);
    assert_int_equal(m.tokens[0], 77);
    assert_int_equal(m.segments[0].first_position, 40);
    assert_int_equal(m.segments[0].sampling.counter, 41);
    lh_scheduler_destroy(s);
}

static void max_tokens_end_it_and_the_pages_come_back(void **state) {
    (void)state;
    lh_scheduler *s = create(64);
    bring_up(s, 7, 0);
    lh_engine_request request = request_of(10, 2);
    assert_int_equal(submit(s, &request, 0, 0), LH_OK);
    next(s);
    assert_int_equal(lh_scheduler_ledger(s)->stages[0].pages_promised, 1);
    assert_int_equal(bring(s, 7, 1, 1, 10, 5), LH_OK);
    next(s);
    assert_int_equal(bring(s, 7, 2, 1, 11, 6), LH_OK);
    assert_true(ears[0].is_finished);
    assert_int_equal(ears[0].reason, LH_FINISH_LENGTH);
    assert_int_equal(ears[0].count, 2);
    lh_step_manifest m = next(s);
    assert_int_equal(m.rows, 0);
    assert_int_equal(m.release_count, 1);
    assert_int_equal(m.releases[0], 1);
    assert_idle(s);
    answer(s, 1);
    answer(s, 2);
    assert_int_equal(lh_scheduler_ledger(s)->stages[0].pages_promised, 1);
    answer(s, 3);
    assert_int_equal(lh_scheduler_ledger(s)->stages[0].pages_promised, 0);
    lh_scheduler_figures figures = lh_scheduler_current_figures(s);
    assert_int_equal(figures.releasing + figures.running + figures.waiting, 0);
    lh_scheduler_destroy(s);
}

static void a_stop_token_is_not_reported(void **state) {
    (void)state;
    lh_scheduler *s = create(64);
    bring_up(s, 7, 0);
    lh_engine_request request = request_of(10, 20);
    const uint32_t stops[] = {2};
    request.stop_tokens = stops;
    request.stop_token_count = 1;
    assert_int_equal(submit(s, &request, 0, 0), LH_OK);
    next(s);
    assert_int_equal(bring(s, 7, 1, 1, 10, 2), LH_OK);
    assert_true(ears[0].is_finished);
    assert_int_equal(ears[0].reason, LH_FINISH_STOP);
    assert_int_equal(ears[0].count, 0);
    lh_scheduler_destroy(s);
}

/* A finished sequence's release rides on a decode step that leaves anyway. */
static void a_release_rides_along(void **state) {
    (void)state;
    lh_scheduler *s = create(64);
    bring_up(s, 7, 0);
    lh_engine_request one = request_of(10, 1), many = request_of(10, 50);
    assert_int_equal(submit(s, &one, 0, 0), LH_OK);
    assert_int_equal(submit(s, &many, 1, 0), LH_OK);
    next(s);
    lh_step_result results[] = {{.sequence = 1, .position = 10, .token = 3},
                                {.sequence = 2, .position = 10, .token = 4}};
    assert_int_equal(lh_scheduler_results(s, 7, 1, results, 2, 0, NULL), LH_OK);
    lh_step_manifest m = next(s);
    assert_int_equal(m.rows, 1);
    assert_int_equal(m.release_count, 1);
    assert_idle(s);
    lh_scheduler_destroy(s);
}

static void what_nothing_waits_for_is_ignored(void **state) {
    (void)state;
    lh_scheduler *s = create(64);
    bring_up(s, 7, 0);
    lh_engine_request request = request_of(10, 20);
    assert_int_equal(submit(s, &request, 0, 0), LH_OK);
    next(s);
    assert_int_equal(bring(s, 6, 1, 1, 10, 5), LH_ERR_STALE);
    assert_int_equal(bring(s, 8, 1, 1, 10, 5), LH_ERR_STALE);
    assert_int_equal(bring(s, 7, 2, 1, 10, 5), LH_OK); /* no such step */
    assert_int_equal(bring(s, 7, 1, 2, 10, 5), LH_OK); /* no such sequence in it */
    assert_int_equal(bring(s, 7, 1, 1, 11, 5), LH_OK); /* another position */
    assert_int_equal(ears[0].count, 0);
    assert_int_equal(bring(s, 7, 1, 1, 10, 5), LH_OK);
    assert_int_equal(bring(s, 7, 1, 1, 10, 6), LH_OK); /* once more */
    assert_int_equal(ears[0].count, 1);
    assert_int_equal(ears[0].tokens[0], 5);
    assert_int_equal(lh_scheduler_current_figures(s).results_ignored, 6);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

static void an_impossible_token_is_a_fault(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        lh_scheduler *s = create(64);
        bring_up(s, 7, 0);
        lh_engine_request request = request_of(10, 20);
        request.sampling.top_logprobs = 1;
        assert_int_equal(submit(s, &request, 0, 0), LH_OK);
        next(s);
        lh_step_result result = {.sequence = 1, .position = 10, .token = 5, .top_count = 1};
        if (kind == 0)
            result.token = 1000;
        else if (kind == 1)
            result.logprob = NAN;
        else if (kind == 2)
            result.top_count = 2;
        else
            result.top[0].token = 4000000000u;
        lh_error error;
        assert_int_equal(lh_scheduler_results(s, 7, 1, &result, 1, 0, &error), LH_ERR_MALFORMED);
        assert_non_null(lh_scheduler_fault(s));
        assert_int_equal(ears[0].count, 0);
        assert_idle(s);
        lh_scheduler_destroy(s);
    }
}

static void a_step_without_its_tokens_is_a_fault(void **state) {
    (void)state;
    lh_scheduler *s = create(64);
    bring_up(s, 7, 0);
    lh_engine_request request = request_of(10, 20);
    assert_int_equal(submit(s, &request, 0, 0), LH_OK);
    next(s);
    answer(s, 1);
    assert_non_null(lh_scheduler_fault(s));
    assert_non_null(strstr(lh_scheduler_fault(s), "did not come"));
    lh_scheduler_destroy(s);
}

/* The same prompt and tokens are sent again under the new epoch, and the counter goes on. */
static void a_broken_chain_is_replayed(void **state) {
    (void)state;
    lh_scheduler *s = create(64);
    bring_up(s, 7, 0);
    lh_engine_request request = request_of(10, 20);
    assert_int_equal(submit(s, &request, 0, 0), LH_OK);
    next(s);
    assert_int_equal(bring(s, 7, 1, 1, 10, 5), LH_OK);
    next(s);
    lh_scheduler_step_done(s, 7, 2, LH_ERR_UNAVAILABLE, "gone", 0);
    assert_non_null(lh_scheduler_fault(s));
    lh_scheduler_chain_down(s, 0);
    assert_idle(s);
    bring_up(s, 9, 0);
    lh_step_manifest m = next(s);
    assert_int_equal(m.epoch, 9);
    assert_int_equal(m.rows, 11);
    assert_int_equal(m.tokens[10], 5);
    assert_int_equal(m.segments[0].first_position, 0);
    assert_int_equal(m.segments[0].sampling.counter, 11);
    assert_int_equal(bring(s, 7, m.step, 1, 11, 6), LH_ERR_STALE);
    assert_int_equal(bring(s, 9, m.step, 1, 11, 6), LH_OK);
    assert_int_equal(ears[0].count, 2);
    assert_int_equal(lh_scheduler_current_figures(s).replays, 1);
    lh_scheduler_destroy(s);
}

static void a_sequence_that_is_refused_twice_fails_alone(void **state) {
    (void)state;
    lh_scheduler *s = create(64);
    bring_up(s, 7, 0);
    lh_engine_request request = request_of(10, 20);
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(submit(s, &request, i, 0), LH_OK);
    assert_int_equal(next(s).segment_count, 3);
    lh_scheduler_step_done(s, 7, 1, LH_ERR_INTERNAL, "boom", 0);
    lh_scheduler_chain_down(s, 0);
    bring_up(s, 8, 0);
    lh_step_manifest m = next(s);
    assert_int_equal(m.segment_count, 1);
    assert_int_equal(m.segments[0].sequence, 1);
    m = next(s);
    assert_int_equal(m.segment_count, 1);
    assert_int_equal(m.segments[0].sequence, 2);
    assert_int_equal(bring(s, 8, 1, 1, 10, 5), LH_OK);
    lh_scheduler_step_done(s, 8, 2, LH_ERR_INTERNAL, "boom", 0);
    lh_scheduler_chain_down(s, 0);
    assert_false(ears[0].is_failed);
    assert_true(ears[1].is_failed);
    assert_int_equal(ears[1].status, LH_ERR_INTERNAL);
    assert_false(ears[2].is_failed);
    lh_scheduler_destroy(s);
}

static void replays_without_a_token_come_to_an_end(void **state) {
    (void)state;
    lh_scheduler *s = create(64);
    lh_engine_request request = request_of(10, 20);
    bring_up(s, 7, 0);
    assert_int_equal(submit(s, &request, 0, 0), LH_OK);
    for (uint32_t epoch = 8; !ears[0].is_failed; epoch++) {
        next(s);
        lh_scheduler_chain_down(s, 0);
        bring_up(s, epoch, 0);
        assert_true(epoch < 20);
    }
    assert_int_equal(ears[0].status, LH_ERR_UNAVAILABLE);
    lh_scheduler_destroy(s);
}

static void timeouts(void **state) {
    (void)state;
    lh_scheduler *s = create(64);
    lh_engine_request request = request_of(10, 20);
    assert_int_equal(lh_scheduler_deadline_us(s), INT64_MAX);
    assert_int_equal(submit(s, &request, 0, 0), LH_ERR_UNAVAILABLE);
    bring_up(s, 7, 0);
    assert_int_equal(submit(s, &request, 0, 0), LH_OK);
    lh_step_manifest manifest;
    assert_true(lh_scheduler_next_step(s, 1000 * MS, &manifest));
    assert_int_equal(lh_scheduler_deadline_us(s), 31000 * MS);
    lh_scheduler_tick(s, 31000 * MS - 1);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_tick(s, 31000 * MS);
    assert_non_null(lh_scheduler_fault(s));
    lh_scheduler_chain_down(s, 31000 * MS);
    assert_int_equal(lh_scheduler_deadline_us(s), 36000 * MS);
    assert_int_equal(submit(s, &request, 1, 35999 * MS), LH_OK);
    assert_int_equal(submit(s, &request, 2, 36000 * MS), LH_ERR_UNAVAILABLE);
    lh_scheduler_tick(s, 36000 * MS);
    assert_true(ears[0].is_failed && ears[1].is_failed);
    assert_int_equal(ears[0].status, LH_ERR_UNAVAILABLE);
    assert_int_equal(lh_scheduler_deadline_us(s), INT64_MAX);
    lh_scheduler_destroy(s);
}

/* Chunks under way are reset from the last one on, and the release follows in their class. */
static void a_cancelled_prompt_is_reset_from_its_end(void **state) {
    (void)state;
    lh_scheduler *s = create(16);
    bring_up(s, 7, 0);
    lh_engine_request request = request_of(100, 20);
    assert_int_equal(submit(s, &request, 0, 0), LH_OK);
    for (int i = 0; i < 6; i++)
        next(s);
    lh_scheduler_cancel(s, 0);
    uint64_t step;
    for (uint64_t expected = 6; expected >= 1; expected--) {
        assert_true(lh_scheduler_next_cancel(s, &step));
        assert_int_equal(step, expected);
        lh_scheduler_step_done(s, 7, step, LH_ERR_CANCELLED, "", 0);
    }
    assert_false(lh_scheduler_next_cancel(s, &step));
    lh_step_manifest m = next(s);
    assert_int_equal(m.step_class, LH_STEP_PREFILL);
    assert_int_equal(m.rows, 0);
    assert_int_equal(m.releases[0], 1);
    assert_int_equal(lh_scheduler_current_figures(s).prefill_steps, 6); /* until the release is through */
    answer(s, 7);
    lh_scheduler_figures figures = lh_scheduler_current_figures(s);
    assert_int_equal(figures.prefill_steps + figures.release_steps + figures.releasing, 0);
    assert_int_equal(lh_scheduler_ledger(s)->stages[0].pages_promised, 0);
    lh_scheduler_cancel(s, 0);
    lh_scheduler_destroy(s);
}

/* Two prompts that go whole share a step, which goes on for the one when the other is cancelled. */
static void a_shared_step_is_not_reset(void **state) {
    (void)state;
    lh_scheduler *s = create(16);
    bring_up(s, 7, 0);
    lh_engine_request request = request_of(12, 20);
    assert_int_equal(submit(s, &request, 0, 0), LH_OK);
    assert_int_equal(submit(s, &request, 1, 0), LH_OK);
    assert_int_equal(next(s).segment_count, 2);
    lh_scheduler_cancel(s, 0);
    uint64_t step;
    assert_false(lh_scheduler_next_cancel(s, &step));
    assert_int_equal(bring(s, 7, 1, 1, 12, 5), LH_OK);
    assert_int_equal(ears[0].count, 0);
    assert_int_equal(bring(s, 7, 1, 2, 12, 6), LH_OK);
    assert_int_equal(ears[1].count, 1);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

/* Only steps with rows of a traced request are timed, and it is told what it has in them. */
static void test_steps_of_traced_requests_are_timed(void **state) {
    (void)state;
    lh_scheduler *scheduler = create(0);
    bring_up(scheduler, 1, 0);
    lh_engine_request request = request_of(10, 5);
    assert_int_equal(submit(scheduler, &request, 0, 0), LH_OK);
    lh_step_manifest manifest = next(scheduler);
    lh_trace_part parts[4];
    assert_false(manifest.timed);
    assert_int_equal(lh_scheduler_traced_parts(scheduler, manifest.step, parts, 4), 0);
    request.trace = 77; /* two choices of one request, and one of another */
    assert_int_equal(submit(scheduler, &request, 1, 0), LH_OK);
    assert_int_equal(submit(scheduler, &request, 2, 0), LH_OK);
    request.trace = 78;
    assert_int_equal(submit(scheduler, &request, 3, 0), LH_OK);
    manifest = next(scheduler);
    assert_true(manifest.timed);
    assert_int_equal(manifest.rows, 30);
    assert_int_equal(lh_scheduler_traced_parts(scheduler, manifest.step, parts, 4), 2);
    assert_int_equal(parts[0].trace, 77);
    assert_int_equal(parts[0].rows, 20);
    assert_int_equal(parts[0].draws, 2);
    assert_int_equal(parts[1].trace, 78);
    assert_int_equal(parts[1].rows, 10);
    assert_int_equal(lh_scheduler_traced_parts(scheduler, manifest.step, parts, 1), 1);
    assert_int_equal(lh_scheduler_traced_parts(scheduler, 999, parts, 4), 0);
    lh_scheduler_destroy(scheduler);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_of_traced_requests_are_timed),
        cmocka_unit_test(a_prompt_goes_in_chunks_and_only_the_last_draws),
        cmocka_unit_test(max_tokens_end_it_and_the_pages_come_back),
        cmocka_unit_test(a_stop_token_is_not_reported),
        cmocka_unit_test(a_release_rides_along),
        cmocka_unit_test(what_nothing_waits_for_is_ignored),
        cmocka_unit_test(an_impossible_token_is_a_fault),
        cmocka_unit_test(a_step_without_its_tokens_is_a_fault),
        cmocka_unit_test(a_broken_chain_is_replayed),
        cmocka_unit_test(a_sequence_that_is_refused_twice_fails_alone),
        cmocka_unit_test(replays_without_a_token_come_to_an_end),
        cmocka_unit_test(timeouts),
        cmocka_unit_test(a_cancelled_prompt_is_reset_from_its_end),
        cmocka_unit_test(a_shared_step_is_not_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
