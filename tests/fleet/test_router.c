/* Several chains of one model: how workers are dealt, where sequences go, and what becomes of them
 * when a chain breaks. */
#include <stddef.h>

#include "tests/fleet/support/small_fleet.h"

#include "common/base/log.h"

#include <stdlib.h>
#include <string.h>

#define CHAINS 2u

/* Each holds a little more than half of the model's 13,000 bytes. */
#define HALF 7000u

static simulation_options two_chains(void) {
    return (simulation_options){.replicas = CHAINS, .link = {.delay_us = 5 * MS}};
}

static const lh_chain_controller *controller_at(simulation *sim, uint32_t chain) {
    return lh_router_controller(simulation_router(sim), chain);
}

static const lh_chain *chain_at(simulation *sim, uint32_t chain) {
    return lh_fleet_chain(lh_chain_controller_fleet(controller_at(sim, chain)));
}

static lh_scheduler_figures figures_at(simulation *sim, uint32_t chain) {
    return lh_scheduler_current_figures(lh_chain_controller_scheduler(controller_at(sim, chain)));
}

static uint64_t finished_by_all(simulation *sim) {
    return figures_at(sim, 0).finished + figures_at(sim, 1).finished;
}

static bool are_ready(simulation *sim) {
    for (uint32_t i = 0; i < CHAINS; i++)
        if (chain_at(sim, i)->state != LH_CHAIN_READY)
            return false;
    return true;
}

static void wait_ready(simulation *sim) {
    int64_t limit_us = simulation_now_us(sim) + 10000 * MS;
    while (!are_ready(sim) && simulation_now_us(sim) < limit_us)
        small_fleet_pass(sim, 10);
    assert_true(are_ready(sim));
}

static void add_worker(simulation *sim, int index, uint64_t memory_bytes, int64_t row_us) {
    toy_worker_options worker = small_worker(index);
    worker.memory_bytes = memory_bytes;
    worker.row_us = row_us;
    worker.measures = true;
    simulation_add_worker(sim, &worker);
}

static simulation *create(const simulation_options *options, int workers) {
    lh_log_set_level(getenv("LONGHAUL_LOG") ? LH_LOG_INFO : LH_LOG_ERROR);
    simulation *sim = simulation_create(options);
    for (int i = 0; i < workers; i++)
        add_worker(sim, i, HALF, 100);
    wait_ready(sim);
    small_fleet_pass(sim, 1000);
    return sim;
}

static bool is_in_ready_chain(simulation *sim, const char *worker) {
    for (uint32_t i = 0; i < CHAINS; i++)
        if (chain_at(sim, i)->state == LH_CHAIN_READY &&
            lh_chain_find(chain_at(sim, i), worker) >= 0)
            return true;
    return false;
}

/* Nothing is left on any worker of a chain, and no promise was broken. */
static void assert_clean(simulation *sim) {
    small_fleet_pass(sim, 2000);
    assert_int_equal(simulation_breaches(sim), 0);
    for (int node = 1; simulation_worker(sim, node); node++)
        if (is_in_ready_chain(sim, small_worker(node - 1).name))
            assert_int_equal(toy_worker_current_figures(simulation_worker(sim, node)).sequences, 0);
}

static void two_chains_share_the_work(void **state) {
    (void)state;
    simulation_options options = two_chains();
    simulation *sim = create(&options, 4);
    assert_int_equal(chain_at(sim, 0)->stage_count, 2);
    assert_int_equal(chain_at(sim, 1)->stage_count, 2);
    assert_string_equal(chain_at(sim, 0)->name, "toy");
    assert_string_equal(chain_at(sim, 1)->name, "toy-2");
    assert_true(chain_at(sim, 0)->epoch % 2 == 0 && chain_at(sim, 1)->epoch % 2 == 1);
    small_fleet_submit(sim, 8, 50);
    assert_in_range(figures_at(sim, 0).running + figures_at(sim, 0).waiting, 3, 5);
    assert_in_range(figures_at(sim, 1).running + figures_at(sim, 1).waiting, 3, 5);
    small_fleet_assert_finished(sim, 8);
    assert_int_equal(finished_by_all(sim), 8);
    assert_clean(sim);
    simulation_destroy(sim);
}

