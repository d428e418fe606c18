/* Machines that compute each layer together: what they are as one, who they are, and when it is
 * worth it. LONGHAUL_TEST_FLEETS: how many fleets at random. */
#include "gateway/plan/layout_search.h"
#include "gateway/plan/team_policy.h"
#include "tests/gateway/support/random_map.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/gguf_writer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB 1048576u

/* Eight layers of 10 MiB; one site with a network of 1 Gbit/s. */
static void make_room(lh_fleet_map *map, lh_map_machine *machines, uint32_t count) {
    *map = (lh_fleet_map){.model = {.layers = 8, .width = 512, .gather_row_bytes = 10000},
                          .site_count = 1,
                          .sites = {"home"},
                          .machines = machines,
                          .machine_count = count};
    map->links[0][0] = (lh_map_link){125, 30};
    for (uint32_t i = 0; i < 8; i++)
        map->model.layer_bytes[i] = map->model.row_bytes[i] = 10 * MIB;
    for (uint32_t m = 0; m < count; m++) {
        machines[m] = (lh_map_machine){.memory_bytes = 1000 * (uint64_t)MIB,
                                       .can_join = true,
                                       .attention_us = 0.02,
                                       .step_us = 50,
                                       .point_count = 2,
                                       .points = {{1, 100}, {512, 10240}}};
        snprintf(machines[m].name, sizeof machines[m].name, "m%u", m);
    }
}

static void assert_near(double value, double expected) {
    assert_true(fabs(value - expected) <= 1e-9 * expected);
}

/* ---- As one ---- */

static void two_equal_machines_take_half_and_meet(void **state) {
    lh_map_machine machines[2], joined;
    lh_fleet_map map;
    (void)state;
    make_room(&map, machines, 2);
    const lh_team team = {2, {0, 1}};
    double few_us = 4 * (30 + LH_TEAM_GATHER_US) + 10000 / 2.0 / 125;
    assert_near(lh_team_gathers_us(&map, 0, 2, 1), few_us);
    map.model.layer_gathers = 5; /* with norms over all heads of a row */
    assert_near(lh_team_gathers_us(&map, 0, 2, 1), few_us + 30 + LH_TEAM_GATHER_US);
    map.model.layer_gathers = 0;
    machines[0].held = (lh_map_layers){0, 5};
    machines[1].held = (lh_map_layers){3, 8};
    lh_team_join(&map, &team, &joined);
    assert_string_equal(joined.name, "m0");
    assert_near(lh_team_layer_us(&map.model, &joined, 1), 1000 / 2 + few_us);
    /* of many rows the wire takes less than the products, and most of it is hidden */
    double wire_us = lh_team_gathers_us(&map, 0, 2, 512), products_us = 102400 / 2;
    assert_true(wire_us < products_us);
    assert_near(lh_team_layer_us(&map.model, &joined, 512),
                products_us + LH_TEAM_EXPOSED_SHARE * wire_us);
    assert_int_equal(joined.memory_bytes, 2000 * (uint64_t)MIB);
    assert_int_equal(joined.first_extra_bytes, 0);
    assert_near(joined.attention_us, 0.01);
    assert_int_equal(joined.held.first, 3);
    assert_int_equal(joined.held.last, 5);
}

/* One takes three quarters of the work, so that its memory is what limits. */
static void the_faster_one_has_more_to_hold(void **state) {
    lh_map_machine machines[2], joined;
    lh_fleet_map map;
    (void)state;
    make_room(&map, machines, 2);
    machines[1].points[0].us = 300;
    const lh_team team = {2, {1, 0}};
    lh_team_join(&map, &team, &joined);
    assert_string_equal(joined.name, "m1");
    assert_near(lh_team_layer_us(&map.model, &joined, 1), 750 + lh_team_gathers_us(&map, 0, 2, 1));
    assert_int_equal(joined.memory_bytes / MIB, 1333);
    machines[0].held = (lh_map_layers){0, 2};
    machines[1].held = (lh_map_layers){5, 8};
    lh_team_join(&map, &team, &joined);
    assert_int_equal(joined.held.first, joined.held.last);
}

