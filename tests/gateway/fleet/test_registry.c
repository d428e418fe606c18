/* Leases and instances. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/registry.h"
#include "tests/support/failing_malloc.h"

#include <stdio.h>

static lh_registry_change put(lh_registry *registry, const char *name, uint64_t instance,
                              int64_t now_us) {
    lh_worker_report report = {.instance = instance};
    lh_registry_change change;
    snprintf(report.name, sizeof report.name, "%s", name);
    assert_int_equal(lh_registry_put(registry, &report, now_us, &change, NULL), LH_OK);
    return change;
}

static lh_registry *create(void) {
    lh_registry *registry;
    assert_int_equal(lh_registry_create(3000, &registry, NULL), LH_OK);
    return registry;
}

static void workers_are_in_the_order_of_their_names(void **state) {
    (void)state;
    lh_registry *registry = create();
    assert_int_equal(put(registry, "m", 1, 0), LH_REGISTRY_JOINED);
    assert_int_equal(put(registry, "a", 1, 0), LH_REGISTRY_JOINED);
    assert_int_equal(put(registry, "z", 1, 0), LH_REGISTRY_JOINED);
    assert_int_equal(put(registry, "m", 1, 1), LH_REGISTRY_RENEWED);
    assert_int_equal(lh_registry_count(registry), 3);
    assert_string_equal(lh_registry_at(registry, 0)->report.name, "a");
    assert_string_equal(lh_registry_at(registry, 1)->report.name, "m");
    assert_string_equal(lh_registry_at(registry, 2)->report.name, "z");
    assert_null(lh_registry_find(registry, "b"));
    lh_registry_destroy(registry);
}

static void a_lease_ends_exactly_then(void **state) {
    (void)state;
    lh_registry *registry = create();
    lh_worker gone;
    assert_int_equal(lh_registry_deadline_us(registry), INT64_MAX);
    put(registry, "a", 1, 0);
    put(registry, "b", 1, 500);
    assert_int_equal(lh_registry_deadline_us(registry), 3000);
    assert_false(lh_registry_expire(registry, 2999, &gone));
    assert_true(lh_registry_expire(registry, 3000, &gone));
    assert_string_equal(gone.report.name, "a");
    assert_false(lh_registry_expire(registry, 3000, &gone));
    put(registry, "b", 1, 3400);
    assert_false(lh_registry_expire(registry, 6399, NULL));
    assert_true(lh_registry_expire(registry, 6400, NULL));
    assert_int_equal(lh_registry_count(registry), 0);
    lh_registry_destroy(registry);
}

static void another_instance_is_a_restart(void **state) {
    (void)state;
    lh_registry *registry = create();
    put(registry, "a", 1, 0);
    lh_registry_exclude(registry, "a", 100000);
    lh_registry_suspend(registry, "a", 200000);
    assert_int_equal(lh_registry_find(registry, "a")->excluded_until_us, 100000);
    assert_int_equal(put(registry, "a", 2, 10), LH_REGISTRY_RESTARTED);
    assert_int_equal(lh_registry_find(registry, "a")->excluded_until_us, 0);
    assert_int_equal(lh_registry_find(registry, "a")->suspended_until_us, 200000);
    assert_true(lh_registry_has_suspended(registry, 199999));
    assert_false(lh_registry_pardon(registry, 200000));
    lh_registry_suspend(registry, "a", 300000);
    assert_true(lh_registry_pardon(registry, 200000));
    assert_int_equal(lh_registry_find(registry, "a")->suspended_until_us, 0);
    assert_int_equal(put(registry, "a", 2, 20), LH_REGISTRY_RENEWED);
    lh_registry_destroy(registry);
}

static void suspicion_shortens_a_lease_until_the_next_report(void **state) {
    (void)state;
    lh_registry *registry = create();
    put(registry, "a", 1, 0);
    lh_registry_suspect(registry, "a", 5000);
    assert_int_equal(lh_registry_deadline_us(registry), 3000);
    lh_registry_suspect(registry, "a", 1000);
    lh_registry_suspect(registry, "nobody", 1);
    assert_int_equal(lh_registry_deadline_us(registry), 1000);
    put(registry, "a", 1, 900);
    assert_int_equal(lh_registry_deadline_us(registry), 3900);
    lh_registry_destroy(registry);
}

static void there_is_a_limit(void **state) {
    (void)state;
    lh_registry *registry = create();
    char name[16];
    for (uint32_t i = 0; i < LH_WORKERS_MAX; i++) {
        snprintf(name, sizeof name, "w%u", i);
        put(registry, name, 1, 0);
    }
    lh_worker_report report = {.name = "one-more"};
    lh_registry_change change;
    lh_error error;
    assert_int_equal(lh_registry_put(registry, &report, 0, &change, &error), LH_ERR_LIMIT);
    assert_int_equal(put(registry, "w7", 1, 1), LH_REGISTRY_RENEWED);
    lh_registry_destroy(registry);
}

/* Evidence of life is as good as a report, and shortens nothing. */
static lh_status try_put(lh_registry *registry, const char *name, int64_t now_us, lh_error *error) {
    lh_worker_report report = {.instance = 1};
    lh_registry_change change;
    snprintf(report.name, sizeof report.name, "%s", name);
    return lh_registry_put(registry, &report, now_us, &change, error);
}

