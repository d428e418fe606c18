/* A worker draws tokens that do not exist: no stream fails or has a wrong token, and the chain does
 * without it where it can. */
#include <stddef.h>

#include "tests/fleet/support/small_fleet.h"

#include <string.h>

static const simulation_options near_links = {.link = {.delay_us = 5 * MS}};

static const lh_fleet *fleet_of(simulation *sim, uint32_t chain) {
    return lh_chain_controller_fleet(lh_router_controller(simulation_router(sim), chain));
}

static const lh_chain *chain_of(simulation *sim) {
    return lh_fleet_chain(fleet_of(sim, 0));
}

/* The number of the worker that draws, in the order in which they were added. */
static int last_node(simulation *sim) {
    return chain_of(sim)->stages[chain_of(sim)->stage_count - 1].name[0] - 'a' + 1;
}

static lh_worker_standing standing_of(simulation *sim, const char *worker) {
    return lh_misconduct_standing(
        lh_misconduct_find(lh_router_misconduct(simulation_router(sim)), worker),
        simulation_now_us(sim));
}

static bool is_in_chain(simulation *sim, const char *worker) {
    return lh_chain_find(chain_of(sim), worker) >= 0;
}

static void forge(simulation *sim, int node, uint32_t every) {
    toy_worker_set_forging(simulation_worker(sim, node), every);
}

static uint64_t forged_by(simulation *sim, int node) {
    return toy_worker_current_figures(simulation_worker(sim, node)).forged;
}

/* Two faults, and each other worker can take the part over; whether all its tokens are wrong or
 * few. */
static void the_others_serve_without_the_one_that_forges(void **state) {
    (void)state;
    for (uint32_t every = 1; every <= 16; every *= 4) {
        for (int workers = 2; workers <= 3; workers++) {
            simulation *sim = small_fleet_create(&near_links, workers);
            int forger = last_node(sim);
            const char name[] = {(char)('a' + forger - 1), 0};
            small_fleet_submit(sim, 5, 100);
            forge(sim, forger, every);
            assert_in_range(small_fleet_assert_finished(sim, 5), 0, 4000 * MS);
            assert_int_equal(chain_of(sim)->stage_count, workers - 1);
            assert_false(is_in_chain(sim, name));
            assert_int_equal(standing_of(sim, name), LH_STANDING_SUSPENDED);
            assert_in_range(forged_by(sim, forger), LH_MISCONDUCT_FAULTS_MAX, 100);
            small_fleet_assert_clean(sim);
            simulation_destroy(sim);
        }
    }
}

/* Two workers, each of which holds half of the model and no more: one that fails now and then is
 * better than none. */
static void one_that_nobody_can_replace_is_used_all_the_same(void **state) {
    (void)state;
    simulation *sim = simulation_create(&near_links);
    for (int i = 0; i < 2; i++) {
        toy_worker_options worker = small_worker(i);
        worker.memory_bytes = 7000;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    int forger = last_node(sim);
    const char name[] = {(char)('a' + forger - 1), 0};
    small_fleet_submit(sim, 2, 40);
    forge(sim, forger, 20);
    small_fleet_assert_finished(sim, 2);
    assert_in_range(forged_by(sim, forger), 3, 100);
    assert_int_equal(standing_of(sim, name), LH_STANDING_SUSPENDED);
    assert_true(is_in_chain(sim, name));
    simulation_destroy(sim);
}

/* A suspended one is left alone, since the others are gone. */
static void who_is_left_is_planned_with_all_the_same(void **state) {
    (void)state;
    simulation *sim = small_fleet_create(&near_links, 2);
    int forger = last_node(sim);
    small_fleet_submit(sim, 1, 100);
    forge(sim, forger, 1);
    small_fleet_assert_finished(sim, 1);
    forge(sim, forger, 0);
    toy_worker_kill(simulation_worker(sim, 3 - forger));
    small_fleet_pass(sim, 5000);
    simulation_wait_ready(sim, simulation_now_us(sim) + 10000 * MS);
    assert_int_equal(last_node(sim), forger);
    simulation_destroy(sim);
}

static void it_is_trusted_again_after_a_clean_trial(void **state) {
    (void)state;
    simulation *sim = small_fleet_create(&near_links, 2);
    int forger = last_node(sim);
    const char name[] = {(char)('a' + forger - 1), 0};
    small_fleet_submit(sim, 1, 100);
    forge(sim, forger, 1);
    small_fleet_assert_finished(sim, 1);
    toy_worker_kill(simulation_worker(sim, forger)); /* a restart does not clear it */
    toy_worker_start(simulation_worker(sim, forger));
    small_fleet_pass(sim, 5000);
    assert_int_equal(standing_of(sim, name), LH_STANDING_SUSPENDED);
    assert_false(is_in_chain(sim, name));
    forge(sim, forger, 0);
    small_fleet_pass(sim, 30000);
    assert_int_equal(standing_of(sim, name), LH_STANDING_ON_TRIAL);
    toy_worker_kill(simulation_worker(sim, 3 - forger));
    small_fleet_pass(sim, 10000);
    simulation_wait_ready(sim, simulation_now_us(sim) + 10000 * MS);
    assert_true(is_in_chain(sim, name));
    int stream = simulation_submit(sim, 40, 300, 9, NULL);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 60000 * MS));
    assert_true(simulation_stream_at(sim, stream)->is_finished);
    assert_int_equal(standing_of(sim, name), LH_STANDING_TRUSTED);
    simulation_destroy(sim);
}

/* Its chain is given up while it is suspended: what ran there goes on with the other chain. */
static void another_chain_takes_the_streams_over(void **state) {
    (void)state;
    simulation *sim =
        small_fleet_create(&(simulation_options){.replicas = 2, .link = {.delay_us = 5 * MS}}, 2);
    small_fleet_pass(sim, 2000);
    assert_int_equal(chain_of(sim)->stage_count, 1);
    int forger = last_node(sim);
    const char name[] = {(char)('a' + forger - 1), 0};
    forge(sim, forger, 1);
    for (int count = 6; count <= 12; count += 6) {
        small_fleet_submit(sim, 6, 100);
        small_fleet_assert_finished(sim, count);
    }
    assert_int_equal(standing_of(sim, name), LH_STANDING_SUSPENDED);
    assert_int_equal(chain_of(sim)->state, LH_CHAIN_NONE);
    assert_non_null(strstr(lh_fleet_reason(fleet_of(sim, 0)), "suspended"));
    assert_int_equal(lh_fleet_chain(fleet_of(sim, 1))->state, LH_CHAIN_READY);
    forge(sim, forger, 0);
    small_fleet_pass(sim, 35000);
    assert_int_equal(chain_of(sim)->state, LH_CHAIN_READY);
    simulation_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_others_serve_without_the_one_that_forges),
        cmocka_unit_test(one_that_nobody_can_replace_is_used_all_the_same),
        cmocka_unit_test(who_is_left_is_planned_with_all_the_same),
        cmocka_unit_test(it_is_trusted_again_after_a_clean_trial),
        cmocka_unit_test(another_chain_takes_the_streams_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
