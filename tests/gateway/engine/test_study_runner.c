/* A study runs on another thread and comes back; or it ends unseen, where its runner closes. */
#include "gateway/engine/study_runner.h"

#include "tests/gateway/support/measured_fleet.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

typedef struct bench {
    measured_fleet fleet;
    uv_loop_t loop;
    lh_study_runner runner;
    lh_plan_study *studied;
    bool is_closed;
} bench;

static void on_studied(void *context, lh_plan_study *study) {
    ((bench *)context)->studied = study;
}

static void on_closed(void *context) {
    ((bench *)context)->is_closed = true;
}

static lh_plan_study *begin(bench *b) {
    static const char *const names[] = {"a", "b"};
    static const uint32_t halves[] = {0, 6};
    measured_fleet_create(&b->fleet);
    measured_fleet_add(&b->fleet, "a", "east", 100);
    measured_fleet_add(&b->fleet, "b", "west", 100);
    measured_fleet_link_all(&b->fleet);
    measured_fleet_serve(&b->fleet, 2, names, halves);
    assert_int_equal(uv_loop_init(&b->loop), 0);
    lh_study_runner_init(&b->runner, &b->loop, on_studied, b);
    b->studied = NULL;
    b->is_closed = false;
    return lh_live_planner_begin(&b->fleet.planner, &b->fleet.chain, b->fleet.registry,
                                 &b->fleet.avoidance, b->fleet.now_us);
}

static void end(bench *b) {
    assert_true(b->is_closed);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    measured_fleet_destroy(&b->fleet);
}

static void what_was_run_comes_back(void **state) {
    (void)state;
    bench b;
    lh_plan_study *study = begin(&b);
    lh_study_runner_run(&b.runner, study);
    assert_null(b.studied);
    uv_run(&b.loop, UV_RUN_DEFAULT);
    assert_ptr_equal(b.studied, study);
    assert_int_equal(study->status, LH_OK);
    assert_true(study->plan.layout.stage_count > 0);
    lh_plan_study_destroy(study);
    lh_study_runner_close(&b.runner, on_closed, &b); /* nothing runs: at once */
    end(&b);
}

static void what_runs_while_it_closes_is_not_seen(void **state) {
    (void)state;
    bench b;
    lh_plan_study *study = begin(&b);
    lh_study_runner_run(&b.runner, study);
    lh_study_runner_close(&b.runner, on_closed, &b);
    uv_run(&b.loop, UV_RUN_DEFAULT);
    assert_null(b.studied);
    end(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_run_comes_back),
        cmocka_unit_test(what_runs_while_it_closes_is_not_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
