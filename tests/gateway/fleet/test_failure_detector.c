/* Who is taken for gone before the lease is over, and who is not. Three workers a, b and c; the
 * chain is ready at 2,000 ms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "gateway/fleet/failure_detector.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/log_capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORKERS 3

typedef struct bench {
    lh_fleet *fleet;
    lh_worker_report reports[WORKERS];
    uint32_t epoch;
} bench;

static void put(bench *b, int worker, int64_t now_us) {
    put_report(b->fleet, &b->reports[worker], now_us);
}

static bool is_there(const bench *b, int worker) {
    return lh_registry_find(lh_fleet_registry(b->fleet), b->reports[worker].name);
}

static bench create(void) {
    static const char *const names[] = {"a", "b", "c"};
    lh_fleet_options options = fleet_of_four_layers(WORKERS);
    bench b;
    options.probation_us = 1500 * MS;
    lh_log_set_level(LH_LOG_ERROR);
    assert_int_equal(lh_fleet_create(&options, 0, &b.fleet, NULL), LH_OK);
    for (int i = 0; i < WORKERS; i++) {
        b.reports[i] = report_of(names[i]);
        put(&b, i, 1000 * MS);
    }
    b.epoch = lh_fleet_chain(b.fleet)->epoch;
    lh_fleet_first_hop(b.fleet, true, false, 1500 * MS, "");
    for (int i = 0; i < WORKERS; i++)
        make_ready(&b.reports[i], b.epoch);
    for (int i = 0; i < WORKERS; i++)
        put(&b, i, 2000 * MS);
    assert_int_equal(lh_fleet_chain(b.fleet)->state, LH_CHAIN_READY);
    return b;
}

static void refuse(bench *b, int worker) {
    b->reports[worker].next.connected = false;
    b->reports[worker].next.refused = true;
}

/* Its predecessor's word is enough, where the chain has broken and it has said nothing since. */
static void whoever_refuses_and_is_silent_is_gone(void **state) {
    (void)state;
    bench b = create();
    put(&b, 1, 2040 * MS);
    lh_fleet_fault(b.fleet, b.epoch, 2050 * MS, "a step failed");
    lh_fleet_tick(b.fleet, 2050 * MS);
    refuse(&b, 0);
    put(&b, 0, 2100 * MS);
    assert_false(is_there(&b, 1));
    assert_true(is_there(&b, 2));
    lh_fleet_destroy(b.fleet);
}

static void the_gateways_own_word_counts_for_the_first_one(void **state) {
    (void)state;
    bench b = create();
    lh_fleet_first_hop(b.fleet, false, false, 2050 * MS, "connection closed");
    lh_fleet_tick(b.fleet, 2050 * MS);
    assert_true(is_there(&b, 0));
    lh_fleet_first_hop(b.fleet, false, true, 2100 * MS, "connection refused");
    lh_fleet_tick(b.fleet, 2100 * MS);
    assert_false(is_there(&b, 0));
    lh_fleet_destroy(b.fleet);
}

/* A firewall says the same as a machine where nobody listens: but this one reports. */
static void whoever_reports_lives_whatever_its_neighbour_says(void **state) {
    (void)state;
    bench b = create();
    lh_fleet_fault(b.fleet, b.epoch, 2050 * MS, "a step failed");
    put(&b, 1, 2080 * MS);
    refuse(&b, 0);
    put(&b, 0, 2100 * MS);
    lh_fleet_tick(b.fleet, 2500 * MS);
    assert_true(is_there(&b, 1));
    lh_fleet_destroy(b.fleet);
}

/* What a worker says of the hop that it had in another chain says nothing of this one's. */
static void old_refusals_do_not_count(void **state) {
    (void)state;
    bench b = create();
    refuse(&b, 0);
    b.reports[0].assignment.generation = b.epoch - 1;
    lh_fleet_fault(b.fleet, b.epoch, 2050 * MS, "a step failed");
    put(&b, 0, 2100 * MS);
    assert_true(is_there(&b, 1));
    lh_fleet_destroy(b.fleet);
}

static void a_chain_that_serves_has_no_suspects(void **state) {
    (void)state;
    bench b = create();
    lh_fleet_stalled(b.fleet, 2000 * MS, 3240 * MS);
    lh_fleet_tick(b.fleet, 3240 * MS);
    assert_int_equal(lh_registry_count(lh_fleet_registry(b.fleet)), WORKERS);
    lh_fleet_destroy(b.fleet);
}