/* Eight heads of 128 numbers each, and a page of 64 positions. */
static void members_keep_their_heads_keys_and_values(void **state) {
    lh_map_machine machines[2], joined;
    lh_fleet_map map;
    (void)state;
    make_room(&map, machines, 2);
    map.model.kv = (lh_kv_need){.position_bytes = 8192, .heads = 8, .pages = 4};
    machines[0].kv_bytes = 8 * MIB;
    machines[1].kv_bytes = 6 * MIB;
    const lh_team team = {2, {0, 1}};
    lh_team_join(&map, &team, &joined);
    assert_int_equal(joined.kv_bytes, 12 * MIB); /* the one with fewer pages limits both */
    assert_int_equal(lh_kv_need_layers_max(&map.model.kv, joined.kv_bytes), 6);
    machines[1].points[0].us = 300; /* a quarter of the heads: two */
    lh_team_join(&map, &team, &joined);
    assert_int_equal(joined.kv_bytes / 1024, 8 * 1024 * 8 / 6);
    map.model.kv.heads = 3; /* 2.25 of them: all, and the last one */
    lh_team_join(&map, &team, &joined);
    assert_int_equal(joined.kv_bytes, 8 * MIB);
    map.model.kv.heads = 0; /* latent rows are with all */
    lh_team_join(&map, &team, &joined);
    assert_int_equal(joined.kv_bytes, 6 * MIB);
    machines[1].kv_bytes = 0;
    lh_team_join(&map, &team, &joined);
    assert_int_equal(joined.kv_bytes, 0);
}

/* Each has the embedding, where the team has the first layers: 700 of 1000 are left to each, and
 * with 300 for one embedding that makes 1700 of 2000. */
static void each_has_the_embedding(void **state) {
    lh_map_machine machines[2], joined;
    lh_fleet_map map;
    (void)state;
    make_room(&map, machines, 2);
    map.model.embedding_bytes = 300 * (uint64_t)MIB;
    lh_team_join(&map, &(lh_team){2, {0, 1}}, &joined);
    assert_int_equal(joined.memory_bytes, 2000 * (uint64_t)MIB);
    assert_int_equal(joined.first_extra_bytes, 300 * (uint64_t)MIB);
    map.model.layer_bytes[0] = 1400 * (uint64_t)MIB;
    assert_true(lh_layout_has_room(&map.model, &joined, (lh_map_layers){0, 1}));
    map.model.layer_bytes[0] += 1;
    assert_false(lh_layout_has_room(&map.model, &joined, (lh_map_layers){0, 1}));
    map.model.layer_bytes[1] = 2000 * (uint64_t)MIB;
    assert_true(lh_layout_has_room(&map.model, &joined, (lh_map_layers){1, 2}));
    map.model.embedding_bytes = 1200 * (uint64_t)MIB; /* for which none has room */
    lh_team_join(&map, &(lh_team){2, {0, 1}}, &joined);
    map.model.layer_bytes[0] = 1;
    assert_false(lh_layout_has_room(&map.model, &joined, (lh_map_layers){0, 1}));
    lh_team_join(&map, &(lh_team){1, {0}}, &joined);
    assert_int_equal(joined.first_extra_bytes, 0);
}

