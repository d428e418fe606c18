/* Steps in flight: their places, those that are cancelled, and those that do not come back: when
 * that is a fault of the chain, and when it only looks like one. A row takes 3 ms around the
 * ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "gateway/cost/pipeline_depth.h"
#include "gateway/kv/block_table.h"
#include "gateway/schedule/inflight.h"
#include "tests/gateway/support/scheduler_bench.h"
#include "tests/support/failing_malloc.h"

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

/* Half a second late is a busy machine; more is a gateway that was stopped. */
static void what_is_seen_a_little_late_is_still_a_fault(void **state) {
    (void)state;
    for (int stopped = 0; stopped < 2; stopped++) {
        lh_scheduler *s = create_measured();
        submit(s, 10, 0, 0);
        step_at(s, 0);
        lh_scheduler_tick(s, LEAST_US + 500 * MS + stopped);
        assert_int_equal(lh_scheduler_fault(s) == NULL, stopped);
        lh_scheduler_destroy(s);
    }
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
    const lh_step_result result = {.sequence = 2, .position = 10, .answer.token = 3};
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
    const int64_t begin_us = 100000 * MS;
    submit(s, 10, 0, 0);
    step_at(s, begin_us);
    chain.hops[1].row_bytes = 1000;
    chain.hops[1].bytes_per_us = 0.05; /* 10 rows: 200 ms */
    lh_scheduler_set_costs(s, &chain);
    lh_scheduler_tick(s, begin_us + LEAST_US);
    assert_null(lh_scheduler_fault(s));
    int64_t due_us = lh_scheduler_deadline_us(s) - begin_us;
    assert_in_range(due_us, 20 * 200 * MS, 20 * 230 * MS);
    lh_scheduler_tick(s, begin_us + due_us);
    char words[128];
    snprintf(words, sizeof words, "step 1 has been under way for %lld ms, though alone",
             (long long)due_us / 1000);
    assert_non_null(strstr(lh_scheduler_fault(s), words));
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
static lh_mask_ledger *masks;

/* So many places for decode steps beside those that are kept for truncations; none are for prompts
 * but as many beyond LH_DECODE_DEPTH_MAX. */
static lh_inflight *create_table(uint32_t places) {
    assert_int_equal(lh_overlap_planner_create(64, 64, &planner, NULL), LH_OK);
    assert_int_equal(lh_mask_ledger_create(&masks, NULL), LH_OK);
    const lh_inflight_options options = {.planner = planner,
                                         .masks = masks,
                                         .step_timeout_us = 1000,
                                         .steps_max = places + LH_TRUNCATION_DEPTH,
                                         .segments_max = 2};
    lh_inflight *inflight;
    assert_int_equal(lh_inflight_create(&options, &inflight, NULL), LH_OK);
    return inflight;
}

static void destroy_table(lh_inflight *inflight) {
    lh_inflight_destroy(inflight);
    lh_mask_ledger_destroy(masks);
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

/* ---- What a step may take ---- */

static lh_inflight *create_measured_table(const lh_cost_chain *costs) {
    lh_inflight *inflight = create_table(4);
    lh_overlap_planner_update(planner, costs);
    return inflight;
}

/* So many rows of each of two sequences. */
static lh_inflight_step *launch_two(lh_inflight *inflight, lh_step_class step_class,
                                    uint32_t first_position, uint32_t rows, int64_t now_us) {
    lh_inflight_step *step = lh_inflight_blank(inflight);
    assert_non_null(step);
    step->step_class = step_class;
    step->rows = 2 * rows;
    step->segment_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        step->segments[i].first_position = i == 0 ? first_position : 0;
        step->segments[i].rows = rows;
    }
    lh_inflight_launch(inflight, step, now_us);
    step->segment_count = 0; /* they have no block tables */
    return step;
}

static void assert_near(double value, double expected) {
    assert_true(value > expected * 0.999999 && value < expected * 1.000001);
}

/* As if all of it were where its furthest row is. */
static void a_step_alone_takes_what_the_costs_say(void **state) {
    (void)state;
    lh_cost_chain costs = costs_of_chain();
    costs.stages[0].us_per_row_position = 1;
    lh_inflight *inflight = create_measured_table(&costs);
    lh_inflight_step *decode = launch_two(inflight, LH_STEP_DECODE, 40, 1, 0);
    assert_near(decode->alone_us, lh_cost_decode_step(&costs, 41, 2).ring_us);
    lh_inflight_step *prefill = launch_two(inflight, LH_STEP_PREFILL, 40, 8, 0);
    assert_near(prefill->alone_us, lh_cost_off_us(&costs, 48, 16, 16));
    lh_inflight_step *empty = lh_inflight_blank(inflight);
    lh_inflight_launch(inflight, empty, 7);
    assert_true(empty->alone_us == 0);
    double all_us = 20 * (decode->alone_us + prefill->alone_us);
    assert_int_equal(empty->due_us, 7 + (int64_t)all_us);
    lh_inflight_drop_all(inflight);
    destroy_table(inflight);
}

/* A tenth of the step timeout, doubled four times; an hour. */
static void patience_has_its_limits(void **state) {
    (void)state;
    lh_cost_chain costs = {.stage_count = 1, .width = 64};
    costs.stages[0] = (lh_compute_profile){.point_count = 1, .points = {{1, 1}}};
    for (uint32_t i = 0; i < 2; i++)
        costs.hops[i] = (lh_cost_hop){.bytes_per_us = 1e9};
    lh_inflight *inflight = create_measured_table(&costs);
    for (int faults = 0; faults < 7; faults++) {
        lh_inflight_step *step = launch_two(inflight, LH_STEP_DECODE, 0, 1, 5);
        int64_t least_us = 100 << (faults < 4 ? faults : 4);
        assert_int_equal(step->due_us, 5 + least_us);
        assert_null(lh_inflight_find_overdue(inflight, 4 + least_us));
        assert_ptr_equal(lh_inflight_find_overdue(inflight, 5 + least_us), step);
        lh_inflight_drop_all(inflight);
    }
    costs.stages[0].points[0].us = 1e9;
    lh_overlap_planner_update(planner, &costs);
    assert_true(launch_two(inflight, LH_STEP_DECODE, 0, 1, 5)->due_us == 5 + 3600000000);
    lh_inflight_drop_all(inflight);
    destroy_table(inflight);
}

/* Not the least alone: and an empty step, with which a chain goes on, says nothing of those that
 * have rows. */
static void patience_doubles_from_what_a_step_should_take(void **state) {
    (void)state;
    lh_cost_chain costs = {.stage_count = 1, .width = 64};
    costs.stages[0] = (lh_compute_profile){.point_count = 1, .points = {{1, 7}}};
    for (uint32_t i = 0; i < 2; i++)
        costs.hops[i] = (lh_cost_hop){.bytes_per_us = 1e9};
    lh_inflight *inflight = create_measured_table(&costs);
    int64_t first_us = 0;
    for (int64_t faults = 0; faults < 3; faults++) {
        lh_inflight_step *step = launch_two(inflight, LH_STEP_DECODE, 0, 1, 0);
        if (faults == 0)
            first_us = step->due_us;
        assert_true(first_us > 100);
        assert_in_range(step->due_us, first_us << faults, (first_us + 1) << faults);
        assert_ptr_equal(lh_inflight_find_overdue(inflight, step->due_us), step);
        lh_inflight_drop_all(inflight);
        lh_inflight_step *empty = lh_inflight_blank(inflight);
        lh_inflight_launch(inflight, empty, 0);
        lh_inflight_land(inflight, empty);
    }
    lh_inflight_land(inflight, launch_two(inflight, LH_STEP_DECODE, 0, 1, 0));
    assert_int_equal(launch_two(inflight, LH_STEP_DECODE, 0, 1, 0)->due_us, first_us);
    lh_inflight_drop_all(inflight);
    destroy_table(inflight);
}

/* ---- What nobody needs any more ---- */

/* Some sequence that lives. */
static lh_sequence live;

static lh_inflight_step *launch_rows(lh_inflight *inflight, lh_block_table *table,
                                     lh_block_table *source, uint32_t first_position) {
    lh_inflight_step *step = lh_inflight_blank(inflight);
    assert_non_null(step);
    step->step_class = LH_STEP_PREFILL;
    step->rows = step->segment_count = 1;
    step->segments[0] = (lh_inflight_segment){
        .block_table = table, .source = source, .first_position = first_position, .rows = 1};
    lh_inflight_launch(inflight, step, 0);
    return step;
}

/* Of steps whose tables are the test's. */
static void drop(lh_inflight *inflight, uint64_t steps) {
    for (uint64_t step = 1; step <= steps; step++)
        lh_inflight_find(inflight, step)->segment_count = 0;
    lh_inflight_drop_all(inflight);
}

static void a_step_of_the_dead_is_cancelled_unless_somebody_needs_it(void **state) {
    (void)state;
    lh_inflight *inflight = create_table(8);
    for (int reason = 0; reason < 7; reason++) {
        lh_block_table table = {.number = 1};
        uint64_t number;
        lh_inflight_step *step = launch_rows(inflight, &table, NULL, 0);
        step->segments[0].sequence = reason == 1 ? &live : NULL;
        step->segments[0].has_come = reason == 2;
        table.pins = reason == 3;
        step->truncation_count = reason == 4;
        step->wants_cancel = reason == 5;
        step->is_cancelled = reason == 6;
        lh_inflight_cancel_futile(inflight);
        assert_int_equal(step->wants_cancel, reason == 0 || reason == 5);
        step->truncation_count = 0;
        step->is_cancelled = false;
        assert_int_equal(lh_inflight_next_cancel(inflight, &number), reason == 0 || reason == 5);
        step->is_cancelled = false;
        drop(inflight, 1);
    }
    lh_inflight_step *empty = lh_inflight_blank(inflight);
    lh_inflight_launch(inflight, empty, 0);
    lh_inflight_cancel_futile(inflight);
    assert_false(empty->wants_cancel);
    drop(inflight, 1);
    destroy_table(inflight);
}

static void a_step_that_others_go_on_from_is_kept(void **state) {
    (void)state;
    lh_block_table a = {.number = 1}, b = {.number = 2}, c = {.number = 3};
    const struct {
        lh_block_table *source;        /* of the step, which begins at position 16 of table a */
        lh_block_table *later, *forks; /* the table of a later one, and its source */
        uint32_t from;
        bool is_kept;
    } cases[] = {
        {NULL, &a, NULL, 17, true}, {NULL, &b, NULL, 17, false}, {NULL, &b, &c, 17, false},
        {NULL, &b, &a, 17, true},   {NULL, &b, &a, 16, false},   {&c, &b, &a, 16, true},
        {&c, &b, &c, 32, false},
    };
    lh_inflight *inflight = create_table(8);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_inflight_step *step = launch_rows(inflight, &a, cases[i].source, 16);
        lh_inflight_step *later =
            launch_rows(inflight, cases[i].later, cases[i].forks, cases[i].from);
        later->segments[0].sequence = &live;
        lh_inflight_cancel_futile(inflight);
        assert_int_equal(step->wants_cancel, !cases[i].is_kept);
        assert_false(later->wants_cancel);
        drop(inflight, 2);
    }
    destroy_table(inflight);
}

