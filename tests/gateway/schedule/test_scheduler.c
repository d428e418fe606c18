/* The scheduler, step by step, without a fleet: what it sends, what it believes, what it gives up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gateway/support/scheduler_bench.h"
#include "tests/support/failing_malloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void a_prompt_goes_in_chunks_and_only_the_last_draws(void **state) {
    (void)state;
    lh_scheduler *s = create_with_prompt(16, 40, 3);
    const uint32_t rows[] = {16, 16, 8};
    for (uint32_t i = 0; i < 3; i++) {
        lh_step_manifest m = next_step(s);
        assert_int_equal(m.epoch, 7);
        assert_int_equal(m.step, i + 1);
        assert_int_equal(m.step_class, LH_STEP_PREFILL);
        assert_int_equal(m.rows, rows[i]);
        assert_int_equal(m.segments[0].first_position, 16 * i);
        assert_int_equal(m.segments[0].ask.draws, i == 2);
        assert_int_equal(m.tokens[0], 16 * i % 50);
    }
    assert_no_step(s);
    assert_int_equal(bring_token(s, 7, 3, 1, 40, 77), LH_OK);
    assert_int_equal(ears[0].tokens[0], 77);
    assert_int_equal(ears[0].position, 40);
    assert_string_equal(ears[0].chain, "main");
    assert_int_equal(ears[0].epoch, 7);
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.step_class, LH_STEP_DECODE);
    assert_int_equal(m.rows, 1);
    assert_int_equal(m.tokens[0], 77);
    assert_int_equal(m.segments[0].first_position, 40);
    assert_int_equal(m.segments[0].ask.sampling.counter, 41);
    lh_scheduler_destroy(s);
}

static void max_tokens_end_it_and_the_pages_come_back(void **state) {
    (void)state;
    lh_scheduler *s = create_with_prompt(64, 10, 2);
    next_step(s);
    assert_int_equal(blocks_held(s), 1);
    assert_int_equal(bring_token(s, 7, 1, 1, 10, 5), LH_OK);
    next_step(s);
    assert_int_equal(bring_token(s, 7, 2, 1, 11, 6), LH_OK);
    assert_true(ears[0].is_finished);
    assert_int_equal(ears[0].reason, LH_FINISH_LENGTH);
    assert_int_equal(ears[0].count, 2);
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.rows, 0);
    assert_int_equal(m.truncation_count, 1);
    assert_int_equal(m.truncations[0].sequence, 1);
    assert_no_step(s);
    answer_step(s, 1);
    answer_step(s, 2);
    assert_int_equal(blocks_held(s), 1);
    answer_step(s, 3);
    assert_int_equal(blocks_held(s), 0);
    lh_scheduler_figures figures = lh_scheduler_current_figures(s);
    assert_int_equal(figures.truncating + figures.running + figures.waiting, 0);
    lh_scheduler_destroy(s);
}

static void a_stop_token_is_not_reported(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = request_of(10, 20);
    const uint32_t stops[] = {2};
    request.stop_tokens = stops;
    request.stop_token_count = 1;
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    next_step(s);
    assert_int_equal(bring_token(s, 7, 1, 1, 10, 2), LH_OK);
    assert_true(ears[0].is_finished);
    assert_int_equal(ears[0].reason, LH_FINISH_STOP);
    assert_int_equal(ears[0].count, 0);
    lh_scheduler_destroy(s);
}

/* A finished sequence's truncation rides on a decode step that leaves anyway. */
static void a_truncation_rides_along(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request one = request_of(10, 1), many = request_of(10, 50);
    assert_int_equal(submit_request(s, &one, 0, 0), LH_OK);
    assert_int_equal(submit_request(s, &many, 1, 0), LH_OK);
    next_step(s);
    lh_step_result results[] = {{.sequence = 1, .position = 10, .answer.token = 3},
                                {.sequence = 2, .position = 10, .answer.token = 4}};
    assert_int_equal(lh_scheduler_results(s, 7, 1, results, 2, 0, NULL), LH_OK);
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.rows, 1);
    assert_int_equal(m.truncation_count, 1);
    assert_no_step(s);
    lh_scheduler_destroy(s);
}

