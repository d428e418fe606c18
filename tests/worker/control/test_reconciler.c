/* A worker and a scripted gateway: from a report to a stage that serves, and through every change
 * of mind; with the gateway away, wrong and back again. */
#include "tests/support/failing_malloc.h"
#include "tests/support/loop.h"
#include "tests/worker/support/reconciler_bench.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static void test_from_a_report_to_tokens(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    expect_report(&b, "\"assignment\":null");
    assert_true(report_has(&b, "\"site\":\"s\"") && report_has(&b, "\"plain\":\"127.0.0.1:1\""));
    assert_int_equal(run_step(&b, 10), LH_ERR_NOT_FOUND);
    want(&b, &wanted_whole);
    expect_report(&b, "\"assignment\":{\"generation\":10,\"state\":\"ready\"");
    expect_report(&b, "\"next\":{\"connected\":true");
    char loaded[200];
    snprintf(loaded, sizeof loaded,
             "\"loaded\":{\"first_layer\":0,\"last_layer\":4,\"model\":\"%s\"}", b.header_sha256);
    assert_true(report_has(&b, loaded));
    assert_true(report_number(&b, "done_bytes") > 0); /* the assignment's */
    assert_int_equal(report_number(&b, "done_bytes"), report_number(&b, "total_bytes"));
    assert_int_equal(report_number(&b, "threads"), 2);
    assert_int_equal(report_number(&b, "memory_bytes"), 1u << 30);
    expect_report(&b, "\"kv\":{\"pages_total\":");
    assert_true(report_has(&b, "\"compute\":{\"points\":[{\"rows\":1,")); /* as calibrated */
    uint64_t pages = report_number(&b, "pages_total");
    assert_true(pages > 1 && report_number(&b, "pages_free") == pages);
    assert_int_equal(report_number(&b, "page_positions"), LH_KV_PAGE_POSITIONS);
    assert_int_equal(pages * report_number(&b, "page_bytes"), report_number(&b, "kv_bytes"));
    assert_true(report_has(&b, "\"sequences\":0,\"epoch\":10}"));
    assert_int_equal(run_step(&b, 10), LH_OK);
    assert_int_equal(b.gateway.results, 1);
    assert_int_equal(run_step(&b, 9), LH_ERR_STALE);
    expect_report(&b, "\"steps\":{\"active\":0,\"done\":1,\"failed\":2}");
    assert_int_equal(report_number(&b, "pages_free"), pages - 1);
    assert_true(report_has(&b, "\"sequences\":1,"));
    reconciler_bench_close(&b);
}

static void test_a_new_epoch_keeps_the_weights(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    assert_int_equal(run_step(&b, 10), LH_OK);
    unsigned requests = range_server_requests(b.files);
    wanted next = wanted_whole;
    next.generation = 11;
    next.wire = "f16";
    want(&b, &next);
    expect_report(&b, "\"generation\":11,\"state\":\"ready\"");
    /* the cache is empty: the sequence begins at 0 again */
    assert_int_equal(run_step(&b, 11), LH_OK);
    assert_int_equal(range_server_requests(b.files), requests);
    reconciler_bench_close(&b);
}

static void test_without_a_plan_everything_stays(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    want_what_is_there(&b);
    await_reports(&b, 3);
    assert_true(report_has(&b, "\"generation\":10,\"state\":\"ready\""));
    assert_int_equal(run_step(&b, 10), LH_OK);
    reconciler_bench_close(&b);
}

/* What an answer changes is reported at once, and so is what else happens meanwhile: one PUT at a
 * time. */
static void test_haste_upon_haste(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    wanted next = wanted_whole;
    for (next.generation = 11; next.generation < 20; next.generation++) {
        want(&b, &next);
        int puts = b.gateway.puts;
        while (b.gateway.puts < puts + 3) {
            lh_reconciler_leave(b.reconciler, loop_set_flag, &b.told);
            uv_run(&b.loop, UV_RUN_ONCE);
        }
    }
    expect_report(&b, "\"generation\":19,\"state\":\"ready\"");
    assert_false(b.told);
    reconciler_bench_close(&b);
}