/* Two and a half renewals without a step and without a word. */
static void whoever_is_silent_while_steps_stand_still_is_gone(void **state) {
    (void)state;
    bench b = create();
    put(&b, 0, 2500 * MS);
    put(&b, 2, 2500 * MS);
    assert_int_equal(lh_fleet_failure_due_us(b.fleet, 2100 * MS), 3350 * MS);
    put(&b, 0, 3000 * MS);
    put(&b, 2, 3000 * MS);
    lh_fleet_stalled(b.fleet, 2100 * MS, 3350 * MS);
    lh_fleet_tick(b.fleet, 3350 * MS);
    assert_true(is_there(&b, 0) && is_there(&b, 2));
    assert_false(is_there(&b, 1));
    lh_fleet_destroy(b.fleet);
}

/* Its reports do not come through, but its work does. */
static void a_step_that_comes_around_proves_that_all_live(void **state) {
    (void)state;
    bench b = create();
    for (int ms = 2500; ms <= 9000; ms += 500) {
        put(&b, 0, ms * MS);
        put(&b, 2, ms * MS);
        lh_fleet_moved(b.fleet, ms * MS);
        lh_fleet_tick(b.fleet, ms * MS);
    }
    assert_true(is_there(&b, 1));
    assert_int_equal(lh_fleet_chain(b.fleet)->epoch, b.epoch);
    for (int ms = 9500; ms <= 12000; ms += 500) {
        put(&b, 0, ms * MS);
        put(&b, 2, ms * MS);
    }
    assert_false(is_there(&b, 1));
    lh_fleet_destroy(b.fleet);
}

/* The process was stopped for a minute: it has heard nobody, but that is its own fault. */
static void the_gateways_own_absence_counts_against_nobody(void **state) {
    (void)state;
    bench b = create();
    lh_fleet_tick(b.fleet, 62000 * MS);
    assert_int_equal(lh_registry_count(lh_fleet_registry(b.fleet)), WORKERS);
    assert_int_equal(lh_fleet_chain(b.fleet)->epoch, b.epoch);
    put(&b, 0, 62100 * MS);
    put(&b, 1, 62100 * MS);
    lh_fleet_tick(b.fleet, lh_fleet_deadline_us(b.fleet));
    assert_false(is_there(&b, 2));
    assert_true(is_there(&b, 0) && is_there(&b, 1));
    lh_fleet_destroy(b.fleet);
}

/* ---- The detector alone: asked every half second, 600 ms of probation ---- */

typedef struct alone {
    lh_failure_detector detector;
    lh_registry *registry;
    lh_chain chain; /* of a and b, ready */
} alone;

static alone create_alone(void) {
    alone a = {.chain = {.state = LH_CHAIN_READY, .stage_count = 2, .stages = {{"a"}, {"b"}}}};
    lh_worker_report first = report_of("a"), second = report_of("b");
    lh_failure_detector_init(&a.detector, 500 * MS, 600 * MS);
    assert_int_equal(lh_registry_create(3000 * MS, &a.registry, NULL), LH_OK);
    register_report(a.registry, &first, 2100 * MS);
    register_report(a.registry, &second, 2000 * MS);
    return a;
}

static void assert_leases(const alone *a, int64_t first_ms, int64_t second_ms) {
    assert_int_equal(lh_registry_at(a->registry, 0)->lease_until_us, first_ms * MS);
    assert_int_equal(lh_registry_at(a->registry, 1)->lease_until_us, second_ms * MS);
}

static void a_broken_chain_puts_all_on_probation(void **state) {
    (void)state;
    alone a = create_alone();
    lh_failure_detector_probation(&a.detector, &a.chain, a.registry, NULL, 2200 * MS);
    assert_leases(&a, 2800, 2800);
    lh_registry_destroy(a.registry);
}

/* Two and a half renewals since the last step, and since the report of each. */
static void silence_is_two_and_a_half_renewals(void **state) {
    (void)state;
    alone a = create_alone();
    assert_int_equal(lh_failure_detector_due_us(&a.detector, &a.chain, a.registry, NULL, 1900 * MS),
                     3250 * MS);
    assert_int_equal(lh_failure_detector_due_us(&a.detector, &a.chain, a.registry, NULL, 2050 * MS),
                     3300 * MS);
    lh_failure_detector_silent(&a.detector, &a.chain, a.registry, NULL, 1900 * MS, 3249 * MS);
    lh_failure_detector_silent(&a.detector, &a.chain, a.registry, NULL, 2001 * MS, 3250 * MS);
    assert_leases(&a, 5100, 5000);
    lh_failure_detector_silent(&a.detector, &a.chain, a.registry, NULL, 2000 * MS, 3250 * MS);
    assert_leases(&a, 5100, 3250);
    lh_failure_detector_silent(&a.detector, &a.chain, a.registry, NULL, 2000 * MS, 3350 * MS);
    assert_leases(&a, 3350, 3250);
    /* Workers that report more often are given a second all the same. */
    lh_failure_detector_init(&a.detector, 100 * MS, 0);
    assert_int_equal(lh_failure_detector_due_us(&a.detector, &a.chain, a.registry, NULL, 1900 * MS),
                     3000 * MS);
    lh_registry_destroy(a.registry);
}