/* Four end one after the other; a third step without rows waits until one is back. */
static void no_more_than_two_steps_only_truncate(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = request_of(10, 1);
    for (uint64_t handle = 0; handle < 4; handle++)
        assert_int_equal(submit_request(s, &request, handle, 0), LH_OK);
    assert_int_equal(next_step(s).segment_count, 4);
    for (uint64_t sequence = 1; sequence <= 4; sequence++) {
        assert_int_equal(bring_token(s, 7, 1, sequence, 10, 5), LH_OK);
        if (sequence <= 2)
            assert_int_equal(next_step(s).truncation_count, 1);
        else
            assert_no_step(s);
    }
    assert_int_equal(lh_scheduler_current_figures(s).truncation_steps, 2);
    answer_step(s, 1);
    answer_step(s, 2);
    assert_int_equal(next_step(s).truncation_count, 2);
    lh_scheduler_destroy(s);
}

static void what_nothing_waits_for_is_ignored(void **state) {
    (void)state;
    lh_scheduler *s = create_with_prompt(64, 10, 20);
    next_step(s);
    assert_int_equal(bring_token(s, 6, 1, 1, 10, 5), LH_ERR_STALE);
    assert_int_equal(bring_token(s, 8, 1, 1, 10, 5), LH_ERR_STALE);
    assert_int_equal(bring_token(s, 7, 2, 1, 10, 5), LH_OK); /* no such step */
    assert_int_equal(bring_token(s, 7, 1, 2, 10, 5), LH_OK); /* no such sequence in it */
    assert_int_equal(bring_token(s, 7, 1, 1, 11, 5), LH_OK); /* another position */
    assert_int_equal(ears[0].count, 0);
    assert_int_equal(bring_token(s, 7, 1, 1, 10, 5), LH_OK);
    assert_int_equal(bring_token(s, 7, 1, 1, 10, 6), LH_OK); /* once more */
    assert_int_equal(ears[0].count, 1);
    assert_int_equal(ears[0].tokens[0], 5);
    assert_int_equal(lh_scheduler_current_figures(s).results_ignored, 6);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

static void an_impossible_token_is_a_fault(void **state) {
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        lh_scheduler *s = create_ready(64);
        lh_sequence_request request = request_of(10, 20);
        request.sampling.top_logprobs = 1;
        assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
        next_step(s);
        lh_token_logprob tops[2] = {0};
        lh_step_result result = {
            .sequence = 1, .position = 10, .answer = {.token = 5, .top_count = 1, .top = tops}};
        if (kind == 0)
            result.answer.token = 1000;
        else if (kind == 1)
            result.answer.logprob = NAN;
        else if (kind == 2)
            result.answer.top_count = 2;
        else
            tops[0].token = 4000000000u;
        lh_error error;
        assert_int_equal(lh_scheduler_results(s, 7, 1, &result, 1, 0, &error), LH_ERR_MALFORMED);
        assert_non_null(lh_scheduler_fault(s));
        assert_int_equal(lh_scheduler_result_fault(s), LH_RESULTS_BAD);
        assert_int_equal(ears[0].count, 0);
        assert_no_step(s);
        lh_scheduler_destroy(s);
    }
}

/* Only of the step that is in flight, and of this epoch where the sender says one. */
static void results_that_cannot_be_read_are_a_fault(void **state) {
    (void)state;
    for (uint32_t epoch = 0; epoch <= 7; epoch += 7) {
        lh_scheduler *s = create_with_prompt(64, 10, 20);
        next_step(s);
        lh_scheduler_refuse_results(s, 6, 1, "its checksum differs");
        lh_scheduler_refuse_results(s, epoch, 2, "its checksum differs");
        assert_null(lh_scheduler_fault(s));
        assert_int_equal(lh_scheduler_result_fault(s), LH_RESULTS_FINE);
        lh_scheduler_refuse_results(s, epoch, 1, "its checksum differs");
        assert_string_equal(
            lh_scheduler_fault(s),
            "the last worker's results of step 1 cannot be read: its checksum differs");
        assert_int_equal(lh_scheduler_result_fault(s), LH_RESULTS_BAD);
        lh_scheduler_chain_down(s, 0);
        assert_int_equal(lh_scheduler_result_fault(s), LH_RESULTS_FINE);
        lh_scheduler_refuse_results(s, epoch, 1, "its checksum differs");
        assert_null(lh_scheduler_fault(s));
        lh_scheduler_destroy(s);
    }
}

