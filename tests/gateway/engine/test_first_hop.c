/* The gateway's own hop: steps that end once each, whatever becomes of them, and connections that
 * are left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/engine/first_hop.h"
#include "tests/gateway/support/step_peer.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/loop.h"

#include <stdio.h>
#include <string.h>

static uv_loop_t loop;
static step_peer peers[2];
static lh_first_hop *hop;

/* What the hop has said. */
static struct {
    bool is_connected, is_closed;
    uint32_t states, done, trials;
    lh_hop_trial_report trial;
    struct {
        uint32_t epoch;
        uint64_t step;
        lh_status status;
        char message[LH_ERROR_MESSAGE_BYTES];
    } ended[8];
    char times[16]; /* of the last step that told some */
    uint32_t times_epoch;
    uint64_t times_step;
} heard;

static void on_state(void *context, bool connected, const char *reason) {
    assert_ptr_equal(context, &heard);
    assert_true(connected || reason[0]);
    heard.is_connected = connected;
    heard.states++;
}

static void on_done(void *context, uint32_t epoch, uint64_t step, lh_status status,
                    const char *blamed, const char *message) {
    (void)blamed;
    assert_ptr_equal(context, &heard);
    assert_true(heard.done < 8);
    heard.ended[heard.done].epoch = epoch;
    heard.ended[heard.done].step = step;
    heard.ended[heard.done].status = status;
    snprintf(heard.ended[heard.done].message, LH_ERROR_MESSAGE_BYTES, "%s", message);
    heard.done++;
}

/* Unread, as they came. */
static void on_times(void *context, uint32_t epoch, uint64_t step, const uint8_t *frames,
                     size_t length) {
    assert_ptr_equal(context, &heard);
    assert_int_equal(heard.done, 0);
    snprintf(heard.times, sizeof heard.times, "%.*s", (int)length, (const char *)frames);
    heard.times_epoch = epoch;
    heard.times_step = step;
}

static void on_trial(void *context, const lh_hop_trial_report *report) {
    assert_ptr_equal(context, &heard);
    heard.trial = *report;
    heard.trials++;
}