/* How many of so many invented names find a place. */
static uint32_t put_strangers(lh_registry *registry, uint32_t first, uint32_t count,
                              int64_t now_us) {
    uint32_t taken = 0;
    for (uint32_t i = first; i < first + count; i++) {
        char name[24];
        snprintf(name, sizeof name, "stranger-%u", i);
        taken += try_put(registry, name, now_us, NULL) == LH_OK;
    }
    return taken;
}

/* Which the first chain had. */
static void those_that_have_served_find_their_place_again(void **state) {
    (void)state;
    lh_registry *registry = create();
    lh_error error;
    put(registry, "attic", 1, 0);
    put(registry, "cellar", 1, 0);
    lh_registry_note_served(registry, "attic");
    lh_registry_note_served(registry, "cellar");
    assert_true(lh_registry_expire(registry, 3000, NULL));
    assert_true(lh_registry_expire(registry, 3000, NULL));
    assert_int_equal(put_strangers(registry, 0, LH_WORKERS_MAX + 36, 3000), LH_WORKERS_MAX - 2);
    assert_int_equal(try_put(registry, "stranger-5000", 3000, &error), LH_ERR_LIMIT);
    assert_string_equal(error.message, "1022 workers are registered already, and others that have "
                                       "served may come back: no room for stranger-5000");
    put(registry, "attic", 2, 3001);
    put(registry, "cellar", 2, 3001);
    assert_int_equal(lh_registry_count(registry), LH_WORKERS_MAX);
    assert_int_equal(try_put(registry, "stranger-5000", 3001, &error), LH_ERR_LIMIT);
    assert_string_equal(error.message,
                        "1024 workers are registered already: no room for stranger-5000");
    lh_registry_destroy(registry);
}

/* Of those that report nobody; and of the others the one who has not for longest. */
static void who_is_late_makes_room(void **state) {
    (void)state;
    lh_registry *registry = create();
    put(registry, "served", 1, 0);
    lh_registry_note_served(registry, "served");
    put(registry, "late", 1, 1);
    put(registry, "later", 1, 2);
    assert_int_equal(put_strangers(registry, 0, LH_WORKERS_MAX - 3, 100), LH_WORKERS_MAX - 3);
    assert_int_equal(put_strangers(registry, 5000, 1, 1500), 0);
    assert_int_equal(put_strangers(registry, 5000, 1, 1501), 1);
    assert_null(lh_registry_find(registry, "late"));
    assert_int_equal(put_strangers(registry, 5001, 1, 1501), 0);
    assert_int_equal(put_strangers(registry, 5001, 2, 1502), 1);
    assert_null(lh_registry_find(registry, "later"));
    assert_non_null(lh_registry_find(registry, "served"));
    assert_int_equal(lh_registry_count(registry), LH_WORKERS_MAX);
    lh_registry_destroy(registry);
}

