/* Which chain a sequence runs on, and what several chains are together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "gateway/engine/router.h"
#include "tests/gateway/support/scheduler_bench.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>

static lh_router *router;
static int64_t now_us;

static lh_status create(uint32_t chains) {
    const lh_fleet_options fleet = fleet_of_four_layers(chains > 1 ? 6 : 1);
    const lh_scheduler_options scheduler = options_of(16);
    lh_log_set_level(LH_LOG_ERROR);
    memset(ears, 0, sizeof ears);
    now_us = 0;
    return lh_router_create(chains, &fleet, &scheduler, &bench_sink, 0, &router, NULL);
}

static int set_up(void **state) {
    (void)state;
    return create(3) == LH_OK ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    lh_router_destroy(router);
    return 0;
}

static lh_scheduler *scheduler_of(uint32_t chain) {
    return lh_chain_controller_scheduler(lh_router_controller(router, chain));
}

/* One worker has the whole model, and so many pages of 16 positions. It belongs to the chain. */
static void bring_up(uint32_t chain, uint64_t pages) {
    lh_chain_controller *controller = lh_router_controller(router, chain);
    lh_worker_report report = report_of("w");
    lh_fleet_answer answer;
    lh_action action;
    assert_int_equal(lh_chain_controller_put(controller, &report, now_us, &answer, NULL), LH_OK);
    now_us += 1000 * MS;
    assert_int_equal(lh_chain_controller_put(controller, &report, now_us, &answer, NULL), LH_OK);
    assert_true(answer.has_assignment);
    make_ready(&report, answer.assignment.epoch);
    report.kv.pages_total = pages;
    assert_int_equal(lh_chain_controller_put(controller, &report, now_us, &answer, NULL), LH_OK);
    assert_true(lh_chain_controller_next_action(controller, now_us, &action));
    assert_int_equal(action.kind, LH_ACTION_CONNECT);
    lh_chain_controller_first_hop(controller, true, now_us, "");
    assert_true(lh_scheduler_chain_is_up(scheduler_of(chain)));
}

static void bring_down(uint32_t chain) {
    lh_chain_controller_first_hop(lh_router_controller(router, chain), false, now_us, "gone");
    assert_false(lh_scheduler_chain_is_up(scheduler_of(chain)));
}

static lh_status submit(uint64_t handle, uint32_t prompt_tokens, uint32_t max_tokens) {
    lh_sequence_request request = request_of(prompt_tokens, max_tokens);
    lh_sequence *sequence;
    lh_error error;
    assert_int_equal(lh_sequence_create(&request, handle, 1000, &sequence, NULL), LH_OK);
    return lh_router_submit(router, sequence, now_us, &error);
}

static uint32_t sequences_of(uint32_t chain) {
    lh_scheduler_figures figures = lh_scheduler_current_figures(scheduler_of(chain));
    return figures.running + figures.waiting;
}

static void assert_sequences(uint32_t first, uint32_t second, uint32_t third) {
    assert_int_equal(sequences_of(0), first);
    assert_int_equal(sequences_of(1), second);
    assert_int_equal(sequences_of(2), third);
}

/* Whose steps leave, in their order, until there are none; how many. */
static uint32_t take_steps(uint32_t chains[], uint32_t max) {
    lh_action action;
    uint32_t count = 0, index;
    while (lh_router_next_action(router, now_us, &index, &action))
        if (action.kind == LH_ACTION_SUBMIT) {
            assert_true(count < max);
            assert_int_equal(action.manifest->epoch % lh_router_count(router), index);
            chains[count++] = index;
        }
    return count;
}

static void chains_are_found_by_their_names(void **state) {
    (void)state;
    assert_int_equal(lh_router_count(router), 3);
    assert_string_equal(lh_router_name(router, 0), "main");
    assert_string_equal(lh_router_name(router, 2), "main-3");
    assert_int_equal(lh_router_find(router, "main"), 0);
    assert_int_equal(lh_router_find(router, "main-2"), 1);
    assert_int_equal(lh_router_find(router, "main-3"), 2);
    assert_int_equal(lh_router_find(router, "main-1"), -1);
    assert_int_equal(lh_router_find(router, "main-4"), -1);
}

