/* The plan that is loaded already, as the workers report it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/held_plan.h"
#include "tests/support/failing_malloc.h"

#include <stdio.h>
#include <string.h>

#define LAYERS 12u

/* What one worker has loaded, and under which generation. last 0: nothing. */
typedef struct held {
    uint32_t first, last;
    uint64_t generation;
    const char *model;
} held;

static bool plan_of(const held *all, uint32_t count, lh_layout *plan) {
    static lh_worker workers[8];
    const lh_worker *list[8];
    for (uint32_t i = 0; i < count; i++) {
        workers[i] = (lh_worker){0};
        workers[i].report.assignment.generation = all[i].generation;
        workers[i].report.loaded.present = all[i].last > 0;
        workers[i].report.loaded.first_layer = all[i].first;
        workers[i].report.loaded.last_layer = all[i].last;
        snprintf(workers[i].report.loaded.model, sizeof workers[i].report.loaded.model, "%s",
                 all[i].model ? all[i].model : "ours");
        list[i] = &workers[i];
    }
    return lh_held_plan(list, count, LAYERS, "ours", plan);
}

static void assert_stage(const lh_layout *plan, uint32_t stage, uint32_t worker, uint32_t first,
                         uint32_t last) {
    assert_int_equal(plan->stages[stage].machine, worker);
    assert_int_equal(plan->stages[stage].layers.first, first);
    assert_int_equal(plan->stages[stage].layers.last, last);
}

static void a_whole_chain_in_any_order(void **state) {
    (void)state;
    lh_layout plan;
    const held all[] = {{8, 12, 3, NULL}, {0, 0, 0, NULL}, {0, 5, 3, NULL}, {5, 8, 3, NULL}};
    assert_true(plan_of(all, 4, &plan));
    assert_int_equal(plan.stage_count, 3);
    assert_stage(&plan, 0, 2, 0, 5);
    assert_stage(&plan, 1, 3, 5, 8);
    assert_stage(&plan, 2, 0, 8, 12);
}

static void of_equal_ones_the_first_counts(void **state) {
    (void)state;
    lh_layout plan;
    const held all[] = {{0, 12, 3, NULL}, {0, 12, 3, NULL}, {0, 12, 2, NULL}};
    assert_true(plan_of(all, 3, &plan));
    assert_stage(&plan, 0, 0, 0, 12);
}

static void what_nobody_has_is_a_stage_of_nobody(void **state) {
    (void)state;
    lh_layout plan;
    const held middle[] = {{0, 5, 3, NULL}, {8, 12, 3, NULL}}, end[] = {{0, 5, 3, NULL}},
               begin[] = {{5, 12, 3, NULL}};
    assert_false(plan_of(middle, 2, &plan));
    assert_int_equal(plan.stage_count, 3);
    assert_stage(&plan, 1, LH_LAYOUT_NOBODY, 5, 8);
    assert_false(plan_of(end, 1, &plan));
    assert_stage(&plan, 1, LH_LAYOUT_NOBODY, 5, 12);
    assert_false(plan_of(begin, 1, &plan));
    assert_stage(&plan, 0, LH_LAYOUT_NOBODY, 0, 5);
    assert_stage(&plan, 1, 0, 5, 12);
}

static void of_two_the_one_that_was_told_so_last(void **state) {
    (void)state;
    lh_layout plan;
    const held all[] = {
        {0, 6, 3, NULL}, {0, 6, 4, NULL}, {0, 4, 2, NULL}, {6, 12, 4, NULL}, {4, 12, 2, NULL}};
    assert_true(plan_of(all, 5, &plan));
    assert_int_equal(plan.stage_count, 2);
    assert_stage(&plan, 0, 1, 0, 6);
    assert_stage(&plan, 1, 3, 6, 12);
}

static void what_is_not_of_this_model_does_not_count(void **state) {
    (void)state;
    lh_layout plan;
    const held all[] = {{0, 12, 3, "theirs"}, {0, 13, 3, NULL}, {7, 7, 3, NULL}, {9, 8, 3, NULL}};
    assert_false(plan_of(all, 4, &plan));
    assert_int_equal(plan.stage_count, 0);
    const held none_between[] = {{0, 5, 3, NULL}, {5, 5, 4, NULL}, {5, 12, 3, NULL}};
    assert_true(plan_of(none_between, 3, &plan));
    assert_stage(&plan, 1, 2, 5, 12);
    assert_false(plan_of(NULL, 0, &plan));
    assert_int_equal(plan.stage_count, 0);
}

/* A layer each, of as many as a plan has stages, or one more. */
static void no_more_stages_than_there_may_be(void **state) {
    (void)state;
    static lh_worker workers[LH_LAYOUT_STAGES_MAX + 1];
    const lh_worker *list[LH_LAYOUT_STAGES_MAX + 1];
    lh_layout plan;
    for (uint32_t i = 0; i <= LH_LAYOUT_STAGES_MAX; i++) {
        workers[i].report.loaded.present = true;
        workers[i].report.loaded.first_layer = i;
        workers[i].report.loaded.last_layer = i + 1;
        strcpy(workers[i].report.loaded.model, "ours");
        list[i] = &workers[i];
    }
    assert_true(lh_held_plan(list, LH_LAYOUT_STAGES_MAX, LH_LAYOUT_STAGES_MAX, "ours", &plan));
    assert_int_equal(plan.stage_count, LH_LAYOUT_STAGES_MAX);
    assert_false(
        lh_held_plan(list, LH_LAYOUT_STAGES_MAX + 1, LH_LAYOUT_STAGES_MAX + 1, "ours", &plan));
    assert_int_equal(plan.stage_count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_chain_in_any_order),
        cmocka_unit_test(of_equal_ones_the_first_counts),
        cmocka_unit_test(what_nobody_has_is_a_stage_of_nobody),
        cmocka_unit_test(of_two_the_one_that_was_told_so_last),
        cmocka_unit_test(what_is_not_of_this_model_does_not_count),
        cmocka_unit_test(no_more_stages_than_there_may_be),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
