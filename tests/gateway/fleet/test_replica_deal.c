/* Which worker belongs to which chain. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/replica_deal.h"
#include "tests/gateway/support/even_fleet.h"
#include "tests/support/failing_malloc.h"

#define LAYERS 12u
#define NONE   LH_REPLICA_NONE

static const lh_model_profile model = {.layers = LAYERS,
                                       .layer_bytes = {[0 ... LAYERS - 1] = 100},
                                       .row_bytes = {[0 ... LAYERS - 1] = 100}};

static even_fleet fleet;

/* Good until the next one. */
static lh_replica_table table_of(const even_worker *workers, uint32_t count, uint32_t replicas) {
    static const lh_aim aim;
    even_fleet_make(&fleet, &model, workers, count, &aim);
    return (lh_replica_table){fleet.split, fleet.machines, fleet.sites, count, replicas};
}

static int end(void **state) {
    even_fleet_reset(&fleet);
    return failing_malloc_check(state);
}

/* Each holds half of the model. */
static void chains_are_complete_and_equal(void **state) {
    (void)state;
    even_worker workers[] = {{"d", "s", 4, 700, BY(4), 0, 0},
                             {"a", "s", 4, 700, BY(4), 0, 0},
                             {"c", "s", 4, 700, BY(4), 0, 0},
                             {"b", "s", 4, 700, BY(4), 0, 0}};
    lh_replica_table table = table_of(workers, 4, 2);
    uint32_t of[4];
    assert_int_equal(lh_replica_deal(&table, of), 2);
    assert_true(of[1] == 0 && of[3] == 0 && of[2] == 1 && of[0] == 1); /* a, b and c, d */
    assert_true(lh_replica_is_complete(&table, of, 0) && lh_replica_is_complete(&table, of, 1));
}

static void sites_stay_together(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "x", 4, 700, BY(4), 0, 0},
                             {"b", "y", 4, 700, BY(4), 0, 0},
                             {"c", "x", 4, 700, BY(4), 0, 0},
                             {"d", "y", 4, 700, BY(4), 0, 0},
                             {"e", "x", 1, 700, BY(1), 0, 0}};
    lh_replica_table table = table_of(workers, 5, 2);
    uint32_t of[5];
    assert_int_equal(lh_replica_deal(&table, of), 2);
    assert_true(of[0] == 0 && of[2] == 0 && of[4] == 0 && of[1] == 1 && of[3] == 1);
}

/* A chain of two sites is better than one that is three times as slow as the other. */
static void sites_are_torn_apart_where_that_is_better(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "x", 8, 1500, BY(8), 0, 0},
                             {"b", "x", 8, 1500, BY(8), 0, 0},
                             {"c", "x", 8, 1500, BY(8), 0, 0},
                             {"d", "y", 8, 1500, BY(8), 0, 0}};
    lh_replica_table table = table_of(workers, 4, 2);
    uint32_t of[4];
    assert_int_equal(lh_replica_deal(&table, of), 2);
    assert_true(of[0] == 0 && of[1] == 0 && of[2] == 1 && of[3] == 1);
}

/* With c's help d would be a fifth faster, which is less than what it costs to cross sites. */
static void a_little_strength_is_not_worth_a_slow_link(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "x", 4, 1500, BY(5), 0, 0},
                             {"b", "x", 4, 1500, BY(15), 0, 0},
                             {"c", "x", 4, 1500, BY(2.2), 0, 0},
                             {"d", "y", 4, 1500, BY(10), 0, 0}};
    lh_replica_table table = table_of(workers, 4, 2);
    uint32_t of[4];
    assert_int_equal(lh_replica_deal(&table, of), 2);
    assert_true(of[0] == 0 && of[1] == 0 && of[2] == 0 && of[3] == 1);
    workers[2].speed.prompt_us = 1 / 2.6; /* now it is a quarter */
    table = table_of(workers, 4, 2);
    assert_int_equal(lh_replica_deal(&table, of), 2);
    assert_true(of[0] == 0 && of[1] == 0 && of[2] == 1 && of[3] == 1);
}

