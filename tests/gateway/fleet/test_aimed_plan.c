/* Plans that are made at once, of what is known then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/fleet/aimed_plan.h"
#include "tests/gateway/support/measured_fleet.h"
#include "tests/gateway/support/short_memory.h"
#include "tests/gateway/support/worker_reports.h"
#include "tests/support/failing_malloc.h"

#define MIB 1048576u

static const lh_layout nothing;

static lh_status make(const measured_fleet *f, const lh_layout *present, lh_layout *plan,
                      lh_error *error) {
    const lh_candidates candidates = measured_fleet_candidates(f);
    return lh_aimed_plan_make(&f->options, &candidates, &f->planner.speeds, &f->options.aim,
                              present, plan, error);
}

static lh_layout plan_beside(const measured_fleet *f, const lh_layout *present) {
    lh_layout plan;
    lh_error error;
    assert_int_equal(make(f, present, &plan, &error), LH_OK);
    assert_true(plan.stage_count > 0 && plan.stages[0].layers.first == 0);
    for (uint32_t s = 1; s < plan.stage_count; s++)
        assert_int_equal(plan.stages[s].layers.first, plan.stages[s - 1].layers.last);
    assert_int_equal(plan.stages[plan.stage_count - 1].layers.last, MEASURED_LAYERS);
    return plan;
}

static uint32_t layers_of(const lh_layout_stage *stage) {
    return stage->layers.last - stage->layers.first;
}

static void set_memory(measured_fleet *f, uint32_t mib) {
    for (uint32_t i = 0; i < f->count; i++) {
        f->reports[i].memory_bytes = (uint64_t)mib * MIB;
        register_report(f->registry, &f->reports[i], f->now_us);
    }
}

/* Candidates are in the order of names: 0 is a, 1 is b, ... */
static void the_first_chain_is_for_the_aim(void **state) {
    measured_fleet f;
    (void)state;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "east", 300);
    measured_fleet_add(&f, "b", "west", 100);
    measured_fleet_add(&f, "c", "west", 300);
    lh_layout plan = plan_beside(&f, &nothing);
    assert_int_equal(plan.stage_count, 1); /* a token is quickest on the fastest alone */
    assert_int_equal(plan.stages[0].machine, 1);
    f.options.aim.goal = LH_GOAL_TTFT;
    f.options.aim.prompt_rows = 4096;
    assert_true(plan_beside(&f, &nothing).stage_count > 1);
    measured_fleet_destroy(&f);
}

/* Of machines that measured nothing the one with more threads counts as faster. */
static void what_is_not_known_is_assumed(void **state) {
    measured_fleet f;
    (void)state;
    measured_fleet_create(&f);
    measured_fleet_add(&f, "a", "east", 100);
    measured_fleet_add(&f, "b", "east", 100);
    measured_fleet_add(&f, "c", "east", 100);
    for (uint32_t i = 0; i < 3; i++) {
        f.reports[i].speed = (lh_machine_speed){0};
        f.reports[i].threads = i == 2 ? 8 : 2;
    }
    set_memory(&f, 9);
    lh_layout plan = plan_beside(&f, &nothing);
    assert_int_equal(plan.stage_count, 2);
    for (uint32_t s = 0; s < 2; s++)
        assert_int_equal(plan.stages[s].machine == 2, layers_of(&plan.stages[s]) > 6);
    measured_fleet_destroy(&f);
}

/* a, b and c serve four layers each, d none; two of them hold the model with 7 MiB, not with 6. */
static void create_three_and_a_spare(measured_fleet *f, uint32_t mib, double spare_layer_us) {
    static const char *const names[] = {"a", "b", "c"};
    static const uint32_t first[] = {0, 4, 8};
    measured_fleet_create(f);
    for (uint32_t i = 0; i < 3; i++)
        measured_fleet_add(f, names[i], "east", 100);
    measured_fleet_add(f, "d", "east", spare_layer_us);
    set_memory(f, mib);
    measured_fleet_serve(f, 3, names, first);
}

/* b, the second of them, goes. */
static lh_layout lose_b(measured_fleet *f) {
    f->reports[1].leaving = true;
    register_report(f->registry, &f->reports[1], f->now_us);
    return (lh_layout){3, {{0, {0, 4}}, {LH_LAYOUT_NOBODY, {4, 8}}, {1, {8, 12}}}};
}

static void who_is_whole_stays(void **state) {
    measured_fleet f;
    const lh_layout whole = {3, {{0, {0, 4}}, {1, {4, 8}}, {2, {8, 12}}}};
    (void)state;
    create_three_and_a_spare(&f, 7, 10);
    const lh_layout plan = plan_beside(&f, &whole);
    assert_int_equal(plan.stage_count, 3);
    assert_memory_equal(plan.stages, whole.stages, 3 * sizeof *plan.stages);
    measured_fleet_destroy(&f);
}

/* It loads what the lost one had, and nobody else anything: on 100 Mbit/s that is soonest done. */
static void a_spare_that_is_as_good_stands_in(void **state) {
    measured_fleet f;
    (void)state;
    create_three_and_a_spare(&f, 6, 100);
    const lh_layout torn = lose_b(&f), plan = plan_beside(&f, &torn);
    assert_int_equal(plan.stage_count, 3);
    assert_int_equal(plan.stages[1].machine, 2);
    assert_int_equal(plan.stages[1].layers.first, 4);
    assert_int_equal(plan.stages[1].layers.last, 8);
    measured_fleet_destroy(&f);
}

/* Five times as slow: a and c hold it all, and have loaded the rest within a second. */
static void a_spare_that_is_too_slow_does_not(void **state) {
    measured_fleet f;
    (void)state;
    create_three_and_a_spare(&f, 7, 500);
    const lh_layout torn = lose_b(&f), plan = plan_beside(&f, &torn);
    assert_int_equal(plan.stage_count, 2);
    for (uint32_t s = 0; s < 2; s++)
        assert_true(plan.stages[s].machine < 2);
    measured_fleet_destroy(&f);
}

/* A chain that is too slow is better than none. */
static void a_bound_that_cannot_be_kept_does_not_count(void **state) {
    measured_fleet f;
    lh_layout plan;
    lh_error error;
    (void)state;
    create_three_and_a_spare(&f, 6, 100);
    f.options.aim.goal = LH_GOAL_THROUGHPUT;
    f.options.aim.token_us_max = 1;
    plan_beside(&f, &nothing);
    const lh_layout torn = lose_b(&f);
    plan_beside(&f, &torn);
    set_memory(&f, 3);
    assert_int_equal(make(&f, &nothing, &plan, &error), LH_ERR_LIMIT);
    measured_fleet_destroy(&f);
}

static lh_status make_first(const void *fleet, lh_error *error) {
    lh_layout plan;
    return make(fleet, &nothing, &plan, error);
}

static void without_memory_of_its_own_it_says_so(void **state) {
    measured_fleet f;
    (void)state;
    create_three_and_a_spare(&f, 6, 100);
    assert_true(short_memory_try(make_first, &f) > 3);
    measured_fleet_destroy(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_chain_is_for_the_aim),
        cmocka_unit_test(what_is_not_known_is_assumed),
        cmocka_unit_test(who_is_whole_stays),
        cmocka_unit_test(a_spare_that_is_as_good_stands_in),
        cmocka_unit_test(a_spare_that_is_too_slow_does_not),
        cmocka_unit_test(a_bound_that_cannot_be_kept_does_not_count),
        cmocka_unit_test(without_memory_of_its_own_it_says_so),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
