/* Turns, credit and places of tenants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/fair_share.h"

#define SECOND 1000000

static lh_share_table *create(uint32_t places) {
    lh_share_table *table;
    assert_int_equal(lh_share_table_create(places, 100, &table, NULL), LH_OK);
    return table;
}

/* A tenant with a queue that never ends. */
static lh_share *join_waiting(lh_share_table *table, uint64_t tenant) {
    lh_share *share = lh_share_table_join(table, tenant);
    assert_non_null(share);
    lh_share_table_set_waiting(table, share, true);
    return share;
}

static void leave(lh_share_table *table, lh_share *share) {
    lh_share_table_set_waiting(table, share, false);
    lh_share_table_leave(table, share);
}

static void turns_go_to_who_has_had_the_least(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share *a = join_waiting(table, 1), *b = join_waiting(table, 2);
    assert_ptr_equal(lh_share_table_next(table), a);
    lh_share_table_charge(table, a, 300);
    assert_ptr_equal(lh_share_table_next(table), b);
    lh_share_table_charge(table, b, 100);
    assert_ptr_equal(lh_share_table_next(table), b);
    lh_share_table_charge(table, b, 100);
    assert_ptr_equal(lh_share_table_next(table), b);
    lh_share_table_charge(table, b, 100); /* as much as a: who had it last comes last */
    assert_ptr_equal(lh_share_table_next(table), a);
    lh_share_table_set_waiting(table, a, false);
    assert_ptr_equal(lh_share_table_next(table), b);
    lh_share_table_set_waiting(table, b, false);
    assert_null(lh_share_table_next(table));
    lh_share_table_leave(table, a);
    lh_share_table_leave(table, b);
    lh_share_table_destroy(table);
}

/* Twice as many tokens a turn: half as many turns. */
static void work_is_shared_whatever_the_pieces(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    const uint32_t sizes[] = {50, 100, 700};
    uint64_t had[3] = {0};
    lh_share *shares[3];
    for (uint64_t i = 0; i < 3; i++)
        shares[i] = join_waiting(table, i);
    for (int turn = 0; turn < 3000; turn++) {
        lh_share *next = lh_share_table_next(table);
        lh_share_table_charge(table, next, sizes[next->tenant]);
        had[next->tenant] += sizes[next->tenant];
    }
    for (int i = 1; i < 3; i++)
        assert_in_range(had[i] - had[0] + 700, 0, 1400);
    for (int i = 0; i < 3; i++)
        leave(table, shares[i]);
    lh_share_table_destroy(table);
}

static void credit_for_staying_away_is_bounded(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share *greedy = join_waiting(table, 1);
    lh_share_table_charge(table, greedy, 1000000);
    lh_share *late = join_waiting(table, 2);
    assert_int_equal(late->served, 1000000 - LH_SHARE_CREDIT);
    assert_ptr_equal(lh_share_table_next(table), late);
    lh_share_table_charge(table, late, LH_SHARE_CREDIT + 1);
    assert_ptr_equal(lh_share_table_next(table), greedy);
    /* While it is kept waiting itself its claim grows. */
    lh_share_table_charge(table, greedy, 1000000);
    assert_ptr_equal(lh_share_table_join(table, 2), late);
    assert_int_equal(late->served, 1000001);
    lh_share_table_leave(table, late);
    leave(table, late);
    leave(table, greedy);
    lh_share_table_destroy(table);
}

/* Nobody is kept waiting: all are even, whatever they had before. */
static void where_nobody_waits_the_level_is_the_highest(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share *one = lh_share_table_join(table, 1);
    lh_share_table_charge(table, one, 50000);
    lh_share *two = lh_share_table_join(table, 2);
    assert_int_equal(two->served, 50000 - LH_SHARE_CREDIT);
    lh_share_table_leave(table, two);
    lh_share_table_leave(table, one);
    lh_share_table_destroy(table);
}

static void debts_outlive_a_short_absence(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share_table_set_time(table, 0);
    lh_share *one = lh_share_table_join(table, 1);
    lh_share_table_charge(table, one, 50000);
    lh_share_table_leave(table, one);
    lh_share_table_set_time(table, 29 * SECOND);
    assert_int_equal(lh_share_table_join(table, 1)->served, 50000);
    lh_share_table_leave(table, one);
    lh_share_table_set_time(table, 59 * SECOND);
    lh_share *again = lh_share_table_join(table, 1);
    assert_int_equal(again->served, 50000 - LH_SHARE_CREDIT);
    lh_share_table_leave(table, again);
    lh_share_table_destroy(table);
}

static void one_tenant_leaves_places_while_others_are_about(void **state) {
    (void)state;
    assert_int_equal(lh_share_places_kept(1), 0);
    assert_int_equal(lh_share_places_kept(2), 1);
    assert_int_equal(lh_share_places_kept(32), 4);
    lh_share_table *table = create(16);
    lh_share_table_set_time(table, 0);
    lh_share *greedy = join_waiting(table, 1);
    greedy->places = 15;
    assert_ptr_equal(lh_share_table_next(table), greedy); /* alone it may have them all */
    lh_share *other = join_waiting(table, 2);
    lh_share_table_charge(table, other, 10);
    greedy->places = 13;
    assert_ptr_equal(lh_share_table_next(table), greedy);
    greedy->places = 14;
    assert_ptr_equal(lh_share_table_next(table), other);
    leave(table, other);
    assert_null(lh_share_table_next(table)); /* the other one may come again */
    lh_share_table_set_time(table, 30 * SECOND);
    assert_ptr_equal(lh_share_table_next(table), greedy);
    greedy->places = 0;
    leave(table, greedy);
    lh_share_table_destroy(table);
}

/* Each for one sequence, as anybody can whom no key keeps out. */
static void a_flood_of_tenants_is_forgotten(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share_table_set_time(table, 0);
    lh_share *first = lh_share_table_join(table, 0);
    lh_share_table_charge(table, first, 9000);
    lh_share_table_leave(table, first);
    for (uint64_t tenant = 1; tenant <= 20000; tenant++)
        lh_share_table_leave(table, lh_share_table_join(table, tenant));
    first = lh_share_table_join(table, 0);
    assert_int_equal(first->served, 9000 - LH_SHARE_CREDIT);
    lh_share_table_leave(table, first);
    lh_share_table_destroy(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_go_to_who_has_had_the_least),
        cmocka_unit_test(work_is_shared_whatever_the_pieces),
        cmocka_unit_test(credit_for_staying_away_is_bounded),
        cmocka_unit_test(where_nobody_waits_the_level_is_the_highest),
        cmocka_unit_test(debts_outlive_a_short_absence),
        cmocka_unit_test(one_tenant_leaves_places_while_others_are_about),
        cmocka_unit_test(a_flood_of_tenants_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