static void without_memory_there_is_no_router(void **state) {
    (void)state;
    size_t n = 0;
    lh_status status = LH_ERR_NO_MEMORY;
    for (bool fails = true; fails;) {
        if (status == LH_OK)
            lh_router_destroy(router);
        failing_malloc_arm(++n);
        status = create(2);
        fails = failing_malloc_disarm();
        assert_int_equal(status, fails ? LH_ERR_NO_MEMORY : LH_OK);
    }
    assert_true(n > 20);
}

static void use_and_destroy(void) {
    uint32_t chains[8];
    assert_int_equal(create(3), LH_OK);
    bring_up(0, 100);
    bring_up(2, 100);
    assert_int_equal(submit(0, 40, 10), LH_OK);
    assert_int_equal(submit(1, 40, 10), LH_OK);
    take_steps(chains, 8);
    lh_router_destroy(router);
    router = NULL;
}

/* Without sanitizers, too; there it counts nothing. */
static void all_memory_is_given_back(void **state) {
    (void)state;
    for (int i = 0; i < 30; i++) /* until the C library keeps for reuse what it ever will */
        use_and_destroy();
    size_t before = mallinfo2().uordblks;
    for (int i = 0; i < 10; i++)
        use_and_destroy();
    assert_int_equal(mallinfo2().uordblks, before);
}

/* Not all are there yet, so nobody knows its chain. */
static void a_worker_without_a_part_may_go(void **state) {
    (void)state;
    lh_worker_report report = report_of("a");
    lh_fleet_answer answer;
    for (int leaves = 0; leaves <= 1; leaves++) {
        report.leaving = leaves;
        assert_int_equal(lh_router_put(router, &report, 0, &answer, NULL), LH_OK);
        assert_true(answer.may_go && !answer.has_assignment && !answer.is_planned);
        assert_int_equal(answer.is_leaving, leaves);
        assert_int_equal(answer.renew_us, 500 * MS);
        assert_int_equal(answer.lease_us, 3000 * MS);
        assert_non_null(answer.leave_reason);
    }
}

static void too_many_workers_are_refused(void **state) {
    (void)state;
    char name[16];
    lh_fleet_answer answer;
    lh_error error;
    for (uint32_t i = 0; i <= LH_WORKERS_MAX; i++) {
        snprintf(name, sizeof name, "w-%u", i);
        lh_worker_report report = report_of(name);
        assert_int_equal(lh_router_put(router, &report, 0, &answer, &error),
                         i < LH_WORKERS_MAX ? LH_OK : LH_ERR_LIMIT);
    }
}

static void positions_are_of_the_chains_that_are_up(void **state) {
    (void)state;
    uint64_t most, free;
    lh_router_positions(router, &most, &free);
    assert_true(most == UINT64_MAX && free == UINT64_MAX);
    assert_false(lh_router_is_up(router));
    bring_up(1, 20);
    assert_true(lh_router_is_up(router));
    lh_router_positions(router, &most, &free);
    assert_int_equal(most, 320);
    assert_int_equal(free, 320);
    bring_up(0, 10);
    bring_up(2, 15);
    lh_router_positions(router, &most, &free);
    assert_int_equal(most, 320);
    assert_int_equal(free, 720);
}

static void the_chain_with_the_fewest_sequences_gets_the_next(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 3; i++)
        bring_up(i, 100);
    for (uint64_t handle = 0; handle < 5; handle++)
        assert_int_equal(submit(handle, 10, 10), LH_OK);
    assert_sequences(2, 2, 1);
    lh_router_cancel(router, 1);
    assert_sequences(2, 1, 1);
    uint32_t running, waiting;
    lh_router_load(router, &running, &waiting);
    assert_int_equal(running + waiting, 4);
    lh_router_cancel(router, 9); /* unknown */
    assert_int_equal(submit(5, 10, 10), LH_OK);
    assert_sequences(2, 2, 1);
}

