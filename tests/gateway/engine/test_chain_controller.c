/* The fleet and the scheduler of one chain: what each learns of the other, and what both want. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "gateway/engine/chain_controller.h"
#include "tests/gateway/support/scheduler_bench.h"
#include "tests/gateway/support/worker_reports.h"

#include <stdio.h>

static lh_chain_controller *controller;
static lh_worker_report reports[2];
static int64_t now_us;

/* Workers a and b, each with room for half of the layers. */
static int set_up(void **state) {
    (void)state;
    const lh_fleet_options fleet = fleet_of_four_layers(2);
    lh_scheduler_options scheduler = options_of(16);
    scheduler.width = 576;
    lh_log_set_level(LH_LOG_ERROR);
    now_us = 0;
    for (int i = 0; i < 2; i++) {
        reports[i] = report_of(i == 0 ? "a" : "b");
        reports[i].memory_bytes = 250;
    }
    return lh_chain_controller_create(&fleet, &scheduler, &bench_sink, 0, &controller, NULL) !=
           LH_OK;
}

static int tear_down(void **state) {
    (void)state;
    lh_chain_controller_destroy(controller);
    return 0;
}

static lh_scheduler *scheduler_of_chain(void) {
    return lh_chain_controller_scheduler(controller);
}

static const lh_chain *chain(void) {
    return lh_fleet_chain(lh_chain_controller_fleet(controller));
}

static bool is_up(void) {
    return lh_scheduler_chain_is_up(scheduler_of_chain());
}

static lh_fleet_answer put(int worker) {
    lh_fleet_answer answer;
    assert_int_equal(lh_chain_controller_put(controller, &reports[worker], now_us, &answer, NULL),
                     LH_OK);
    return answer;
}

/* The report of the chain's stage. */
static int at_stage(uint32_t stage) {
    return chain()->stages[stage].name[0] - 'a';
}

static void form(void) {
    put(0);
    put(1);
    assert_int_equal(chain()->stage_count, 2);
}

/* Both say that they have their stage under the chain's epoch. */
static void make_both_ready(void) {
    for (int i = 0; i < 2; i++) {
        make_ready(&reports[i], chain()->epoch);
        reports[i].kv.epoch = chain()->stages[at_stage(0) == i ? 0 : 1].kv_epoch;
        put(i);
    }
}

static lh_action take_action(void) {
    lh_action action;
    assert_true(lh_chain_controller_next_action(controller, now_us, &action));
    return action;
}

static void assert_no_action(void) {
    lh_action action;
    assert_false(lh_chain_controller_next_action(controller, now_us, &action));
}

/* And it has worked for a while: one that keeps failing is formed again once a second at most. */
static void bring_up(void) {
    form();
    assert_int_equal(take_action().kind, LH_ACTION_CONNECT);
    lh_chain_controller_first_hop(controller, true, now_us, "");
    assert_false(is_up());
    make_both_ready();
    now_us += 2000 * MS;
    put(0);
    put(1);
    assert_true(is_up());
}

static void submit(uint32_t prompt_tokens) {
    lh_sequence_request request = request_of(prompt_tokens, 10);
    assert_int_equal(submit_request(scheduler_of_chain(), &request, 0, now_us), LH_OK);
}

/* The number of the step that leaves now. */
static uint64_t take_step(void) {
    lh_action action = take_action();
    assert_int_equal(action.kind, LH_ACTION_SUBMIT);
    assert_int_equal(action.manifest->epoch, chain()->epoch);
    return action.manifest->step;
}

/* The token behind the first sequence's two. */
static lh_status bring(uint32_t epoch, uint64_t step, uint32_t token) {
    const lh_step_result result = {.sequence = 1, .position = 2, .answer.token = token};
    lh_error error;
    return lh_chain_controller_results(controller, epoch, step, &result, 1, now_us, &error);
}

/* worker: "": the gateway. */
static bool takes_results_of(const char *worker) {
    const lh_tls_identity sender = lh_tls_identity_named(worker);
    return lh_chain_controller_takes_results_of(controller, &sender);
}

static void only_the_last_workers_certificate_may_bring_results(void **state) {
    (void)state;
    assert_true(takes_results_of("anybody")); /* no chain yet */
    snprintf(reports[0].site, sizeof reports[0].site, "berlin");
    snprintf(reports[1].site, sizeof reports[1].site, "paris");
    form();
    const lh_worker_report *first = &reports[at_stage(0)], *last = &reports[at_stage(1)];
    assert_true(takes_results_of(last->name));
    assert_false(takes_results_of(last->site));
    assert_false(takes_results_of(first->name));
    assert_false(takes_results_of(first->site));
    assert_false(takes_results_of(""));
}

static void the_first_worker_is_connected_to_once(void **state) {
    (void)state;
    assert_no_action();
    form();
    lh_action action = take_action();
    assert_int_equal(action.kind, LH_ACTION_CONNECT);
    assert_string_equal(action.way->address, reports[at_stage(0)].plain_address);
    assert_false(action.way->tls);
    assert_no_action();
    put(0);
    put(1);
    assert_no_action();
}

