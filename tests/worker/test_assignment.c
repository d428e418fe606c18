/* A worker and a scripted gateway: from a report to a stage that serves, and through every change of mind; with the gateway
 * away, wrong and back again. */
#include "tests/support/loop.h"
#include "tests/worker/support/assignment_bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_from_a_report_to_tokens(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open(&b);
    expect_report(&b, "\"assignment\":null");
    assert_true(report_has(&b, "\"site\":\"s\"") && report_has(&b, "\"plain\":\"127.0.0.1:1\""));
    assert_int_equal(run_step(&b, 10), LH_ERR_NOT_FOUND);
    want(&b, &wanted_whole);
    expect_report(&b, "\"assignment\":{\"generation\":10,\"state\":\"ready\"");
    expect_report(&b, "\"next\":{\"connected\":true");
    expect_report(&b, "\"kv\":{\"pages_total\":");
    assert_int_equal(run_step(&b, 10), LH_OK);
    assert_int_equal(b.results, 1);
    assert_int_equal(run_step(&b, 9), LH_ERR_STALE);
    expect_report(&b, "\"steps\":{\"active\":0,\"done\":1,\"failed\":2}");
    assignment_bench_close(&b);
}

static void test_a_new_epoch_keeps_the_weights(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open_serving(&b);
    assert_int_equal(run_step(&b, 10), LH_OK);
    unsigned requests = range_server_requests(b.files);
    wanted next = wanted_whole;
    next.generation = 11;
    next.wire = "f16";
    want(&b, &next);
    expect_report(&b, "\"generation\":11,\"state\":\"ready\"");
    assert_int_equal(run_step(&b, 11), LH_OK); /* the cache is empty: the sequence begins at 0 again */
    assert_int_equal(range_server_requests(b.files), requests);
    assignment_bench_close(&b);
}

static void test_without_a_plan_everything_stays(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open_serving(&b);
    want_what_is_there(&b);
    await_reports(&b, 3);
    assert_true(report_has(&b, "\"generation\":10,\"state\":\"ready\""));
    assert_int_equal(run_step(&b, 10), LH_OK);
    assignment_bench_close(&b);
}

/* What an answer changes is reported at once, and so is what else happens meanwhile: one PUT at a time. */
static void test_haste_upon_haste(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open_serving(&b);
    wanted next = wanted_whole;
    for (next.generation = 11; next.generation < 20; next.generation++) {
        want(&b, &next);
        int puts = b.puts;
        while (b.puts < puts + 3) {
            lh_assignment_leave(b.keeper, loop_set_flag, &b.told);
            uv_run(&b.loop, UV_RUN_ONCE);
        }
    }
    expect_report(&b, "\"generation\":19,\"state\":\"ready\"");
    expect_flag(&b, &b.told);
    assignment_bench_close(&b);
}

