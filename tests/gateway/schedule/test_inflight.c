/* Steps in flight: their places, those that are cancelled, and those that do not come back: when
 * that is a fault of the chain, and when it only looks like one. A row takes 3 ms around the
 * ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/cost/pipeline_depth.h"
#include "gateway/schedule/inflight.h"
#include "tests/gateway/support/scheduler_bench.h"

/* A tenth of the step timeout. */
#define LEAST_US (3000 * MS)

static lh_scheduler *create_measured(void) {
    lh_scheduler *s = create_ready(64);
    const lh_cost_chain chain = costs_of_chain();
    lh_scheduler_set_costs(s, &chain);
    return s;
}

static void submit(lh_scheduler *s, uint32_t prompt_tokens, uint64_t handle, int64_t now_us) {
    lh_sequence_request request = request_of(prompt_tokens, 20);
    assert_int_equal(submit_request(s, &request, handle, now_us), LH_OK);
}

static lh_step_manifest step_at(lh_scheduler *s, int64_t now_us) {
    lh_step_manifest manifest;
    assert_true(lh_scheduler_next_step(s, now_us, &manifest));
    return manifest;
}

static void a_short_step_is_a_fault_after_the_least(void **state) {
    (void)state;
    lh_scheduler *s = create_measured();
    submit(s, 10, 0, 0);
    step_at(s, 1000 * MS);
    assert_int_equal(lh_scheduler_deadline_us(s), 1000 * MS + LEAST_US);
    lh_scheduler_tick(s, 1000 * MS + LEAST_US - 1);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_tick(s, 1000 * MS + LEAST_US);
    assert_non_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

static void a_long_one_is_waited_for(void **state) {
    (void)state;
    lh_scheduler *s = create_measured();
    lh_cost_chain chain = costs_of_chain();
    chain.stages[1].points[1].us *= 10; /* 64 rows: 672 ms */
    lh_scheduler_set_costs(s, &chain);
    submit(s, 64, 0, 0);
    step_at(s, 0);
    int64_t due_us = lh_scheduler_deadline_us(s);
    assert_in_range(due_us, 20 * 670 * MS, 20 * 680 * MS);
    lh_scheduler_tick(s, due_us - 1);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_tick(s, due_us);
    assert_non_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

/* What is before it may have to go first. */
static void steps_that_are_under_way_count(void **state) {
    (void)state;
    lh_scheduler *s = create_measured();
    lh_cost_chain chain = costs_of_chain();
    chain.stages[1].points[1].us *= 10;
    lh_scheduler_set_costs(s, &chain);
    submit(s, 128, 0, 0);
    step_at(s, 0);
    step_at(s, 0);
    answer_step(s, 1);
    assert_in_range(lh_scheduler_deadline_us(s), 20 * 1340 * MS, 20 * 1360 * MS);
    lh_scheduler_destroy(s);
}

static void another_step_that_moves_is_no_excuse(void **state) {
    (void)state;
    lh_scheduler *s = create_measured();
    submit(s, 10, 0, 0);
    step_at(s, 0);
    submit(s, 10, 1, 0);
    step_at(s, 2000 * MS);
    const lh_step_result result = {.sequence = 2, .position = 10, .sample.token = 3};
    assert_int_equal(lh_scheduler_results(s, 7, 2, &result, 1, 2900 * MS, NULL), LH_OK);
    lh_scheduler_tick(s, LEAST_US);
    assert_non_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

static void where_nothing_is_measured_the_step_timeout_holds(void **state) {
    (void)state;
    lh_scheduler *s = create_ready(64);
    submit(s, 10, 0, 0);
    step_at(s, 0);
    assert_int_equal(lh_scheduler_deadline_us(s), 30000 * MS);
    lh_scheduler_tick(s, 29999 * MS);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

static void a_chain_that_became_slow_meanwhile_is_no_fault(void **state) {
    (void)state;
    lh_scheduler *s = create_measured();
    lh_cost_chain chain = costs_of_chain();
    submit(s, 10, 0, 0);
    step_at(s, 0);
    chain.hops[1].row_bytes = 1000;
    chain.hops[1].bytes_per_us = 0.05; /* 10 rows: 200 ms */
    lh_scheduler_set_costs(s, &chain);
    lh_scheduler_tick(s, LEAST_US);
    assert_null(lh_scheduler_fault(s));
    assert_in_range(lh_scheduler_deadline_us(s), 20 * 200 * MS, 20 * 230 * MS);
    lh_scheduler_destroy(s);
}

static void a_gateway_that_was_stopped_itself_looks_again(void **state) {
    (void)state;
    lh_scheduler *s = create_measured();
    submit(s, 10, 0, 0);
    step_at(s, 0);
    lh_scheduler_tick(s, 8000 * MS);
    assert_null(lh_scheduler_fault(s));
    assert_int_equal(lh_scheduler_deadline_us(s), 8000 * MS + LEAST_US);
    lh_scheduler_tick(s, 8000 * MS + LEAST_US);
    assert_non_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

static void a_cancelled_step_is_not_waited_for(void **state) {
    (void)state;
    lh_scheduler *s = create_measured();
    submit(s, 10, 0, 0);
    step_at(s, 0);
    lh_scheduler_cancel(s, 0);
    uint64_t step;
    assert_true(lh_scheduler_next_cancel(s, &step));
    assert_int_equal(lh_scheduler_deadline_us(s), 30000 * MS);
    lh_scheduler_tick(s, LEAST_US);
    assert_null(lh_scheduler_fault(s));
    lh_scheduler_destroy(s);
}

static void patience_doubles_until_a_step_comes_back(void **state) {
    (void)state;
    lh_scheduler *s = create_measured();
    submit(s, 10, 0, 0);
    int64_t now_us = 0;
    for (uint32_t turn = 0; turn < 3; turn++) {
        step_at(s, now_us);
        now_us += LEAST_US << turn;
        assert_int_equal(lh_scheduler_deadline_us(s), now_us);
        lh_scheduler_tick(s, now_us);
        assert_non_null(lh_scheduler_fault(s));
        lh_scheduler_chain_down(s, now_us);
        bring_chain_up(s, 7, now_us);
    }
    uint64_t number = step_at(s, now_us).segments[0].sequence;
    assert_int_equal(bring_token(s, 7, 1, number, 10, 5), LH_OK);
    answer_step(s, 1);
    step_at(s, now_us);
    assert_int_equal(lh_scheduler_deadline_us(s), now_us + LEAST_US);
    lh_scheduler_destroy(s);
}

/* ---- The records alone ---- */

static lh_overlap_planner *planner;

/* So many places for decode steps beside those that are kept for truncations; none are for prompts
 * but as many beyond LH_DECODE_DEPTH_MAX. */
static lh_inflight *create_table(uint32_t places) {
    assert_int_equal(lh_overlap_planner_create(64, 64, &planner, NULL), LH_OK);
    const lh_inflight_options options = {
        .planner = planner, .steps_max = places + LH_TRUNCATION_DEPTH, .segments_max = 1};
    lh_inflight *inflight;
    assert_int_equal(lh_inflight_create(&options, &inflight, NULL), LH_OK);
    return inflight;
}

static void destroy_table(lh_inflight *inflight) {
    lh_inflight_destroy(inflight);
    lh_overlap_planner_destroy(planner);
}

static lh_inflight_step *launch(lh_inflight *inflight, lh_step_class step_class) {
    lh_inflight_step *step = lh_inflight_blank(inflight);
    assert_non_null(step);
    step->step_class = step_class;
    step->rows = 1;
    lh_inflight_launch(inflight, step, 0);
    return step;
}

static void places_are_kept_for_truncations_and_for_decode_steps(void **state) {
    (void)state;
    lh_inflight *inflight = create_table(LH_DECODE_DEPTH_MAX + 2);
    assert_true(lh_inflight_has_place(inflight, LH_STEP_PREFILL, 1));
    launch(inflight, LH_STEP_PREFILL);
    assert_false(lh_inflight_has_place(inflight, LH_STEP_PREFILL, 1)); /* as deep as it may be */
    assert_true(lh_inflight_has_place(inflight, LH_STEP_PREFILL, 9));
    launch(inflight, LH_STEP_PREFILL);
    assert_false(lh_inflight_has_place(inflight, LH_STEP_PREFILL, 9));
    for (uint32_t i = 0; i < LH_DECODE_DEPTH_MAX; i++) {
        assert_true(lh_inflight_has_place(inflight, LH_STEP_DECODE, 999));
        launch(inflight, LH_STEP_DECODE);
    }
    assert_false(lh_inflight_has_place(inflight, LH_STEP_DECODE, 999));
    for (uint32_t i = 0; i < LH_TRUNCATION_DEPTH; i++) {
        lh_inflight_step *step = lh_inflight_blank(inflight);
        assert_non_null(step);
        lh_inflight_launch(inflight, step, 0);
    }
    assert_null(lh_inflight_blank(inflight));
    assert_int_equal(lh_inflight_count(inflight, LH_STEP_PREFILL), 2);
    assert_int_equal(lh_inflight_count(inflight, LH_STEP_DECODE), LH_DECODE_DEPTH_MAX);
    assert_int_equal(lh_inflight_empties(inflight), LH_TRUNCATION_DEPTH);
    lh_inflight_drop_all(inflight);
    assert_int_equal(lh_inflight_total(inflight), 0);
    assert_int_equal(launch(inflight, LH_STEP_DECODE)->step, 1);
    destroy_table(inflight);
}

static void a_step_that_has_passed_frees_its_place_before_it_lands(void **state) {
    (void)state;
    lh_inflight *inflight = create_table(4);
    lh_inflight_step *step = launch(inflight, LH_STEP_DECODE);
    lh_inflight_pass(inflight, step);
    lh_inflight_pass(inflight, step);
    assert_int_equal(lh_inflight_count(inflight, LH_STEP_DECODE), 0);
    assert_int_equal(lh_inflight_total(inflight), 1);
    assert_ptr_equal(lh_inflight_find(inflight, 1), step);
    lh_inflight_land(inflight, step);
    assert_int_equal(lh_inflight_total(inflight), 0);
    assert_null(lh_inflight_find(inflight, 1));
    assert_null(lh_inflight_find(inflight, 0));
    destroy_table(inflight);
}

/* The workers may still have it, until a later one has been through. */
static void a_cancelled_step_lands_with_the_next_one_after_it(void **state) {
    (void)state;
    lh_inflight *inflight = create_table(4);
    lh_inflight_step *steps[3];
    uint64_t number;
    for (int i = 0; i < 3; i++)
        steps[i] = launch(inflight, LH_STEP_DECODE);
    steps[1]->wants_cancel = true;
    assert_true(lh_inflight_next_cancel(inflight, &number));
    assert_int_equal(number, 2);
    assert_false(lh_inflight_next_cancel(inflight, &number));
    lh_inflight_land(inflight, steps[0]);
    assert_int_equal(lh_inflight_total(inflight), 2);
    steps[1]->is_answered = true;
    lh_inflight_step *before = launch(inflight, LH_STEP_DECODE);
    before->step = 1; /* as if it had left before */
    lh_inflight_land(inflight, before);
    assert_int_equal(lh_inflight_total(inflight), 2);
    lh_inflight_land(inflight, steps[2]);
    assert_int_equal(lh_inflight_total(inflight), 0);
    destroy_table(inflight);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_step_is_a_fault_after_the_least),
        cmocka_unit_test(a_long_one_is_waited_for),
        cmocka_unit_test(steps_that_are_under_way_count),
        cmocka_unit_test(another_step_that_moves_is_no_excuse),
        cmocka_unit_test(where_nothing_is_measured_the_step_timeout_holds),
        cmocka_unit_test(a_chain_that_became_slow_meanwhile_is_no_fault),
        cmocka_unit_test(a_gateway_that_was_stopped_itself_looks_again),
        cmocka_unit_test(a_cancelled_step_is_not_waited_for),
        cmocka_unit_test(patience_doubles_until_a_step_comes_back),
        cmocka_unit_test(places_are_kept_for_truncations_and_for_decode_steps),
        cmocka_unit_test(a_step_that_has_passed_frees_its_place_before_it_lands),
        cmocka_unit_test(a_cancelled_step_lands_with_the_next_one_after_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