/* It has another address now: a chain under the next epoch, and another connection. */
static void another_address_is_connected_to_anew(void **state) {
    (void)state;
    bring_up();
    lh_worker_report *first = &reports[at_stage(0)];
    uint32_t epoch = chain()->epoch;
    first->instance++;
    first->assignment.state = LH_WORKER_IDLE;
    snprintf(first->plain_address, sizeof first->plain_address, "elsewhere:1");
    put(at_stage(0));
    assert_true(chain()->epoch > epoch);
    assert_false(is_up());
    assert_int_equal(take_action().kind, LH_ACTION_ABANDON);
    lh_action action = take_action();
    assert_int_equal(action.kind, LH_ACTION_CONNECT);
    assert_string_equal(action.way->address, "elsewhere:1");
    assert_no_action();
}

static void without_the_first_hop_no_step_leaves(void **state) {
    (void)state;
    form();
    assert_int_equal(take_action().kind, LH_ACTION_CONNECT);
    make_both_ready();
    assert_false(is_up());
    lh_chain_controller_first_hop(controller, true, now_us, "");
    assert_true(is_up());
    submit(20);
    take_step();
    take_step();
    assert_no_action();
    lh_chain_controller_first_hop(controller, false, now_us, "connection lost");
    assert_false(is_up());
    assert_int_equal(take_action().kind, LH_ACTION_ABANDON);
    assert_no_action();
}

/* The scheduler hears of it, and the fleet forms the chain again. */
static void a_step_that_fails_is_a_fault_of_the_chain(void **state) {
    (void)state;
    bring_up();
    submit(10);
    uint64_t step = take_step();
    uint32_t epoch = chain()->epoch;
    lh_chain_controller_step_done(controller, epoch - 1, step, LH_ERR_UNAVAILABLE, "", "old",
                                  now_us);
    assert_true(is_up() && chain()->epoch == epoch);
    lh_chain_controller_step_done(controller, epoch, step, LH_ERR_UNAVAILABLE, "", "broken",
                                  now_us);
    assert_false(is_up());
    assert_true(chain()->epoch > epoch);
    assert_int_equal(take_action().kind, LH_ACTION_ABANDON);
    assert_no_action();
    make_both_ready();
    assert_true(is_up());
    assert_int_equal(lh_scheduler_current_figures(scheduler_of_chain()).replays, 1);
    assert_true(take_step() > 0);
}

/* Two positions are on the chain when it breaks. Who was told to keep them, and has, is told how
 * many count, and is not sent them again. */
static void workers_that_keep_their_caches_go_on(void **state) {
    (void)state;
    bring_up();
    submit(2);
    uint64_t step = take_step();
    assert_int_equal(bring(chain()->epoch, step, 7), LH_OK);
    lh_chain_controller_step_done(controller, chain()->epoch, step, LH_OK, "", "", now_us);
    step = take_step();
    lh_chain_controller_step_done(controller, chain()->epoch, step, LH_ERR_UNAVAILABLE, "",
                                  "broken", now_us);
    for (uint32_t i = 0; i < 2; i++)
        assert_true(chain()->stages[i].kv_epoch < chain()->epoch);
    make_both_ready();
    assert_int_equal(take_action().kind, LH_ACTION_ABANDON);
    lh_action action = take_action();
    assert_int_equal(action.kind, LH_ACTION_SUBMIT);
    assert_true(action.manifest->resyncs && action.manifest->truncation_count == 1);
    assert_int_equal(action.manifest->truncations[0].length, 2);
    action = take_action();
    assert_int_equal(action.manifest->rows, 1);
    assert_int_equal(action.manifest->segments[0].first_position, 2);
}

static void results_of_another_epoch_are_stale_and_impossible_ones_a_fault(void **state) {
    (void)state;
    bring_up();
    submit(2);
    uint64_t step = take_step();
    assert_int_equal(bring(chain()->epoch + 1, step, 7), LH_ERR_STALE);
    assert_true(is_up());
    assert_int_equal(bring(chain()->epoch, step, 1000), LH_ERR_MALFORMED); /* there is no such */
    assert_false(is_up());
}

static bool is_let_go_within_ten_seconds(void) {
    for (int64_t end_us = now_us + 10000 * MS; now_us < end_us; now_us += 500 * MS) {
        put(1);
        if (put(0).may_go)
            return true;
    }
    return false;
}

/* While there are sequences, a worker that nobody can replace stays; not where another chain could
 * take them. */
static void a_worker_may_leave_when_nobody_needs_the_chain(void **state) {
    (void)state;
    bring_up();
    submit(10);
    reports[0].leaving = true;
    assert_false(is_let_go_within_ten_seconds());
    lh_chain_controller_note_stand_in(controller, true);
    assert_true(is_let_go_within_ten_seconds());
}

