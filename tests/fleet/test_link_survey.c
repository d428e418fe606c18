/* The matrix of links in a fleet whose chains use few of them. */
#include <stddef.h>

#include "tests/fleet/support/small_fleet.h"

#include "common/base/log.h"

#include <stdio.h>

#define SITES 4

static const char *const sites[SITES] = {"attic", "barn", "cellar", "den"};

/* In bytes in a microsecond: every direction has a rate of its own. */
static double rate_of(int from, int to) {
    return 1 + 2 * from + 10 * to;
}

static void set_links(simulation *sim, int count) {
    for (int from = 0; from < count; from++)
        for (int to = 0; to < count; to++)
            if (from != to)
                network_set_link(simulation_network(sim), from + 1, to + 1,
                                 (link_options){.delay_us = (2 + from + to) * MS,
                                                .bytes_per_s = (int64_t)(rate_of(from, to) * 1e6)});
}

/* One worker at each site; measures: they tell what their hops carry. */
static simulation *create_that(bool measures, uint32_t replicas, uint64_t survey_bytes, int count) {
    const simulation_options options = {.replicas = replicas,
                                        .fleet = {.survey_bytes = survey_bytes},
                                        .link = {.delay_us = 5 * MS}};
    lh_log_set_level(LH_LOG_ERROR);
    simulation *sim = simulation_create(&options);
    for (int i = 0; i < count; i++) {
        toy_worker_options worker = small_worker(i);
        worker.site = sites[i];
        worker.load_us = 2000 * MS;
        worker.measures = measures;
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    set_links(sim, count);
    return sim;
}

static simulation *create(uint32_t replicas, uint64_t survey_bytes, int count) {
    return create_that(false, replicas, survey_bytes, count);
}

static int count_surveying(simulation *sim) {
    int count = 0;
    for (int node = 1; simulation_worker(sim, node); node++)
        count += toy_worker_current_figures(simulation_worker(sim, node)).is_surveying;
    return count;
}

static uint64_t count_surveys(simulation *sim) {
    uint64_t count = 0;
    for (int node = 1; simulation_worker(sim, node); node++)
        count += toy_worker_current_figures(simulation_worker(sim, node)).surveys;
    return count;
}

static void watch(simulation *sim, int64_t ms) {
    for (; ms > 0; ms -= 10) {
        small_fleet_pass(sim, 10);
        assert_in_range(count_surveying(sim), 0, 1);
    }
}

static void assert_known(simulation *sim, int count) {
    const lh_link_matrix *links = lh_router_links(simulation_router(sim));
    for (int from = 0; from < count; from++) {
        for (int to = 0; to < count; to++) {
            lh_link_value value;
            bool is_known = lh_link_matrix_read(links, sites[from], sites[to], &value);
            assert_int_equal(is_known, from != to);
            if (!is_known)
                continue;
            assert_true(value.bytes_per_us == rate_of(from, to));
            assert_int_equal(value.round_trip_us, 2 * (2 + from + to) * MS);
            assert_int_equal(value.source, LH_LINK_SURVEY);
        }
    }
}

/* The gateway is alone at its site: six directions between three sites, and three ways to it. */
static void every_direction_is_found_out_while_streams_run(void **state) {
    (void)state;
    simulation *sim = create(1, 64 << 20, 3);
    small_fleet_submit(sim, 5, 300);
    watch(sim, 20000);
    assert_known(sim, 3);
    assert_int_equal(count_surveys(sim), 9);
    small_fleet_assert_finished(sim, 5);
    watch(sim, 60000);
    assert_int_equal(count_surveys(sim), 9); /* what is known is left alone, */
    watch(sim, 600000);
    assert_int_equal(count_surveys(sim), 18); /* for ten minutes */
    small_fleet_assert_clean(sim);
    simulation_destroy(sim);
}

/* So that the streams have it for themselves. */
static void while_streams_run_what_a_hop_tells_has_to_do(void **state) {
    (void)state;
    simulation *sim = create_that(true, 1, 64 << 20, 3);
    lh_link_value value;
    small_fleet_submit(sim, 3, 2000);
    watch(sim, 20000);
    const lh_link_matrix *links = lh_router_links(simulation_router(sim));
    assert_true(lh_link_matrix_read(links, sites[0], sites[1], &value));
    assert_int_equal(value.source, LH_LINK_HOP);
    assert_true(lh_link_matrix_read(links, sites[1], sites[0], &value));
    assert_int_equal(value.source, LH_LINK_SURVEY);
    assert_int_equal(count_surveys(sim), 6); /* nine without the three hops */
    assert_false(simulation_stream_at(sim, 0)->is_finished);
    small_fleet_assert_finished(sim, 3);
    watch(sim, 20000);
    assert_int_equal(count_surveys(sim), 9);
    simulation_destroy(sim);
}

static void workers_of_all_chains_survey(void **state) {
    (void)state;
    simulation *sim = create(2, 64 << 20, 4);
    watch(sim, 40000);
    assert_known(sim, 4);
    assert_int_equal(count_surveys(sim), 16);
    simulation_destroy(sim);
}

/* The one that was told of a survey hears with its next report that it is over. */
static void nothing_is_surveyed_while_a_chain_forms(void **state) {
    (void)state;
    simulation *sim = create(1, 64 << 20, 3);
    const lh_fleet *fleet = lh_chain_controller_fleet(simulation_controller(sim));
    watch(sim, 1000);
    toy_worker_kill(simulation_worker(sim, 3));
    while (lh_fleet_chain(fleet)->state == LH_CHAIN_READY)
        small_fleet_pass(sim, 10);
    toy_worker_start(simulation_worker(sim, 3));
    small_fleet_pass(sim, 600);
    uint64_t before = count_surveys(sim);
    assert_int_equal(lh_fleet_chain(fleet)->state, LH_CHAIN_FORMING);
    while (lh_fleet_chain(fleet)->state != LH_CHAIN_READY) {
        assert_int_equal(count_surveying(sim), 0);
        small_fleet_pass(sim, 10);
    }
    assert_int_equal(count_surveys(sim), before);
    watch(sim, 20000);
    assert_known(sim, 3);
    simulation_destroy(sim);
}

/* One of two chains is enough. */
static void nothing_is_surveyed_while_one_of_two_chains_forms(void **state) {
    (void)state;
    simulation *sim = create(2, 64 << 20, 4);
    const lh_fleet *first =
        lh_chain_controller_fleet(lh_router_controller(simulation_router(sim), 0));
    watch(sim, 500);
    for (int node = 1; node <= 4; node++)
        if (lh_chain_find(lh_fleet_chain(first), small_worker(node - 1).name) == 0)
            toy_worker_kill(simulation_worker(sim, node));
    while (lh_fleet_chain(first)->state == LH_CHAIN_READY)
        small_fleet_pass(sim, 10);
    small_fleet_pass(sim, 600);
    uint64_t before = count_surveys(sim);
    assert_int_equal(lh_fleet_chain(first)->state, LH_CHAIN_FORMING);
    while (lh_fleet_chain(first)->state != LH_CHAIN_READY) {
        assert_int_equal(count_surveying(sim), 0);
        small_fleet_pass(sim, 10);
    }
    assert_int_equal(count_surveys(sim), before);
    simulation_destroy(sim);
}

static void nothing_is_surveyed_while_a_chain_is_prepared(void **state) {
    (void)state;
    const char *cause;
    simulation *sim = create(1, 64 << 20, 3);
    const lh_fleet *fleet = lh_chain_controller_fleet(simulation_controller(sim));
    watch(sim, 500);
    toy_worker_set_leaving(simulation_worker(sim, 3), true);
    while (!lh_fleet_successor(fleet, &cause))
        small_fleet_pass(sim, 10);
    small_fleet_pass(sim, 600);
    uint64_t before = count_surveys(sim);
    assert_non_null(lh_fleet_successor(fleet, &cause));
    while (lh_fleet_successor(fleet, &cause)) {
        assert_int_equal(count_surveying(sim), 0);
        small_fleet_pass(sim, 10);
    }
    assert_int_equal(count_surveys(sim), before);
    simulation_destroy(sim);
}

/* Two workers at the barn, of which the chain needs one. */
static void spares_survey_rather_than_those_who_serve(void **state) {
    (void)state;
    simulation_options options = {.fleet = {.survey_bytes = 64 << 20, .aim.stages = 2},
                                  .link = {.delay_us = 5 * MS, .bytes_per_s = 1000000}};
    simulation *sim = simulation_create(&options);
    for (int i = 0; i < 3; i++) {
        toy_worker_options worker = small_worker(i);
        worker.site = sites[(i + 1) / 2];
        simulation_add_worker(sim, &worker);
    }
    simulation_wait_ready(sim, 10000 * MS);
    watch(sim, 12000);
    const lh_chain *chain = lh_fleet_chain(lh_chain_controller_fleet(simulation_controller(sim)));
    for (int node = 2; node <= 3; node++) {
        bool serves = lh_chain_find(chain, small_worker(node - 1).name) >= 0;
        uint64_t surveys = toy_worker_current_figures(simulation_worker(sim, node)).surveys;
        assert_int_equal(surveys > 0, !serves);
    }
    assert_true(lh_chain_find(chain, "a") >= 0);
    simulation_destroy(sim);
}

static void a_link_through_which_nothing_gets_waits(void **state) {
    (void)state;
    simulation *sim = create(1, 64 << 20, 4);
    lh_link_value value;
    network_block(simulation_network(sim), 1, 3, simulation_now_us(sim) + 60000 * MS);
    watch(sim, 60000);
    assert_false(
        lh_link_matrix_read(lh_router_links(simulation_router(sim)), sites[0], sites[2], &value) &&
        value.bytes_per_us > 0);
    watch(sim, 600000);
    assert_known(sim, 4);
    simulation_destroy(sim);
}

static void without_a_budget_nobody_surveys(void **state) {
    (void)state;
    simulation *sim = create(1, 0, 3);
    watch(sim, 20000);
    assert_int_equal(count_surveys(sim), 0);
    simulation_destroy(sim);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_direction_is_found_out_while_streams_run),
        cmocka_unit_test(while_streams_run_what_a_hop_tells_has_to_do),
        cmocka_unit_test(workers_of_all_chains_survey),
        cmocka_unit_test(nothing_is_surveyed_while_a_chain_forms),
        cmocka_unit_test(nothing_is_surveyed_while_one_of_two_chains_forms),
        cmocka_unit_test(nothing_is_surveyed_while_a_chain_is_prepared),
        cmocka_unit_test(spares_survey_rather_than_those_who_serve),
        cmocka_unit_test(a_link_through_which_nothing_gets_waits),
        cmocka_unit_test(without_a_budget_nobody_surveys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
