/* Plans for fleets at random, against a search through all plans. LONGHAUL_TEST_FLEETS: how many.
 */
#include "gateway/plan/layout_search.h"

#include "gateway/plan/machine_subsets.h"
#include "tests/gateway/support/random_map.h"
#include "tests/gateway/support/short_memory.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define CLOSE 1e-9

static uint32_t fleets(uint32_t by_default) {
    const char *text = getenv("LONGHAUL_TEST_FLEETS");
    return text && atoi(text) > 0 ? (uint32_t)atoi(text) : by_default;
}

static lh_aim random_aim(uint64_t *seed) {
    uint32_t rows = 16u << test_random(seed) % 6;
    return (lh_aim){.goal = (lh_goal)(LH_GOAL_TTFT + test_random(seed) % 3),
                    .prompt_rows = rows + (uint32_t)(test_random(seed) % rows),
                    .position = (uint32_t)(test_random(seed) % 2000),
                    .sequences_max = 1u << test_random(seed) % 6,
                    .wire = (lh_wire_type)(test_random(seed) % 3)};
}

/* ---- All plans ---- */

/* Depth first: another stage on any machine that is left, of any length. A branch ends where what
 * is certain of it is no better than the best. */
typedef struct enumeration {
    const lh_parts *parts;
    const lh_aim *aim;
    const lh_aim_size *size;
    double best;         /* to be beaten */
    double least_mib_us; /* of all machines */
    double least_busiest_us;
    uint64_t visits_left;
    uint32_t used;
} enumeration;

static void enumerate(enumeration *e, uint32_t from, uint32_t layer, double ring_us,
                      double busiest_us) {
    const lh_parts *p = e->parts;
    if (e->visits_left == 0)
        return;
    e->visits_left--;
    if (layer == p->layers) {
        const lh_part_hop *back = &p->hops[from][LH_PART_GATEWAY];
        double value = lh_aim_value(e->aim, e->size, ring_us + lh_part_hop_us(back),
                                    fmax(busiest_us, back->busy_us));
        e->best = fmin(e->best, value);
        return;
    }
    double rest_us = (p->row_mib[p->layers] - p->row_mib[layer]) * e->least_mib_us;
    if (lh_aim_value(e->aim, e->size, ring_us + rest_us, fmax(busiest_us, e->least_busiest_us)) >=
        e->best)
        return;
    for (uint32_t m = 0; m < p->machine_count; m++) {
        const lh_part_machine *machine = &p->machines[m];
        const lh_part_hop *hop = &p->hops[from][machine->site];
        if (e->used & 1u << m || isinf(hop->busy_us))
            continue;
        e->used |= 1u << m;
        for (uint32_t last = layer + 1; last <= p->layers; last++) {
            const lh_map_layers layers = {layer, last};
            double busy_us, us = lh_parts_stage_us(p, machine, layers, &busy_us);
            if (lh_parts_may_hold(p, machine, layers))
                enumerate(e, machine->site, last, ring_us + lh_part_hop_us(hop) + us,
                          fmax(busiest_us, fmax(hop->busy_us, busy_us)));
        }
        e->used &= ~(1u << m);
    }
}

/* Whether there is a plan better than this value; *is_known: all were looked at. */
static double find_better(const lh_fleet_map *map, const lh_aim *aim, double value,
                          bool *is_known) {
    lh_aim_size sizes[LH_AIM_SIZES_MAX];
    lh_parts *parts;
    uint32_t count = lh_aim_sizes(aim, sizes);
    double best = value;
    *is_known = true;
    assert_int_equal(lh_parts_create(map, &parts, NULL), LH_OK);
    for (uint32_t i = 0; i < count; i++) {
        enumeration e = {parts, aim, &sizes[i], best, INFINITY, 0, 3000000, 0};
        double speed = 0;
        lh_parts_price(parts, aim, &sizes[i]);
        for (uint32_t m = 0; m < parts->machine_count; m++) {
            e.least_mib_us = fmin(e.least_mib_us, parts->machines[m].mib_us);
            speed += 1 / parts->machines[m].mib_us;
        }
        e.least_busiest_us = parts->row_mib[parts->layers] / speed;
        enumerate(&e, LH_PART_GATEWAY, 0, 0, 0);
        *is_known &= e.visits_left > 0;
        best = fmin(best, e.best);
    }
    lh_parts_destroy(parts);
    return best;
}

/* ---- Tests ---- */