static void test_other_layers_are_built_anew(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
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
    reconciler_bench_close(&b);
}

/* Another model of the same shape: its layers are other numbers. */
static void test_another_models_stage_is_not_kept(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    expect_report(&b, "\"kv\":{\"pages_total\":");
    wanted next = wanted_whole;
    next.generation = 11;
    b.header_sha256[0] = b.header_sha256[0] == '0' ? '1' : '0';
    want(&b, &next);
    expect_report(&b, "\"generation\":11,\"state\":\"failed\""); /* nobody has its weights */
    assert_true(report_has(&b, "\"loaded\":null"));
    reconciler_bench_close(&b);
}

static void test_a_change_of_mind_while_fetching(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    range_server_fail(b.files, RANGE_SILENT, 100); /* longer than anybody waits */
    want(&b, &wanted_whole);
    expect_report(&b, "\"state\":\"fetching\"");
    want_nothing(&b);
    expect_report(&b, "\"assignment\":null");
    range_server_fail(b.files, RANGE_SOUND, 0);
    want(&b, &wanted_whole);
    expect_report(&b, "\"state\":\"ready\"");
    reconciler_bench_close(&b);
}

/* Weights that stop half way: the report says how far they are. */
static void test_progress_is_told(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    wanted half = wanted_whole;
    half.last_layer = 2;
    want(&b, &half);
    expect_report(&b, "\"state\":\"ready\"");
    uint64_t bytes_of_half = report_number(&b, "total_bytes");
    assert_true(bytes_of_half > 0);
    assert_int_equal(report_number(&b, "done_bytes"), bytes_of_half);
    range_server_fail(b.files, RANGE_STALLS, 1);
    wanted next = wanted_whole;
    next.generation = 11;
    want(&b, &next);
    expect_report(&b, "\"generation\":11,\"state\":\"fetching\"");
    while (report_has(&b, "\"state\":\"fetching\"") &&
           report_number(&b, "done_bytes") < bytes_of_half)
        await_reports(&b, 1);
    assert_true(report_number(&b, "done_bytes") >= bytes_of_half);
    assert_true(report_number(&b, "total_bytes") > bytes_of_half);
    reconciler_bench_close(&b);
}

/* The plan was heard: that the gateway has gone since does not keep the worker from its place. */
static void test_a_plan_is_carried_out_without_the_gateway(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    want(&b, &wanted_whole);
    expect_report(&b, "\"assignment\":{\"generation\":10");
    close_gateway(&b);
    lh_status status = LH_ERR_NOT_FOUND; /* not in that chain */
    for (int i = 0; i < 1000 && status == LH_ERR_NOT_FOUND; i++) {
        loop_run_for(&b.loop, 20);
        status = run_step(&b, 10);
    }
    assert_int_equal(status, LH_ERR_UNAVAILABLE); /* the results cannot go on */
    open_gateway(&b);
    reconciler_bench_close(&b);
}

static void test_a_failure_is_told_and_tried_again(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
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
    reconciler_bench_close(&b);
}

/* Not even where the answers after the first one name other layers of it. */
static void test_a_model_that_cannot_be_computed_is_not_tried_again(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_with(&b, "mamba");
    want(&b, &wanted_whole);
    expect_report(&b, "\"generation\":10,\"state\":\"failed\"");
    assert_true(report_has(&b, "\"final\":true"));
    assert_true(report_has(&b, "\\\"mamba\\\" is not supported (docs/"));
    unsigned requests = range_server_requests(b.files);
    wanted next = wanted_whole;
    next.generation = 11;
    next.last_layer = 2;
    want(&b, &next);
    expect_report(&b, "\"generation\":11,\"state\":\"failed\"");
    loop_run_for(&b.loop, 1200); /* longer than the first pause of another failure */
    assert_true(report_has(&b, "\"final\":true"));
    assert_int_equal(range_server_requests(b.files), requests);
    want_prepared(&b, &next, true);
    expect_report(&b, "\"hold\":true,\"state\":\"failed\"");
    want_nothing(&b);
    expect_report(&b, "\"assignment\":null");
    reconciler_bench_close(&b);
}

