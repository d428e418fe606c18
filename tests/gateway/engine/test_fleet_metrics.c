/* What is told of two chains: one that serves, one that has nobody yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "gateway/engine/fleet_metrics.h"
#include "tests/gateway/support/scheduler_bench.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#include <string.h>

static lh_router *router;
static int64_t now_us;

static int set_up(void **state) {
    (void)state;
    const lh_fleet_options fleet = fleet_of_four_layers(4);
    const lh_scheduler_options scheduler = options_of(16);
    lh_log_set_level(LH_LOG_ERROR);
    now_us = 0;
    return lh_router_create(2, &fleet, &scheduler, &bench_sink, 0, &router, NULL) != LH_OK;
}

static int tear_down(void **state) {
    (void)state;
    lh_router_destroy(router);
    return 0;
}

static lh_assignment put(lh_worker_report *report) {
    lh_fleet_answer answer;
    assert_int_equal(
        lh_chain_controller_put(lh_router_controller(router, 0), report, now_us, &answer, NULL),
        LH_OK);
    return answer.assignment;
}

/* The first chain, of a and b, each with half of the layers. */
static void form(lh_worker_report *a, lh_worker_report *b) {
    a->memory_bytes = b->memory_bytes = 250;
    put(a);
    put(b);
    now_us += 1000 * MS;
    put(a);
    uint32_t epoch = put(b).epoch;
    assert_true(epoch > 0);
    make_ready(a, epoch);
    make_ready(b, epoch);
    a->next.bytes_per_us = 12.5;
    a->next.round_trip_us = 20000;
    a->next.bytes_sent = 1ull << 40;
    put(a);
    put(b);
    lh_action action;
    while (lh_chain_controller_next_action(lh_router_controller(router, 0), now_us, &action))
        ;
    lh_chain_controller_first_hop(lh_router_controller(router, 0), true, now_us, "");
}

static lh_status render(lh_text_buffer *text) {
    lh_member issued[] = {{.name = "a", .expires_s = 1800000000}};
    const lh_member_list members = {.members = issued, .count = 1};
    const lh_fleet_view view = {
        .state = "ready", .members = &members, .first_hops = {{.connected = true}}};
    lh_exposition exposition = {0};
    lh_fleet_metrics_render(router, &view, now_us + 250 * MS, 1795442400.5, &exposition);
    return lh_exposition_take(&exposition, text, NULL);
}

static void expect(const lh_text_buffer *text, const char *line) {
    const char *found = memmem(text->bytes, text->length, line, strlen(line));
    if (!found)
        fail_msg("it does not say %s", line);
}

static void chains_hops_and_workers_are_told(void **state) {
    (void)state;
    static const char *const lines[] = {
        "\nlonghaul_fleet_snapshot_timestamp_seconds 1795442400.5\n",
        "\nlonghaul_chain_ready{chain=\"main\"} 1\n",
        "\nlonghaul_chain_ready{chain=\"main-2\"} 0\n",
        "\nlonghaul_chain_stages{chain=\"main\"} 2\n",
        "\nlonghaul_steps_total{chain=\"main\"} 0\n",
        "\nlonghaul_forced_tokens_total{chain=\"main\"} 0\n",
        "\nlonghaul_chain_sequences{chain=\"main\",state=\"waiting\"} 0\n",
        "\nlonghaul_request_queue_time_seconds_count{chain=\"main\"} 0\n",
        "\nlonghaul_chain_stage_info{chain=\"main\",stage=\"1\",worker=\"b\",layers=\"2-3\"} 1\n",
        "\nlonghaul_hop_up{chain=\"main\",from=\"gateway\",to=\"a\"} 1\n",
        "\nlonghaul_hop_rate_bytes_per_second{chain=\"main\",from=\"a\",to=\"b\"} 12500000\n",
        "\nlonghaul_hop_round_trip_seconds{chain=\"main\",from=\"a\",to=\"b\"} 0.02\n",
        "\nlonghaul_hop_sent_bytes_total{chain=\"main\",from=\"a\",to=\"b\"} 1099511627776\n",
        "\nlonghaul_hop_wire_info{chain=\"main\",from=\"a\",to=\"b\",wire=\"f32\"} 1\n",
        "\nlonghaul_hop_wire_info{chain=\"main\",from=\"b\",to=\"gateway\",wire=\"tokens\"} 1\n",
        "\nlonghaul_workers 2\n",
        "\nlonghaul_worker_report_age_seconds{worker=\"a\",site=\"home\"} 0.25\n",
        ("\nlonghaul_worker_certificate_expiry_timestamp_seconds{worker=\"a\",site=\"home\"} "
         "1800000000\n"),
    };
    lh_worker_report a = report_of("a"), b = report_of("b");
    lh_text_buffer text;
    form(&a, &b);
    assert_int_equal(render(&text), LH_OK);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        expect(&text, lines[i]);
    lh_text_buffer_reset(&text);
}

static void without_a_chain_there_are_no_hops(void **state) {
    (void)state;
    lh_text_buffer text;
    assert_int_equal(render(&text), LH_OK);
    expect(&text, "\nlonghaul_workers 0\n");
    assert_null(memmem(text.bytes, text.length, "longhaul_hop_up{", 16));
    lh_text_buffer_reset(&text);
}

static void without_memory_nothing_is_published(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_text_buffer text;
        failing_malloc_arm(n);
        lh_status status = render(&text);
        if (!failing_malloc_disarm()) {
            lh_text_buffer_reset(&text);
            return;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(chains_hops_and_workers_are_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_chain_there_are_no_hops, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_memory_nothing_is_published, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