static void judge_layout(const lh_fleet_map *map, const lh_aim *aim, const lh_layout_plan *plan) {
    lh_cost_chain *chain = malloc(sizeof *chain);
    assert_non_null(chain);
    assert_true(lh_layout_is_sound(&plan->layout, map));
    assert_true(lh_layout_kv_pages(map, &plan->layout) >= plan->kv.pages);
    lh_layout_costs(&plan->layout, map, aim->wire, chain);
    assert_int_equal(lh_cost_chain_check(chain, NULL), LH_OK);
    lh_cost_step step = lh_aim_step(&plan->size, chain);
    assert_true(fabs(step.ring_us / plan->ring_us - 1) < CLOSE);
    assert_true(fabs(step.busiest_us / plan->busiest_us - 1) < CLOSE);
    assert_true(fabs(lh_aim_judge(aim, chain, NULL) / plan->value - 1) < CLOSE);
    assert_true(plan->bound.value <= plan->value * (1 + CLOSE));
    free(chain);
}

static void nothing_is_better_with_few_machines(void **state) {
    uint64_t seed = 27;
    uint32_t count = fleets(60), planned = 0, known = 0;
    (void)state;
    for (uint32_t i = 0; i < count; i++) {
        lh_fleet_map map;
        lh_layout_plan plan;
        bool is_known;
        random_map_make(&seed, 8, 8, 24, &map);
        const lh_aim aim = random_aim(&seed);
        lh_status status = lh_layout_search(&map, &aim, &plan, NULL);
        double value = status == LH_OK ? plan.value : INFINITY;
        if (status == LH_OK) {
            planned++;
            judge_layout(&map, &aim, &plan);
            assert_true(plan.is_exact);
        } else {
            assert_int_equal(status, LH_ERR_LIMIT);
        }
        double better = find_better(&map, &aim, value, &is_known);
        known += is_known;
        if (better < value * (1 - CLOSE))
            fail_msg("fleet %u: %.6f is better than %.6f", i, better, value);
        random_map_reset(&map);
    }
    print_message("%u fleets, %u planned, %u of them known to the end\n", count, planned, known);
    assert_true(planned > count / 2);
    assert_true(known > count * 8 / 10);
}

/* With the room that the plan has; with more there is none at all. */
static void nothing_is_better_with_room_for_keys_and_values(void **state) {
    uint64_t seed = 71;
    uint32_t count = fleets(40), planned = 0, lowered = 0;
    (void)state;
    for (uint32_t i = 0; i < count; i++) {
        lh_fleet_map map;
        lh_layout_plan plan;
        bool is_known;
        random_map_make(&seed, 7, 5, 16, &map);
        random_map_bound_kv(&seed, &map);
        const lh_kv_need wanted = map.model.kv;
        const lh_aim aim = random_aim(&seed);
        if (lh_layout_search(&map, &aim, &plan, NULL) == LH_OK) {
            planned++;
            judge_layout(&map, &aim, &plan);
            map.model.kv = plan.kv;
            assert_true(find_better(&map, &aim, plan.value, &is_known) >= plan.value * (1 - CLOSE));
            if (plan.kv.pages < wanted.pages) {
                lowered++;
                map.model.kv = wanted;
                while (map.model.kv.pages / 2 > plan.kv.pages)
                    lh_kv_need_lower(&map.model.kv);
                assert_true(isinf(find_better(&map, &aim, INFINITY, &is_known)));
            }
        }
        random_map_reset(&map);
    }
    print_message("%u fleets, %u planned, %u of them with less room\n", count, planned, lowered);
    assert_true(planned > count / 2 && lowered > 0);
}

/* The exact search may take more machines than the planner gives it. */
static double find_best_of_twelve(const lh_fleet_map *map, const lh_aim *aim) {
    lh_aim_size sizes[LH_AIM_SIZES_MAX];
    lh_parts *parts;
    lh_machine_subsets *subsets;
    lh_found best = {.value = INFINITY};
    uint32_t count = lh_aim_sizes(aim, sizes);
    assert_int_equal(lh_parts_create(map, &parts, NULL), LH_OK);
    assert_int_equal(lh_machine_subsets_create(parts, &subsets, NULL), LH_OK);
    for (uint32_t i = 0; i < count; i++) {
        const lh_limit_search search = {.find = lh_machine_subsets_find,
                                        .context = subsets,
                                        .aim = aim,
                                        .size = &sizes[i],
                                        .tries_max = UINT32_MAX};
        lh_parts_price(parts, aim, &sizes[i]);
        lh_limit_search_run(&search, &best);
    }
    lh_machine_subsets_destroy(subsets);
    lh_parts_destroy(parts);
    return best.value;
}