static void what_a_team_has_measured_counts(void **state) {
    lh_map_machine machines[2], joined;
    lh_fleet_map map;
    (void)state;
    make_room(&map, machines, 2);
    lh_map_team known = {.team = {2, {0, 1}},
                         .measured = {.point_count = 1, .points = {{1, 77}}, .step_us = 9}};
    map.teams = &known;
    map.team_count = 1;
    assert_int_equal(lh_fleet_map_check(&map, NULL), LH_OK);
    lh_team_join(&map, &(lh_team){2, {0, 1}}, &joined);
    assert_true(joined.points[0].us == 77 && joined.step_us == 9);
    lh_team_join(&map, &(lh_team){2, {1, 0}}, &joined); /* another one leads */
    assert_true(joined.points[0].us < 77);
    known.team.members[1] = 0;
    assert_int_equal(lh_fleet_map_check(&map, NULL), LH_ERR_INVALID);
    known.team.members[1] = 2;
    assert_int_equal(lh_fleet_map_check(&map, NULL), LH_ERR_INVALID);
    known.team = (lh_team){1, {0}};
    assert_int_equal(lh_fleet_map_check(&map, NULL), LH_ERR_INVALID);
    known.team = (lh_team){2, {0, 1}};
    known.measured.points[0].us = -1;
    assert_int_equal(lh_fleet_map_check(&map, NULL), LH_ERR_INVALID);
}

/* ---- Who ---- */

/* "m0+m1 m2" */
static void assert_drawn(const lh_fleet_map *map, uint32_t size, const char *expected) {
    const lh_team_sizes sizes = lh_team_sizes_alike(size);
    char found[256] = "";
    lh_team teams[16];
    uint32_t count = lh_team_sizes_draw(map, &sizes, teams);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < teams[i].count; k++)
            strcat(strcat(found, k > 0   ? "+"
                                 : i > 0 ? " "
                                         : ""),
                   map->machines[teams[i].members[k]].name);
    assert_string_equal(found, expected);
}

static void they_are_joined_by_name(void **state) {
    lh_map_machine machines[5];
    lh_fleet_map map;
    (void)state;
    make_room(&map, machines, 5);
    assert_drawn(&map, 0, "m0 m1 m2 m3 m4");
    assert_drawn(&map, 2, "m0+m1 m2+m3 m4");
    assert_drawn(&map, 5, "m0+m1+m2+m3+m4");
    assert_drawn(&map, 6, "m0 m1 m2 m3 m4");
    strcpy(machines[0].name, "z");
    assert_drawn(&map, 2, "m1+m2 m3+m4 z");
    machines[1].can_join = false;
    machines[2].pinned = (lh_map_layers){0, 2};
    assert_int_equal(lh_team_joinable(&map, 0), 3);
    assert_drawn(&map, 2, "m1 m2 m3+m4 z");
    machines[3].is_excluded = true;
    assert_drawn(&map, 2, "m1 m2 m3 m4+z");
    map.model.gather_row_bytes = 0; /* a model that one machine alone computes */
    assert_int_equal(lh_team_joinable(&map, 0), 0);
    assert_drawn(&map, 2, "m1 m2 m3 m4 z");
}

static void those_that_stand_stay_together(void **state) {
    lh_map_machine machines[5];
    lh_fleet_map map;
    (void)state;
    make_room(&map, machines, 5);
    lh_map_team known[] = {{.team = {2, {3, 1}}, .stands = true}, {.team = {2, {0, 4}}}};
    map.teams = known;
    map.team_count = 2;
    assert_int_equal(lh_team_sizes_standing(&map).of[0], 2);
    assert_drawn(&map, 2, "m3+m1 m0+m2 m4"); /* and one that does not is none */
    assert_drawn(&map, 3, "m0+m1+m2 m3 m4");
    machines[1].can_join = false;
    assert_drawn(&map, 2, "m0+m2 m1 m3+m4");
}

/* ---- Whether ---- */

static const lh_aim tpot = {.goal = LH_GOAL_TPOT, .prompt_rows = 512, .sequences_max = 8};

static uint32_t chosen_size(const lh_fleet_map *map, const lh_aim *aim) {
    lh_team_sizes sizes;
    assert_int_equal(lh_team_sizes_choose(map, aim, &sizes, NULL), LH_OK);
    return sizes.of[0];
}