static void slow_machines_make_chains_too(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 1500, {4, 24}, 0, 0},
                             {"b", "s", 4, 1500, {4, 24}, 0, 0}};
    lh_replica_table table = table_of(workers, 2, 2);
    uint32_t of[2];
    assert_int_equal(lh_replica_deal(&table, of), 2);
    assert_true(of[0] == 0 && of[1] == 1);
}

static void no_more_chains_than_can_hold_the_model(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 700, BY(4), 0, 0},
                             {"b", "s", 4, 700, BY(4), 0, 0},
                             {"c", "s", 4, 700, BY(4), 0, 0}};
    lh_replica_table table = table_of(workers, 3, 2);
    uint32_t of[3];
    assert_int_equal(lh_replica_deal(&table, of), 1);
    assert_true(of[0] == 0 && of[1] == 0 && of[2] == 0);
    table.count = of[0] = 1;
    assert_int_equal(lh_replica_deal(&table, of), 0);
    assert_int_equal(of[0], 0); /* they belong to the first one, for want of another */
    table.count = 0;
    assert_int_equal(lh_replica_deal(&table, of), 0);
}

static void a_newcomer_goes_where_it_is_needed(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 700, BY(4), 0, 0}, {"b", "s", 4, 700, BY(4), 0, 0},
                             {"c", "s", 2, 700, BY(2), 0, 0}, {"d", "s", 4, 700, BY(4), 0, 0},
                             {"e", "s", 4, 700, BY(4), 0, 0}, {"f", "t", 4, 700, BY(4), 0, 0}};
    lh_replica_table table = table_of(workers, 6, 2);
    table.count = 3;
    uint32_t of[6] = {0, 0, NONE, NONE, NONE, NONE};
    assert_int_equal(lh_replica_of_newcomer(&table, of, 2), 1); /* begins the second chain */
    of[2] = 1;
    table.count = 4;
    assert_int_equal(lh_replica_of_newcomer(&table, of, 3), 1); /* completes it */
    of[3] = 1;
    table.count = 5;
    assert_int_equal(lh_replica_of_newcomer(&table, of, 4), 1); /* 6 threads beside 8 */
    of[4] = 1;
    table.count = 6;
    assert_int_equal(lh_replica_of_newcomer(&table, of, 5), 0);
    of[0] = NONE; /* the first one has lost a worker */
    assert_int_equal(lh_replica_of_newcomer(&table, of, 5), 0);
}

/* By what they can do, not by how many they are. */
static void a_newcomer_goes_to_the_weakest_chain(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 8, 1500, BY(8), 0, 0},
                             {"b", "s", 3, 700, BY(3), 0, 0},
                             {"c", "s", 3, 700, BY(3), 0, 0},
                             {"d", "s", 3, 700, BY(3), 0, 0},
                             {"e", "s", 4, 700, BY(4), 0, 0}};
    lh_replica_table table = table_of(workers, 5, 2);
    const uint32_t alone_first[] = {0, 1, 1, 1, NONE}, alone_second[] = {1, 0, 0, 0, NONE};
    assert_int_equal(lh_replica_of_newcomer(&table, alone_first, 4), 0);
    assert_int_equal(lh_replica_of_newcomer(&table, alone_second, 4), 1);
}