static void test_other_layers_are_built_anew(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open_serving(&b);
    wanted next = wanted_whole;
    next.generation = 11;
    next.first_layer = 1;
    next.last_layer = 3;
    want(&b, &next);
    expect_report(&b, "\"generation\":11,\"state\":\"ready\"");
    want_nothing(&b);
    expect_report(&b, "\"assignment\":null");
    assert_true(report_has(&b, "\"kv\":null"));
    want(&b, &wanted_whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    assert_int_equal(run_step(&b, 10), LH_OK);
    assignment_bench_close(&b);
}

static void test_a_change_of_mind_while_fetching(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open(&b);
    range_server_fail(b.files, RANGE_SILENT, 1);
    want(&b, &wanted_whole);
    expect_report(&b, "\"state\":\"fetching\"");
    want_nothing(&b);
    expect_report(&b, "\"assignment\":null");
    want(&b, &wanted_whole);
    expect_report(&b, "\"state\":\"ready\"");
    assignment_bench_close(&b);
}

static void test_a_failure_is_told_and_tried_again(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open(&b);
    range_server_fail_whole(b.files, RANGE_404, 1);
    want(&b, &wanted_whole);
    expect_report(&b, "\"state\":\"failed\"");
    assert_false(report_has(&b, "\"error\":\"\""));
    expect_report(&b, "\"state\":\"ready\"");
    assert_true(report_has(&b, "\"error\":\"\""));
    wanted bad = wanted_whole;
    bad.generation = 12;
    bad.context = 100000; /* more than the model has */
    want(&b, &bad);
    expect_report(&b, "\"generation\":12,\"state\":\"failed\"");
    want(&b, &wanted_whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    assignment_bench_close(&b);
}

static void test_bad_answers_change_nothing(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open_serving(&b);
    const char *bad[] = {
        "",
        "nonsense",
        "{}",
        "[1]",
        "{\"renew_ms\":-5}",
        "{\"renew_ms\":20,\"lease_ms\":1000,\"planned\":true,\"assignment\":{\"generation\":11}}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        strcpy(b.answer, bad[i]);
        await_reports(&b, 2);
        assert_true(report_has(&b, "\"generation\":10,\"state\":\"ready\""));
    }
    b.answer_status = 500;
    await_reports(&b, 2);
    assert_int_equal(run_step(&b, 10), LH_OK);
    assignment_bench_close(&b);
}

static void test_the_gateway_restarts(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open_serving(&b);
    unsigned requests = range_server_requests(b.files);
    close_gateway(&b);
    b.report[0] = '\0';
    for (int i = 0; i < 20; i++) {
        uv_run(&b.loop, UV_RUN_NOWAIT);
        usleep(5000);
    }
    open_gateway(&b);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    expect_report(&b, "\"next\":{\"connected\":true");
    assert_int_equal(run_step(&b, 10), LH_OK);
    assert_int_equal(range_server_requests(b.files), requests);
    assignment_bench_close(&b);
}

static void test_the_worker_restarts_with_its_cache(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open_serving(&b);
    char instance[64];
    snprintf(instance, sizeof(instance), "%.30s", strstr(b.report, "\"instance\""));
    stop_worker(&b);
    range_server_fail(b.files, RANGE_404, 1000); /* no weights any more: they are in the cache */
    b.report[0] = '\0';
    start_worker(&b);
    expect_report(&b, "\"state\":\"ready\"");
    assert_false(report_has(&b, instance));
    assignment_bench_close(&b);
}

static void test_leaving_is_told(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open(&b);
    expect_report(&b, "\"leaving\":false");
    lh_assignment_leave(b.keeper, loop_set_flag, &b.told);
    expect_flag(&b, &b.told);
    assert_true(report_has(&b, "\"leaving\":true"));
    b.told = false;
    close_gateway(&b);
    lh_assignment_leave(b.keeper, loop_set_flag, &b.told); /* nobody to tell: it does not wait for ever */
    expect_flag(&b, &b.told);
    open_gateway(&b);
    assignment_bench_close(&b);
}

static void close_server(void *context) {
    assignment_bench *b = context;
    b->server_closed = false;
    lh_server_close(b->server, loop_set_flag, &b->server_closed);
}

static void close_keeper_then_server(void *context) {
    assignment_bench *b = context;
    lh_assignment_close(b->keeper, close_server, b);
}

static void test_closing_as_soon_as_leaving_is_told(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open_serving(&b);
    want_nothing(&b);
    b.server_closed = false;
    /* While the stage is being taken away: the server is closed from within its own callback. */
    lh_assignment_leave(b.keeper, close_keeper_then_server, &b);
    expect_flag(&b, &b.server_closed);
    start_worker(&b);
    assignment_bench_close(&b);
}

static void test_closing_while_fetching(void **state) {
    (void)state;
    assignment_bench b;
    assignment_bench_open(&b);
    range_server_fail(b.files, RANGE_SILENT, 1);
    want(&b, &wanted_whole);
    expect_report(&b, "\"state\":\"fetching\"");
    assignment_bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_a_report_to_tokens),
        cmocka_unit_test(test_a_new_epoch_keeps_the_weights),
        cmocka_unit_test(test_without_a_plan_everything_stays),
        cmocka_unit_test(test_haste_upon_haste),
        cmocka_unit_test(test_other_layers_are_built_anew),
        cmocka_unit_test(test_a_change_of_mind_while_fetching),
        cmocka_unit_test(test_a_failure_is_told_and_tried_again),
        cmocka_unit_test(test_bad_answers_change_nothing),
        cmocka_unit_test(test_the_gateway_restarts),
        cmocka_unit_test(test_the_worker_restarts_with_its_cache),
        cmocka_unit_test(test_leaving_is_told),
        cmocka_unit_test(test_closing_as_soon_as_leaving_is_told),
        cmocka_unit_test(test_closing_while_fetching),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
