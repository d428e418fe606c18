/* Which worker belongs to which chain, for an aim. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/aimed_deal.h"
#include "tests/gateway/support/even_fleet.h"
#include "tests/support/failing_malloc.h"

#define LAYERS 12u
#define MIB    1048576u

static const lh_model_profile model = {.layers = LAYERS,
                                       .width = 576,
                                       .layer_bytes = {[0 ... LAYERS - 1] = MIB},
                                       .row_bytes = {[0 ... LAYERS - 1] = MIB},
                                       .embedding_bytes = 1};
static const lh_fleet_options options = {
    .model = &model,
    .aim = {.goal = LH_GOAL_TPOT, .prompt_rows = 512, .sequences_max = 8},
    .origin.site = "x"};

/* A row alone takes so long for each MiB. */
static even_worker make(const char *name, const char *site, uint32_t mib, double token_us) {
    return (even_worker){name, site, 4, (uint64_t)mib * MIB, {token_us / 6, token_us}, 0, 0};
}

static even_fleet fleet;

/* Good until the next one. */
static lh_replica_table table_of(const even_worker *workers, uint32_t count, uint32_t replicas) {
    even_fleet_make(&fleet, &model, workers, count, &options.aim);
    return (lh_replica_table){fleet.split, fleet.machines, fleet.sites, count, replicas};
}

static int end(void **state) {
    even_fleet_reset(&fleet);
    return failing_malloc_check(state);
}

static uint32_t deal(const even_worker *workers, uint32_t count, uint32_t replicas, uint32_t *of) {
    const lh_replica_table table = table_of(workers, count, replicas);
    uint32_t made = lh_aimed_deal(&options, &table, of);
    for (uint32_t i = 0; i < count; i++)
        assert_true(of[i] < (made > 0 ? made : 1));
    for (uint32_t r = 0; r < made; r++)
        assert_true(lh_replica_is_complete(&table, of, r));
    return made;
}

/* Between two sites a token takes 10 ms longer. */
static void sites_stay_together(void **state) {
    (void)state;
    const even_worker workers[] = {make("a", "x", 7, 100), make("b", "y", 7, 100),
                                   make("c", "x", 7, 100), make("d", "y", 7, 100)};
    uint32_t of[4];
    assert_int_equal(deal(workers, 4, 2, of), 2);
    assert_true(of[0] == of[2] && of[1] == of[3] && of[0] != of[1]);
}

/* Fast and slow ones are paired: the slower chain counts. */
static void chains_are_made_alike(void **state) {
    (void)state;
    const even_worker workers[] = {make("a", "x", 9, 1000), make("b", "x", 9, 1000),
                                   make("c", "x", 9, 3000), make("d", "x", 9, 3000)};
    uint32_t of[4];
    assert_int_equal(deal(workers, 4, 2, of), 2);
    assert_true(of[0] != of[1] && of[2] != of[3]);
}

static void no_more_chains_than_can_hold_the_model(void **state) {
    (void)state;
    const even_worker workers[] = {make("a", "x", 7, 100), make("b", "x", 7, 100),
                                   make("c", "x", 7, 100), make("d", "x", 0, 100)};
    uint32_t of[4];
    assert_int_equal(deal(workers, 4, 2, of), 1);
    assert_int_equal(deal(workers, 1, 2, of), 0);
    assert_int_equal(of[0], 0);
}

/* By memory and speed alone, or, where there is none for that either, to one chain. */
static void without_memory_of_its_own_it_deals_all_the_same(void **state) {
    (void)state;
    const even_worker workers[] = {make("a", "x", 14, 100), make("b", "y", 14, 100)};
    const lh_replica_table table = table_of(workers, 2, 2);
    uint32_t of[2];
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        uint32_t made = lh_aimed_deal(&options, &table, of);
        bool has_failed = failing_malloc_disarm();
        assert_true(made == 2 || has_failed);
        if (!has_failed)
            break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sites_stay_together),
        cmocka_unit_test(chains_are_made_alike),
        cmocka_unit_test(no_more_chains_than_can_hold_the_model),
        cmocka_unit_test(without_memory_of_its_own_it_deals_all_the_same),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, end);
}