static void test_bad_answers_change_nothing(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    const char *bad[] = {
        "",
        "nonsense",
        "{}",
        "[1]",
        "{\"renew_ms\":-5}",
        "{\"renew_ms\":20,\"lease_ms\":1000,\"planned\":true,\"assignment\":{\"generation\":11}}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        strcpy(b.gateway.answer, bad[i]);
        await_reports(&b, 2);
        assert_true(report_has(&b, "\"generation\":10,\"state\":\"ready\""));
    }
    b.gateway.answer_status = 500;
    await_reports(&b, 2);
    assert_int_equal(run_step(&b, 10), LH_OK);
    reconciler_bench_close(&b);
}

/* Another digit would be another stage. */
static void test_a_garbled_answer_changes_nothing(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    const wanted half = {11, 0, 2, wanted_whole.context, wanted_whole.wire, NULL};
    want(&b, &half);
    b.gateway.answer_damage =
        (size_t)(strstr(b.gateway.answer, "\"last_layer\":") - b.gateway.answer) +
        strlen("\"last_layer\":");
    await_reports(&b, 3);
    assert_true(report_has(&b, "\"generation\":10,\"state\":\"ready\""));
    b.gateway.answer_damage = 0;
    expect_report(&b, "\"generation\":11,\"state\":\"ready\"");
    reconciler_bench_close(&b);
}

static void test_the_gateway_restarts(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    unsigned requests = range_server_requests(b.files);
    close_gateway(&b);
    b.gateway.report[0] = '\0';
    for (int i = 0; i < 20; i++) {
        uv_run(&b.loop, UV_RUN_NOWAIT);
        usleep(5000);
    }
    open_gateway(&b);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    expect_report(&b, "\"next\":{\"connected\":true");
    assert_int_equal(run_step(&b, 10), LH_OK);
    assert_int_equal(range_server_requests(b.files), requests);
    reconciler_bench_close(&b);
}

static void test_the_worker_restarts_with_its_cache(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    char instance[64];
    snprintf(instance, sizeof(instance), "%.30s", strstr(b.gateway.report, "\"instance\""));
    stop_worker(&b);
    range_server_fail(b.files, RANGE_404, 1000); /* no weights any more: they are in the cache */
    b.gateway.report[0] = '\0';
    start_worker(&b);
    expect_report(&b, "\"state\":\"ready\"");
    assert_false(report_has(&b, instance));
    reconciler_bench_close(&b);
}

/* The interval is an hour: what changes does not wait for it. */
static void test_what_changes_is_told_at_once(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    want(&b, &wanted_whole);
    renew_after_an_hour(&b);
    expect_report(&b, "\"assignment\":{\"generation\":10");
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    expect_report(&b, "\"next\":{\"connected\":true");
    want_nothing(&b);
    renew_after_an_hour(&b);
    lh_reconciler_leave(b.reconciler, loop_set_flag, &b.told);
    expect_report(&b, "\"leaving\":true");
    expect_report(&b, "\"assignment\":null");
    reconciler_bench_close(&b);
}

/* A step that failed: perhaps the chain is formed anew, and the answer says how. */
/* The next answer is an hour away, and the weights do not come. */
static void test_what_is_begun_is_told_at_once(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    range_server_fail(b.files, RANGE_SILENT, 100);
    want(&b, &wanted_whole);
    renew_after_an_hour(&b);
    expect_report(&b, "\"assignment\":{\"generation\":10,\"state\":\"fetching\"");
    reconciler_bench_close(&b);
}

/* The hop has no port; then it has one, and nothing has to be loaded again. */
static void test_a_place_that_cannot_be_taken_is_told(void **state) {
    (void)state;
    static const char gateway[] = "\"next\":{\"gateway\":true}}}";
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    unsigned requests = range_server_requests(b.files);
    wanted next = wanted_whole;
    next.generation = 11;
    want(&b, &next);
    char *at = strstr(b.gateway.answer, gateway);
    assert_non_null(at);
    strcpy(at, "\"next\":{\"gateway\":false,\"name\":\"attic\",\"address\":\"nobody\","
               "\"tls\":false}}}");
    expect_report(&b, "\"generation\":11,\"state\":\"failed\"");
    assert_true(report_has(&b, "nobody"));
    next.generation = 12;
    want(&b, &next);
    expect_report(&b, "\"generation\":12,\"state\":\"ready\"");
    assert_int_equal(run_step(&b, 12), LH_OK);
    assert_int_equal(range_server_requests(b.files), requests);
    reconciler_bench_close(&b);
}