static int by_value(const void *left, const void *right) {
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static void twelve_machines_are_near_the_best(void **state) {
    uint64_t seed = 12;
    uint32_t wanted = fleets(4), count = 0, refused = 0;
    double *gaps = calloc(wanted, sizeof *gaps);
    (void)state;
    assert_non_null(gaps);
    while (count < wanted) {
        lh_fleet_map map;
        lh_layout_plan plan;
        do {
            random_map_make(&seed, 12, 8, 24, &map);
            if (map.machine_count < 12)
                random_map_reset(&map);
        } while (!map.machines);
        const lh_aim aim = random_aim(&seed);
        double best = find_best_of_twelve(&map, &aim);
        lh_status status = lh_layout_search(&map, &aim, &plan, NULL);
        if (isfinite(best)) {
            refused += status != LH_OK;
            gaps[count] = status == LH_OK ? plan.value / best - 1 : INFINITY;
            if (gaps[count] > 0.02)
                print_message("gap %.2f %%: %s, %u layers, %u sites, %u stages\n",
                              gaps[count] * 100, lh_goal_name(aim.goal), map.model.layers,
                              map.site_count, plan.layout.stage_count);
            assert_true(gaps[count] > -CLOSE);
            count++;
        }
        random_map_reset(&map);
    }
    qsort(gaps, count, sizeof *gaps, by_value);
    print_message("%u fleets of 12: median gap %.3f %%, 99th percentile %.3f %%, worst %.3f %%, %u "
                  "refused\n",
                  count, gaps[count / 2] * 100, gaps[count * 99 / 100] * 100, gaps[count - 1] * 100,
                  refused);
    assert_true(gaps[count / 2] <= 0.02);
    assert_true(gaps[count * 99 / 100] <= 0.05 || count < 100);
    free(gaps);
}

static void plan_some(uint32_t machines, uint32_t sites, uint32_t count, double limit_ms) {
    uint64_t seed = machines;
    double worst_ms = 0, gap = 0;
    for (uint32_t i = 0; i < count; i++) {
        lh_fleet_map map;
        lh_layout_plan plan;
        do {
            random_map_make(&seed, machines, sites, 80, &map);
            if (map.machine_count < machines * 9 / 10 || map.model.layers < 24)
                random_map_reset(&map);
        } while (!map.machines);
        const lh_aim aim = random_aim(&seed);
        clock_t begin = clock(); /* of this process alone: the machine may be busy */
        lh_status status = lh_layout_search(&map, &aim, &plan, NULL);
        double ms = (double)(clock() - begin) * 1000 / CLOCKS_PER_SEC;
        worst_ms = fmax(worst_ms, ms);
        assert_int_equal(status, LH_OK);
        judge_layout(&map, &aim, &plan);
        gap = fmax(gap, plan.value / plan.bound.value - 1);
        if (ms > limit_ms)
            print_message("%.0f ms: %s, %u layers, %u machines, %u sites, %u stages\n", ms,
                          lh_goal_name(aim.goal), map.model.layers, map.machine_count,
                          map.site_count, plan.layout.stage_count);
        random_map_reset(&map);
    }
    assert_true(worst_ms < 20 * limit_ms); /* also with sanitizers, on a machine that is busy */
    print_message("%u machines in up to %u sites: at most %.0f ms, %.0f %% over the bound\n",
                  machines, sites, worst_ms, gap * 100);
}

static void many_machines_are_planned_soon(void **state) {
    (void)state;
    plan_some(64, 8, fleets(2), 100);
    plan_some(64, 40, fleets(2), 1000);
    plan_some(1000, 8, fleets(1), 2000);
}

static void the_order_of_the_file_changes_nothing(void **state) {
    uint64_t seed = 5;
    (void)state;
    for (uint32_t i = 0; i < fleets(60); i++) {
        lh_fleet_map map, shuffled;
        lh_layout_plan plan, other;
        random_map_make(&seed, i % 4 == 0 ? 30 : 8, i % 8 == 0 ? 20 : 8, 24, &map);
        random_map_shuffle(&seed, &map, &shuffled);
        const lh_aim aim = random_aim(&seed);
        lh_status status = lh_layout_search(&map, &aim, &plan, NULL);
        assert_int_equal(lh_layout_search(&shuffled, &aim, &other, NULL), status);
        if (status == LH_OK) {
            assert_true(memcmp(&plan.value, &other.value, sizeof plan.value) == 0);
            assert_int_equal(plan.layout.stage_count, other.layout.stage_count);
        }
        for (uint32_t s = 0; status == LH_OK && s < plan.layout.stage_count; s++) {
            const lh_layout_stage *a = &plan.layout.stages[s], *b = &other.layout.stages[s];
            assert_string_equal(map.machines[a->machine].name, shuffled.machines[b->machine].name);
            assert_int_equal(a->layers.first, b->layers.first);
            assert_int_equal(a->layers.last, b->layers.last);
        }
        random_map_reset(&shuffled);
        random_map_reset(&map);
    }
}

static void no_site_alone_is_faster(void **state) {
    uint64_t seed = 8;
    uint32_t compared = 0;
    (void)state;
    for (uint32_t i = 0; i < fleets(20); i++) {
        lh_fleet_map map;
        lh_layout_plan plan, alone;
        random_map_make(&seed, 40, i % 4 == 0 ? 12 : 6, 40, &map);
        const lh_aim aim = random_aim(&seed);
        lh_status status = lh_layout_search(&map, &aim, &plan, NULL);
        for (uint32_t s = 0; s < map.site_count; s++) {
            for (uint32_t m = 0; m < map.machine_count; m++)
                map.machines[m].is_excluded = map.machines[m].site != s;
            if (lh_layout_search(&map, &aim, &alone, NULL) != LH_OK)
                continue;
            assert_int_equal(status, LH_OK);
            compared++;
            if (plan.value > alone.value * (1 + CLOSE))
                fail_msg("fleet %u: %.3f for all, %.3f for site %u alone", i, plan.value,
                         alone.value, s);
        }
        random_map_reset(&map);
    }
    assert_true(compared > 0);
}

/* Three machines at one site, six layers of 10 MiB; the third is a hundred times as slow. */
static lh_fleet_map small_map(lh_map_machine machines[3]) {
    static const char *const names[] = {"a", "b", "c"};
    lh_fleet_map map = {.model = {.layers = 6, .width = 512},
                        .site_count = 1,
                        .sites = {"home"},
                        .machines = machines,
                        .machine_count = 3};
    for (uint32_t i = 0; i < 6; i++)
        map.model.layer_bytes[i] = map.model.row_bytes[i] = 10 << 20;
    map.links[0][0] = (lh_map_link){125, 50};
    for (uint32_t m = 0; m < 3; m++) {
        machines[m] = (lh_map_machine){.memory_bytes = 40 << 20};
        snprintf(machines[m].name, sizeof machines[m].name, "%s", names[m]);
        double slow = m == 2 ? 100 : 1;
        lh_map_machine_set_speed(&machines[m], &(lh_machine_speed){10 * slow, 60 * slow});
    }
    return map;
}

static const lh_aim token_aim = {.goal = LH_GOAL_TPOT, .prompt_rows = 512, .sequences_max = 1};

static void a_weak_machine_is_left_out(void **state) {
    lh_map_machine machines[3];
    lh_fleet_map map = small_map(machines);
    lh_layout_plan plan;
    (void)state;
    assert_int_equal(lh_layout_search(&map, &token_aim, &plan, NULL), LH_OK);
    assert_int_equal(plan.layout.stage_count, 2);
    assert_true(plan.layout.stages[0].machine < 2 && plan.layout.stages[1].machine < 2);
}

static void a_pin_is_kept(void **state) {
    lh_map_machine machines[3];
    lh_fleet_map map = small_map(machines);
    lh_layout_plan plan;
    (void)state;
    machines[2].pinned = (lh_map_layers){2, 3};
    assert_int_equal(lh_layout_search(&map, &token_aim, &plan, NULL), LH_OK);
    assert_int_equal(plan.layout.stage_count, 3);
    assert_int_equal(plan.layout.stages[1].machine, 2);
    assert_true(lh_layout_is_sound(&plan.layout, &map));
}

static void without_memory_there_is_no_plan(void **state) {
    lh_map_machine machines[3];
    lh_fleet_map map = small_map(machines);
    lh_layout_plan plan;
    lh_error error;
    (void)state;
    machines[0].is_excluded = machines[1].is_excluded = true;
    assert_int_equal(lh_layout_search(&map, &token_aim, &plan, &error), LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "60 MiB"));
    lh_aim fast = token_aim;
    fast.goal = LH_GOAL_THROUGHPUT;
    fast.token_us_max = 10;
    machines[0].is_excluded = machines[1].is_excluded = false;
    assert_int_equal(lh_layout_search(&map, &fast, &plan, &error), LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "time per token"));
}

