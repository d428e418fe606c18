/* Reports become costs: what is not measured is left out, and a rate that is only a lower bound is
 * not believed as one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "gateway/fleet/chain_costs.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#define WIDTH 576u

static const lh_model_profile model = {.layers = 6,
                                       .context = 64,
                                       .width = WIDTH,
                                       .layer_bytes = {[0 ... 5] = 100},
                                       .row_bytes = {[0 ... 5] = 100}};

/* A chain of a and b, which is twice as fast; a's hop has this profile. */
static lh_fleet *create(lh_hop_profile hop) {
    lh_fleet_options options = fleet_of_four_layers(2);
    lh_worker_report a = report_of("a"), b = report_of("b");
    lh_fleet *fleet;
    options.model = &model;
    lh_log_set_level(LH_LOG_ERROR);
    assert_int_equal(lh_fleet_create(&options, 0, &fleet, NULL), LH_OK);
    a.speed = (lh_machine_speed){2, 12};
    b.speed = (lh_machine_speed){1, 6};
    put_report(fleet, &a, 0);
    put_report(fleet, &b, 0);
    a.assignment.state = b.assignment.state = LH_WORKER_READY;
    a.assignment.generation = b.assignment.generation = lh_fleet_chain(fleet)->epoch;
    a.compute = b.compute = (lh_compute_profile){.point_count = 1, .points = {{1, 1000}}};
    hop.present = hop.connected = true;
    a.next = hop;
    put_report(fleet, &a, 1000);
    put_report(fleet, &b, 1000);
    return fleet;
}

static lh_cost_chain read_costs(lh_hop_profile hop) {
    static const lh_hop_profile first_hop = {.present = true, .connected = true};
    lh_fleet *fleet = create(hop);
    lh_cost_chain costs;
    lh_chain_costs_read(fleet, WIDTH, &first_hop, &costs);
    /* of 6: by the measured speeds */
    assert_int_equal(lh_fleet_chain(fleet)->stages[0].last_layer, 2);
    lh_fleet_destroy(fleet);
    assert_int_equal(costs.stage_count, 2);
    assert_true(costs.stages[1].points[0].us == 1000);
    assert_true(costs.hops[1].row_bytes == 4 * WIDTH);
    return costs;
}

static void what_is_measured_counts(void **state) {
    (void)state;
    lh_cost_chain costs =
        read_costs((lh_hop_profile){.bytes_per_us = 0.25, .round_trip_us = 80000});
    assert_true(costs.hops[1].bytes_per_us == 0.25);
    assert_true(costs.hops[1].delay_us == 40000);
    assert_int_equal(lh_cost_chain_check(&costs, NULL), LH_OK);
}

static void a_lower_bound_is_not_the_rate(void **state) {
    (void)state;
    lh_cost_chain slow =
        read_costs((lh_hop_profile){.bytes_per_us = 0.25, .bytes_per_us_is_bound = true});
    lh_cost_chain fast =
        read_costs((lh_hop_profile){.bytes_per_us = 300, .bytes_per_us_is_bound = true});
    assert_true(slow.hops[1].bytes_per_us > 10 && slow.hops[1].bytes_per_us < 100);
    assert_true(fast.hops[1].bytes_per_us == 300);
}

static void nothing_known_stays_unknown(void **state) {
    (void)state;
    lh_cost_chain costs =
        read_costs((lh_hop_profile){.bytes_per_us = 0, .bytes_per_us_is_bound = true});
    assert_true(costs.hops[1].bytes_per_us == 0);
    assert_int_equal(lh_cost_chain_check(&costs, NULL), LH_ERR_UNAVAILABLE);
    assert_true(costs.hops[0].bytes_per_us > 0 &&
                costs.hops[2].bytes_per_us > 0); /* the outer ones do not matter */
}

static double manifest_bytes(uint32_t rows, uint32_t segments, bool sample) {
    const lh_step_segment segment = {.rows = rows, .ask.draws = sample};
    return (double)lh_step_manifest_bytes(
        &(lh_step_manifest){.rows = rows, .segment_count = segments, .segments = &segment});
}

/* What the codec writes, and 68 bytes of HTTP/2 around it; the last hop carries results. */
static void steps_have_the_bytes_that_the_codec_writes(void **state) {
    (void)state;
    const lh_step_result result = {.sequence = 0};
    double empty = manifest_bytes(0, 0, false), one = (double)lh_step_results_bytes(&result, 1);
    lh_cost_chain costs = read_costs((lh_hop_profile){.ready_bytes = 77});
    assert_true(costs.hops[1].step_bytes == 68 + manifest_bytes(0, 1, false));
    assert_true(costs.hops[1].step_row_bytes == manifest_bytes(1, 0, false) - empty);
    assert_true(costs.hops[1].draw_bytes == manifest_bytes(1, 1, true) - empty);
    assert_true(costs.hops[1].ready_bytes == 77);
    assert_true(costs.hops[2].step_bytes == 68 + empty + one);
    assert_true(costs.hops[2].draw_bytes == one - (double)lh_step_results_bytes(NULL, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_measured_counts), cmocka_unit_test(a_lower_bound_is_not_the_rate),
        cmocka_unit_test(nothing_known_stays_unknown),
        cmocka_unit_test(steps_have_the_bytes_that_the_codec_writes)};
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