static void test_a_failed_step_is_told_at_once(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    expect_report(&b, "\"next\":{\"connected\":true");
    renew_after_an_hour(&b);
    await_reports(&b, 1);
    loop_run_for(&b.loop, 50);
    assert_int_equal(run_step(&b, 9), LH_ERR_STALE);
    expect_report(&b, "\"failed\":1}");
    reconciler_bench_close(&b);
}

/* It serves until it is let go: by that word, or by an older gateway that takes its assignment
 * away. */
static void test_leaving_waits_for_the_gateways_word(void **state) {
    (void)state;
    for (int knows = 0; knows < 2; knows++) {
        reconciler_bench b;
        reconciler_bench_open_serving(&b);
        assert_true(report_has(&b, "\"leaving\":false"));
        if (knows)
            say_of_leaving(&b, "{\"may_go\":false,\"reason\":\"others load\"}");
        lh_reconciler_leave(b.reconciler, loop_set_flag, &b.told);
        expect_report(&b, "\"leaving\":true");
        await_reports(&b, 3);
        assert_false(b.told);
        assert_int_equal(run_step(&b, 10), LH_OK);
        want_nothing(&b);
        if (knows) {
            want(&b, &wanted_whole);
            say_of_leaving(&b, "{\"may_go\":true,\"reason\":\"others have it\"}");
        }
        expect_flag(&b, &b.told);
        reconciler_bench_close(&b);
    }
}

static void count_call(void *count) {
    ++*(int *)count;
}

static void test_it_is_let_go_once(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    await_reports(&b, 1);
    int calls = 0;
    say_of_leaving(&b, "{\"may_go\":true,\"reason\":\"nothing to wait for\"}");
    lh_reconciler_leave(b.reconciler, count_call, &calls);
    await_reports(&b, 4);
    assert_int_equal(calls, 1);
    reconciler_bench_close(&b);
}

static void test_leaving_does_not_wait_for_a_gateway_that_is_gone(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    close_gateway(&b);
    lh_reconciler_leave(b.reconciler, loop_set_flag, &b.told);
    expect_flag(&b, &b.told);
    open_gateway(&b);
    reconciler_bench_close(&b);
}