/* However many names have served, newcomers have most of the places. */
static void few_places_are_kept(void **state) {
    (void)state;
    lh_registry *registry = create();
    for (uint32_t i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "w-%u", i);
        lh_registry_note_served(registry, name);
    }
    assert_int_equal(put_strangers(registry, 0, LH_WORKERS_MAX + 36, 0),
                     LH_WORKERS_MAX - LH_PLACES_KEPT_MAX);
    put(registry, "w-99", 1, 0);
    assert_int_equal(try_put(registry, "w-0", 0, NULL), LH_ERR_LIMIT);
    lh_registry_destroy(registry);
}

static void vouching_lengthens_a_lease(void **state) {
    (void)state;
    lh_registry *registry = create();
    put(registry, "a", 1, 0);
    lh_registry_vouch(registry, "a", 500);
    lh_registry_vouch(registry, "a", 400);
    lh_registry_vouch(registry, "nobody", 9000);
    assert_int_equal(lh_registry_deadline_us(registry), 3500);
    assert_int_equal(lh_registry_find(registry, "a")->renewed_us, 0);
    lh_registry_destroy(registry);
}

static void time_that_did_not_pass_is_added_to_all(void **state) {
    (void)state;
    lh_registry *registry = create();
    put(registry, "a", 1, 0);
    put(registry, "b", 1, 100);
    lh_registry_extend(registry, 1000);
    assert_int_equal(lh_registry_find(registry, "a")->renewed_us, 1000);
    assert_int_equal(lh_registry_find(registry, "b")->renewed_us, 1100);
    assert_int_equal(lh_registry_find(registry, "b")->lease_until_us, 4100);
    assert_int_equal(lh_registry_deadline_us(registry), 4000);
    lh_registry_destroy(registry);
}

static void plans_may_use_who_stays_and_is_not_excluded(void **state) {
    (void)state;
    lh_worker worker = {.excluded_until_us = 100};
    assert_false(lh_worker_is_usable(&worker, 99));
    assert_true(lh_worker_is_usable(&worker, 100));
    worker.suspended_until_us = 200;
    assert_false(lh_worker_is_usable(&worker, 199));
    assert_true(lh_worker_is_usable(&worker, 200));
    worker.report.leaving = true;
    assert_false(lh_worker_is_usable(&worker, 100));
}

/* Since when it is there: a restart begins anew, a report does not. */
static void it_knows_when_each_one_came(void **state) {
    (void)state;
    lh_registry *registry = create();
    put(registry, "a", 1, 10);
    put(registry, "a", 1, 20);
    assert_int_equal(lh_registry_find(registry, "a")->joined_us, 10);
    assert_int_equal(lh_registry_find(registry, "a")->renewed_us, 20);
    put(registry, "a", 2, 30);
    assert_int_equal(lh_registry_find(registry, "a")->joined_us, 30);
    lh_registry_destroy(registry);
}

/* Those before and behind it stay as they are. */
static void the_one_whose_lease_ends_goes(void **state) {
    (void)state;
    lh_registry *registry = create();
    put(registry, "a", 1, 5);
    put(registry, "b", 1, 0);
    put(registry, "c", 1, 6);
    put(registry, "d", 1, 7);
    assert_true(lh_registry_expire(registry, 3000, NULL));
    assert_int_equal(lh_registry_count(registry), 3);
    assert_string_equal(lh_registry_at(registry, 0)->report.name, "a");
    assert_string_equal(lh_registry_at(registry, 1)->report.name, "c");
    assert_string_equal(lh_registry_at(registry, 2)->report.name, "d");
    assert_int_equal(lh_registry_find(registry, "d")->renewed_us, 7);
    lh_registry_destroy(registry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_are_in_the_order_of_their_names),
        cmocka_unit_test(a_lease_ends_exactly_then),
        cmocka_unit_test(another_instance_is_a_restart),
        cmocka_unit_test(suspicion_shortens_a_lease_until_the_next_report),
        cmocka_unit_test(there_is_a_limit),
        cmocka_unit_test(those_that_have_served_find_their_place_again),
        cmocka_unit_test(who_is_late_makes_room),
        cmocka_unit_test(few_places_are_kept),
        cmocka_unit_test(vouching_lengthens_a_lease),
        cmocka_unit_test(time_that_did_not_pass_is_added_to_all),
        cmocka_unit_test(plans_may_use_who_stays_and_is_not_excluded),
        cmocka_unit_test(it_knows_when_each_one_came),
        cmocka_unit_test(the_one_whose_lease_ends_goes),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
