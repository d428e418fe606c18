/* An order that is given: the best plan's own order gives that plan again, and no other order gives
 * a better one. */
#include "gateway/plan/layout_resplit.h"

#include "tests/gateway/support/random_map.h"
#include "tests/gateway/support/short_memory.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define CLOSE 1e-9

static const lh_aim aims[] = {
    {.goal = LH_GOAL_TTFT, .prompt_rows = 512, .sequences_max = 8},
    {.goal = LH_GOAL_TPOT, .prompt_rows = 512, .position = 300, .sequences_max = 8},
    {.goal = LH_GOAL_THROUGHPUT, .prompt_rows = 512, .position = 300, .sequences_max = 16},
};

/* Machines exchanged at random; layers are no matter. */
static lh_layout shuffled(uint64_t *seed, const lh_layout *layout) {
    lh_layout other = *layout;
    for (uint32_t i = other.stage_count; i > 1; i--) {
        uint32_t with = (uint32_t)(test_random(seed) % i), kept = other.stages[i - 1].machine;
        other.stages[i - 1].machine = other.stages[with].machine;
        other.stages[with].machine = kept;
    }
    return other;
}

/* The machines come in the order's turn, each once at most. */
static void assert_in_order(const lh_layout *layout, const lh_layout *order) {
    uint32_t at = 0;
    for (uint32_t s = 0; s < layout->stage_count; s++, at++) {
        while (at < order->stage_count && order->stages[at].machine != layout->stages[s].machine)
            at++;
        assert_true(at < order->stage_count);
    }
}

static void judge(const lh_fleet_map *map, const lh_aim *aim, const lh_layout *order,
                  double best_value, bool is_best_order) {
    lh_layout_plan kept;
    lh_cost_chain costs;
    lh_error error;
    lh_status status = lh_layout_resplit(map, aim, order, &kept, &error);
    assert_true(status == LH_OK || (status == LH_ERR_LIMIT && !is_best_order));
    if (status != LH_OK)
        return;
    assert_true(lh_layout_is_sound(&kept.layout, map));
    assert_in_order(&kept.layout, order);
    lh_layout_costs(&kept.layout, map, aim->wire, &costs);
    double value = lh_aim_judge(aim, &costs, NULL);
    assert_true(value <= kept.value * (1 + CLOSE));
    assert_true(kept.value >= best_value * (1 - CLOSE));
    if (is_best_order)
        assert_true(kept.value <= best_value * (1 + CLOSE));
}

static void orders_give_what_they_can(void **state) {
    uint64_t seed = 5;
    uint32_t planned = 0;
    (void)state;
    for (uint32_t i = 0; i < 150; i++) {
        const lh_aim *aim = &aims[i % 3];
        lh_fleet_map map;
        lh_layout_plan best;
        random_map_make(&seed, 6, 4, 12, &map);
        if (lh_layout_search(&map, aim, &best, NULL) == LH_OK) {
            planned++;
            judge(&map, aim, &best.layout, best.value, true);
            for (int turn = 0; turn < 3; turn++) {
                const lh_layout order = shuffled(&seed, &best.layout);
                judge(&map, aim, &order, best.value, false);
            }
        }
        random_map_reset(&map);
    }
    assert_true(planned > 75);
}

typedef struct question {
    const lh_fleet_map *map;
    const lh_layout *order;
} question;

static lh_status resplit(const void *context, lh_error *error) {
    const question *asked = context;
    lh_layout_plan plan;
    return lh_layout_resplit(asked->map, &aims[0], asked->order, &plan, error);
}

static void without_memory_of_its_own_it_says_so(void **state) {
    uint64_t seed = 3;
    lh_fleet_map map;
    lh_layout_plan best;
    (void)state;
    do {
        random_map_make(&seed, 4, 4, 8, &map);
        if (lh_layout_search(&map, &aims[0], &best, NULL) != LH_OK)
            random_map_reset(&map);
    } while (!map.machines);
    assert_true(short_memory_try(resplit, &(question){&map, &best.layout}) > 2);
    random_map_reset(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_give_what_they_can),
        cmocka_unit_test(without_memory_of_its_own_it_says_so),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