static void what_runs_and_what_waits_is_counted_on_all_chains(void **state) {
    (void)state;
    uint32_t running, waiting, chains[32];
    bring_up(0, 100);
    bring_up(2, 100);
    for (uint64_t handle = 0; handle < 6; handle++)
        assert_int_equal(submit(handle, 10, 10), LH_OK);
    lh_router_load(router, &running, &waiting);
    assert_int_equal(running, 0);
    assert_int_equal(waiting, 6);
    take_steps(chains, 32);
    lh_router_load(router, &running, &waiting);
    assert_int_equal(running, 6);
    assert_int_equal(waiting, 0);
}

/* The first two chains are up; on the first one a row takes so many times as long. */
static void bring_two_up(double times) {
    lh_cost_chain costs = costs_of_chain();
    bring_up(0, 100);
    bring_up(1, 100);
    lh_scheduler_set_costs(scheduler_of(1), &costs);
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < 2; k++)
            costs.stages[i].points[k].us *= times;
    lh_scheduler_set_costs(scheduler_of(0), &costs);
}

/* Whatever they cost: the slow one is given what it is through with first. */
static void the_chain_that_is_through_first_gets_the_next(void **state) {
    (void)state;
    bring_two_up(3);
    assert_int_equal(submit(0, 50, 20), LH_OK);
    assert_sequences(0, 1, 0);
    assert_int_equal(submit(1, 50, 20), LH_OK);
    assert_sequences(0, 2, 0);
    bring_up(2, 100); /* its costs are not known: so the number decides */
    assert_int_equal(submit(2, 50, 20), LH_OK);
    assert_sequences(1, 2, 0);
    assert_int_equal(submit(3, 50, 20), LH_OK);
    assert_sequences(1, 2, 1);
}

/* A tenth is no difference: the numbers are the same, too, and then it is the first one's. */
static void chains_that_are_nearly_as_fast_share_the_work(void **state) {
    (void)state;
    bring_two_up(1.1);
    assert_int_equal(submit(0, 50, 20), LH_OK);
    assert_sequences(1, 0, 0);
    assert_int_equal(submit(1, 50, 20), LH_OK);
    assert_sequences(1, 1, 0);
}

static void only_a_chain_that_can_hold_it_gets_a_sequence(void **state) {
    (void)state;
    bring_up(0, 4);
    bring_up(1, 5);
    assert_int_equal(submit(0, 60, 10), LH_OK);
    assert_int_equal(submit(1, 60, 10), LH_OK);
    assert_sequences(0, 2, 0);
    assert_int_equal(submit(2, 54, 10), LH_OK);
    assert_sequences(1, 2, 0);
    assert_int_equal(submit(3, 80, 10), LH_ERR_LIMIT);
}

/* That is the one that may be back soonest; where all are up, the largest. */
static void where_none_can_take_it_the_best_one_refuses(void **state) {
    (void)state;
    assert_true(lh_router_open_until_us(router) == INT64_MIN);
    assert_int_equal(submit(0, 10, 10), LH_ERR_UNAVAILABLE);
    bring_up(1, 10);
    assert_true(lh_router_open_until_us(router) == INT64_MAX);
    bring_up(2, 10);
    bring_down(1);
    now_us += 1000 * MS;
    bring_down(2);
    assert_int_equal(lh_router_open_until_us(router), now_us + 5000 * MS);
    assert_int_equal(submit(0, 10, 10), LH_OK);
    assert_sequences(0, 0, 1);
}

/* All of the one, and then all of the other: each has its chain to itself. */
static void what_a_chain_wants_comes_with_its_index(void **state) {
    (void)state;
    uint32_t chains[8];
    bring_up(0, 100);
    bring_up(2, 100);
    assert_int_equal(submit(0, 40, 10), LH_OK);
    assert_int_equal(submit(1, 20, 10), LH_OK);
    assert_sequences(1, 0, 1);
    assert_int_equal(take_steps(chains, 8), 5);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(chains[i], i < 3 ? 0 : 2);
}

