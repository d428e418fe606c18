/* When reports go out, and what becomes of their answers. Where nothing may come any more, the
 * interval is an hour. */
#include "tests/support/failing_malloc.h"
#include "tests/support/log_capture.h"
#include "tests/support/loop.h"
#include "tests/worker/support/control_gateway.h"
#include "worker/control/control_renewal.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HOUR_MS 3600000

typedef struct bench {
    uv_loop_t loop;
    control_gateway gateway;
    lh_control_renewal *renewal;
    int fills, answers, failures;
    int64_t lease_ms;             /* of the last answer */
    int64_t hurry_within_ms;      /* what the next answer's event hurries to; -1: nothing */
    bool closes, closing, closed; /* closes: in the next event */
} bench;

static void close_renewal(bench *b) {
    lh_control_renewal_close(b->renewal, loop_set_flag, &b->closed);
    b->closing = true;
    b->closes = false;
}

static void fill_report(void *context, lh_worker_report *report) {
    bench *b = context;
    assert_int_equal(report->instance, 0);
    report->instance = (uint64_t)++b->fills;
}

static void on_answer(void *context, const lh_assignment_reply *answer) {
    bench *b = context;
    b->answers++;
    b->lease_ms = answer->lease_ms;
    if (b->hurry_within_ms >= 0)
        lh_control_renewal_hurry(b->renewal, b->hurry_within_ms);
    b->hurry_within_ms = -1;
    if (b->closes)
        close_renewal(b);
}

static void on_failure(void *context) {
    bench *b = context;
    b->failures++;
    if (b->closes)
        close_renewal(b);
}

static void answer_renews_after(bench *b, int renew_ms) {
    snprintf(b->gateway.answer, sizeof b->gateway.answer,
             "{\"renew_ms\":%d,\"lease_ms\":%d,\"planned\":false,\"assignment\":null}", renew_ms,
             renew_ms == HOUR_MS ? renew_ms : renew_ms + 1000);
}

static void bench_open(bench *b, int renew_ms) {
    static const lh_control_renewal_events events = {
        .fill_report = fill_report, .on_answer = on_answer, .on_failure = on_failure};
    *b = (bench){.hurry_within_ms = -1};
    uv_loop_init(&b->loop);
    answer_renews_after(b, renew_ms);
    control_gateway_open(&b->gateway, &b->loop, NULL);
    assert_int_equal(lh_control_renewal_create(&b->loop, b->gateway.url, "w", NULL, &events, b,
                                               &b->renewal, NULL),
                     LH_OK);
}

static void bench_close(bench *b) {
    if (!b->closing)
        close_renewal(b);
    loop_run_until_set(&b->loop, &b->closed);
    control_gateway_close(&b->gateway);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&b->loop), 0);
}

static bool has_answers(void *context) {
    const bench *b = context;
    return b->answers + b->failures >= b->gateway.puts && b->gateway.puts > 0;
}

/* Until what has been reported is answered. */
static void settle(bench *b) {
    assert_true(loop_run_until(&b->loop, has_answers, b, 20000));
}

static void expect_quiet(bench *b) {
    int puts = b->gateway.puts;
    loop_run_for(&b->loop, 50);
    assert_int_equal(b->gateway.puts, puts);
}

static void test_reports_go_out_as_often_as_the_last_answer_says(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 1);
    control_gateway_await(&b.gateway, 1);
    assert_non_null(strstr(b.gateway.report, "\"instance\":\"0000000000000001\""));
    control_gateway_await(&b.gateway, 4);
    assert_non_null(strstr(b.gateway.report, "\"instance\":\"0000000000000005\""));
    settle(&b);
    assert_int_equal(b.lease_ms, 1001);
    answer_renews_after(&b, HOUR_MS);
    control_gateway_await(&b.gateway, 1);
    settle(&b);
    assert_int_equal(b.lease_ms, HOUR_MS);
    expect_quiet(&b);
    assert_int_equal(b.failures, 0);
    bench_close(&b);
}