static void a_step_that_is_taken_without_its_token_is_the_last_workers_fault(void **state) {
    (void)state;
    lh_scheduler *s = create_with_prompt(64, 10, 20);
    next_step(s);
    assert_int_equal(bring_token(s, 7, 1, 1, 11, 5), LH_OK); /* another position */
    lh_scheduler_step_done(s, 7, 1, LH_OK, "", 0);
    assert_int_equal(lh_scheduler_result_fault(s), LH_RESULTS_MISSING);
    lh_scheduler_destroy(s);
    s = create_with_prompt(64, 10, 20);
    next_step(s);
    lh_scheduler_step_done(s, 7, 1, LH_ERR_UNAVAILABLE, "gone", 0);
    assert_non_null(lh_scheduler_fault(s));
    assert_int_equal(lh_scheduler_result_fault(s), LH_RESULTS_FINE);
    lh_scheduler_destroy(s);
}

/* A step of four rows of a prompt of ten, scored with one alternative; then what came. */
static lh_status bring_scores(const lh_token_score *score, uint32_t count) {
    lh_scheduler *s = create_ready(4);
    lh_sequence_request request = request_of(10, 20);
    request.scores_prompt = true;
    request.prompt_tops = 1;
    lh_token_score scores[5];
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.rows, 4);
    assert_int_equal(m.segments[0].ask.scoring.rows, 4);
    assert_int_equal(m.segments[0].ask.scoring.next_token, 4);
    for (uint32_t i = 0; i < 5; i++)
        scores[i] = (lh_token_score){.logprob = -1, .rank = 1};
    scores[3] = *score;
    const lh_step_result result = {.sequence = 1,
                                   .position = 4,
                                   .answer.token = LH_STEP_NO_TOKEN,
                                   .answer.score_count = count,
                                   .answer.scores = scores};
    lh_status status = lh_scheduler_results(s, 7, 1, &result, 1, 0, NULL);
    assert_true((status == LH_OK) == !lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
    return status;
}

static void impossible_scores_are_a_fault(void **state) {
    (void)state;
    const lh_token_score good = {.logprob = -2, .rank = 1000, .top_count = 1, .top = {{999, -1}}};
    const lh_token_score bad[] = {
        {.logprob = NAN, .rank = 1},
        {.logprob = 2, .rank = 1},
        {.logprob = -1, .rank = 0},
        {.logprob = -1, .rank = 1001},
        {.logprob = -1, .rank = 1, .top_count = 2},
        {.logprob = -1, .rank = 1, .top_count = 1, .top = {{1000, -1}}},
        {.logprob = -1, .rank = 1, .top_count = 1, .top = {{9, NAN}}},
    };
    assert_int_equal(bring_scores(&good, 4), LH_OK);
    assert_int_equal(bring_scores(&good, 3), LH_ERR_MALFORMED);
    assert_int_equal(bring_scores(&good, 5), LH_ERR_MALFORMED);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(bring_scores(&bad[i], 4), LH_ERR_MALFORMED);
}

static void what_is_just_possible_is_taken(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = request_of(10, 20);
    request.sampling.top_logprobs = 1;
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    next_step(s);
    lh_token_logprob top = {999, 1e-6f};
    lh_step_result result = {
        .sequence = 1,
        .position = 10,
        .answer = {.token = 999, .logprob = 1e-6f, .top_count = 1, .top = &top}};
    assert_int_equal(lh_scheduler_results(s, 7, 1, &result, 1, 0, NULL), LH_OK);
    assert_null(lh_scheduler_fault(s));
    assert_int_equal(ears[0].tokens[0], 999);
    lh_scheduler_destroy(s);
}

