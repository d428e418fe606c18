/* Deals of random fleets, beside all deals that there are. */
#include "gateway/plan/layout_deal.h"

#include "tests/gateway/support/random_map.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static lh_aim aim_of(uint32_t number) {
    return (lh_aim){.goal = (lh_goal)(LH_GOAL_TTFT + number % 3),
                    .prompt_rows = 256,
                    .position = 100,
                    .sequences_max = 8};
}

static double value_of(lh_fleet_map *map, const lh_aim *aim, uint32_t mask) {
    lh_layout_plan plan;
    for (uint32_t m = 0; m < map->machine_count; m++)
        map->machines[m].is_excluded = !(mask & 1u << m);
    double value = lh_layout_search(map, aim, &plan, NULL) == LH_OK ? plan.value : INFINITY;
    for (uint32_t m = 0; m < map->machine_count; m++)
        map->machines[m].is_excluded = false;
    return value;
}

/* The best of all deals to two chains. */
static double best_of_two(lh_fleet_map *map, const lh_aim *aim) {
    double values[128], best = INFINITY;
    uint32_t all = (1u << map->machine_count) - 1;
    for (uint32_t mask = 0; mask <= all; mask++)
        values[mask] = value_of(map, aim, mask);
    for (uint32_t mask = 0; mask <= all; mask++) {
        double a = values[mask], b = values[all ^ mask];
        if (isfinite(a) && isfinite(b))
            best = fmin(best, aim->goal == LH_GOAL_THROUGHPUT ? 1 / (1 / a + 1 / b) : fmax(a, b));
    }
    return best;
}

static int by_value(const void *left, const void *right) {
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static void two_chains_are_near_the_best(void **state) {
    uint64_t seed = 4;
    double gaps[40];
    uint32_t count = 0, missed = 0;
    (void)state;
    for (uint32_t i = 0; i < 40; i++) {
        lh_fleet_map map;
        lh_layout_deal deal;
        uint32_t replica_of[6];
        random_map_make(&seed, 6, 3, 12, &map);
        const lh_aim aim = aim_of(i);
        double best = best_of_two(&map, &aim);
        lh_status status = lh_layout_deal_make(&map, &aim, 2, replica_of, &deal, NULL);
        if (isfinite(best)) {
            assert_int_equal(status, LH_OK);
            missed += deal.replicas != 2;
            if (deal.replicas == 2) {
                assert_true(deal.value >= best * (1 - 1e-9));
                gaps[count++] = deal.value / best - 1;
            }
        } else {
            assert_true(status == LH_ERR_LIMIT || deal.replicas == 1);
        }
        random_map_reset(&map);
    }
    qsort(gaps, count, sizeof *gaps, by_value);
    print_message("%u deals: median gap %.2f %%, worst %.1f %%, %u missed\n", count,
                  gaps[count / 2] * 100, gaps[count - 1] * 100, missed);
    assert_true(count >= 5 && missed * 10 <= count); /* a chain that lacks much stays torn */
    assert_true(gaps[count / 2] < 0.02);
}

static void each_machine_has_one_chain(void **state) {
    uint64_t seed = 9;
    lh_fleet_map map;
    lh_layout_deal deal;
    uint32_t replica_of[30];
    (void)state;
    random_map_make(&seed, 30, 5, 16, &map);
    map.machines[0].is_excluded = true;
    const lh_aim aim = aim_of(1);
    assert_int_equal(lh_layout_deal_make(&map, &aim, 3, replica_of, &deal, NULL), LH_OK);
    assert_int_equal(replica_of[0], LH_DEAL_NOBODY);
    for (uint32_t r = 0; r < deal.replicas; r++) {
        assert_true(lh_layout_is_sound(&deal.plans[r].layout, &map));
        for (uint32_t s = 0; s < deal.plans[r].layout.stage_count; s++)
            assert_int_equal(replica_of[deal.plans[r].layout.stages[s].machine], r);
    }
    random_map_reset(&map);
}

static void a_pin_is_refused(void **state) {
    uint64_t seed = 9;
    lh_fleet_map map;
    lh_layout_deal deal;
    uint32_t replica_of[6];
    (void)state;
    random_map_make(&seed, 6, 2, 8, &map);
    map.machines[0].pinned = (lh_map_layers){0, 1};
    const lh_aim aim = aim_of(1);
    assert_int_equal(lh_layout_deal_make(&map, &aim, 2, replica_of, &deal, NULL),
                     LH_ERR_UNSUPPORTED);
    random_map_reset(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_chains_are_near_the_best),
        cmocka_unit_test(each_machine_has_one_chain),
        cmocka_unit_test(a_pin_is_refused),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