static void those_of_a_chain_that_forms_are_not_silent(void **state) {
    (void)state;
    alone a = create_alone();
    a.chain.state = LH_CHAIN_FORMING;
    lh_failure_detector_silent(&a.detector, &a.chain, a.registry, NULL, 2000 * MS, 4000 * MS);
    assert_leases(&a, 5100, 5000);
    lh_registry_destroy(a.registry);
}

/* The first hop is refused, and the chain broke after both had reported. */
static void only_those_of_a_chain_that_forms_are_refused(void **state) {
    (void)state;
    alone a = create_alone();
    lh_failure_detector_note_first_hop(&a.detector, true);
    lh_failure_detector_note_broken(&a.detector, 2200 * MS);
    lh_failure_detector_refused(&a.detector, &a.chain, a.registry, NULL, 2300 * MS);
    assert_leases(&a, 5100, 5000);
    a.chain.state = LH_CHAIN_FORMING;
    lh_failure_detector_refused(&a.detector, &a.chain, a.registry, NULL, 2300 * MS);
    assert_leases(&a, 2300, 5000);
    lh_registry_destroy(a.registry);
}

/* It was refused before: now somebody listens. */
static void whoever_is_connected_to_is_not_refused(void **state) {
    (void)state;
    alone a = create_alone();
    lh_worker_report first = report_of("a");
    a.chain.state = LH_CHAIN_FORMING;
    first.next.refused = first.next.connected = true;
    register_report(a.registry, &first, 2100 * MS);
    lh_failure_detector_note_broken(&a.detector, 2200 * MS);
    lh_failure_detector_refused(&a.detector, &a.chain, a.registry, NULL, 2300 * MS);
    assert_leases(&a, 5100, 5000);
    first.next.connected = false;
    register_report(a.registry, &first, 2100 * MS);
    lh_failure_detector_refused(&a.detector, &a.chain, a.registry, NULL, 2300 * MS);
    assert_leases(&a, 5100, 2300);
    lh_registry_destroy(a.registry);
}

static void whoever_is_gone_already_is_not_waited_for(void **state) {
    (void)state;
    alone a = create_alone();
    lh_registry_suspect(a.registry, "b", 2300 * MS);
    assert_true(lh_registry_expire(a.registry, 2300 * MS, NULL));
    assert_int_equal(lh_failure_detector_due_us(&a.detector, &a.chain, a.registry, NULL, 1900 * MS),
                     3350 * MS);
    lh_failure_detector_silent(&a.detector, &a.chain, a.registry, NULL, 2000 * MS, 4000 * MS);
    assert_int_equal(lh_registry_at(a.registry, 0)->lease_until_us, 4000 * MS);
    lh_registry_destroy(a.registry);
}

static void a_late_tick_is_an_absence(void **state) {
    (void)state;
    alone a = create_alone();
    lh_failure_detector_absence(&a.detector, a.registry, 9000 * MS);
    lh_failure_detector_note_tick(&a.detector, 1000 * MS, 1200 * MS);
    lh_failure_detector_absence(&a.detector, a.registry, 1699 * MS);
    assert_leases(&a, 5100, 5000);
    lh_failure_detector_absence(&a.detector, a.registry, 1700 * MS);
    assert_leases(&a, 5800, 5700);
    lh_failure_detector_note_tick(&a.detector, 1700 * MS, INT64_MAX);
    lh_failure_detector_absence(&a.detector, a.registry, 9000 * MS);
    assert_leases(&a, 5800, 5700);
    lh_registry_destroy(a.registry);
}