/* With many machines, too. */
static void pins_are_kept_among_many(void **state) {
    uint64_t seed = 77;
    uint32_t planned = 0;
    (void)state;
    for (uint32_t i = 0; i < fleets(20); i++) {
        lh_fleet_map map;
        lh_layout_plan plan;
        do {
            random_map_make(&seed, 30, 6, 24, &map);
            if (map.machine_count < 12 || map.model.layers < 12)
                random_map_reset(&map);
        } while (!map.machines);
        const lh_aim aim = random_aim(&seed);
        map.machines[3].pinned = (lh_map_layers){2, 4};
        map.machines[3].memory_bytes = UINT64_C(1) << 40;
        map.machines[5].pinned = (lh_map_layers){7, 8};
        map.machines[5].memory_bytes = UINT64_C(1) << 40;
        if (lh_layout_search(&map, &aim, &plan, NULL) == LH_OK) {
            judge_layout(&map, &aim, &plan);
            planned++;
        }
        random_map_reset(&map);
    }
    assert_true(planned > fleets(20) / 2);
}

/* It finds what fits where the search does, or nearly always, and is seldom much worse. */
static void a_plan_made_at_once_is_sound(void **state) {
    uint64_t seed = 41;
    uint32_t planned = 0, refused = 0, near = 0;
    (void)state;
    for (uint32_t i = 0; i < fleets(60); i++) {
        lh_fleet_map map;
        lh_layout_plan plan, quick;
        random_map_make(&seed, i % 4 == 0 ? 40 : 10, i % 8 == 0 ? 12 : 6, 24, &map);
        const lh_aim aim = random_aim(&seed);
        if (lh_layout_search(&map, &aim, &plan, NULL) == LH_OK) {
            planned++;
            lh_status status = lh_layout_search_quickly(&map, &aim, &quick, NULL);
            refused += status == LH_ERR_LIMIT;
            assert_true(status == LH_OK || status == LH_ERR_LIMIT);
            if (status == LH_OK) {
                judge_layout(&map, &aim, &quick);
                near += quick.value <= plan.value * 1.1;
                assert_false(quick.is_exact);
            }
        }
        random_map_reset(&map);
    }
    print_message("%u planned, at once: %u refused, %u within a tenth\n", planned, refused, near);
    assert_true(planned > fleets(60) / 2);
    assert_true(refused <= planned / 20);
    assert_true(near >= planned * 8 / 10);
}