/* Where no chain is weaker than another, to the one that has its site and the first has not. */
static void of_equal_chains_the_one_of_its_site_gets_it(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "x", 4, 700, BY(4), 0, 0},
                             {"b", "x", 4, 700, BY(4), 0, 0},
                             {"c", "y", 4, 700, BY(4), 0, 0},
                             {"d", "y", 4, 700, BY(4), 0, 0},
                             {"e", "y", 4, 700, BY(4), 0, 0}};
    lh_replica_table table = table_of(workers, 5, 2);
    const uint32_t apart[] = {0, 0, 1, 1, NONE}, mixed[] = {0, 1, 0, 1, NONE};
    assert_int_equal(lh_replica_of_newcomer(&table, apart, 4), 1);
    assert_int_equal(lh_replica_of_newcomer(&table, mixed, 4), 0);
    workers[4].site = "x";
    table = table_of(workers, 5, 2);
    assert_int_equal(lh_replica_of_newcomer(&table, apart, 4), 0);
    workers[4].site = "z";
    table = table_of(workers, 5, 2);
    assert_int_equal(lh_replica_of_newcomer(&table, apart, 4), 0);
    const uint32_t first_in_second[] = {1, 0, 0, 1, NONE};
    workers[0].site = workers[4].site = "z"; /* the very first worker alone is there */
    table = table_of(workers, 5, 2);
    assert_int_equal(lh_replica_of_newcomer(&table, first_in_second, 4), 1);
    workers[0].site = "x";
    workers[4].site = "y"; /* which is no reason where the other one is weaker */
    workers[0].speed.prompt_us *= 2;
    table = table_of(workers, 5, 2);
    assert_int_equal(lh_replica_of_newcomer(&table, apart, 4), 0);
}

/* The first chain that is incomplete gathers workers until it is whole. */
static void incomplete_chains_gather_one_after_the_other(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 1500, BY(4), 0, 0},
                             {"b", "s", 4, 500, BY(4), 0, 0},
                             {"c", "s", 4, 600, BY(4), 0, 0},
                             {"d", "s", 4, 500, BY(4), 0, 0}};
    lh_replica_table table = table_of(workers, 4, 3);
    const uint32_t of[] = {0, 1, 2, NONE}, torn[] = {2, 0, 1, NONE};
    assert_int_equal(lh_replica_of_newcomer(&table, of, 3), 1);
    assert_int_equal(lh_replica_of_newcomer(&table, torn, 3), 0);
    workers[3].memory_bytes = 600; /* together with c it holds the model */
    table = table_of(workers, 4, 3);
    assert_int_equal(lh_replica_of_newcomer(&table, of, 3), 2);
}

static void a_torn_chain_is_mended_from_one_that_can_spare(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 700, BY(4), 0, 0},
                             {"b", "s", 4, 700, BY(4), 0, 0},
                             {"c", "s", 4, 700, BY(4), 0, 0},
                             {"d", "s", 2, 700, BY(2), 0, 0},
                             {"e", "s", 4, 700, BY(4), 0, 0}};
    lh_replica_table table = table_of(workers, 5, 2);
    uint32_t of[5] = {0, 0, 1, 1, 1}, worker, replica;
    assert_false(lh_replica_mend(&table, of, &worker, &replica)); /* nothing is torn */
    of[0] = NONE;
    assert_true(lh_replica_mend(&table, of, &worker, &replica));
    assert_true(worker == 3 && replica == 0); /* the one with the fewest threads */
    of[4] = NONE;
    assert_false(lh_replica_mend(&table, of, &worker, &replica)); /* nobody to spare */
}

/* Two that are torn make one that is whole, and not the other way around the next time. */
static void torn_chains_are_joined(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 700, BY(4), 0, 0},
                             {"b", "s", 4, 700, BY(4), 0, 0},
                             {"c", "s", 4, 700, BY(4), 0, 0},
                             {"d", "s", 4, 700, BY(4), 0, 0}};
    lh_replica_table table = table_of(workers, 4, 2);
    uint32_t of[4] = {0, NONE, 1, NONE}, worker, replica;
    assert_true(lh_replica_mend(&table, of, &worker, &replica));
    assert_true(worker == 2 && replica == 0);
    of[2] = 0;
    assert_false(lh_replica_mend(&table, of, &worker, &replica));
}