/* While the old stage serves; then it is there at once, without a byte fetched or loaded again. */
static void test_a_prepared_stage_takes_the_place_of_the_old_one(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    wanted next = {
        .generation = 11, .first_layer = 0, .last_layer = 3, .context = 256, .wire = "f32"};
    want_prepared(&b, &next, true);
    expect_report(
        &b, "\"prepared\":{\"first_layer\":0,\"last_layer\":3,\"hold\":true,\"state\":\"ready\"");
    assert_true(report_has(&b, "\"generation\":10,\"state\":\"ready\""));
    assert_int_equal(run_step(&b, 10), LH_OK);
    next.last_layer = 4;
    next.first_layer = 1;
    want(&b, &wanted_whole);
    want_prepared(&b, &next, true); /* another one: the first is dropped */
    expect_report(
        &b, "\"prepared\":{\"first_layer\":1,\"last_layer\":4,\"hold\":true,\"state\":\"ready\"");
    unsigned requests = range_server_requests(b.files);
    want(&b, &next);
    expect_report(&b, "\"generation\":11,\"state\":\"ready\"");
    assert_true(report_has(&b, "\"prepared\":null"));
    assert_int_equal(range_server_requests(b.files), requests);
    want(&b, &wanted_whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    assert_int_equal(run_step(&b, 10), LH_OK);
    reconciler_bench_close(&b);
}

/* An assignment that comes before its stage is ready waits for it rather than to load it twice. */
/* By a spare; and the connection is there when the chain is. */
static void test_a_tried_hop_becomes_the_next_one(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    expect_report(&b, "\"trial\":null");
    want_tried(&b, NULL);
    expect_report(
        &b,
        "\"trial\":{\"next\":null,\"address\":null,\"state\":\"proven\",\"error\":\"\",\"hop\":{");
    await_reports(&b, 2);
    assert_int_equal(b.gateway.trials, 1);
    want(&b, &wanted_whole); /* nothing to try any more: it stays until it is in place */
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    assert_true(report_has(&b, "\"next\":{\"connected\":true"));
    assert_true(report_has(&b, "\"next_error\":null,\"trial\":null"));
    assert_int_equal(run_step(&b, 10), LH_OK);
    assert_int_equal(b.gateway.results, 1);
    assert_string_equal(b.gateway.result_peer, b.gateway.trial_peer);
    reconciler_bench_close(&b);
}

static void test_a_trial_ends_where_another_hop_is_wanted(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    want_tried(&b, "127.0.0.1:1");
    expect_report(&b, "\"address\":\"127.0.0.1:1\",\"state\":\"failed\"");
    range_server_fail(b.files, RANGE_SILENT, 100); /* the assignment is not in place for long */
    want(&b, &wanted_whole);
    expect_report(&b, "\"trial\":null");
    assert_false(report_has(&b, "\"state\":\"ready\""));
    reconciler_bench_close(&b);
}

static void test_a_hop_that_cannot_be_used_is_told_and_harms_nothing(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    want_tried(&b, "127.0.0.1:1");
    expect_report(&b,
                  "\"trial\":{\"next\":\"attic\",\"address\":\"127.0.0.1:1\",\"state\":\"failed\","
                  "\"error\":\"127.0.0.1:1: connection refused\",\"hop\":{");
    assert_true(report_has(&b, "\"generation\":10,\"state\":\"ready\""));
    assert_int_equal(run_step(&b, 10), LH_OK);
    want_what_is_there(&b); /* a gateway without a plan: it goes on */
    await_reports(&b, 2);
    assert_true(report_has(&b, "\"state\":\"failed\",\"error\":\"127.0.0.1:1"));
    want(&b, &wanted_whole);
    expect_report(&b, "\"trial\":null");
    want_tried(&b, "nobody"); /* without a port */
    expect_report(&b, "\"address\":\"nobody\",\"state\":\"failed\"");
    reconciler_bench_close(&b);
}

/* A spare measures too; when nothing is asked any more, nothing is said. */
static void test_a_link_is_surveyed_and_told(void **state) {
    (void)state;
    reconciler_bench b;
    char expected[200];
    reconciler_bench_open(&b);
    int port = lh_server_port(b.server, false);
    expect_report(&b, "\"surveyed\":null");
    want_surveyed(&b, port);
    snprintf(expected, sizeof expected,
             "\"surveyed\":{\"next\":\"w\",\"address\":\"127.0.0.1:%d\",\"state\":\"proven\","
             "\"error\":\"\",\"hop\":{\"connected\":true",
             port);
    expect_report(&b, expected);
    want_what_is_there(&b);
    expect_report(&b, "\"surveyed\":null");
    reconciler_bench_close(&b);
}

static void test_why_the_next_hop_is_down_is_told(void **state) {
    (void)state;
    reconciler_bench b;
    char expected[128];
    reconciler_bench_open_serving(&b);
    snprintf(expected, sizeof expected, "\"next_error\":\"127.0.0.1:%d: ", b.gateway.port);
    close_gateway(&b);
    lh_server_status status = {.next_error = ""};
    while (status.next_error[0] == '\0') {
        uv_run(&b.loop, UV_RUN_ONCE);
        lh_server_read_status(b.server, &status);
    }
    open_gateway(&b);
    expect_report(&b, expected);
    expect_report(&b, "\"next_error\":null");
    reconciler_bench_close(&b);
}

static void test_an_assignment_waits_for_what_is_being_prepared(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    want(&b, &wanted_whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    unsigned requests = range_server_requests(b.files);
    reconciler_bench_close(&b);
    reconciler_bench_open(&b);
    want_prepared(&b, &wanted_whole, true);
    await_reports(&b, 1);
    want(&b, &wanted_whole);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    assert_int_equal(range_server_requests(b.files), requests);
    assert_int_equal(run_step(&b, 10), LH_OK);
    reconciler_bench_close(&b);
}

/* The plan was heard before. */
static void test_what_was_prepared_takes_its_place_without_the_gateway(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    want_prepared(&b, &wanted_whole, true);
    await_reports(&b, 1);
    want(&b, &wanted_whole);
    expect_report(&b, "\"assignment\":{\"generation\":10");
    close_gateway(&b);
    lh_status status = LH_ERR_NOT_FOUND; /* not in that chain */
    for (int i = 0; i < 1000 && status == LH_ERR_NOT_FOUND; i++) {
        loop_run_for(&b.loop, 20);
        status = run_step(&b, 10);
    }
    assert_int_equal(status, LH_ERR_UNAVAILABLE); /* the results cannot go on */
    open_gateway(&b);
    reconciler_bench_close(&b);
}

/* Memory for one stage: its successor's weights come into the cache, no more. */
static void test_weights_alone_are_prepared(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    wanted half = wanted_whole;
    half.last_layer = 2;
    want(&b, &half);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    want_prepared(&b, &wanted_whole, false);
    expect_report(
        &b, "\"prepared\":{\"first_layer\":0,\"last_layer\":4,\"hold\":false,\"state\":\"ready\"");
    range_server_fail(b.files, RANGE_404, 1000); /* from now on there is the cache alone */
    wanted next = wanted_whole;
    next.generation = 11;
    want(&b, &next);
    expect_report(&b, "\"generation\":11,\"state\":\"ready\"");
    assert_int_equal(run_step(&b, 11), LH_OK);
    reconciler_bench_close(&b);
}

/* First the weights alone, then the stage, too: what is there is not what is asked for now. */
static void test_what_is_prepared_is_as_much_as_was_asked(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    wanted half = wanted_whole;
    half.last_layer = 2;
    want_prepared(&b, &half, false);
    expect_report(
        &b, "\"prepared\":{\"first_layer\":0,\"last_layer\":2,\"hold\":false,\"state\":\"ready\"");
    want(&b, &wanted_whole);
    want_prepared(&b, &half, true);
    expect_report(
        &b, "\"prepared\":{\"first_layer\":0,\"last_layer\":2,\"hold\":true,\"state\":\"ready\"");
    want(&b, &wanted_whole);
    want_prepared(&b, &half, false); /* memory is wanted back: the stage goes, the weights stay */
    expect_report(
        &b, "\"prepared\":{\"first_layer\":0,\"last_layer\":2,\"hold\":false,\"state\":\"ready\"");
    wanted other = half;
    other.context = 128; /* the same layers, loaded otherwise */
    want(&b, &wanted_whole);
    want_prepared(&b, &other, true);
    expect_report(
        &b, "\"prepared\":{\"first_layer\":0,\"last_layer\":2,\"hold\":true,\"state\":\"ready\"");
    other.generation = 11;
    unsigned requests = range_server_requests(b.files);
    want(&b, &other);
    expect_report(&b, "\"generation\":11,\"state\":\"ready\"");
    assert_true(report_has(&b, "\"prepared\":null"));
    assert_int_equal(range_server_requests(b.files), requests);
    reconciler_bench_close(&b);
}

static void test_what_cannot_be_prepared_is_told_and_harms_nothing(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    wanted bad = wanted_whole;
    bad.context = 100000; /* more than the model has */
    want_prepared(&b, &bad, true);
    expect_report(
        &b, "\"prepared\":{\"first_layer\":0,\"last_layer\":4,\"hold\":true,\"state\":\"failed\"");
    assert_int_equal(run_step(&b, 10), LH_OK);
    want(&b, &wanted_whole);
    expect_report(&b, "\"prepared\":null");
    assert_true(report_has(&b, "\"generation\":10,\"state\":\"ready\""));
    reconciler_bench_close(&b);
}

/* Its weights would not come for long. */
static void test_what_is_no_longer_to_be_prepared_is_given_up(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    wanted half = wanted_whole;
    half.last_layer = 2;
    range_server_fail(b.files, RANGE_SILENT, 100); /* longer than anybody waits */
    want_prepared(&b, &wanted_whole, true);
    expect_report(&b, "\"last_layer\":4,\"hold\":true,\"state\":\"fetching\"");
    want_nothing(&b);
    want_prepared(&b, &half, true);
    expect_report(&b, "\"last_layer\":2,\"hold\":true,\"state\":\"fetching\"");
    reconciler_bench_close(&b);
}

/* Threads of this process that give way to the others by so much. */
static int threads_of_niceness(int niceness) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));)
        count += entry->d_name[0] != '.' &&
                 getpriority(PRIO_PROCESS, (id_t)atoi(entry->d_name)) == niceness;
    closedir(folder);
    return count;
}

