/* Links that no chain uses, surveyed by a worker's server: over loopback, between real servers
 * without stages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "tests/support/loop.h"
#include "worker/serve/server.h"

#include <stdio.h>
#include <string.h>

/* Two workers without a stage, w1 and w2. */
typedef struct bench {
    uv_loop_t loop;
    lh_server *servers[2]; /* NULL: closed */
} bench;

static const char *const names[] = {"w1", "w2"};

static void open_bench(bench *b) {
    assert_int_equal(uv_loop_init(&b->loop), 0);
    for (int i = 0; i < 2; i++) {
        lh_server_options options = {.loop = &b->loop,
                                     .name = names[i],
                                     .listen = "127.0.0.1:0",
                                     .limits = lh_h2_default_limits()};
        options.limits.probe_percent = 1;
        assert_int_equal(lh_server_create(&options, &b->servers[i], NULL), LH_OK);
    }
}

static void close_server(bench *b, int which) {
    bool is_closed = false;
    lh_server_close(b->servers[which], loop_set_flag, &is_closed);
    b->servers[which] = NULL;
    while (!is_closed)
        uv_run(&b->loop, UV_RUN_ONCE);
}

static void close_bench(bench *b) {
    for (int i = 0; i < 2; i++)
        if (b->servers[i])
            close_server(b, i);
    assert_int_equal(uv_run(&b->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&b->loop), 0);
}

/* The way to one of them. */
static lh_survey_target target_of(const bench *b, int which, uint64_t bytes_max) {
    lh_survey_target target = {.bytes_max = bytes_max};
    snprintf(target.next.worker, sizeof target.next.worker, "%s", names[which]);
    snprintf(target.next.address, sizeof target.next.address, "127.0.0.1:%d",
             lh_server_port(b->servers[which], false));
    return target;
}

static lh_hop_trial_report read_survey(const bench *b) {
    lh_server_status status;
    lh_server_read_status(b->servers[0], &status);
    return status.surveyed;
}

static lh_hop_trial_report await_end(bench *b, lh_hop_trial_state state) {
    lh_hop_trial_report survey = read_survey(b);
    for (int i = 0; i < 2000 && survey.state == LH_HOP_TRIAL_RUNNING; i++) {
        loop_run_for(&b->loop, 10);
        survey = read_survey(b);
    }
    if (survey.state != state)
        fail_msg("%s: %s", lh_hop_trial_state_name(survey.state), survey.error);
    return survey;
}

static void count(void *context) {
    ++*(int *)context;
}

static void test_a_link_is_measured_and_let_go(void **state) {
    (void)state;
    bench b;
    int changes = 0;
    open_bench(&b);
    lh_server *server = b.servers[0];
    lh_server_watch(server, count, NULL, &changes);
    assert_int_equal(read_survey(&b).state, LH_HOP_TRIAL_NONE);
    lh_survey_target target = target_of(&b, 1, 1 << 20);
    lh_server_survey(server, &target);
    lh_hop_trial_report survey = read_survey(&b);
    assert_int_equal(survey.state, LH_HOP_TRIAL_RUNNING);
    assert_string_equal(survey.next, "w2");
    assert_string_equal(survey.address, target.next.address);
    survey = await_end(&b, LH_HOP_TRIAL_PROVEN);
    assert_int_equal(changes, 1);
    assert_true(survey.hop.present && survey.hop.bytes_per_us > 0 && survey.hop.round_trip_us > 0);
    assert_in_range(survey.hop.probe_bytes_sent, 16 << 10, 1 << 20);
    lh_server_survey(server, &target); /* the same: it has been measured */
    assert_int_equal(read_survey(&b).state, LH_HOP_TRIAL_PROVEN);
    lh_server_survey(server, NULL);
    assert_int_equal(read_survey(&b).state, LH_HOP_TRIAL_NONE);
    assert_int_equal(changes, 1);
    lh_server_survey(server, &target);
    assert_int_equal(read_survey(&b).state, LH_HOP_TRIAL_RUNNING);
    loop_run_for(&b.loop, 20);
    close_bench(&b); /* while it is under way */
}

static void test_no_more_is_sent_than_it_may(void **state) {
    (void)state;
    static const struct {
        uint64_t bytes_max, least;
    } cases[] = {{100 << 10, 48 << 10}, {40000, 16 << 10}, {16 << 10, 16 << 10}, {16383, 0}};
    bench b;
    open_bench(&b);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_survey_target target = target_of(&b, 1, cases[i].bytes_max);
        lh_server_survey(b.servers[0], NULL);
        lh_server_survey(b.servers[0], &target);
        lh_hop_trial_report survey = await_end(&b, LH_HOP_TRIAL_PROVEN);
        assert_in_range(survey.hop.probe_bytes_sent, cases[i].least, cases[i].bytes_max);
    }
    close_bench(&b);
}

static void test_another_target_takes_its_place(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    lh_survey_target target = target_of(&b, 1, 1 << 20);
    lh_server_survey(b.servers[0], &target);
    loop_run_for(&b.loop, 10);
    target = target_of(&b, 0, 1 << 20); /* itself will do */
    lh_server_survey(b.servers[0], &target);
    assert_string_equal(read_survey(&b).next, "w1");
    assert_string_equal(await_end(&b, LH_HOP_TRIAL_PROVEN).next, "w1");
    close_bench(&b);
}

static void test_why_a_link_cannot_be_measured(void **state) {
    (void)state;
    bench b;
    char expected[400];
    int changes = 0;
    open_bench(&b);
    lh_server *server = b.servers[0];
    lh_server_watch(server, count, NULL, &changes);
    lh_survey_target target = target_of(&b, 1, 1 << 20);
    target.next.tls = true;
    lh_server_survey(server, &target);
    lh_hop_trial_report survey = read_survey(&b);
    assert_int_equal(survey.state, LH_HOP_TRIAL_FAILED);
    assert_string_equal(survey.address, target.next.address);
    assert_non_null(strstr(survey.error, "takes TLS: give --tls-cert"));
    assert_int_equal(changes, 1);
    target.next.tls = false;
    snprintf(target.next.worker, sizeof target.next.worker, "w9");
    lh_server_survey(server, &target);
    snprintf(expected, sizeof expected, "worker 'w2' answers at %s, not 'w9'", target.next.address);
    assert_string_equal(await_end(&b, LH_HOP_TRIAL_FAILED).error, expected);
    assert_int_equal(changes, 2);
    target = target_of(&b, 1, 1 << 20);
    close_server(&b, 1);
    lh_server_survey(server, &target);
    assert_non_null(strstr(await_end(&b, LH_HOP_TRIAL_FAILED).error, target.next.address));
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_is_measured_and_let_go),
        cmocka_unit_test(test_no_more_is_sent_than_it_may),
        cmocka_unit_test(test_another_target_takes_its_place),
        cmocka_unit_test(test_why_a_link_cannot_be_measured),
    };
    lh_log_set_level(LH_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