static lh_status search_for_a_token(const void *map, lh_error *error) {
    lh_layout_plan plan;
    return lh_layout_search(map, &token_aim, &plan, error);
}

/* For few machines and for many. */
static void without_memory_of_its_own_it_says_so(void **state) {
    static const uint32_t machines[] = {4, 14};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t seed = 3;
        lh_fleet_map map;
        lh_layout_plan plan;
        do {
            random_map_make(&seed, machines[i], 4, 8, &map);
            if (map.machine_count < machines[i] ||
                lh_layout_search(&map, &token_aim, &plan, NULL) != LH_OK)
                random_map_reset(&map);
        } while (!map.machines);
        assert_true(short_memory_try(search_for_a_token, &map) > 2);
        random_map_reset(&map);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_better_with_few_machines),
        cmocka_unit_test(nothing_is_better_with_room_for_keys_and_values),
        cmocka_unit_test(twelve_machines_are_near_the_best),
        cmocka_unit_test(many_machines_are_planned_soon),
        cmocka_unit_test(the_order_of_the_file_changes_nothing),
        cmocka_unit_test(no_site_alone_is_faster),
        cmocka_unit_test(a_weak_machine_is_left_out),
        cmocka_unit_test(a_pin_is_kept),
        cmocka_unit_test(without_memory_there_is_no_plan),
        cmocka_unit_test(pins_are_kept_among_many),
        cmocka_unit_test(a_plan_made_at_once_is_sound),
        cmocka_unit_test(without_memory_of_its_own_it_says_so),
    };
    cmocka_set_test_filter(getenv("LONGHAUL_TEST_ONLY")); /* for many fleets: one test */
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