static int set_up(void **state) {
    (void)state;
    const lh_first_hop_events events = {.context = &heard,
                                        .on_state = on_state,
                                        .on_done = on_done,
                                        .on_times = on_times,
                                        .on_trial = on_trial};
    lh_h2_limits limits = lh_h2_default_limits();
    memset(&heard, 0, sizeof heard);
    uv_loop_init(&loop);
    for (int i = 0; i < 2; i++)
        step_peer_open(&peers[i], &loop);
    assert_int_equal(lh_first_hop_create(&loop, "main", NULL, &limits, &events, &hop, NULL), LH_OK);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (hop)
        lh_first_hop_close(hop, NULL, NULL);
    hop = NULL;
    for (int i = 0; i < 2; i++)
        step_peer_close(&peers[i]);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static void connect_to(const step_peer *p) {
    lh_way end = {.worker = "w-1"};
    snprintf(end.address, sizeof end.address, "%s", step_peer_address(p));
    assert_int_equal(lh_first_hop_connect(hop, &end, NULL), LH_OK);
    heard.is_connected = false;
    loop_run_until_set(&loop, &heard.is_connected);
}

static void submit(uint64_t step) {
    const lh_step_manifest manifest = {.epoch = 7, .step = step};
    assert_int_equal(lh_first_hop_submit(hop, &manifest, NULL), LH_OK);
}

static bool are_done(void *count) {
    return heard.done == *(uint32_t *)count;
}

static void wait_done(uint32_t count) {
    assert_true(loop_run_until(&loop, are_done, &count, 20000));
}

static bool has_steps(void *context) {
    const step_peer *p = context;
    return p->steps == 3;
}

/* Steps 4, 5 and 6 are at a worker that says nothing. */
static void submit_three_to(step_peer *p) {
    p->is_silent = true;
    for (uint64_t step = 4; step <= 6; step++)
        submit(step);
    assert_true(loop_run_until(&loop, has_steps, p, 20000));
    assert_int_equal(heard.done, 0);
}

static void a_step_that_is_taken_ends_well(void **state) {
    (void)state;
    connect_to(&peers[0]);
    submit(4);
    assert_int_equal(heard.done, 0); /* never inside a call */
    wait_done(1);
    assert_int_equal(heard.ended[0].epoch, 7);
    assert_int_equal(heard.ended[0].step, 4);
    assert_int_equal(heard.ended[0].status, LH_OK);
    assert_string_equal(heard.times, ""); /* it was not asked for them */
    lh_hop_profile profile = lh_first_hop_profile(hop);
    assert_true(profile.present && profile.connected);
}

static void a_timed_step_tells_its_times_before_it_ends(void **state) {
    (void)state;
    const lh_step_manifest manifest = {.epoch = 7, .step = 4, .timed = true};
    connect_to(&peers[0]);
    assert_int_equal(lh_first_hop_submit(hop, &manifest, NULL), LH_OK);
    wait_done(1);
    assert_string_equal(heard.times, "{}");
    assert_int_equal(heard.times_epoch, 7);
    assert_int_equal(heard.times_step, 4);
}

static void a_refusal_names_who_refused(void **state) {
    (void)state;
    connect_to(&peers[0]);
    peers[0].refusal =
        "{\"error\":{\"worker\":\"far\",\"status\":\"LH_ERR_STALE\",\"message\":\"old\"}}";
    submit(4);
    wait_done(1);
    assert_int_equal(heard.ended[0].status, LH_ERR_STALE);
    assert_string_equal(heard.ended[0].message, "far: old");
    peers[0].refusal = "{}";
    submit(5);
    wait_done(2);
    assert_true(heard.ended[1].status != LH_OK && heard.ended[1].message[0] != ':');
}

static void without_a_worker_nothing_is_taken(void **state) {
    (void)state;
    const lh_step_manifest manifest = {.epoch = 7, .step = 4};
    lh_error error;
    assert_int_equal(lh_first_hop_submit(hop, &manifest, &error), LH_ERR_UNAVAILABLE);
    lh_first_hop_cancel(hop, 0);
    assert_false(lh_first_hop_profile(hop).present);
    const lh_way nowhere = {.worker = "w", .address = "no port"};
    assert_int_not_equal(lh_first_hop_connect(hop, &nowhere, &error), LH_OK);
    assert_int_equal(lh_first_hop_submit(hop, &manifest, &error), LH_ERR_UNAVAILABLE);
}

static void a_cancelled_step_ends_and_the_others_stay(void **state) {
    (void)state;
    connect_to(&peers[0]);
    submit_three_to(&peers[0]);
    lh_first_hop_cancel(hop, 9);
    lh_first_hop_cancel(hop, 5);
    assert_int_equal(heard.done, 0);
    wait_done(1);
    assert_int_equal(heard.ended[0].step, 5);
    assert_int_equal(heard.ended[0].status, LH_ERR_CANCELLED);
    lh_first_hop_cancel(hop, 0);
    wait_done(3);
    assert_int_equal(heard.ended[1].step + heard.ended[2].step, 4 + 6);
    assert_int_equal(heard.ended[1].status, LH_ERR_CANCELLED);
    assert_int_equal(heard.ended[2].status, LH_ERR_CANCELLED);
}

/* Its steps end, but how it stands is no longer of interest. */
static void a_connection_that_is_left_ends_its_steps_and_is_silent(void **state) {
    (void)state;
    connect_to(&peers[0]);
    submit_three_to(&peers[0]);
    connect_to(&peers[1]);
    uint32_t states = heard.states;
    wait_done(3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(heard.ended[i].status, LH_ERR_UNAVAILABLE);
    step_peer_close(&peers[0]);
    loop_run_until_set(&loop, &peers[0].is_closed);
    assert_int_equal(heard.states, states);
    assert_true(heard.is_connected);
    submit(7);
    wait_done(4);
    assert_int_equal(heard.ended[3].status, LH_OK);
    assert_int_equal(peers[1].steps, 1);
}

static bool is_down(void *context) {
    (void)context;
    return !heard.is_connected;
}

static void a_worker_that_goes_is_reported(void **state) {
    (void)state;
    connect_to(&peers[0]);
    submit_three_to(&peers[0]);
    step_peer_close(&peers[0]);
    assert_true(loop_run_until(&loop, is_down, NULL, 20000));
    wait_done(3);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(heard.ended[i].status, LH_ERR_UNAVAILABLE);
}

static void close_hop(void) {
    uint32_t states = heard.states;
    lh_first_hop_close(hop, loop_set_flag, &heard.is_closed);
    hop = NULL;
    assert_false(heard.is_closed); /* from the loop */
    loop_run_until_set(&loop, &heard.is_closed);
    assert_int_equal(heard.done, 0);
    assert_int_equal(heard.states, states);
}

static void after_closing_it_says_nothing_more(void **state) {
    (void)state;
    connect_to(&peers[0]);
    submit_three_to(&peers[0]);
    close_hop();
}

static void one_without_a_connection_is_closed_from_the_loop_too(void **state) {
    (void)state;
    close_hop();
}

static void without_memory_a_step_is_not_taken(void **state) {
    (void)state;
    const lh_step_manifest manifest = {.epoch = 7, .step = 4};
    lh_error error;
    connect_to(&peers[0]);
    for (size_t n = 1; n <= 2; n++) {
        failing_malloc_arm(n);
        assert_int_equal(lh_first_hop_submit(hop, &manifest, &error), LH_ERR_NO_MEMORY);
        assert_true(failing_malloc_disarm());
    }
    submit(4);
    wait_done(1);
    assert_int_equal(heard.ended[0].status, LH_OK);
}

static void try_worker(const char *worker, const char *address) {
    lh_way end = {.is_gateway = false};
    snprintf(end.worker, sizeof end.worker, "%s", worker);
    snprintf(end.address, sizeof end.address, "%s", address ? address : "");
    lh_first_hop_try(hop, address ? &end : NULL, 32);
}

static bool has_trials(void *count) {
    return heard.trials >= *(uint32_t *)count;
}

static void wait_trials(uint32_t count, lh_hop_trial_state state) {
    assert_true(loop_run_until(&loop, has_trials, &count, 20000));
    assert_int_equal(heard.trials, count);
    assert_int_equal(heard.trial.state, state);
}

static void a_proven_hop_is_taken_over(void **state) {
    (void)state;
    connect_to(&peers[0]);
    submit_three_to(&peers[0]);
    try_worker("w-1", step_peer_address(&peers[1]));
    assert_int_equal(heard.trials, 0); /* never inside a call */
    wait_trials(1, LH_HOP_TRIAL_PROVEN);
    try_worker("w-1", step_peer_address(&peers[1])); /* the same one: it is told of again */
    assert_int_equal(heard.trials, 1);
    wait_trials(2, LH_HOP_TRIAL_PROVEN);
    assert_string_equal(heard.trial.next, "w-1");
    assert_string_equal(heard.trial.address, step_peer_address(&peers[1]));
    assert_int_equal(peers[1].trials, 1);
    assert_int_equal(heard.done, 0); /* the steps go on beside it */
    uint32_t states = heard.states;
    connect_to(&peers[1]);
    assert_int_equal(heard.states, states + 1);
    wait_done(3);
    submit(7);
    wait_done(4);
    assert_int_equal(heard.ended[3].status, LH_OK);
    assert_string_equal(peers[1].step_peer, peers[1].trial_peer);
}

static void a_hop_that_is_not_proven_is_not_taken(void **state) {
    (void)state;
    peers[0].name = "w-2";
    try_worker("w-1", step_peer_address(&peers[0]));
    wait_trials(1, LH_HOP_TRIAL_FAILED);
    assert_non_null(strstr(heard.trial.error, "worker 'w-2' answers at "));
    connect_to(&peers[0]);
    submit(4);
    wait_done(1);
    assert_string_not_equal(peers[0].step_peer, peers[0].trial_peer);
    try_worker("w-2", step_peer_address(&peers[0])); /* somebody else is meant */
    wait_trials(2, LH_HOP_TRIAL_PROVEN);
    step_peer_close(&peers[0]);
    wait_trials(3, LH_HOP_TRIAL_FAILED);
}

static void an_address_that_is_none_is_told_from_the_loop(void **state) {
    (void)state;
    try_worker("w-1", "no port");
    assert_int_equal(heard.trials, 0);
    loop_run_for(&loop, 20); /* a timer of the hop's is all that happens on the loop */
    assert_int_equal(heard.trials, 1);
    assert_int_equal(heard.trial.state, LH_HOP_TRIAL_FAILED);
    assert_non_null(strstr(heard.trial.error, "no port"));
    assert_string_equal(heard.trial.address, "no port");
    try_worker("w-1", "no address");
    try_worker("", NULL); /* ended before it was told */
    loop_run_for(&loop, 20);
    assert_int_equal(heard.trials, 1);
}

static void closing_ends_a_trial(void **state) {
    (void)state;
    try_worker("w-1", step_peer_address(&peers[0]));
    close_hop();
    assert_int_equal(heard.trials, 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_step_that_is_taken_ends_well),
        TEST(a_timed_step_tells_its_times_before_it_ends),
        TEST(a_refusal_names_who_refused),
        TEST(without_a_worker_nothing_is_taken),
        TEST(a_cancelled_step_ends_and_the_others_stay),
        TEST(a_connection_that_is_left_ends_its_steps_and_is_silent),
        TEST(a_worker_that_goes_is_reported),
        TEST(after_closing_it_says_nothing_more),
        TEST(one_without_a_connection_is_closed_from_the_loop_too),
        TEST(without_memory_a_step_is_not_taken),
        TEST(a_proven_hop_is_taken_over),
        TEST(a_hop_that_is_not_proven_is_not_taken),
        TEST(an_address_that_is_none_is_told_from_the_loop),
        TEST(closing_ends_a_trial),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