/* A record is of one step after the other: what is behind the segments of this one is not its. */
static void a_record_forgets_what_it_held(void **state) {
    (void)state;
    lh_inflight *inflight = create_table(8);
    lh_block_table a = {.number = 1}, b = {.number = 2};
    lh_trace_part parts[2];
    lh_inflight_step *step = launch_rows(inflight, &a, NULL, 0);
    step->segments[1] = (lh_inflight_segment){.sequence = &live, .block_table = &b, .rows = 1};
    assert_false(lh_inflight_holds(inflight, &live));
    lh_inflight_detach(inflight, &live);
    assert_ptr_equal(step->segments[1].sequence, &live);
    step->segments[1].due.draws = true;
    assert_null(lh_inflight_step_awaits(
        step, &(lh_step_result){.sequence = 2, .position = 1, .answer.token = 3}));
    live.request.trace = 9;
    assert_int_equal(lh_inflight_step_traced_parts(step, parts, 2), 0);
    live.request.trace = 0;
    lh_inflight_cancel_futile(inflight);
    assert_true(step->wants_cancel);
    step->wants_cancel = false;
    lh_inflight_step *later = launch_rows(inflight, &b, NULL, 0);
    later->segments[0].sequence = &live;
    later->segments[1] = (lh_inflight_segment){.block_table = &a, .rows = 1};
    lh_inflight_cancel_futile(inflight);
    assert_true(step->wants_cancel);
    drop(inflight, 2);
    destroy_table(inflight);
}

