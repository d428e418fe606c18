/* Between which sites a hop's figures are entered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/link_notes.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#include <stdio.h>

/* A chain of a, at "here", and b, at "there", in epoch 7; the gateway is at "home". */
static lh_registry *registry;
static lh_link_matrix *matrix;
static lh_worker_report a, b;
static lh_chain chain;
static lh_link_notes notes;

static int set_up(void **state) {
    (void)state;
    const lh_layout plan = {2, {{0, {0, 2}}, {1, {2, 4}}}};
    const lh_chain_origin origin = {.site = "home", .has_tls = true};
    assert_int_equal(lh_registry_create(3000 * MS, &registry, NULL), LH_OK);
    assert_int_equal(lh_link_matrix_create(&matrix, NULL), LH_OK);
    chain = (lh_chain){.name = "main"};
    a = report_of("a");
    b = report_of("b");
    snprintf(a.site, sizeof a.site, "here");
    snprintf(b.site, sizeof b.site, "there");
    make_ready(&a, 7);
    make_ready(&b, 7);
    a.next.bytes_per_us = 12;
    b.next.bytes_per_us = 6;
    a.next.age_us = b.next.age_us = 40 * MS;
    register_report(registry, &a, 0);
    register_report(registry, &b, 0);
    const lh_worker *workers[] = {lh_registry_at(registry, 0), lh_registry_at(registry, 1)};
    assert_int_equal(lh_chain_form(&chain, &plan, workers, &origin, 7, 0, NULL), LH_OK);
    notes = (lh_link_notes){matrix, "home", &chain, registry};
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_link_matrix_destroy(matrix);
    lh_registry_destroy(registry);
    return 0;
}

static void a_hop_is_between_the_sites_of_its_ends(void **state) {
    (void)state;
    lh_link_value value;
    lh_link_notes_take(&notes, &a, 100 * MS);
    assert_true(lh_link_matrix_read(matrix, "here", "there", &value));
    assert_true(value.bytes_per_us == 12);
    assert_int_equal(value.rate_at_us, 60 * MS);
    assert_int_equal(value.source, LH_LINK_HOP);
    assert_string_equal(value.from, "a");
    assert_string_equal(value.to, "b");
}

static void the_last_hop_ends_at_the_gateways_site(void **state) {
    (void)state;
    lh_link_value value;
    b.next.bytes_per_us_is_bound = true;
    lh_link_notes_take(&notes, &b, 100 * MS);
    assert_true(lh_link_matrix_read(matrix, "there", "home", &value));
    assert_true(value.bytes_per_us == 6);
    assert_true(value.bytes_per_us_is_bound);
    assert_string_equal(value.to, "");
}

static void the_first_hop_begins_there(void **state) {
    (void)state;
    lh_link_value value;
    const lh_hop_profile first = {.present = true, .round_trip_us = 900};
    lh_link_notes_take_first_hop(&notes, "a", &first, 100 * MS);
    assert_true(lh_link_matrix_read(matrix, "home", "here", &value));
    assert_int_equal(value.round_trip_us, 900);
    assert_string_equal(value.from, "");
    lh_link_notes_take_first_hop(&notes, "gone", &first, 100 * MS);
    lh_link_notes_take_first_hop(&notes, "b", &(lh_hop_profile){.round_trip_us = 9}, 100 * MS);
    assert_false(lh_link_matrix_read(matrix, "home", "there", &value));
}

/* It may lead elsewhere. */
static void a_hop_of_another_epoch_is_not_entered(void **state) {
    (void)state;
    lh_link_value value;
    a.assignment.generation = 6;
    lh_link_notes_take(&notes, &a, 100 * MS);
    make_ready(&a, 7);
    a.assignment.state = LH_WORKER_LOADING;
    lh_link_notes_take(&notes, &a, 100 * MS);
    make_ready(&a, 7);
    snprintf(a.name, sizeof a.name, "c");
    lh_link_notes_take(&notes, &a, 100 * MS);
    assert_false(lh_link_matrix_read(matrix, "here", "there", &value));
}

/* Of a trial that is not proven nobody knows who is at its end. */
static void a_hop_that_is_tried_counts_once_it_is_proven(void **state) {
    (void)state;
    lh_link_value value;
    b.trial = (lh_hop_trial_report){
        .state = LH_HOP_TRIAL_FAILED, .next = "a", .hop = {.present = true, .bytes_per_us = 3}};
    lh_link_notes_take(&notes, &b, 100 * MS);
    assert_false(lh_link_matrix_read(matrix, "there", "here", &value));
    b.trial.state = LH_HOP_TRIAL_PROVEN;
    lh_link_notes_take(&notes, &b, 100 * MS);
    assert_true(lh_link_matrix_read(matrix, "there", "here", &value));
    assert_true(value.bytes_per_us == 3);
    assert_int_equal(value.source, LH_LINK_TRIAL);
    assert_string_equal(value.to, "a");
}

static void nothing_is_entered_where_there_is_no_matrix(void **state) {
    (void)state;
    notes.links = NULL;
    lh_link_notes_take(&notes, &a, 100 * MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_hop_is_between_the_sites_of_its_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_last_hop_ends_at_the_gateways_site, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_first_hop_begins_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hop_of_another_epoch_is_not_entered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_hop_that_is_tried_counts_once_it_is_proven, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_entered_where_there_is_no_matrix, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
