/* A chain that is good at what it is asked for, whatever it began as: it moves by what its stages
 * and links have measured, its streams go on with their tokens, and it stays where it is good. */
#include <stddef.h>

#include "common/base/log.h"
#include "tests/fleet/support/small_fleet.h"
#include "tests/fleet/support/toy_model.h"

#include <stdlib.h>
#include <string.h>

static const lh_fleet *fleet_of(simulation *sim) {
    return lh_chain_controller_fleet(simulation_controller(sim));
}

static const lh_chain *chain_of(simulation *sim) {
    return lh_fleet_chain(fleet_of(sim));
}

static uint32_t layers_of(simulation *sim, const char *worker) {
    int stage = lh_chain_find(chain_of(sim), worker);
    return stage < 0
               ? 0
               : chain_of(sim)->stages[stage].last_layer - chain_of(sim)->stages[stage].first_layer;
}

/* A row takes 100 us in a layer, alone or among many. */
static toy_worker_options measured_worker(int index) {
    toy_worker_options worker = small_worker(index);
    worker.step_us = worker.row_us = 0;
    worker.layer_us = worker.start_us = 100;
    worker.measures = true;
    return worker;
}

static simulation *create(lh_goal goal, int workers, const toy_worker_options *options) {
    simulation_options sim_options = {
        .link = {.delay_us = 1 * MS, .bytes_per_s = 12500000},
        .fleet = {.rebalance_delay_us = 2000 * MS,
                  .aim = {.goal = goal, .prompt_rows = 100, .position = 100, .sequences_max = 8}}};
    lh_log_set_level(getenv("LONGHAUL_LOG") ? LH_LOG_INFO : LH_LOG_ERROR);
    simulation *sim = simulation_create(&sim_options);
    for (int i = 0; i < workers; i++)
        simulation_add_worker(sim, &options[i]);
    simulation_wait_ready(sim, 10000 * MS);
    return sim;
}

/* Until what was assumed of links at first has been measured, and the chain is as it should be. */
static void settle(simulation *sim) {
    small_fleet_pass(sim, 20000);
    assert_int_equal(chain_of(sim)->state, LH_CHAIN_READY);
}

/* Two streams in each second. */
static void submit_waves(simulation *sim, int seconds) {
    for (int second = 0; second < seconds; second++) {
        small_fleet_submit(sim, 2, 150);
        small_fleet_pass(sim, 1000);
    }
}

/* Both have half; b turns out to be 40 % slower: one of its layers becomes a's, streams' tokens
 * are what they would have been, and then all is quiet. */
static void a_slower_stage_loses_layers(void **state) {
    (void)state;
    const toy_worker_options workers[] = {measured_worker(0), measured_worker(1)};
    simulation *sim = create(LH_GOAL_THROUGHPUT, 2, workers);
    settle(sim);
    assert_int_equal(layers_of(sim, "b"), 6);
    toy_worker_set_slowness(simulation_worker(sim, 2), 1.4);
    submit_waves(sim, 20);
    assert_int_equal(layers_of(sim, "a"), 7);
    assert_int_equal(layers_of(sim, "b"), 5);
    uint32_t epoch = chain_of(sim)->epoch;
    int64_t longest_us = small_fleet_assert_finished(sim, 40);
    assert_in_range(longest_us, 0, 1200 * MS); /* a fiftieth of a minute */
    small_fleet_pass(sim, 60000);
    assert_int_equal(chain_of(sim)->epoch, epoch);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* Meters that lie now and then move nothing. */
static void noise_moves_nothing(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        toy_worker_options workers[] = {measured_worker(0), measured_worker(1)};
        workers[0].lies = 2 * seed;
        workers[1].lies = 2 * seed + 1;
        simulation *sim = create(LH_GOAL_THROUGHPUT, 2, workers);
        settle(sim);
        uint32_t epoch = chain_of(sim)->epoch;
        small_fleet_submit(sim, 8, 3000);
        small_fleet_assert_finished(sim, 8);
        assert_int_equal(chain_of(sim)->epoch, epoch);
        simulation_destroy(sim);
    }
}

/* Token by token the model is quickest on one machine: the slower one is left out from the first
 * chain on, and told so. When the other dies it stands in; and when that is back, the chain goes
 * back. */