static void test_what_has_changed_is_told_before_it_is_due(void **state) {
    (void)state;
    bench b;
    bench_open(&b, HOUR_MS);
    control_gateway_await(&b.gateway, 1);
    settle(&b);
    lh_control_renewal_hurry(b.renewal, 0);
    control_gateway_await(&b.gateway, 1);
    settle(&b);
    lh_control_renewal_hurry(b.renewal, 5);
    lh_control_renewal_hurry(b.renewal, HOUR_MS); /* later than what is due: it changes nothing */
    control_gateway_await(&b.gateway, 1);
    settle(&b);
    expect_quiet(&b);
    assert_int_equal(b.gateway.puts, 3);
    bench_close(&b);
}

/* One PUT at a time: what comes meanwhile goes out after its answer, as soon as the most urgent one
 * of it wants. */
static void test_what_changes_during_a_report_goes_out_after_it(void **state) {
    (void)state;
    for (int order = 0; order < 2; order++) {
        bench b;
        bench_open(&b, HOUR_MS);
        b.gateway.holds = true;
        control_gateway_await(&b.gateway, 1);
        lh_control_renewal_hurry(b.renewal, order ? HOUR_MS : 0);
        lh_control_renewal_hurry(b.renewal, order ? 0 : HOUR_MS);
        expect_quiet(&b);
        assert_int_equal(b.answers, 0);
        control_gateway_answer_held(&b.gateway);
        control_gateway_await(&b.gateway, 1);
        settle(&b);
        expect_quiet(&b); /* the haste was for one */
        assert_int_equal(b.fills, 2);
        bench_close(&b);
    }
}

static void test_an_answers_event_may_hurry(void **state) {
    (void)state;
    bench b;
    bench_open(&b, HOUR_MS);
    b.hurry_within_ms = 0;
    control_gateway_await(&b.gateway, 2);
    settle(&b);
    expect_quiet(&b);
    bench_close(&b);
}

/* Refused, unreadable or away: each is told, and the next report comes when it was due anyway. */
static void test_a_report_without_an_answer_is_told_and_the_next_one_goes_out(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 1);
    control_gateway_await(&b.gateway, 1);
    settle(&b);
    b.gateway.answer_status = 500;
    control_gateway_await(&b.gateway, 3);
    assert_true(b.failures > 0);
    b.gateway.answer_status = 200;
    strcpy(b.gateway.answer, "{\"renew_ms\":-1}");
    control_gateway_await(&b.gateway, 2);
    int answers = b.answers, failures = b.failures;
    control_gateway_await(&b.gateway, 2);
    assert_true(b.answers == answers && b.failures > failures);
    control_gateway_close(&b.gateway);
    failures = b.failures;
    while (b.failures < failures + 3)
        uv_run(&b.loop, UV_RUN_ONCE);
    answer_renews_after(&b, HOUR_MS);
    control_gateway_open(&b.gateway, &b.loop, NULL);
    while (b.answers == answers)
        uv_run(&b.loop, UV_RUN_ONCE);
    assert_int_equal(b.lease_ms, HOUR_MS);
    expect_quiet(&b);
    bench_close(&b);
}

/* How often the text is in the log; which is freed. */
static int count_lines(char *log, const char *text) {
    int count = 0;
    for (const char *at = log; (at = strstr(at, text)); at++)
        count++;
    free(log);
    return count;
}

/* However often nobody answers, one line says so; and one that the gateway is there. */
static void test_the_log_tells_when_the_gateway_goes_and_comes(void **state) {
    (void)state;
    bench b;
    log_capture_begin();
    bench_open(&b, 1);
    control_gateway_await(&b.gateway, 4);
    settle(&b);
    assert_int_equal(count_lines(log_capture_end(), "registered with the gateway"), 1);
    for (int turn = 0; turn < 2; turn++) {
        log_capture_begin();
        b.gateway.answer_status = 500;
        for (int failures = b.failures; b.failures < failures + 3;)
            uv_run(&b.loop, UV_RUN_ONCE);
        assert_int_equal(count_lines(log_capture_end(), "no answer of the gateway"), 1);
        log_capture_begin();
        b.gateway.answer_status = 200;
        for (int answers = b.answers; b.answers < answers + 3;)
            uv_run(&b.loop, UV_RUN_ONCE);
        assert_int_equal(count_lines(log_capture_end(), "the gateway answers again"), 1);
    }
    bench_close(&b);
}

