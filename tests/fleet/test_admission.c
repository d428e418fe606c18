/* The queue's bound, the KV cache's pages, cancelling. */
#include <stddef.h>

#include "tests/fleet/support/small_fleet.h"

static void the_queue_has_a_bound(void **state) {
    (void)state;
    simulation *sim =
        small_fleet_create(&(simulation_options){.scheduler = {.sequences_max = 4, .queue_max = 6},
                                                 .link = {.delay_us = 5 * MS}},
                           2);
    lh_status status = LH_OK;
    for (int i = 0; i < 10; i++)
        assert_true(simulation_submit(sim, 30, 20, (uint64_t)i, &status) >= 0);
    assert_int_equal(simulation_submit(sim, 30, 20, 99, &status), -1);
    assert_int_equal(status, LH_ERR_BUSY);
    lh_scheduler_figures figures =
        lh_scheduler_current_figures(lh_chain_controller_scheduler(simulation_controller(sim)));
    assert_int_equal(figures.running, 4);
    assert_int_equal(figures.waiting, 6);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
    for (int i = 0; i < 10; i++) {
        assert_true(simulation_stream_at(sim, i)->is_finished);
        assert_true(simulation_stream_is_true(simulation_stream_at(sim, i)));
    }
    assert_true(simulation_submit(sim, 30, 20, 99, &status) >= 0);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* The second worker has the fewest pages: 20 of 16 positions. Each sequence begins with 60
 * positions, 4 pages, and may come to 100: more than two run at a time, and it never runs out. */
static void admission_never_overcommits_the_smallest_worker(void **state) {
    (void)state;
    simulation *sim = simulation_create(&(simulation_options){0});
    toy_worker_options a = small_worker(0), b = small_worker(1);
    b.pages_total = 20;
    simulation_add_worker(sim, &a);
    simulation_add_worker(sim, &b);
    simulation_wait_ready(sim, 10000 * MS);
    for (int i = 0; i < 9; i++)
        assert_true(simulation_submit(sim, 60, 40, (uint64_t)i, NULL) >= 0);
    uint32_t most = 0;
    for (int i = 0; i < 1000; i++) {
        simulation_step_until(sim, simulation_now_us(sim) + 1 * MS);
        uint32_t running =
            lh_scheduler_current_figures(lh_chain_controller_scheduler(simulation_controller(sim)))
                .running;
        most = running > most ? running : most;
        assert_in_range(toy_worker_current_figures(simulation_worker(sim, 2)).pages, 0, 20);
    }
    assert_in_range(most, 3, 5);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
    for (int i = 0; i < 9; i++)
        assert_true(simulation_stream_is_true(simulation_stream_at(sim, i)));
    lh_status status;
    assert_int_equal(simulation_submit(sim, 300, 21, 1, &status), -1);
    assert_int_equal(status, LH_ERR_LIMIT);
    assert_true(simulation_submit(sim, 300, 20, 1, &status) >= 0);
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

static uint32_t pages(simulation *sim, int node) {
    return toy_worker_current_figures(simulation_worker(sim, node)).pages;
}

/* Within 200 ms the last worker has let go, wherever the sequence was: decoding, in its prefill, or
 * waiting. */
static void cancelling_frees_the_pages_everywhere(void **state) {
    (void)state;
    for (int after_ms = 0; after_ms <= 800; after_ms += 9) {
        simulation *sim = small_fleet_create(
            &(simulation_options){.scheduler = {.sequences_max = 2}, .link = {.delay_us = 20 * MS}},
            3);
        int streams[4];
        for (int i = 0; i < 4; i++)
            streams[i] = simulation_submit(sim, 1000, 1000, (uint64_t)i, NULL);
        simulation_step_until(sim, simulation_now_us(sim) + after_ms * MS);
        for (int i = 0; i < 4; i++)
            simulation_cancel(sim, streams[i]);
        simulation_step_until(sim, simulation_now_us(sim) + 200 * MS);
        for (int node = 1; node <= 3; node++)
            assert_int_equal(pages(sim, node), 0);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

/* Prompts share prefill steps; the ones that stay must not notice that their neighbours go. */
static void cancelling_one_leaves_its_neighbours_alone(void **state) {
    (void)state;
    for (int after_ms = 0; after_ms <= 120; after_ms += 1) {
        simulation *sim =
            small_fleet_create(&(simulation_options){.link = {.delay_us = 10 * MS}}, 2);
        for (int i = 0; i < 8; i++)
            simulation_submit(sim, 50 + 13 * (uint32_t)i, 6, (uint64_t)i, NULL);
        simulation_step_until(sim, simulation_now_us(sim) + after_ms * MS);
        for (int i = 0; i < 8; i += 2)
            simulation_cancel(sim, i);
        assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
        for (int i = 1; i < 8; i += 2) {
            assert_true(simulation_stream_at(sim, i)->is_finished);
            assert_true(simulation_stream_is_true(simulation_stream_at(sim, i)));
        }
        assert_int_equal(
            lh_fleet_chain(lh_chain_controller_fleet(simulation_controller(sim)))->epoch, 1001);
        small_fleet_assert_clean(sim);
        simulation_destroy(sim);
    }
}

/* Requests come and hang up all the time: workers never have more steps than they allocated for,
 * nothing leaks, and those that stay get through. */
static void a_storm_of_hang_ups_leaves_nothing_behind(void **state) {
    (void)state;
    simulation *sim = small_fleet_create(
        &(simulation_options){.seed = 5,
                              .scheduler = {.sequences_max = 8},
                              .link = {.delay_us = 10 * MS, .bytes_per_s = 2000000}},
        3);
    int cancelled = 0;
    for (int i = 0; i < 500; i++) {
        lh_status status;
        int stream = simulation_submit(
            sim, 1 + (uint32_t)network_random(simulation_network(sim), 400),
            1 + (uint32_t)network_random(simulation_network(sim), 50), (uint64_t)i, &status);
        simulation_step_until(sim, simulation_now_us(sim) +
                                       (int64_t)network_random(simulation_network(sim), 30) * MS);
        if (stream >= 0 && network_random(simulation_network(sim), 10) < 9) {
            simulation_cancel(sim, stream);
            cancelled++;
        }
    }
    assert_true(simulation_run_streams(sim, simulation_now_us(sim) + 100000 * MS));
    assert_true(cancelled > 300);
    assert_int_equal(lh_fleet_chain(lh_chain_controller_fleet(simulation_controller(sim)))->epoch,
                     1001);
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_queue_has_a_bound),
        cmocka_unit_test(admission_never_overcommits_the_smallest_worker),
        cmocka_unit_test(cancelling_frees_the_pages_everywhere),
        cmocka_unit_test(cancelling_one_leaves_its_neighbours_alone),
        cmocka_unit_test(a_storm_of_hang_ups_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
