/* What a chain's controller wants, done over a real connection, and what comes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "gateway/engine/chain_driver.h"
#include "tests/gateway/support/scheduler_bench.h"
#include "tests/gateway/support/step_peer.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/loop.h"

#include <stdio.h>
#include <string.h>

static uv_loop_t loop;
static step_peer peer;
static lh_chain_controller *controller;
static lh_chain_driver *driver;
static lh_trace_store *traces;
static const lh_tls_options certificates; /* no connection uses them */
static uint32_t news;

static void on_news(void *context) {
    assert_ptr_equal(context, &news);
    news++;
}

static lh_status create_driver(const lh_tls_options *tls) {
    const lh_chain_driver_options options = {.loop = &loop,
                                             .name = "main",
                                             .controller = controller,
                                             .tls = tls,
                                             .limits = lh_h2_default_limits(),
                                             .traces = traces,
                                             .sequences_max = 4,
                                             .on_news = on_news,
                                             .context = &news};
    return lh_chain_driver_create(&options, &driver, NULL);
}

static int set_up(void **state) {
    (void)state;
    const lh_fleet_options fleet = fleet_of_four_layers(1);
    const lh_scheduler_options scheduler = options_of(16);
    lh_log_set_level(LH_LOG_ERROR);
    memset(ears, 0, sizeof ears);
    news = 0;
    driver = NULL;
    uv_loop_init(&loop);
    step_peer_open(&peer, &loop);
    assert_int_equal(lh_trace_store_create(4, 1 << 20, &traces, NULL), LH_OK);
    return lh_chain_controller_create(&fleet, &scheduler, &bench_sink, lh_clock_us(), &controller,
                                      NULL) != LH_OK;
}

static void close_driver(void) {
    bool is_closed = false;
    uint32_t before = news;
    lh_chain_driver_close(driver, loop_set_flag, &is_closed);
    driver = NULL;
    assert_false(is_closed); /* from the loop */
    loop_run_until_set(&loop, &is_closed);
    assert_int_equal(news, before);
}

static int tear_down(void **state) {
    (void)state;
    if (driver)
        close_driver();
    step_peer_close(&peer);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    lh_chain_controller_destroy(controller);
    lh_trace_store_destroy(traces);
    return 0;
}

static lh_scheduler *scheduler_of_chain(void) {
    return lh_chain_controller_scheduler(controller);
}

static uint32_t steps_in_flight(void) {
    return lh_scheduler_current_figures(scheduler_of_chain()).prefill_steps;
}

static uint32_t put(lh_worker_report *report) {
    lh_fleet_answer answer;
    assert_int_equal(lh_chain_controller_put(controller, report, lh_clock_us(), &answer, NULL),
                     LH_OK);
    return answer.assignment.epoch;
}

/* Does the next thing that the controller wants, which is this. */
static void act(lh_action_kind kind) {
    lh_action action;
    assert_true(lh_chain_controller_next_action(controller, lh_clock_us(), &action));
    assert_int_equal(action.kind, kind);
    lh_chain_driver_act(driver, &action);
}

static bool has_news(void *before) {
    return news > *(uint32_t *)before;
}

static void wait_for_news(void) {
    uint32_t before = news;
    assert_true(loop_run_until(&loop, has_news, &before, 20000));
}

/* Its only worker is the peer, which is ready; not connected yet. */
static void form(const lh_tls_options *tls) {
    lh_worker_report report = report_of("w");
    snprintf(report.plain_address, sizeof report.plain_address, "%s", step_peer_address(&peer));
    assert_int_equal(create_driver(tls), LH_OK);
    make_ready(&report, put(&report));
    put(&report);
    assert_false(lh_scheduler_chain_is_up(scheduler_of_chain()));
}

static void bring_up(void) {
    form(NULL);
    act(LH_ACTION_CONNECT);
    wait_for_news();
    assert_true(lh_scheduler_chain_is_up(scheduler_of_chain()));
}

/* A traced prompt of two chunks. */
static uint64_t submit(void) {
    lh_sequence_request request = request_of(20, 10);
    request.trace = lh_trace_store_open(traces, "one", "", lh_clock_us());
    assert_int_equal(submit_request(scheduler_of_chain(), &request, 0, lh_clock_us()), LH_OK);
    return request.trace;
}