static void test_closing_waits_for_the_report_and_no_event_comes_any_more(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 1);
    b.gateway.holds = true;
    control_gateway_await(&b.gateway, 1);
    close_renewal(&b);
    lh_control_renewal_hurry(b.renewal, 0);
    expect_quiet(&b);
    assert_false(b.closed);
    control_gateway_answer_held(&b.gateway);
    loop_run_until_set(&b.loop, &b.closed);
    assert_int_equal(b.answers + b.failures, 0);
    bench_close(&b);
}

static void test_closing_from_an_event(void **state) {
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        bench b;
        bench_open(&b, 1);
        b.gateway.answer_status = fails ? 500 : 200;
        b.closes = true;
        loop_run_until_set(&b.loop, &b.closed);
        assert_int_equal(b.answers, !fails);
        assert_int_equal(b.gateway.puts, 1);
        bench_close(&b);
    }
}

static void test_closing_before_the_first_report(void **state) {
    (void)state;
    bench b;
    bench_open(&b, 1);
    close_renewal(&b);
    lh_control_renewal_hurry(b.renewal, 0);
    bench_close(&b);
    assert_int_equal(b.fills, 0);
}

static void test_without_memory_or_with_a_bad_url_there_is_no_renewal(void **state) {
    (void)state;
    static const lh_control_renewal_events events = {
        .fill_report = fill_report, .on_answer = on_answer, .on_failure = on_failure};
    static char url[2000];
    uv_loop_t loop;
    lh_control_renewal *renewal = NULL;
    uv_loop_init(&loop);
    memset(url, 'x', sizeof url - 1);
    assert_int_equal(
        lh_control_renewal_create(&loop, url, "w", NULL, &events, NULL, &renewal, NULL),
        LH_ERR_INVALID);
    for (size_t n = 1; n <= 2; n++) {
        failing_malloc_arm(n);
        assert_int_equal(lh_control_renewal_create(&loop, "http://127.0.0.1:1", "w", NULL, &events,
                                                   NULL, &renewal, NULL),
                         LH_ERR_NO_MEMORY);
        assert_true(failing_malloc_disarm());
    }
    assert_int_equal(uv_loop_close(&loop), 0);
}

/* Soon, for it may be the process before this one; and both kinds of trouble are told. */
static void test_a_name_that_is_taken_is_asked_for_again(void **state) {
    (void)state;
    bench b;
    bench_open(&b, HOUR_MS);
    control_gateway_await(&b.gateway, 1);
    settle(&b);
    b.gateway.answer_status = 409;
    log_capture_begin();
    lh_control_renewal_hurry(b.renewal, 0);
    control_gateway_await(&b.gateway, 3);
    settle(&b);
    assert_int_equal(b.failures, 3);
    assert_int_equal(count_lines(log_capture_end(), "the gateway refuses this worker, trying on"),
                     1);
    b.gateway.answer_status = 403;
    log_capture_begin();
    lh_control_renewal_hurry(b.renewal, 0);
    control_gateway_await(&b.gateway, 1);
    settle(&b);
    assert_int_equal(count_lines(log_capture_end(), "the gateway refuses this worker, trying on"),
                     1);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reports_go_out_as_often_as_the_last_answer_says),
        cmocka_unit_test(test_what_has_changed_is_told_before_it_is_due),
        cmocka_unit_test(test_what_changes_during_a_report_goes_out_after_it),
        cmocka_unit_test(test_an_answers_event_may_hurry),
        cmocka_unit_test(test_a_report_without_an_answer_is_told_and_the_next_one_goes_out),
        cmocka_unit_test(test_the_log_tells_when_the_gateway_goes_and_comes),
        cmocka_unit_test(test_a_name_that_is_taken_is_asked_for_again),
        cmocka_unit_test(test_closing_waits_for_the_report_and_no_event_comes_any_more),
        cmocka_unit_test(test_closing_from_an_event),
        cmocka_unit_test(test_closing_before_the_first_report),
        cmocka_unit_test(test_without_memory_or_with_a_bad_url_there_is_no_renewal),
    };
    json_set_alloc_funcs(malloc, free); /* the counted ones */
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
