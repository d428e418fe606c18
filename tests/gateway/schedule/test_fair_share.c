/* Turns, credit and places of tenants. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/fair_share.h"
#include "tests/support/failing_malloc.h"

#define SECOND 1000000

static lh_share_table *create(uint32_t places) {
    lh_share_table *table;
    assert_int_equal(lh_share_table_create(places, 100, NULL, &table, NULL), LH_OK);
    return table;
}

/* A tenant with a queue that never ends. */
static lh_share *join_waiting(lh_share_table *table, uint64_t tenant) {
    lh_share *share = lh_share_table_join(table, tenant);
    assert_non_null(share);
    lh_share_set_waiting(share, true);
    return share;
}

static void leave(lh_share *share) {
    lh_share_set_waiting(share, false);
    lh_share_leave(share);
}

static void turns_go_to_who_has_had_the_least(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share *a = join_waiting(table, 1), *b = join_waiting(table, 2);
    assert_ptr_equal(lh_share_table_next(table, 1), a);
    lh_share_charge(a, 300);
    assert_ptr_equal(lh_share_table_next(table, 1), b);
    lh_share_charge(b, 100);
    assert_ptr_equal(lh_share_table_next(table, 1), b);
    lh_share_charge(b, 100);
    assert_ptr_equal(lh_share_table_next(table, 1), b);
    lh_share_charge(b, 100); /* as much as a: who had it last comes last */
    assert_ptr_equal(lh_share_table_next(table, 1), a);
    lh_share_set_waiting(a, false);
    assert_ptr_equal(lh_share_table_next(table, 1), b);
    lh_share_set_waiting(b, false);
    assert_null(lh_share_table_next(table, 1));
    lh_share_leave(a);
    lh_share_leave(b);
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
        lh_share *next = lh_share_table_next(table, 1);
        lh_share_charge(next, sizes[next->tenant]);
        had[next->tenant] += sizes[next->tenant];
    }
    for (int i = 1; i < 3; i++)
        assert_in_range(had[i] - had[0] + 700, 0, 1400);
    for (int i = 0; i < 3; i++)
        leave(shares[i]);
    lh_share_table_destroy(table);
}

/* Longer than its patience; and only before those that have something. */
static void who_has_nothing_for_long_goes_first(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share *a = join_waiting(table, 1), *b = join_waiting(table, 2), *c = join_waiting(table, 3);
    lh_share_take(a);
    lh_share_charge(b, 300);
    lh_share_charge(c, 200);
    assert_ptr_equal(lh_share_table_next(table, 1), a);
    lh_share_table_set_time(table, LH_SHARE_PATIENCE_US - 1);
    assert_ptr_equal(lh_share_table_next(table, 1), a);
    assert_false(lh_share_is_starved(b));
    lh_share_table_set_time(table, LH_SHARE_PATIENCE_US);
    assert_true(lh_share_is_starved(b) && lh_share_is_starved(c));
    assert_false(lh_share_is_starved(a));
    assert_ptr_equal(lh_share_table_next(table, 1), b); /* it came first */
    lh_share_take(b);
    assert_ptr_equal(lh_share_table_next(table, 1), c);
    lh_share_take(c);
    assert_ptr_equal(lh_share_table_next(table, 1), a);
    lh_share_give_back(a); /* it has nothing: it is its turn all the same */
    lh_share_give_back(b);
    assert_ptr_equal(lh_share_table_next(table, 1), a);
    lh_share_take(a);
    assert_ptr_equal(lh_share_table_next(table, 1), a);
    lh_share_table_set_time(table, 2 * LH_SHARE_PATIENCE_US);
    assert_ptr_equal(lh_share_table_next(table, 1), b);
    lh_share_set_waiting(b, false);
    assert_ptr_equal(lh_share_table_next(table, 1), a);
    lh_share_give_back(a);
    lh_share_give_back(c);
    leave(a);
    leave(b);
    leave(c);
    lh_share_table_destroy(table);
}

