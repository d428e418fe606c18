/* Reports become costs: what is not measured is left out, and a rate that is only a lower bound is not believed as one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/log.h"
#include "gateway/fleet/chain_costs.h"

#include <stdio.h>

#define WIDTH 576u

static uint64_t layer_bytes[] = {100, 100, 100, 100, 100, 100};
static const lh_model_profile model = {
    .layers = 6, .context = 64, .width = WIDTH, .layer_bytes = layer_bytes};

static lh_worker_report report_of(const char *name, lh_machine_speed speed) {
    lh_worker_report report = {.instance = 1, .threads = 1, .memory_bytes = 1000, .speed = speed};
    snprintf(report.name, sizeof report.name, "%s", name);
    snprintf(report.site, sizeof report.site, "home");
    snprintf(report.plain_address, sizeof report.plain_address, "%s:1", name);
    return report;
}

static void put(lh_fleet *fleet, const lh_worker_report *report, int64_t now_us) {
    lh_fleet_answer answer;
    assert_int_equal(lh_fleet_put(fleet, report, now_us, &answer, NULL), LH_OK);
}

/* A chain of a and b, which is twice as fast; a's hop has this profile. */
static lh_fleet *create(lh_hop_profile hop) {
    const lh_fleet_options options = {.chain_name = "main",
                                      .origin = {"home", true},
                                      .workers_expected = 2,
                                      .context = 64,
                                      .rows_max = 16,
                                      .wire = {.type = LH_WIRE_F32},
                                      .plan_delay_us = 1500000,
                                      .renew_us = 500000,
                                      .lease_us = 3000000,
                                      .probation_us = 1000000,
                                      .first_epoch = 1000};
    lh_fleet *fleet;
    lh_log_set_level(LH_LOG_ERROR);
    assert_int_equal(lh_fleet_create(&options, &model, 0, &fleet, NULL), LH_OK);
    lh_worker_report a = report_of("a", (lh_machine_speed){2, 12}),
                     b = report_of("b", (lh_machine_speed){1, 6});
    put(fleet, &a, 0);
    put(fleet, &b, 0);
    a.assignment.state = b.assignment.state = LH_WORKER_READY;
    a.assignment.generation = b.assignment.generation = lh_fleet_chain(fleet)->epoch;
    a.compute = b.compute = (lh_compute_profile){.point_count = 1, .points = {{1, 1000}}};
    hop.present = hop.connected = true;
    a.next = hop;
    put(fleet, &a, 1000);
    put(fleet, &b, 1000);
    return fleet;
}

static lh_cost_chain read_costs(lh_hop_profile hop) {
    static const lh_hop_profile first_hop = {.present = true, .connected = true};
    lh_fleet *fleet = create(hop);
    lh_cost_chain costs;
    lh_chain_costs_read(fleet, WIDTH, &first_hop, &costs);
    assert_int_equal(lh_fleet_chain(fleet)->stages[0].last_layer, 2); /* of 6: by the measured speeds */
    lh_fleet_destroy(fleet);
    assert_int_equal(costs.stage_count, 2);
    assert_true(costs.stages[1].points[0].us == 1000);
    assert_true(costs.hops[1].row_bytes == 4 * WIDTH);
    return costs;
}

static void what_is_measured_counts(void **state) {
    (void)state;
    lh_cost_chain costs = read_costs((lh_hop_profile){.bytes_per_us = 0.25, .round_trip_us = 80000});
    assert_true(costs.hops[1].bytes_per_us == 0.25);
    assert_true(costs.hops[1].delay_us == 40000);
    assert_int_equal(lh_cost_chain_check(&costs, NULL), LH_OK);
}

static void a_lower_bound_is_not_the_rate(void **state) {
    (void)state;
    lh_cost_chain slow = read_costs((lh_hop_profile){.bytes_per_us = 0.25, .bytes_per_us_is_bound = true});
    lh_cost_chain fast = read_costs((lh_hop_profile){.bytes_per_us = 300, .bytes_per_us_is_bound = true});
    assert_true(slow.hops[1].bytes_per_us > 10 && slow.hops[1].bytes_per_us < 100);
    assert_true(fast.hops[1].bytes_per_us == 300);
}

static void nothing_known_stays_unknown(void **state) {
    (void)state;
    lh_cost_chain costs = read_costs((lh_hop_profile){.bytes_per_us = 0, .bytes_per_us_is_bound = true});
    assert_true(costs.hops[1].bytes_per_us == 0);
    assert_int_equal(lh_cost_chain_check(&costs, NULL), LH_ERR_UNAVAILABLE);
    assert_true(costs.hops[0].bytes_per_us > 0 &&
                costs.hops[2].bytes_per_us > 0); /* the outer ones do not matter */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_measured_counts),
                                       cmocka_unit_test(a_lower_bound_is_not_the_rate),
                                       cmocka_unit_test(nothing_known_stays_unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