static void a_connection_that_comes_up_is_told(void **state) {
    (void)state;
    form(NULL);
    assert_false(lh_chain_driver_first_hop(driver).present);
    act(LH_ACTION_CONNECT);
    wait_for_news();
    assert_true(lh_scheduler_chain_is_up(scheduler_of_chain()));
    assert_true(lh_chain_driver_first_hop(driver).connected);
}

static void one_that_goes_down_is_told_too(void **state) {
    (void)state;
    bring_up();
    step_peer_close(&peer);
    wait_for_news();
    assert_false(lh_scheduler_chain_is_up(scheduler_of_chain()));
}

/* And its trace has it when it is over. */
static void a_step_that_is_taken_is_told(void **state) {
    (void)state;
    bring_up();
    uint64_t number = submit();
    act(LH_ACTION_SUBMIT);
    assert_int_equal(steps_in_flight(), 1);
    wait_for_news();
    assert_int_equal(steps_in_flight(), 0);
    assert_int_equal(peer.steps, 1);
    lh_trace *trace = lh_trace_store_get(traces, number);
    assert_int_equal(trace->entry_count, 1);
    assert_int_equal(trace->entries[0].rows, 16);
    assert_int_equal(trace->entries[0].step->status, LH_OK);
    assert_int_equal(trace->entries[0].step->results_us, 0);
    assert_true(trace->entries[0].step->answered_us > 0);
    lh_trace_destroy(trace);
}

static void a_refusal_is_a_fault_of_the_chain(void **state) {
    (void)state;
    bring_up();
    uint64_t number = submit();
    peer.refusal = "{\"error\":{\"worker\":\"w\",\"status\":\"LH_ERR_IO\",\"message\":\"no\"}}";
    act(LH_ACTION_SUBMIT);
    wait_for_news();
    assert_false(lh_scheduler_chain_is_up(scheduler_of_chain()));
    lh_trace *trace = lh_trace_store_get(traces, number);
    assert_int_equal(trace->entry_count, 1);
    assert_int_not_equal(trace->entries[0].step->status, LH_OK);
    lh_trace_destroy(trace);
}

/* The controller believes that it is there. */
static void a_step_that_cannot_leave_is_told_at_once(void **state) {
    (void)state;
    form(NULL);
    lh_chain_controller_first_hop(controller, true, lh_clock_us(), "");
    uint64_t number = submit();
    lh_action action;
    assert_true(lh_chain_controller_next_action(controller, lh_clock_us(), &action));
    act(LH_ACTION_SUBMIT); /* CONNECT was not done */
    assert_false(lh_scheduler_chain_is_up(scheduler_of_chain()));
    lh_trace *trace = lh_trace_store_get(traces, number);
    assert_int_equal(trace->entry_count + trace->open_steps, 0);
    lh_trace_destroy(trace);
}

static void a_cancelled_step_is_reset(void **state) {
    (void)state;
    bring_up();
    submit();
    peer.is_silent = true;
    act(LH_ACTION_SUBMIT);
    lh_scheduler_cancel(scheduler_of_chain(), 0);
    act(LH_ACTION_CANCEL);
    wait_for_news();
    assert_true(lh_scheduler_chain_is_up(scheduler_of_chain()));
}

static void all_steps_are_reset_where_the_chain_went_down(void **state) {
    (void)state;
    bring_up();
    submit();
    peer.is_silent = true;
    act(LH_ACTION_SUBMIT);
    act(LH_ACTION_SUBMIT);
    lh_chain_controller_forget(controller, "w", lh_clock_us());
    act(LH_ACTION_ABANDON);
    uint32_t before = news + 1;
    assert_true(loop_run_until(&loop, has_news, &before, 20000)); /* of both */
}

static lh_status bring_results(const char *worker) {
    const lh_tls_identity sender = lh_tls_identity_named(worker);
    const lh_step_result result = {.sequence = 1, .position = 1};
    lh_error error;
    return lh_chain_driver_results(driver, &sender, 1, 1, &result, 1, &error);
}