static void a_fast_network_makes_teams_and_a_slow_one_does_not(void **state) {
    lh_map_machine machines[4];
    lh_fleet_map map;
    (void)state;
    make_room(&map, machines, 4);
    assert_int_equal(chosen_size(&map, &tpot), 4);
    assert_int_equal(lh_team_sizes_fastest(&map, &tpot).of[0], 4);
    map.links[0][0] = (lh_map_link){12.5, 300}; /* 100 Mbit/s through a busy switch */
    const lh_team_verdict verdict = lh_team_judge(&map, &tpot, 0, 0);
    assert_int_equal(verdict.joinable, 4);
    assert_int_equal(verdict.rows, 1);
    assert_true(verdict.together_us > verdict.alone_us && verdict.gathers_us > 1000);
    assert_int_equal(chosen_size(&map, &tpot), 0);
    assert_int_equal(lh_team_sizes_fastest(&map, &tpot).of[0], 0);
}

/* SmolLM2's layers are so small that a gigabit network takes longer than they do: one machine alone
 * is five times as fast. */
static void a_small_model_stays_on_one_machine(void **state) {
    lh_map_machine machines[4];
    lh_fleet_map map;
    (void)state;
    make_room(&map, machines, 4);
    map.model.layers = 30;
    map.model.gather_row_bytes = 2 * 4 * 576 + (576 + 1536) * 36 / 32;
    for (uint32_t i = 0; i < 30; i++)
        map.model.layer_bytes[i] = map.model.row_bytes[i] = 2200000;
    for (uint32_t m = 0; m < 4; m++)
        machines[m].points[0].us = 50;
    map.links[0][0] = (lh_map_link){125, 60};
    assert_int_equal(chosen_size(&map, &tpot), 0);
    const lh_team_verdict verdict = lh_team_judge(&map, &tpot, 0, 4);
    assert_int_equal(verdict.size, 4);
    assert_true(verdict.together_us > 3 * verdict.alone_us);
}

static void a_policy_is_a_word_or_a_number(void **state) {
    lh_map_machine machines[4];
    lh_fleet_map map;
    lh_team_sizes sizes;
    (void)state;
    make_room(&map, machines, 4);
    lh_team_policy policy = lh_team_policy_parse("off");
    assert_false(lh_team_policy_makes_teams(&policy));
    policy = lh_team_policy_parse("3");
    assert_true(lh_team_policy_makes_teams(&policy));
    assert_int_equal(lh_team_policy_choose(&policy, &map, &tpot, &sizes, NULL), LH_OK);
    assert_int_equal(sizes.of[0], 3);
    assert_int_equal(lh_team_policy_choose_quickly(&policy, &map, &tpot, &sizes, NULL), LH_OK);
    assert_int_equal(sizes.of[0], 3);
    policy = lh_team_policy_parse("auto");
    assert_true(lh_team_policy_makes_teams(&policy));
    assert_int_equal(lh_team_policy_choose(&policy, &map, &tpot, &sizes, NULL), LH_OK);
    assert_int_equal(sizes.of[0], 4);
    assert_int_equal(lh_team_policy_choose_quickly(&policy, &map, &tpot, &sizes, NULL), LH_OK);
    assert_int_equal(sizes.of[0], 4);
}

/* ---- At random ---- */

static uint32_t fleets(void) {
    const char *text = getenv("LONGHAUL_TEST_FLEETS");
    return text && atoi(text) > 0 ? (uint32_t)atoi(text) : 150;
}

static lh_aim random_aim(uint64_t *seed) {
    return (lh_aim){.goal = (lh_goal)(LH_GOAL_TTFT + test_random(seed) % 3),
                    .prompt_rows = 16u << test_random(seed) % 6,
                    .position = (uint32_t)(test_random(seed) % 2000),
                    .sequences_max = 1u << test_random(seed) % 6};
}

/* Networks of 1 to 25 Gbit/s, and most machines join. */
static void let_join(uint64_t *seed, lh_fleet_map *map) {
    map->model.gather_row_bytes = 13 * map->model.width;
    for (uint32_t m = 0; m < map->machine_count; m++)
        map->machines[m].can_join = test_random(seed) % 8 > 0;
    for (uint32_t s = 0; s < map->site_count; s++)
        map->links[s][s].bytes_per_us = 125 * (double)(1 + test_random(seed) % 25);
}

