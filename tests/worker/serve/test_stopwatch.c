/* One step's spans and moments, and what the meter hears of them. */
#include "worker/serve/stopwatch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const lh_step_segment segments[] = {
    {.sequence = 1, .first_position = 100, .rows = 1, .ask.draws = true},
    {.sequence = 2, .first_position = 10, .rows = 7}};
static const lh_step_manifest manifest = {.rows = 8, .segment_count = 2, .segments = segments};

static void worked(lh_step_stopwatch *watch, lh_pipeline_work work, uint32_t first_row,
                   int64_t begin_us, int64_t end_us) {
    lh_pipeline_span span = {
        .work = work, .first_row = first_row, .begin_us = begin_us, .end_us = end_us};
    lh_step_stopwatch_worked(watch, &span);
}

static lh_stage_meter fresh_meter(void) {
    lh_stage_meter meter;
    lh_stage_meter_init(&meter, &(lh_compute_profile){0}, 0);
    return meter;
}

static void test_a_step_of_a_middle_stage(void **state) {
    (void)state;
    lh_step_stopwatch watch = {0};
    lh_stage_meter meter = fresh_meter();
    double overhead_us = meter.overhead.us;
    lh_step_stopwatch_feed(&watch, 1000);
    lh_step_stopwatch_start(&watch, &manifest, false);
    lh_step_stopwatch_feed(&watch, 1100);
    /* one that was long ago when the last came */
    worked(&watch, LH_PIPELINE_ACCEPT, 0, 1110, 1120);
    lh_step_stopwatch_feed(&watch, 1200); /* two pieces of the third shard */
    worked(&watch, LH_PIPELINE_ACCEPT, 0, 1150, 1250);
    worked(&watch, LH_PIPELINE_ACCEPT, 0, 1260, 1270);
    worked(&watch, LH_PIPELINE_ACCEPT, 4, 1270, 1280);
    worked(&watch, LH_PIPELINE_EMIT, 0, 1900, 1900);
    worked(&watch, LH_PIPELINE_EMIT, 0, 2000, 2000);
    worked(&watch, LH_PIPELINE_BEGIN, 0, 1140, 1150);
    worked(&watch, LH_PIPELINE_FINISH, 0, 1280, 2000);
    lh_step_stopwatch_stop(&watch, &meter, 2200);
    assert_int_equal(watch.cost.rows, 8);
    assert_true(watch.cost.attended == 100 + 7 * 10 + 21);
    assert_int_equal(watch.cost.draws, 0);
    assert_int_equal(watch.cost.extra_shards, 3);
    assert_int_equal(watch.cost.busy_us, 10 + 10 + 100 + 20 + 720);
    /* since the last piece came: 50 of the second shard, the third one, the layers */
    assert_int_equal(watch.busy_since_us, 50 + 20 + 720);
    assert_int_equal(meter.point_count, 1);
    assert_true(meter.overhead.us > overhead_us); /* 2200 - 1200 - 790 = 210 */
}

static void test_only_the_last_stage_draws(void **state) {
    (void)state;
    lh_step_stopwatch watch = {0};
    lh_step_stopwatch_start(&watch, &manifest, true);
    assert_int_equal(watch.cost.draws, 1);
}

static void test_others_in_the_way(void **state) {
    (void)state;
    lh_step_stopwatch watch = {.disturbed = true};
    lh_stage_meter meter = fresh_meter();
    double overhead_us = meter.overhead.us;
    lh_step_stopwatch_feed(&watch, 1000);
    lh_step_stopwatch_start(&watch, &manifest, false);
    worked(&watch, LH_PIPELINE_FINISH, 0, 5000, 5700);
    lh_step_stopwatch_stop(&watch, &meter, 9000);
    assert_int_equal(watch.cost.busy_us, 700);
    assert_int_equal(meter.point_count, 1);
    assert_true(meter.overhead.us == overhead_us);
}

static void test_truncations_cost_nothing(void **state) {
    (void)state;
    lh_step_stopwatch watch = {0};
    lh_stage_meter meter = fresh_meter();
    lh_step_stopwatch_feed(&watch, 1000);
    lh_step_stopwatch_start(&watch, &(lh_step_manifest){.truncation_count = 1}, true);
    lh_step_stopwatch_stop(&watch, &meter, 9000);
    assert_int_equal(meter.point_count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_of_a_middle_stage),
        cmocka_unit_test(test_only_the_last_stage_draws),
        cmocka_unit_test(test_others_in_the_way),
        cmocka_unit_test(test_truncations_cost_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
