/* A worker that says it is faster than it is gets more layers at first, and no more than its share
 * once its steps have been seen. */
#include <stddef.h>

#include "tests/fleet/support/small_fleet.h"

#include "common/base/log.h"

#include <stdlib.h>

#define LAYER_US 500

static const lh_fleet *fleet_of(simulation *sim) {
    return lh_chain_controller_fleet(simulation_controller(sim));
}

static uint32_t layers_of(simulation *sim, const char *worker) {
    const lh_chain *chain = lh_fleet_chain(fleet_of(sim));
    int stage = lh_chain_find(chain, worker);
    return stage < 0 ? 0 : chain->stages[stage].last_layer - chain->stages[stage].first_layer;
}

static const lh_claim *claim_of(simulation *sim, const char *worker) {
    return lh_claims_find(lh_router_claims(simulation_router(sim)), worker);
}

static toy_worker_options equal_worker(int index) {
    toy_worker_options worker = small_worker(index);
    worker.step_us = worker.row_us = 0;
    worker.layer_us = worker.start_us = LAYER_US;
    worker.measures = true;
    return worker;
}

static simulation *create(lh_goal goal, const toy_worker_options *workers) {
    const simulation_options options = {
        .link = {.delay_us = 1 * MS, .bytes_per_s = 12500000},
        .fleet = {.rebalance_delay_us = 2000 * MS,
                  .aim = {.goal = goal, .prompt_rows = 100, .position = 100, .sequences_max = 8}}};
    lh_log_set_level(getenv("LONGHAUL_LOG") ? LH_LOG_INFO : LH_LOG_ERROR);
    simulation *sim = simulation_create(&options);
    simulation_add_worker(sim, &workers[0]);
    simulation_add_worker(sim, &workers[1]);
    simulation_wait_ready(sim, 10000 * MS);
    return sim;
}

/* One stream after the other, and a pause in which the chain may change. */
static void serve(simulation *sim, int streams) {
    for (int i = 0; i < streams; i++) {
        simulation_submit(sim, 40, 100, (uint64_t)i, NULL);
        assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 60000 * MS));
        small_fleet_pass(sim, 500);
    }
    small_fleet_pass(sim, 10000);
}

static void who_boasts_in_all_gets_its_share(void **state) {
    (void)state;
    for (int boaster = 0; boaster < 2; boaster++) {
        toy_worker_options workers[] = {equal_worker(0), equal_worker(1)};
        workers[boaster].boasts = 10;
        simulation *sim = create(LH_GOAL_EVEN, workers);
        assert_in_range(layers_of(sim, workers[boaster].name), 10, 12);
        serve(sim, 20);
        assert_in_range(layers_of(sim, workers[boaster].name), 5, 7);
        assert_non_null(claim_of(sim, workers[boaster].name));
        assert_null(claim_of(sim, workers[1 - boaster].name));
        simulation_destroy(sim);
    }
}

static void who_boasts_of_its_machine_alone_does_so_too(void **state) {
    (void)state;
    toy_worker_options workers[] = {equal_worker(0), equal_worker(1)};
    workers[1].start_us = LAYER_US / 10;
    simulation *sim = create(LH_GOAL_EVEN, workers);
    assert_in_range(layers_of(sim, "b"), 10, 11);
    serve(sim, 20);
    assert_in_range(layers_of(sim, "b"), 5, 7);
    assert_null(claim_of(sim, "a"));
    simulation_destroy(sim);
}

static void with_an_aim_it_is_the_same(void **state) {
    (void)state;
    toy_worker_options workers[] = {equal_worker(0), equal_worker(1)};
    workers[1].boasts = 10;
    simulation *sim = create(LH_GOAL_THROUGHPUT, workers);
    serve(sim, 40);
    assert_in_range(layers_of(sim, "b"), 5, 7);
    simulation_destroy(sim);
}

static void who_says_what_is_so_is_believed(void **state) {
    (void)state;
    toy_worker_options workers[] = {equal_worker(0), equal_worker(1)};
    workers[1].layer_us = workers[1].start_us = LAYER_US * 4;
    simulation *sim = create(LH_GOAL_EVEN, workers);
    uint32_t epoch = lh_fleet_chain(fleet_of(sim))->epoch;
    serve(sim, 20);
    assert_null(claim_of(sim, "a"));
    assert_null(claim_of(sim, "b"));
    assert_int_equal(lh_fleet_chain(fleet_of(sim))->epoch, epoch);
    simulation_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_boasts_in_all_gets_its_share),
        cmocka_unit_test(who_boasts_of_its_machine_alone_does_so_too),
        cmocka_unit_test(with_an_aim_it_is_the_same),
        cmocka_unit_test(who_says_what_is_so_is_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