static double value_with(const lh_fleet_map *map, const lh_aim *aim, const lh_team_sizes *sizes) {
    uint32_t best;
    double value;
    assert_int_equal(lh_team_sizes_compare(map, aim, sizes, 1, &best, &value, NULL), LH_OK);
    return value;
}

/* Every combination of sizes. */
static double best_of_all(const lh_fleet_map *map, const lh_aim *aim, lh_team_sizes *sizes,
                          uint32_t site) {
    double best = INFINITY;
    uint32_t most = site < map->site_count ? lh_team_joinable(map, site) : 0;
    if (site == map->site_count)
        return value_with(map, aim, sizes);
    for (uint32_t size = 1; size <= most || size == 1; size++) {
        sizes->of[site] = size;
        best = fmin(best, best_of_all(map, aim, sizes, site + 1));
    }
    return best;
}

/* Up to 3 sites: within 1 % a step, the best of all combinations nearly always. And the order of a
 * file is no matter. */
static void a_choice_is_as_good_as_any(void **state) {
    const uint32_t count = fleets();
    uint32_t worse = 0, solved = 0;
    double worst = 1;
    (void)state;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t seed = 8000 + i;
        lh_fleet_map map, other;
        lh_team_sizes chosen, again, sizes = lh_team_sizes_alike(0);
        random_map_make(&seed, 7, 3, 12, &map);
        let_join(&seed, &map);
        const lh_aim aim = random_aim(&seed);
        assert_int_equal(lh_team_sizes_choose(&map, &aim, &chosen, NULL), LH_OK);
        double value = value_with(&map, &aim, &chosen), best = best_of_all(&map, &aim, &sizes, 0);
        if (isfinite(best)) {
            solved++;
            worse += value > 1.02 * best;
            worst = fmax(worst, value / best);
        }
        random_map_shuffle(&seed, &map, &other);
        assert_int_equal(lh_team_sizes_choose(&other, &aim, &again, NULL), LH_OK);
        assert_true(isinf(value) || fabs(value_with(&other, &aim, &again) / value - 1) < 0.02);
        random_map_reset(&other);
        random_map_reset(&map);
    }
    printf("%u fleets: %u choices more than 2 %% worse than the best, at worst %.3f times\n",
           solved, worse, worst);
    assert_true(solved > count / 4);
    assert_true(worse * 20 <= solved);
}

static void without_memory_nothing_is_chosen(void **state) {
    lh_map_machine machines[4];
    lh_fleet_map map;
    lh_team_sizes sizes;
    lh_error error;
    (void)state;
    make_room(&map, machines, 4);
    for (size_t n = 1;; n++) {
        failing_malloc_arm(n);
        lh_status status = lh_team_sizes_choose(&map, &tpot, &sizes, &error);
        if (!failing_malloc_disarm())
            break;
        /* a verdict that could not be found is none: the choice goes on without it */
        assert_true(status == LH_ERR_NO_MEMORY || status == LH_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_equal_machines_take_half_and_meet),
        cmocka_unit_test(the_faster_one_has_more_to_hold),
        cmocka_unit_test(members_keep_their_heads_keys_and_values),
        cmocka_unit_test(each_has_the_embedding),
        cmocka_unit_test(what_a_team_has_measured_counts),
        cmocka_unit_test(they_are_joined_by_name),
        cmocka_unit_test(those_that_stand_stay_together),
        cmocka_unit_test(a_fast_network_makes_teams_and_a_slow_one_does_not),
        cmocka_unit_test(a_small_model_stays_on_one_machine),
        cmocka_unit_test(a_policy_is_a_word_or_a_number),
        cmocka_unit_test(a_choice_is_as_good_as_any),
        cmocka_unit_test(without_memory_nothing_is_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