static void with_certificates_only_the_last_worker_may_bring_results(void **state) {
    (void)state;
    form(&certificates);
    assert_int_equal(bring_results("x"), LH_ERR_INVALID);
    assert_int_equal(bring_results(""), LH_ERR_INVALID);
    assert_int_equal(bring_results("w"), LH_ERR_STALE); /* there is no such epoch */
    close_driver();
    form(NULL);
    assert_int_equal(bring_results("x"), LH_ERR_STALE);
}

static void results_are_handed_on(void **state) {
    (void)state;
    bring_up();
    uint64_t number = submit();
    act(LH_ACTION_SUBMIT);
    wait_for_news();
    act(LH_ACTION_SUBMIT);
    const lh_step_result result = {.sequence = 1, .position = 20, .answer.token = 7};
    uint32_t epoch = lh_fleet_chain(lh_chain_controller_fleet(controller))->epoch;
    const lh_tls_identity nobody = {.kind = LH_TLS_NONE};
    assert_int_equal(lh_chain_driver_results(driver, &nobody, epoch, 2, &result, 1, NULL), LH_OK);
    assert_int_equal(ears[0].count, 1);
    assert_int_equal(ears[0].tokens[0], 7);
    wait_for_news();
    lh_trace *trace = lh_trace_store_get(traces, number);
    assert_int_equal(trace->entry_count, 2);
    assert_true(trace->entries[1].step->results_us > 0);
    lh_trace_destroy(trace);
}

static void without_traces_nothing_is_recorded(void **state) {
    (void)state;
    lh_trace_store *store = traces;
    traces = NULL;
    form(NULL);
    traces = store;
    act(LH_ACTION_CONNECT);
    wait_for_news();
    uint64_t number = submit();
    act(LH_ACTION_SUBMIT);
    wait_for_news();
    lh_trace *trace = lh_trace_store_get(traces, number);
    assert_int_equal(trace->entry_count + trace->open_steps, 0);
    lh_trace_destroy(trace);
}

static void without_memory_there_is_no_driver(void **state) {
    (void)state;
    for (size_t n = 1; n <= 4; n++) {
        failing_malloc_arm(n);
        assert_int_equal(create_driver(NULL), LH_ERR_NO_MEMORY);
        assert_true(failing_malloc_disarm());
    }
    assert_int_equal(create_driver(NULL), LH_OK);
}

static void closing_ends_all_and_says_nothing(void **state) {
    (void)state;
    bring_up();
    submit();
    peer.is_silent = true;
    act(LH_ACTION_SUBMIT);
    close_driver();
}

static bool has_trials(void *count) {
    return peer.trials == *(uint32_t *)count;
}

/* Beside the connection that serves. */
static void a_hop_is_tried(void **state) {
    (void)state;
    uint32_t one = 1, before;
    lh_way way = {.worker = "w-1"};
    const lh_way nowhere = {.worker = ""};
    lh_action action = {.kind = LH_ACTION_TRY, .way = &way, .width = 32};
    snprintf(way.address, sizeof way.address, "%s", step_peer_address(&peer));
    bring_up();
    before = news;
    lh_chain_driver_act(driver, &action);
    assert_true(loop_run_until(&loop, has_trials, &one, 20000));
    assert_true(loop_run_until(&loop, has_news, &before, 20000));
    assert_true(lh_scheduler_chain_is_up(scheduler_of_chain()));
    action = (lh_action){.kind = LH_ACTION_TRY, .way = &nowhere};
    before = news;
    lh_chain_driver_act(driver, &action);
    loop_run_for(&loop, 20);
    assert_int_equal(news, before); /* it ends without a word */
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_connection_that_comes_up_is_told),
        TEST(one_that_goes_down_is_told_too),
        TEST(a_step_that_is_taken_is_told),
        TEST(a_refusal_is_a_fault_of_the_chain),
        TEST(a_step_that_cannot_leave_is_told_at_once),
        TEST(a_cancelled_step_is_reset),
        TEST(all_steps_are_reset_where_the_chain_went_down),
        TEST(with_certificates_only_the_last_worker_may_bring_results),
        TEST(results_are_handed_on),
        TEST(without_traces_nothing_is_recorded),
        TEST(without_memory_there_is_no_driver),
        TEST(a_hop_is_tried),
        TEST(closing_ends_all_and_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