static void torn_chains_that_are_too_small_together_stay(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 500, BY(4), 0, 0}, {"b", "s", 4, 500, BY(4), 0, 0}};
    lh_replica_table table = table_of(workers, 2, 2);
    uint32_t of[2] = {0, 1}, worker, replica;
    assert_false(lh_replica_mend(&table, of, &worker, &replica));
    even_worker others[] = {{"a", "s", 4, 500, BY(4), 0, 0},
                            {"b", "s", 4, 500, BY(4), 0, 0},
                            {"c", "s", 4, 500, BY(4), 0, 0},
                            {"d", "s", 4, 500, BY(4), 0, 0}};
    uint32_t half_gone[4] = {0, NONE, 1, NONE};
    table = table_of(others, 4, 2);
    assert_false(lh_replica_mend(&table, half_gone, &worker, &replica));
}

/* Those of a chain that is torn as well do nothing where they are. */
static void a_torn_chain_gives_before_a_whole_one(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 700, BY(4), 0, 0},
                             {"b", "s", 4, 700, BY(4), 0, 0},
                             {"c", "s", 4, 700, BY(4), 0, 0},
                             {"d", "s", 4, 700, BY(4), 0, 0},
                             {"e", "s", 4, 700, BY(4), 0, 0}};
    lh_replica_table table = table_of(workers, 5, 3);
    uint32_t of[5] = {0, 1, 1, 1, 2}, worker, replica;
    assert_true(lh_replica_mend(&table, of, &worker, &replica));
    assert_true(worker == 4 && replica == 0);
}

static void a_chain_without_workers_is_not_mended(void **state) {
    (void)state;
    even_worker workers[] = {{"a", "s", 4, 1500, BY(4), 0, 0}, {"b", "s", 4, 1500, BY(4), 0, 0}};
    lh_replica_table table = table_of(workers, 2, 2);
    uint32_t of[2] = {0, 0}, worker, replica;
    assert_false(lh_replica_mend(&table, of, &worker, &replica));
}

/* And of that one's workers the slowest. */
static void the_larger_chain_gives(void **state) {
    (void)state;
    even_worker workers[8];
    for (uint32_t i = 0; i < 8; i++)
        workers[i] = (even_worker){"w", "s", 4, 700, BY(4), 0, 0};
    workers[1].speed.prompt_us = 9; /* the slowest of the smaller one */
    workers[6].speed.prompt_us = 1;
    lh_replica_table table = table_of(workers, 8, 3);
    uint32_t of[8] = {1, 1, 1, 2, 2, 2, 2, 0}, worker, replica;
    assert_true(lh_replica_mend(&table, of, &worker, &replica));
    assert_true(worker == 6 && replica == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_are_complete_and_equal),
        cmocka_unit_test(sites_stay_together),
        cmocka_unit_test(sites_are_torn_apart_where_that_is_better),
        cmocka_unit_test(a_little_strength_is_not_worth_a_slow_link),
        cmocka_unit_test(slow_machines_make_chains_too),
        cmocka_unit_test(no_more_chains_than_can_hold_the_model),
        cmocka_unit_test(a_newcomer_goes_where_it_is_needed),
        cmocka_unit_test(a_newcomer_goes_to_the_weakest_chain),
        cmocka_unit_test(of_equal_chains_the_one_of_its_site_gets_it),
        cmocka_unit_test(incomplete_chains_gather_one_after_the_other),
        cmocka_unit_test(a_torn_chain_is_mended_from_one_that_can_spare),
        cmocka_unit_test(torn_chains_are_joined),
        cmocka_unit_test(torn_chains_that_are_too_small_together_stay),
        cmocka_unit_test(a_torn_chain_gives_before_a_whole_one),
        cmocka_unit_test(a_chain_without_workers_is_not_mended),
        cmocka_unit_test(the_larger_chain_gives),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, end);
}