/* The second chain is four times as slow: of ten equal sequences it is given those that it will be
 * through with no later. */
static void the_faster_chain_gets_more(void **state) {
    (void)state;
    simulation_options options = two_chains();
    lh_log_set_level(LH_LOG_ERROR);
    simulation *sim = simulation_create(&options);
    for (int i = 0; i < 4; i++)
        add_worker(sim, i, HALF, i < 2 ? 100 : 400);
    wait_ready(sim);
    small_fleet_pass(sim, 1000);
    for (int i = 0; i < 10; i++)
        assert_true(simulation_submit(sim, 400, 20, (uint64_t)i, NULL) >= 0);
    uint32_t fast = figures_at(sim, 0).running + figures_at(sim, 0).waiting;
    assert_in_range(fast, 7, 9);
    small_fleet_assert_finished(sim, 10);
    int64_t last_us[2] = {0, 0};
    for (int i = 0; i < 10; i++) {
        const simulation_stream *s = simulation_stream_at(sim, i);
        last_us[0] = s->ended_us > last_us[0] ? s->ended_us : last_us[0];
    }
    assert_clean(sim);
    simulation_destroy(sim);
}

/* The first worker to die takes its chain along, for nobody can take over; its sequences go on with
 * the other chain as soon as that is known, and nothing waits for the dead one's lease. */
static void a_broken_chains_sequences_go_on_elsewhere(void **state) {
    (void)state;
    for (int node = 1; node <= 4; node++) {
        simulation_options options = two_chains();
        simulation *sim = create(&options, 4);
        small_fleet_submit(sim, 8, 200);
        small_fleet_pass(sim, 500);
        toy_worker_kill(simulation_worker(sim, node));
        assert_in_range(small_fleet_assert_finished(sim, 8), 0, 600 * MS);
        uint32_t broken = node <= 2 ? 0 : 1;
        assert_int_equal(chain_at(sim, broken)->state, LH_CHAIN_NONE);
        toy_worker_start(simulation_worker(sim, node));
        wait_ready(sim);
        assert_int_equal(chain_at(sim, broken)->stage_count, 2);
        small_fleet_submit(sim, 4, 50);
        small_fleet_assert_finished(sim, 12);
        assert_clean(sim);
        simulation_destroy(sim);
    }
}

/* One that is asked to leave takes its chain along, too; it need not wait, since the other chain
 * stands in. */
static void a_leaving_worker_is_let_go_where_another_chain_stands_in(void **state) {
    (void)state;
    simulation_options options = two_chains();
    simulation *sim = create(&options, 4);
    small_fleet_submit(sim, 8, 400);
    small_fleet_pass(sim, 500);
    for (int node = 1; node <= 4; node++) {
        toy_worker_set_leaving(simulation_worker(sim, node), true);
        small_fleet_pass(sim, 1500);
        assert_false(toy_worker_is_alive(simulation_worker(sim, node)));
        toy_worker_start(simulation_worker(sim, node));
        wait_ready(sim);
    }
    assert_in_range(small_fleet_assert_finished(sim, 8), 0, 600 * MS);
    assert_clean(sim);
    simulation_destroy(sim);
}

/* A chain that has a worker to spare mends the other one. */
static void a_spare_of_one_chain_mends_the_other(void **state) {
    (void)state;
    simulation_options options = two_chains();
    simulation *sim = create(&options, 5);
    uint32_t large = chain_at(sim, 0)->stage_count == 3 ? 0 : 1;
    assert_int_equal(chain_at(sim, large)->stage_count, 3);
    small_fleet_submit(sim, 8, 1500);
    small_fleet_pass(sim, 500);
    toy_worker_kill(simulation_worker(sim, large == 0 ? 5 : 1));
    small_fleet_pass(sim, 10000);
    assert_true(are_ready(sim));
    assert_int_equal(chain_at(sim, 0)->stage_count, 2);
    assert_int_equal(chain_at(sim, 1)->stage_count, 2);
    assert_in_range(small_fleet_assert_finished(sim, 8), 0, 1500 * MS);
    assert_clean(sim);
    simulation_destroy(sim);
}