/* Its sequence has hung up, so that nobody asked for candidates: it is checked all the same. */
static void an_impossible_token_for_nobody_is_a_fault_too(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    lh_sequence_request request = request_of(12, 20);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    assert_int_equal(submit_request(s, &request, 1, 0), LH_OK);
    assert_int_equal(next_step(s).segment_count, 2);
    lh_scheduler_cancel(s, 0);
    lh_token_logprob tops[21] = {0};
    lh_step_result result = {
        .sequence = 1, .position = 12, .answer = {.top_count = 21, .top = tops}};
    assert_int_equal(lh_scheduler_results(s, 7, 1, &result, 1, 0, NULL), LH_ERR_MALFORMED);
    assert_non_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

/* The workers may have taken it before they heard of the reset. */
static void a_cancelled_step_that_was_taken_lands(void **state) {
    (void)state;
    lh_scheduler *s = create_with_prompt(16, 40, 20);
    next_step(s);
    lh_scheduler_cancel(s, 0);
    uint64_t step;
    assert_true(lh_scheduler_next_cancel(s, &step));
    lh_scheduler_step_done(s, 7, 1, LH_OK, "", 0);
    assert_int_equal(lh_scheduler_current_figures(s).prefill_steps, 0);
    lh_scheduler_step_done(s, 7, 1, LH_ERR_INTERNAL, "once more", 0);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

static void a_step_without_its_tokens_is_a_fault(void **state) {
    (void)state;
    lh_scheduler *s = create_with_prompt(64, 10, 20);
    next_step(s);
    answer_step(s, 1);
    assert_non_null(lh_scheduler_fault(s));
    assert_non_null(strstr(lh_scheduler_fault(s), "did not come"));
    lh_scheduler_destroy(s);
}

/* Chunks under way are reset from the last one on, and the truncation follows in their class. */
static void a_cancelled_prompt_is_reset_from_its_end(void **state) {
    (void)state;
    lh_scheduler *s = create_with_prompt(16, 100, 20);
    for (int i = 0; i < 6; i++)
        next_step(s);
    lh_scheduler_cancel(s, 0);
    uint64_t step;
    for (uint64_t expected = 6; expected >= 1; expected--) {
        assert_true(lh_scheduler_next_cancel(s, &step));
        assert_int_equal(step, expected);
        lh_scheduler_step_done(s, 7, step, LH_ERR_CANCELLED, "", 0);
    }
    assert_false(lh_scheduler_next_cancel(s, &step));
    lh_step_manifest m = next_step(s);
    assert_int_equal(m.step_class, LH_STEP_PREFILL);
    assert_int_equal(m.rows, 0);
    assert_int_equal(m.truncations[0].sequence, 1);
    /* until the truncation is through */
    assert_int_equal(lh_scheduler_current_figures(s).prefill_steps, 6);
    answer_step(s, 7);
    lh_scheduler_figures figures = lh_scheduler_current_figures(s);
    assert_int_equal(figures.prefill_steps + figures.truncation_steps + figures.truncating, 0);
    assert_int_equal(blocks_held(s), 0);
    lh_scheduler_cancel(s, 0);
    lh_scheduler_destroy(s);
}

/* Two prompts that go whole share a step, which goes on for the one when the other is cancelled. */
static void a_shared_step_is_not_reset(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(16);
    lh_sequence_request request = request_of(12, 20);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    assert_int_equal(submit_request(s, &request, 1, 0), LH_OK);
    assert_int_equal(next_step(s).segment_count, 2);
    lh_scheduler_cancel(s, 0);
    uint64_t step;
    assert_false(lh_scheduler_next_cancel(s, &step));
    assert_int_equal(bring_token(s, 7, 1, 1, 12, 5), LH_OK);
    assert_int_equal(ears[0].count, 0);
    assert_int_equal(bring_token(s, 7, 1, 2, 12, 6), LH_OK);
    assert_int_equal(ears[1].count, 1);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

/* Only steps with rows of a traced request are timed, and it is told what it has in them. */
static void test_steps_of_traced_requests_are_timed(void **state) {
    (void)state;
    lh_scheduler *scheduler = create_scheduler(0);
    bring_chain_up(scheduler, 1, 0);
    lh_sequence_request request = request_of(10, 5);
    assert_int_equal(submit_request(scheduler, &request, 0, 0), LH_OK);
    lh_step_manifest manifest = next_step(scheduler);
    lh_trace_part parts[4];
    assert_false(manifest.timed);
    assert_int_equal(lh_scheduler_traced_parts(scheduler, manifest.step, parts, 4), 0);
    request.trace = 77; /* two choices of one request, and one of another */
    assert_int_equal(submit_request(scheduler, &request, 1, 0), LH_OK);
    assert_int_equal(submit_request(scheduler, &request, 2, 0), LH_OK);
    request.trace = 78;
    assert_int_equal(submit_request(scheduler, &request, 3, 0), LH_OK);
    manifest = next_step(scheduler);
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

/* Two blocks of the prompt are another's; the plan is told with the first rows and no others. */
static void a_traced_request_is_told_what_was_shared_and_planned(void **state) {
    (void)state;
    const lh_cost_chain costs = costs_of_chain();
    lh_scheduler *s = create_sharing(64);
    lh_scheduler_set_costs(s, &costs);
    lh_sequence_request request = request_of(40, 5);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    assert_int_equal(next_step(s).rows, 40);
    request.trace = 77;
    assert_int_equal(submit_request(s, &request, 1, 0), LH_OK);
    lh_step_manifest m = next_step(s);
    assert_true(m.timed);
    assert_int_equal(m.rows, 8);
    lh_trace_part parts[2];
    assert_int_equal(lh_scheduler_traced_parts(s, m.step, parts, 2), 1);
    assert_int_equal(parts[0].first_position, 32);
    assert_int_equal(parts[0].shared, 32);
    assert_int_equal(parts[0].rows, 8);
    assert_int_equal(parts[0].draws, 1);
    assert_in_range(parts[0].predicted_us, 8000, 40000);
    assert_string_equal(parts[0].plan, "8");
    assert_int_equal(bring_token(s, 7, m.step, 2, 40, 5), LH_OK);
    m = next_step(s);
    assert_int_equal(lh_scheduler_traced_parts(s, m.step, parts, 2), 1);
    assert_int_equal(parts[0].first_position, 40);
    assert_int_equal(parts[0].shared + parts[0].predicted_us, 0);
    assert_string_equal(parts[0].plan, "");
    lh_scheduler_destroy(s);
}

/* Not at once: it could never get on. */
static void what_can_never_fit_is_refused(void **state) {
    (void)state;
    const lh_kv_ledger two_blocks = {.stage_count = 1, .stages = {{16, 2}}};
    lh_scheduler *s = create_scheduler(64);
    lh_scheduler_chain_up(s, 7, &two_blocks, 0);
    lh_sequence_request request = request_of(10, 23);
    assert_int_equal(submit_request(s, &request, 0, 0), LH_ERR_LIMIT);
    assert_int_equal(lh_scheduler_current_figures(s).waiting, 0);
    request.max_tokens = 22;
    assert_int_equal(submit_request(s, &request, 0, 0), LH_OK);
    assert_int_equal(lh_scheduler_current_figures(s).waiting, 1);
    lh_scheduler_destroy(s);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    const lh_scheduler_options options = options_of(16);
    for (size_t n = 1;; n++) {
        lh_scheduler *scheduler = NULL;
        lh_error error = {0};
        failing_malloc_arm(n);
        lh_status status = lh_scheduler_create(&options, &bench_sink, &scheduler, &error);
        if (!failing_malloc_disarm()) {
            assert_int_equal(status, LH_OK);
            lh_scheduler_destroy(scheduler);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_non_null(strstr(error.message, "no memory"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_of_traced_requests_are_timed),
        cmocka_unit_test(a_prompt_goes_in_chunks_and_only_the_last_draws),
        cmocka_unit_test(max_tokens_end_it_and_the_pages_come_back),
        cmocka_unit_test(a_stop_token_is_not_reported),
        cmocka_unit_test(a_truncation_rides_along),
        cmocka_unit_test(no_more_than_two_steps_only_truncate),
        cmocka_unit_test(what_nothing_waits_for_is_ignored),
        cmocka_unit_test(an_impossible_token_is_a_fault),
        cmocka_unit_test(results_that_cannot_be_read_are_a_fault),
        cmocka_unit_test(a_step_that_is_taken_without_its_token_is_the_last_workers_fault),
        cmocka_unit_test(impossible_scores_are_a_fault),
        cmocka_unit_test(what_is_just_possible_is_taken),
        cmocka_unit_test(an_impossible_token_for_nobody_is_a_fault_too),
        cmocka_unit_test(a_cancelled_step_that_was_taken_lands),
        cmocka_unit_test(a_step_without_its_tokens_is_a_fault),
        cmocka_unit_test(a_cancelled_prompt_is_reset_from_its_end),
        cmocka_unit_test(a_shared_step_is_not_reset),
        cmocka_unit_test(a_traced_request_is_told_what_was_shared_and_planned),
        cmocka_unit_test(what_can_never_fit_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