/* The last sequence has ended since the last report: the next tick knows. */
static void a_chain_that_nobody_needs_any_more_ends_at_a_tick(void **state) {
    (void)state;
    bring_up();
    submit(10);
    reports[0].leaving = true;
    for (int64_t end_us = now_us + 4000 * MS; now_us < end_us; now_us += 500 * MS) {
        put(1);
        assert_false(put(0).may_go);
        lh_chain_controller_tick(controller, now_us);
    }
    assert_int_equal(chain()->state, LH_CHAIN_READY);
    lh_scheduler_cancel(scheduler_of_chain(), 0);
    for (int i = 0; i < 20; i++, now_us += 100 * MS)
        lh_chain_controller_tick(controller, now_us);
    assert_int_not_equal(chain()->state, LH_CHAIN_READY);
}

static void one_that_runs_nothing_lets_a_worker_go(void **state) {
    (void)state;
    bring_up();
    reports[0].leaving = true;
    assert_true(put(0).may_go);
}

static void a_worker_that_is_forgotten_takes_the_chain_with_it(void **state) {
    (void)state;
    bring_up();
    lh_chain_controller_forget(controller, "a", now_us);
    assert_false(is_up());
    assert_int_equal(take_action().kind, LH_ACTION_ABANDON);
}

static void nothing_is_planned_while_it_is_held(void **state) {
    (void)state;
    lh_chain_controller_hold(controller, "later");
    put(0);
    put(1);
    assert_int_equal(chain()->stage_count, 0);
    assert_no_action();
    lh_chain_controller_hold(controller, NULL);
    lh_chain_controller_tick(controller, now_us);
    assert_int_equal(chain()->stage_count, 2);
}

/* A step that does not move: first whoever has not reported is suspected, at last it is a fault of
 * the connection, too. */
static void a_chain_that_stands_still_gets_a_new_connection(void **state) {
    (void)state;
    bring_up();
    submit(10);
    take_step();
    uint32_t epoch = chain()->epoch;
    int64_t sent_us = now_us;
    for (int64_t end_us = now_us + 40000 * MS; chain()->epoch == epoch && now_us < end_us;) {
        int64_t due_us = lh_chain_controller_deadline_us(controller);
        assert_true(due_us > now_us);
        now_us = due_us < now_us + 400 * MS ? due_us : now_us + 400 * MS;
        put(0);
        put(1);
        lh_chain_controller_tick(controller, now_us);
    }
    assert_true(chain()->epoch > epoch);
    assert_int_equal(now_us, sent_us + 30000 * MS);
    assert_int_equal(take_action().kind, LH_ACTION_ABANDON);
    assert_int_equal(take_action().kind, LH_ACTION_CONNECT);
}

/* The first worker is to leave, and c has room for its layers: the gateway's hop to c is tried
 * before anything is asked of c. */
static void the_hop_to_another_first_worker_is_tried_first(void **state) {
    (void)state;
    bring_up();
    lh_worker_report c = report_of("c"), *first = &reports[at_stage(0)];
    lh_fleet_answer answer;
    c.memory_bytes = 250;
    assert_int_equal(lh_chain_controller_put(controller, &c, now_us, &answer, NULL), LH_OK);
    submit(2);
    take_step();
    first->leaving = true;
    put(at_stage(0));
    lh_action action = take_action();
    assert_int_equal(action.kind, LH_ACTION_TRY);
    assert_string_equal(action.way->worker, "c");
    assert_string_equal(action.way->address, "c:1");
    assert_false(action.way->tls);
    assert_int_equal(action.width, 576);
    assert_no_action();
    lh_hop_trial_report trial = {.state = LH_HOP_TRIAL_FAILED, .next = "c", .address = "b:1"};
    lh_chain_controller_first_trial(controller, &trial, now_us); /* of another one: no matter */
    assert_no_action();
    snprintf(trial.address, sizeof trial.address, "c:1");
    lh_chain_controller_first_trial(controller, &trial, now_us);
    action = take_action();
    assert_int_equal(action.kind, LH_ACTION_TRY); /* that is over */
    assert_string_equal(action.way->address, "");
    assert_true(is_up());
}

static void steps_of_cancelled_sequences_are_reset(void **state) {
    (void)state;
    bring_up();
    submit(10);
    uint64_t step = take_step();
    lh_scheduler_cancel(scheduler_of_chain(), 0);
    lh_action action = take_action();
    assert_int_equal(action.kind, LH_ACTION_CANCEL);
    assert_int_equal(action.step, step);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(only_the_last_workers_certificate_may_bring_results),
        TEST(the_first_worker_is_connected_to_once),
        TEST(another_address_is_connected_to_anew),
        TEST(without_the_first_hop_no_step_leaves),
        TEST(a_step_that_fails_is_a_fault_of_the_chain),
        TEST(workers_that_keep_their_caches_go_on),
        TEST(results_of_another_epoch_are_stale_and_impossible_ones_a_fault),
        TEST(a_worker_may_leave_when_nobody_needs_the_chain),
        TEST(a_chain_that_nobody_needs_any_more_ends_at_a_tick),
        TEST(one_that_runs_nothing_lets_a_worker_go),
        TEST(a_worker_that_is_forgotten_takes_the_chain_with_it),
        TEST(nothing_is_planned_while_it_is_held),
        TEST(a_chain_that_stands_still_gets_a_new_connection),
        TEST(the_hop_to_another_first_worker_is_tried_first),
        TEST(steps_of_cancelled_sequences_are_reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