/* A thread gives way as soon as it runs, which on a busy machine may be a while after its start. */
static bool so_many_give_way(int count) {
    int left = 10000;
    while (threads_of_niceness(5) < count && left-- > 0)
        usleep(1000);
    return threads_of_niceness(5) >= count;
}

/* The stage that serves goes on computing on the worker's, and first. Who is nicer already needs
 * privileges to be less so. */
static void test_a_stage_is_prepared_on_threads_of_its_own(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    wanted half = wanted_whole;
    half.last_layer = 2;
    want(&b, &half);
    expect_report(&b, "\"generation\":10,\"state\":\"ready\"");
    range_server_fail(b.files, RANGE_SILENT, 100); /* longer than anybody waits */
    int own = getpriority(PRIO_PROCESS, 0), before = threads_of_niceness(5);
    want_prepared(&b, &wanted_whole, true);
    expect_report(&b, "\"hold\":true,\"state\":\"fetching\"");
    if (own < 5 || geteuid() == 0)
        assert_true(so_many_give_way(before + 2));
    reconciler_bench_close(&b);
}

/* Also where it is what is in place, so that two of it are there. */
static void test_what_is_in_place_is_not_kept_twice(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    want_prepared(&b, &wanted_whole, true);
    expect_report(&b, "\"prepared\":{\"first_layer\":0,\"last_layer\":4,\"hold\":true,"
                      "\"state\":\"ready\"");
    want(&b, &wanted_whole);
    expect_report(&b, "\"prepared\":null");
    assert_true(report_has(&b, "\"generation\":10,\"state\":\"ready\""));
    reconciler_bench_close(&b);
}