/* From a chain that is down, to the one that is up. */
static void who_waits_where_nothing_runs_goes_elsewhere(void **state) {
    (void)state;
    uint32_t chains[8];
    bring_up(1, 5);
    assert_int_equal(submit(0, 40, 10), LH_OK);
    assert_int_equal(submit(1, 40, 25), LH_OK);
    bring_down(1);
    assert_int_equal(take_steps(chains, 8), 0);
    assert_sequences(0, 2, 0);
    bring_up(2, 4); /* too small for the second one */
    assert_int_equal(take_steps(chains, 8), 3);
    assert_int_equal(chains[0], 2);
    assert_sequences(0, 1, 1);
    bring_up(0, 5);
    assert_true(take_steps(chains, 8) > 0);
    assert_sequences(1, 0, 1);
    assert_false(ears[0].is_failed || ears[1].is_failed);
}

/* Four run at once on each; the other two go where there is a place. */
static void who_waits_for_a_place_goes_where_there_is_one(void **state) {
    (void)state;
    uint32_t chains[32];
    bring_up(0, 100);
    for (uint64_t handle = 0; handle < 6; handle++)
        assert_int_equal(submit(handle, 10, 10), LH_OK);
    take_steps(chains, 32);
    assert_sequences(6, 0, 0);
    bring_up(1, 1); /* no room for 20 positions */
    take_steps(chains, 32);
    assert_sequences(6, 0, 0);
    bring_up(2, 2);
    assert_true(take_steps(chains, 32) > 0);
    assert_int_equal(chains[0], 2);
    assert_sequences(4, 0, 2);
}

static void a_lone_chain_keeps_what_waits(void **state) {
    (void)state;
    uint32_t chains[8];
    lh_router_destroy(router);
    assert_int_equal(create(1), LH_OK);
    bring_up(0, 4);
    assert_int_equal(submit(0, 40, 10), LH_OK);
    bring_down(0);
    assert_int_equal(take_steps(chains, 8), 0);
    assert_int_equal(sequences_of(0), 1);
    assert_int_equal(submit(1, 100, 10), LH_OK); /* who knows what the next one holds */
}

static void the_first_deadline_of_any_chain_counts(void **state) {
    (void)state;
    uint32_t chains[8];
    bring_up(2, 100);
    int64_t idle_us = lh_router_deadline_us(router);
    assert_int_equal(submit(0, 10, 10), LH_OK);
    assert_int_equal(take_steps(chains, 8), 1);
    assert_true(lh_router_deadline_us(router) < idle_us);
    assert_int_equal(lh_router_deadline_us(router),
                     lh_chain_controller_deadline_us(lh_router_controller(router, 2)));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(chains_are_found_by_their_names),
        cmocka_unit_test_teardown(without_memory_there_is_no_router, tear_down),
        cmocka_unit_test(all_memory_is_given_back),
        TEST(a_worker_without_a_part_may_go),
        TEST(too_many_workers_are_refused),
        TEST(positions_are_of_the_chains_that_are_up),
        TEST(the_chain_with_the_fewest_sequences_gets_the_next),
        TEST(what_runs_and_what_waits_is_counted_on_all_chains),
        TEST(the_chain_that_is_through_first_gets_the_next),
        TEST(chains_that_are_nearly_as_fast_share_the_work),
        TEST(only_a_chain_that_can_hold_it_gets_a_sequence),
        TEST(where_none_can_take_it_the_best_one_refuses),
        TEST(what_a_chain_wants_comes_with_its_index),
        TEST(who_waits_where_nothing_runs_goes_elsewhere),
        TEST(who_waits_for_a_place_goes_where_there_is_one),
        TEST(a_lone_chain_keeps_what_waits),
        TEST(the_first_deadline_of_any_chain_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