static void who_has_most_yields_first(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share *a = join_waiting(table, 1), *b = join_waiting(table, 2);
    assert_true(lh_share_yields_before(b, a) && !lh_share_yields_before(a, b));
    lh_share_charge(a, 10); /* as many places: whose turn is later */
    assert_true(lh_share_yields_before(a, b) && !lh_share_yields_before(b, a));
    lh_share_take(b);
    assert_true(lh_share_yields_before(b, a) && !lh_share_yields_before(a, b));
    lh_share_give_back(b);
    leave(a);
    leave(b);
    lh_share_table_destroy(table);
}

/* One that is on two chains has no more than one that waits at one of them only. */
static void the_share_is_of_all_chains(void **state) {
    (void)state;
    lh_fairness_group group = {{NULL}};
    lh_share_table *first, *second;
    assert_int_equal(lh_share_table_create(8, 100, &group, &first, NULL), LH_OK);
    assert_int_equal(lh_share_table_create(8, 100, &group, &second, NULL), LH_OK);
    lh_share *a = join_waiting(first, 1), *b = join_waiting(first, 2),
             *a2 = join_waiting(second, 1);
    uint32_t had[2] = {0};
    for (int round = 0; round < 100; round++) {
        lh_share *next = lh_share_table_next(first, 1);
        lh_share_charge(next, 10);
        had[next->tenant - 1] += 10;
        assert_ptr_equal(lh_share_table_next(second, 1), a2);
        lh_share_charge(a2, 10);
        had[0] += 10;
    }
    assert_in_range(had[0], 990, 1010);
    assert_in_range(had[1], 990, 1010);
    lh_share *b2 = lh_share_table_join(second, 2);
    assert_int_equal(b2->served, b->served);
    assert_int_equal(a2->served, a->served);
    lh_share_leave(b2);
    leave(a);
    leave(b);
    leave(a2);
    lh_share_table_destroy(first);
    lh_share_table_destroy(second);
}

/* Who has a place on one chain does not starve at another. */
static void places_elsewhere_count(void **state) {
    (void)state;
    lh_fairness_group group = {{NULL}};
    lh_share_table *first, *second;
    assert_int_equal(lh_share_table_create(8, 100, &group, &first, NULL), LH_OK);
    assert_int_equal(lh_share_table_create(8, 100, &group, &second, NULL), LH_OK);
    lh_share *a = join_waiting(first, 1);
    lh_share_take(a);
    lh_share *a2 = join_waiting(second, 1), *b2 = join_waiting(second, 2);
    lh_share_take(b2);
    lh_share_table_set_time(second, LH_SHARE_PATIENCE_US);
    assert_false(lh_share_is_starved(a2));
    lh_share_give_back(a);
    lh_share_table_set_time(second, 2 * LH_SHARE_PATIENCE_US);
    assert_true(lh_share_is_starved(a2));
    lh_share_take(a);
    assert_false(lh_share_is_starved(a2));
    lh_share_give_back(a);
    lh_share_give_back(b2);
    leave(a);
    leave(a2);
    leave(b2);
    lh_share_table_destroy(second);
    lh_share_table_destroy(first);
}

/* Who waits on one chain has its claim from that, on any other, too. */
static void who_waits_elsewhere_keeps_its_claim(void **state) {
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        lh_fairness_group group = {{NULL}};
        lh_share_table *first, *second;
        assert_int_equal(lh_share_table_create(8, 100, &group, &first, NULL), LH_OK);
        assert_int_equal(lh_share_table_create(8, 100, &group, &second, NULL), LH_OK);
        lh_share *elsewhere = lh_share_table_join(second, 1), *greedy = join_waiting(first, 2);
        lh_share_set_waiting(elsewhere, waits);
        lh_share_charge(greedy, 1000000);
        lh_share *late = lh_share_table_join(first, 1);
        assert_int_equal(late->served, waits ? 0 : 1000000 - LH_SHARE_CREDIT);
        lh_share_leave(late);
        leave(greedy);
        leave(elsewhere);
        lh_share_table_destroy(second);
        lh_share_table_destroy(first);
    }
}