static void test_closing_while_preparing(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    range_server_fail(b.files, RANGE_SILENT, 100); /* longer than anybody waits */
    want_prepared(&b, &wanted_whole, true);
    expect_report(&b, "\"state\":\"fetching\"");
    reconciler_bench_close(&b);
}

static void close_server(void *context) {
    reconciler_bench *b = context;
    b->server_closed = false;
    lh_server_close(b->server, loop_set_flag, &b->server_closed);
}

static void close_reconciler_then_server(void *context) {
    reconciler_bench *b = context;
    lh_reconciler_close(b->reconciler, close_server, b);
}

static void test_closing_as_soon_as_it_may_go(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    want_nothing(&b);
    b.server_closed = false;
    /* While the stage is being taken away: the server is closed from within its own callback. */
    lh_reconciler_leave(b.reconciler, close_reconciler_then_server, &b);
    expect_flag(&b, &b.server_closed);
    start_worker(&b);
    reconciler_bench_close(&b);
}

/* As the metrics do. */
static void test_what_it_would_report_is_read_while_it_closes(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open_serving(&b);
    lh_worker_report report;
    b.reconciler_closed = false;
    lh_reconciler_close(b.reconciler, loop_set_flag, &b.reconciler_closed);
    assert_false(b.reconciler_closed);
    lh_reconciler_read_report(b.reconciler, &report);
    assert_int_equal(report.prepared.state, LH_WORKER_IDLE);
    expect_flag(&b, &b.reconciler_closed);
    lh_server_close(b.server, loop_set_flag, &b.server_closed);
    expect_flag(&b, &b.server_closed);
    start_worker(&b);
    reconciler_bench_close(&b);
}