/* Of one whose sequence has ended nothing is told, whatever number the traces have. */
static void the_dead_are_not_traced(void **state) {
    (void)state;
    lh_trace_part parts[2] = {{.trace = 1}};
    lh_sequence traced = {.request.trace = 1};
    lh_inflight_segment segments[] = {{.sequence = NULL, .rows = 5},
                                      {.sequence = &traced, .rows = 3}};
    const lh_inflight_step step = {.segment_count = 2, .segments = segments};
    assert_int_equal(lh_inflight_step_traced_parts(&step, parts, 2), 1);
    assert_int_equal(parts[0].rows, 3);
}

/* What came before does not build upon it; and of two that nobody needs the last one goes first. */
static void steps_are_cancelled_from_their_end(void **state) {
    (void)state;
    lh_inflight *inflight = create_table(8);
    lh_block_table a = {.number = 1};
    uint64_t number;
    lh_inflight_step *before = launch_rows(inflight, &a, NULL, 0);
    before->segments[0].sequence = &live;
    for (uint32_t i = 1; i < 4; i++)
        launch_rows(inflight, &a, NULL, i);
    lh_inflight_cancel_futile(inflight);
    for (uint64_t expected = 4; expected > 1; expected--) {
        assert_true(lh_inflight_next_cancel(inflight, &number));
        assert_int_equal(number, expected);
    }
    assert_false(lh_inflight_next_cancel(inflight, &number));
    assert_int_equal(lh_inflight_overdue_us(inflight), INT64_MAX);
    drop(inflight, 4);
    destroy_table(inflight);
}