/* Places are each chain's; what waits, waits for whichever has one first. */
static void who_waits_takes_the_first_place_that_is_free(void **state) {
    (void)state;
    simulation_options options = two_chains();
    options.scheduler.sequences_max = 2;
    simulation *sim = create(&options, 4);
    /* two long ones on each chain; then the ones on the first end early, and those that wait at the
     * second come over */
    for (int i = 0; i < 12; i++)
        assert_true(simulation_submit(sim, 50, i % 2 ? 400 : 10, (uint64_t)i, NULL) >= 0);
    small_fleet_assert_finished(sim, 12);
    assert_int_equal(finished_by_all(sim), 12);
    assert_true(figures_at(sim, 0).finished >= 4 && figures_at(sim, 1).finished >= 4);
    assert_clean(sim);
    simulation_destroy(sim);
}

/* Three of four are there: one chain now. When the fourth comes, the first chain gives it one of
 * its own; it loads what that one had while nothing stands still for longer than that (memory holds
 * no two stages). */
static void a_second_chain_forms_when_it_can(void **state) {
    (void)state;
    simulation_options options = two_chains();
    lh_log_set_level(LH_LOG_ERROR);
    simulation *sim = simulation_create(&options);
    for (int i = 0; i < 3; i++)
        add_worker(sim, i, HALF, 100);
    simulation_wait_ready(sim, 10000 * MS);
    assert_int_equal(chain_at(sim, 0)->stage_count, 3);
    assert_int_equal(chain_at(sim, 1)->state, LH_CHAIN_NONE);
    small_fleet_submit(sim, 4, 1000);
    small_fleet_pass(sim, 1000);
    add_worker(sim, 3, HALF, 100);
    wait_ready(sim);
    assert_int_equal(chain_at(sim, 0)->stage_count, 2);
    assert_int_equal(chain_at(sim, 1)->stage_count, 2);
    assert_in_range(small_fleet_assert_finished(sim, 4), 0, 900 * MS);
    assert_clean(sim);
    simulation_destroy(sim);
}

static void cancelling_finds_a_sequence_wherever_it_is(void **state) {
    (void)state;
    simulation_options options = two_chains();
    simulation *sim = create(&options, 4);
    small_fleet_submit(sim, 8, 300);
    small_fleet_pass(sim, 200);
    toy_worker_kill(simulation_worker(sim, 1));
    small_fleet_pass(sim, 700); /* half of them have moved */
    for (int i = 0; i < 8; i += 2)
        simulation_cancel(sim, i);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
    for (int i = 1; i < 8; i += 2)
        assert_true(simulation_stream_at(sim, i)->is_finished &&
                    simulation_stream_is_true(simulation_stream_at(sim, i)));
    assert_int_equal(figures_at(sim, 0).cancelled + figures_at(sim, 1).cancelled, 4);
    assert_clean(sim);
    simulation_destroy(sim);
}

/* The gateway forgets whose chain was whose; the workers are dealt as before, since their names are
 * the same. */
static void a_restarted_gateway_deals_as_before(void **state) {
    (void)state;
    simulation_options options = two_chains();
    simulation *sim = create(&options, 4);
    lh_chain before = *chain_at(sim, 1);
    simulation_restart_gateway(sim, 500 * MS);
    small_fleet_pass(sim, 501);
    wait_ready(sim);
    assert_string_equal(chain_at(sim, 1)->stages[0].name, before.stages[0].name);
    for (int node = 1; node <= 4; node++)
        assert_int_equal(toy_worker_current_figures(simulation_worker(sim, node)).loads, 1);
    small_fleet_submit(sim, 4, 20);
    small_fleet_assert_finished(sim, 4);
    simulation_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_chains_share_the_work),
        cmocka_unit_test(the_faster_chain_gets_more),
        cmocka_unit_test(a_broken_chains_sequences_go_on_elsewhere),
        cmocka_unit_test(a_leaving_worker_is_let_go_where_another_chain_stands_in),
        cmocka_unit_test(a_spare_of_one_chain_mends_the_other),
        cmocka_unit_test(who_waits_takes_the_first_place_that_is_free),
        cmocka_unit_test(a_second_chain_forms_when_it_can),
        cmocka_unit_test(cancelling_finds_a_sequence_wherever_it_is),
        cmocka_unit_test(a_restarted_gateway_deals_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