static void test_closing_while_fetching(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    range_server_fail(b.files, RANGE_SILENT, 100); /* longer than anybody waits */
    want(&b, &wanted_whole);
    expect_report(&b, "\"state\":\"fetching\"");
    reconciler_bench_close(&b);
}

static void test_without_memory_there_is_no_reconciler(void **state) {
    (void)state;
    reconciler_bench b;
    reconciler_bench_open(&b);
    stop_worker(&b);
    const lh_reconciler_options options = {
        .loop = &b.loop, .name = "w", .job = {.gateway_url = b.gateway.url}};
    for (size_t n = 1; n <= 4; n++) { /* itself, the prepared stage, the renewal and its client */
        failing_malloc_arm(n);
        lh_status status = lh_reconciler_create(&options, &b.reconciler, NULL);
        assert_true(failing_malloc_disarm());
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
    start_worker(&b);
    reconciler_bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_a_report_to_tokens),
        cmocka_unit_test(test_a_new_epoch_keeps_the_weights),
        cmocka_unit_test(test_without_a_plan_everything_stays),
        cmocka_unit_test(test_haste_upon_haste),
        cmocka_unit_test(test_other_layers_are_built_anew),
        cmocka_unit_test(test_another_models_stage_is_not_kept),
        cmocka_unit_test(test_a_change_of_mind_while_fetching),
        cmocka_unit_test(test_progress_is_told),
        cmocka_unit_test(test_a_plan_is_carried_out_without_the_gateway),
        cmocka_unit_test(test_a_failure_is_told_and_tried_again),
        cmocka_unit_test(test_a_model_that_cannot_be_computed_is_not_tried_again),
        cmocka_unit_test(test_bad_answers_change_nothing),
        cmocka_unit_test(test_a_garbled_answer_changes_nothing),
        cmocka_unit_test(test_the_gateway_restarts),
        cmocka_unit_test(test_the_worker_restarts_with_its_cache),
        cmocka_unit_test(test_what_changes_is_told_at_once),
        cmocka_unit_test(test_a_failed_step_is_told_at_once),
        cmocka_unit_test(test_what_is_begun_is_told_at_once),
        cmocka_unit_test(test_a_place_that_cannot_be_taken_is_told),
        cmocka_unit_test(test_leaving_waits_for_the_gateways_word),
        cmocka_unit_test(test_it_is_let_go_once),
        cmocka_unit_test(test_leaving_does_not_wait_for_a_gateway_that_is_gone),
        cmocka_unit_test(test_a_prepared_stage_takes_the_place_of_the_old_one),
        cmocka_unit_test(test_a_tried_hop_becomes_the_next_one),
        cmocka_unit_test(test_a_trial_ends_where_another_hop_is_wanted),
        cmocka_unit_test(test_a_hop_that_cannot_be_used_is_told_and_harms_nothing),
        cmocka_unit_test(test_a_link_is_surveyed_and_told),
        cmocka_unit_test(test_why_the_next_hop_is_down_is_told),
        cmocka_unit_test(test_an_assignment_waits_for_what_is_being_prepared),
        cmocka_unit_test(test_what_was_prepared_takes_its_place_without_the_gateway),
        cmocka_unit_test(test_weights_alone_are_prepared),
        cmocka_unit_test(test_what_is_prepared_is_as_much_as_was_asked),
        cmocka_unit_test(test_what_cannot_be_prepared_is_told_and_harms_nothing),
        cmocka_unit_test(test_what_is_no_longer_to_be_prepared_is_given_up),
        cmocka_unit_test(test_a_stage_is_prepared_on_threads_of_its_own),
        cmocka_unit_test(test_what_is_in_place_is_not_kept_twice),
        cmocka_unit_test(test_closing_while_preparing),
        cmocka_unit_test(test_closing_as_soon_as_it_may_go),
        cmocka_unit_test(test_what_it_would_report_is_read_while_it_closes),
        cmocka_unit_test(test_closing_while_fetching),
        cmocka_unit_test(test_without_memory_there_is_no_reconciler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