static void a_machine_that_only_costs_stands_in(void **state) {
    (void)state;
    toy_worker_options workers[] = {measured_worker(0), measured_worker(1)};
    char reason[LH_ERROR_MESSAGE_BYTES];
    workers[1].layer_us = workers[1].start_us = 500;
    simulation *sim = create(LH_GOAL_TPOT, 2, workers);
    assert_int_equal(layers_of(sim, "a"), TOY_LAYERS);
    submit_waves(sim, 20);
    assert_int_equal(layers_of(sim, "a"), TOY_LAYERS);
    const lh_worker *b = lh_registry_find(lh_fleet_registry(fleet_of(sim)), "b");
    lh_role_inquiry roles = lh_fleet_ask_roles(fleet_of(sim), simulation_now_us(sim));
    assert_int_equal(lh_worker_role_of(&roles, b, reason), LH_ROLE_SPARE);
    assert_non_null(strstr(reason, "a token would take"));
    toy_worker_kill(simulation_worker(sim, 1));
    small_fleet_pass(sim, 5000);
    assert_int_equal(layers_of(sim, "b"), TOY_LAYERS);
    toy_worker_start(simulation_worker(sim, 1));
    submit_waves(sim, 40);
    assert_int_equal(layers_of(sim, "a"), TOY_LAYERS);
    small_fleet_assert_finished(sim, 120);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* A gateway that comes back finds the chain that was found before, and leaves it alone. */
static void a_restarted_gateway_keeps_what_was_found(void **state) {
    (void)state;
    toy_worker_options workers[] = {measured_worker(0), measured_worker(1)};
    workers[1].layer_us = workers[1].start_us = 500;
    simulation *sim = create(LH_GOAL_TPOT, 2, workers);
    small_fleet_pass(sim, 20000);
    assert_int_equal(layers_of(sim, "a"), TOY_LAYERS);
    uint64_t loads = toy_worker_current_figures(simulation_worker(sim, 1)).loads;
    simulation_restart_gateway(sim, 500 * MS);
    small_fleet_pass(sim, 20000);
    assert_int_equal(layers_of(sim, "a"), TOY_LAYERS);
    assert_int_equal(toy_worker_current_figures(simulation_worker(sim, 1)).loads, loads);
    simulation_destroy(sim);
}

/* ---- Links decide ---- */

enum { FAR_APART = 5 };

/* Milliseconds one way: the gateway (0) and workers a to e, at a site each. By names the ring is a,
 * b, c, d, e; the short one is c, e, a (or back), and two of five stay out of it, since three hold
 * the model. */
static const int delays_ms[FAR_APART + 1][FAR_APART + 1] = {
    {0, 40, 60, 3, 55, 45}, {40, 0, 70, 50, 65, 4},  {60, 70, 0, 80, 75, 60},
    {3, 50, 80, 0, 70, 5},  {55, 65, 75, 70, 0, 66}, {45, 4, 60, 5, 66, 0}};

static simulation *create_far_apart(lh_goal goal) {
    simulation_options options = {
        .fleet = {.survey_bytes = 64u << 20,
                  .rebalance_delay_us = 2000 * MS,
                  .aim = {.goal = goal, .prompt_rows = 100, .position = 100, .sequences_max = 8}}};
    simulation *sim = simulation_create(&options);
    for (int a = 0; a <= FAR_APART; a++)
        for (int b = 0; b <= FAR_APART; b++)
            network_set_link(
                simulation_network(sim), a, b,
                (link_options){.delay_us = delays_ms[a][b] * MS, .bytes_per_s = 12500000});
    for (int i = 0; i < FAR_APART; i++) {
        toy_worker_options worker = measured_worker(i);
        static const char *const sites[] = {"site-a", "site-b", "site-c", "site-d", "site-e"};
        worker.site = sites[i];
        worker.memory_bytes = 5500;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    return sim;
}

/* What the chain takes for a token, from its stages' times and the true links, in milliseconds. */
static double ring_ms(simulation *sim) {
    const lh_chain *chain = chain_of(sim);
    int at = 0;
    double ms = 0;
    for (uint32_t s = 0; s < chain->stage_count; s++) {
        int node = 1 + chain->stages[s].name[0] - 'a';
        ms += delays_ms[at][node] +
              0.1 * (chain->stages[s].last_layer - chain->stages[s].first_layer);
        at = node;
    }
    return ms + delays_ms[at][0];
}

static double measured_token_ms(simulation *sim, int stream) {
    const simulation_stream *s = simulation_stream_at(sim, stream);
    return (double)(s->last_token_us - s->first_token_us) / MS / (s->count - 1);
}

/* The first chain has no more stages than it needs; which, is found when links have been measured,
 * whatever order the names have: what was predicted is what a token takes then, and no ring over
 * any three of them is shorter. */
static void a_fleet_finds_its_shortest_ring(void **state) {
    (void)state;
    simulation *sim = create_far_apart(LH_GOAL_TPOT);
    assert_int_equal(chain_of(sim)->stage_count, 3);
    double before_ms = ring_ms(sim);
    small_fleet_pass(sim, 600000);
    assert_int_equal(chain_of(sim)->state, LH_CHAIN_READY);
    assert_int_equal(chain_of(sim)->stage_count, 3);
    assert_true(ring_ms(sim) < 0.3 * before_ms);
    assert_true(ring_ms(sim) < 3 + 5 + 4 + 40 + 1.2 + 0.1);
    uint32_t epoch = chain_of(sim)->epoch;
    small_fleet_submit(sim, 1, 200);
    small_fleet_assert_finished(sim, 1);
    double token_ms = measured_token_ms(sim, 0),
           predicted_ms = lh_fleet_latest_study(fleet_of(sim))->present_value / 1000;
    assert_true(token_ms > 0.9 * predicted_ms && token_ms < 1.1 * predicted_ms);
    small_fleet_pass(sim, 600000);
    assert_int_equal(chain_of(sim)->epoch, epoch);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slower_stage_loses_layers),
        cmocka_unit_test(noise_moves_nothing),
        cmocka_unit_test(a_machine_that_only_costs_stands_in),
        cmocka_unit_test(a_restarted_gateway_keeps_what_was_found),
        cmocka_unit_test(a_fleet_finds_its_shortest_ring),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