/* ---- What is believed of a step ---- */

static void each_stages_part_of_a_prompts_step_is_believed(void **state) {
    (void)state;
    lh_cost_chain costs = costs_of_chain();
    double us[LH_COST_STAGES_MAX];
    costs.stages[0].us_per_row_position = 1;
    costs.stages[1].draw_us = 300;
    lh_inflight *inflight = create_table(4);
    lh_inflight_step step = {.step_class = LH_STEP_PREFILL,
                             .rows = 8,
                             .segment_count = 1,
                             .segments = &(lh_inflight_segment){.first_position = 40, .rows = 8}};
    assert_int_equal(lh_inflight_step_believed_us(inflight, &step, us), 0);
    lh_overlap_planner_update(planner, &costs);
    for (int draws = 0; draws < 2; draws++) {
        step.segments[0].due.draws = draws;
        assert_int_equal(lh_inflight_step_believed_us(inflight, &step, us), 2);
        assert_near(us[0], lh_cost_stage_us(&costs.stages[0], 40, 8));
        assert_near(us[1], lh_cost_stage_us(&costs.stages[1], 40, 8) + (draws ? 300 : 0));
    }
    step.segment_count = 2;
    assert_int_equal(lh_inflight_step_believed_us(inflight, &step, us), 0);
    step.segment_count = 1;
    step.step_class = LH_STEP_DECODE;
    assert_int_equal(lh_inflight_step_believed_us(inflight, &step, us), 0);
    destroy_table(inflight);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_step_is_a_fault_after_the_least),
        cmocka_unit_test(a_long_one_is_waited_for),
        cmocka_unit_test(what_is_seen_a_little_late_is_still_a_fault),
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
        cmocka_unit_test(a_step_alone_takes_what_the_costs_say),
        cmocka_unit_test(patience_has_its_limits),
        cmocka_unit_test(patience_doubles_from_what_a_step_should_take),
        cmocka_unit_test(a_step_of_the_dead_is_cancelled_unless_somebody_needs_it),
        cmocka_unit_test(a_step_that_others_go_on_from_is_kept),
        cmocka_unit_test(a_record_forgets_what_it_held),
        cmocka_unit_test(the_dead_are_not_traced),
        cmocka_unit_test(steps_are_cancelled_from_their_end),
        cmocka_unit_test(each_stages_part_of_a_prompts_step_is_believed),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