static void credit_for_staying_away_is_bounded(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share *greedy = join_waiting(table, 1);
    lh_share_charge(greedy, 1000000);
    lh_share *late = join_waiting(table, 2);
    assert_int_equal(late->served, 1000000 - LH_SHARE_CREDIT);
    assert_ptr_equal(lh_share_table_next(table, 1), late);
    lh_share_charge(late, LH_SHARE_CREDIT + 1);
    assert_ptr_equal(lh_share_table_next(table, 1), greedy);
    /* While it is kept waiting itself its claim grows. */
    lh_share_charge(greedy, 1000000);
    assert_ptr_equal(lh_share_table_join(table, 2), late);
    assert_int_equal(late->served, 1000001);
    lh_share_leave(late);
    leave(late);
    leave(greedy);
    lh_share_table_destroy(table);
}

/* Nobody is kept waiting: all are even, whatever they had before. */
static void where_nobody_waits_the_level_is_the_highest(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share *one = lh_share_table_join(table, 1);
    lh_share_charge(one, 50000);
    lh_share *two = lh_share_table_join(table, 2);
    assert_int_equal(two->served, 50000 - LH_SHARE_CREDIT);
    lh_share_leave(two);
    lh_share_leave(one);
    lh_share_table_destroy(table);
}

static void debts_outlive_a_short_absence(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share_table_set_time(table, 0);
    lh_share *one = lh_share_table_join(table, 1);
    lh_share_charge(one, 50000);
    lh_share_leave(one);
    lh_share_table_set_time(table, 29 * SECOND);
    assert_int_equal(lh_share_table_join(table, 1)->served, 50000);
    lh_share_leave(one);
    lh_share_table_set_time(table, 59 * SECOND);
    lh_share *again = lh_share_table_join(table, 1);
    assert_int_equal(again->served, 50000 - LH_SHARE_CREDIT);
    lh_share_leave(again);
    lh_share_table_destroy(table);
}

static void take(lh_share *share, int places) {
    for (int i = 0; i < places; i++)
        lh_share_take(share);
}

static void give_back_all(lh_share *share) {
    while (share->places > 0)
        lh_share_give_back(share);
}

/* 16 places: two are left at least, eight at most, in between as many as others lately needed, half
 * as many and one. */
static void who_has_most_leaves_places_to_the_others(void **state) {
    (void)state;
    lh_share_table *table = create(16);
    lh_share_table_set_time(table, 0);
    lh_share *greedy = join_waiting(table, 1);
    take(greedy, 15);
    assert_ptr_equal(lh_share_table_next(table, 1), greedy); /* alone it may have them all */
    lh_share_leave(lh_share_table_join(table, 2));
    assert_null(lh_share_table_next(table, 1));
    lh_share_give_back(greedy);
    assert_null(lh_share_table_next(table, 1));
    lh_share_give_back(greedy);
    assert_ptr_equal(lh_share_table_next(table, 1), greedy);
    lh_share *others[4];
    for (uint64_t i = 0; i < 4; i++)
        others[i] = lh_share_table_join(table, 3 + i);
    assert_null(lh_share_table_next(table, 1)); /* now it leaves 4 + 2 + 1 */
    for (int i = 0; i < 3; i++)
        lh_share_give_back(greedy);
    assert_null(lh_share_table_next(table, 1));
    lh_share_give_back(greedy);
    lh_share_give_back(greedy);
    assert_ptr_equal(lh_share_table_next(table, 1), greedy); /* 8 of 16: the most that it leaves */
    for (int i = 0; i < 4; i++)
        lh_share_leave(others[i]);
    give_back_all(greedy);
    leave(greedy);
    lh_share_table_destroy(table);
}