/* What was due when it last looked, and could not be done yet, says nothing of the gateway. */
static void a_tick_in_time_is_no_absence(void **state) {
    (void)state;
    alone a = create_alone();
    lh_log_set_level(LH_LOG_INFO);
    log_capture_begin();
    lh_failure_detector_note_tick(&a.detector, 4000 * MS, 1000 * MS);
    lh_failure_detector_absence(&a.detector, a.registry, 4000 * MS);
    lh_failure_detector_absence(&a.detector, a.registry, 4499 * MS);
    char *log = log_capture_end();
    assert_string_equal(log, "");
    assert_leases(&a, 5100, 5000);
    log_capture_begin();
    lh_failure_detector_absence(&a.detector, a.registry, 4500 * MS);
    free(log);
    log = log_capture_end();
    assert_non_null(strstr(log, "the gateway was stopped itself: leases are longer by ms=500"));
    assert_leases(&a, 5600, 5500);
    free(log);
    lh_log_set_level(LH_LOG_ERROR);
    lh_registry_destroy(a.registry);
}

/* b is reached through relay r: the same holds for it. */
static void a_relay_fails_as_a_worker_does(void **state) {
    (void)state;
    alone a = create_alone();
    lh_relays *relays;
    lh_worker_report relay = report_of("r"), first = report_of("a");
    assert_int_equal(lh_relays_create(3000 * MS, &relays, NULL), LH_OK);
    relay.relays = true;
    snprintf(a.chain.stages[1].way.via, sizeof a.chain.stages[1].way.via, "r");
    lh_relays_note(relays, &relay, 1900 * MS);
    assert_int_equal(lh_failure_detector_due_us(&a.detector, &a.chain, a.registry, relays, 0),
                     3150 * MS);
    lh_failure_detector_silent(&a.detector, &a.chain, a.registry, relays, 0, 3149 * MS);
    lh_relays_tick(relays, 3149 * MS);
    assert_int_equal(lh_relays_renewed_us(relays, "r"), 1900 * MS);
    lh_failure_detector_silent(&a.detector, &a.chain, a.registry, relays, 0, 3150 * MS);
    lh_relays_tick(relays, 3150 * MS);
    assert_int_equal(lh_relays_renewed_us(relays, "r"), INT64_MAX);
    assert_leases(&a, 5100, 5000);
    lh_relays_note(relays, &relay, 3160 * MS);
    lh_failure_detector_probation(&a.detector, &a.chain, a.registry, relays, 3200 * MS);
    lh_relays_tick(relays, 3799 * MS);
    assert_int_equal(lh_relays_renewed_us(relays, "r"), 3160 * MS);
    lh_relays_tick(relays, 3800 * MS);
    assert_int_equal(lh_relays_renewed_us(relays, "r"), INT64_MAX);
    /* Nobody listens at its address, says the one before: the worker behind it is well. */
    lh_relays_note(relays, &relay, 3810 * MS);
    a.chain.state = LH_CHAIN_FORMING;
    first.next.refused = true;
    register_report(a.registry, &first, 3900 * MS);
    lh_failure_detector_note_broken(&a.detector, 3850 * MS);
    lh_failure_detector_refused(&a.detector, &a.chain, a.registry, relays, 3900 * MS);
    lh_relays_tick(relays, 3900 * MS);
    assert_int_equal(lh_relays_renewed_us(relays, "r"), INT64_MAX);
    assert_leases(&a, 6900, 3800);
    lh_relays_destroy(relays);
    lh_registry_destroy(a.registry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_refuses_and_is_silent_is_gone),
        cmocka_unit_test(the_gateways_own_word_counts_for_the_first_one),
        cmocka_unit_test(whoever_reports_lives_whatever_its_neighbour_says),
        cmocka_unit_test(old_refusals_do_not_count),
        cmocka_unit_test(a_chain_that_serves_has_no_suspects),
        cmocka_unit_test(whoever_is_silent_while_steps_stand_still_is_gone),
        cmocka_unit_test(a_step_that_comes_around_proves_that_all_live),
        cmocka_unit_test(the_gateways_own_absence_counts_against_nobody),
        cmocka_unit_test(a_broken_chain_puts_all_on_probation),
        cmocka_unit_test(silence_is_two_and_a_half_renewals),
        cmocka_unit_test(those_of_a_chain_that_forms_are_not_silent),
        cmocka_unit_test(only_those_of_a_chain_that_forms_are_refused),
        cmocka_unit_test(whoever_is_connected_to_is_not_refused),
        cmocka_unit_test(whoever_is_gone_already_is_not_waited_for),
        cmocka_unit_test(a_late_tick_is_an_absence),
        cmocka_unit_test(a_tick_in_time_is_no_absence),
        cmocka_unit_test(a_relay_fails_as_a_worker_does),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