/* What was needed at once counts less as time goes on; those who needed it are forgotten, too. */
static void what_is_left_to_others_shrinks(void **state) {
    (void)state;
    lh_share_table *table = create(16);
    lh_share_table_set_time(table, 0);
    lh_share *greedy = join_waiting(table, 1), *others[3];
    for (uint64_t i = 0; i < 3; i++)
        others[i] = lh_share_table_join(table, 3 + i);
    take(greedy, 11);
    assert_null(lh_share_table_next(table, 1)); /* 3 + 1 + 1 are left */
    for (int i = 0; i < 3; i++)
        lh_share_leave(others[i]);
    lh_share_table_set_time(table, 9 * SECOND);
    assert_null(lh_share_table_next(table, 1));
    lh_share_table_set_time(table, 10 * SECOND);
    assert_ptr_equal(lh_share_table_next(table, 1), greedy); /* 2 + 1 + 1 */
    take(greedy, 1);                                         /* 12 */
    assert_null(lh_share_table_next(table, 1));
    lh_share_table_set_time(table, 19 * SECOND); /* each one less takes as long as the first */
    assert_null(lh_share_table_next(table, 1));
    lh_share_table_set_time(table, 20 * SECOND);
    assert_ptr_equal(lh_share_table_next(table, 1), greedy); /* 1 + 0 + 1 */
    take(greedy, 4);
    assert_null(lh_share_table_next(table, 1));
    lh_share_table_set_time(table, 30 * SECOND);
    assert_ptr_equal(lh_share_table_next(table, 1), greedy);
    give_back_all(greedy);
    leave(greedy);
    lh_share_table_destroy(table);
}

static void one_who_has_not_most_may_take_what_there_is(void **state) {
    (void)state;
    lh_share_table *table = create(16);
    lh_share *a = join_waiting(table, 1), *b = join_waiting(table, 2);
    take(a, 7);
    take(b, 7);
    assert_ptr_equal(lh_share_table_next(table, 0.01), a);
    assert_false(lh_share_crowds(a));
    take(a, 1);
    assert_true(lh_share_crowds(a));
    assert_ptr_equal(lh_share_table_next(table, 0.01), b);
    give_back_all(a);
    give_back_all(b);
    leave(a);
    leave(b);
    lh_share_table_destroy(table);
}

/* Each for one sequence, as anybody can whom no key keeps out. */
static void a_flood_of_tenants_is_forgotten(void **state) {
    (void)state;
    lh_share_table *table = create(8);
    lh_share_table_set_time(table, 0);
    lh_share *first = lh_share_table_join(table, 0);
    lh_share_charge(first, 9000);
    lh_share_leave(first);
    for (uint64_t tenant = 1; tenant <= 20000; tenant++)
        lh_share_leave(lh_share_table_join(table, tenant));
    first = lh_share_table_join(table, 0);
    assert_int_equal(first->served, 9000 - LH_SHARE_CREDIT);
    lh_share_leave(first);
    lh_share_table_destroy(table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turns_go_to_who_has_had_the_least),
        cmocka_unit_test(work_is_shared_whatever_the_pieces),
        cmocka_unit_test(who_has_nothing_for_long_goes_first),
        cmocka_unit_test(who_has_most_yields_first),
        cmocka_unit_test(the_share_is_of_all_chains),
        cmocka_unit_test(places_elsewhere_count),
        cmocka_unit_test(who_waits_elsewhere_keeps_its_claim),
        cmocka_unit_test(credit_for_staying_away_is_bounded),
        cmocka_unit_test(where_nobody_waits_the_level_is_the_highest),
        cmocka_unit_test(debts_outlive_a_short_absence),
        cmocka_unit_test(who_has_most_leaves_places_to_the_others),
        cmocka_unit_test(what_is_left_to_others_shrinks),
        cmocka_unit_test(one_who_has_not_most_may_take_what_there_is),
        cmocka_unit_test(a_flood_of_tenants_is_forgotten),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
