/* Plans after a loss: a spare in the very place, or all anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/plan_revision.h"

#define LAYERS 12u

static uint64_t layer_bytes[LAYERS] = {100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100};
static const lh_model_profile model = {.layers = LAYERS, .layer_bytes = layer_bytes};
static const lh_planner_options no_options;

/* The second of three stages has lost its worker. */
static const lh_plan torn = {3, {{0, 0, 4}, {LH_PLAN_NOBODY, 4, 8}, {1, 8, 12}}};

/* The speed of a machine by its threads. */
#define BY(threads)                                                                                          \
    { 1.0 / (threads), 6.0 / (threads) }

static lh_plan revise(const lh_plan_worker *workers, uint32_t count, const lh_planner_options *options) {
    lh_plan plan;
    assert_int_equal(lh_plan_revise(&model, workers, count, options, &torn, &plan, NULL), LH_OK);
    return plan;
}

static void assert_filled(const lh_plan *plan, uint32_t worker) {
    assert_int_equal(plan->stage_count, 3);
    assert_int_equal(plan->stages[0].worker, 0);
    assert_int_equal(plan->stages[1].worker, worker);
    assert_int_equal(plan->stages[2].worker, 1);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(plan->stages[i].first_layer, torn.stages[i].first_layer);
}

static void a_spare_fills_the_gap(void **state) {
    (void)state;
    lh_plan_worker workers[] = {
        {"a", "s", 4, 5000, BY(4)}, {"c", "s", 4, 5000, BY(4)}, {"z", "s", 4, 5000, BY(4)}};
    lh_plan plan = revise(workers, 3, &no_options);
    assert_filled(&plan, 2);
}

/* The fastest of them. */
static void of_several_spares_the_best_one(void **state) {
    (void)state;
    const lh_planner_options three = {.stages = 3};
    lh_plan_worker workers[] = {{"a", "s", 4, 5000, BY(4)},
                                {"c", "s", 4, 5000, BY(4)},
                                {"x", "s", 4, 5000, BY(4)},
                                {"y", "s", 6, 5000, BY(6)},
                                {"z", "s", 64, 399, BY(64)}};
    lh_plan plan = revise(workers, 5, &three);
    assert_filled(&plan, 3);
}

/* Each time that a chain goes from one site to another is a slow link. */
static void a_spare_of_the_same_site_is_preferred(void **state) {
    (void)state;
    const lh_planner_options three = {.stages = 3};
    lh_plan_worker workers[] = {{"a", "s", 4, 5000, BY(4)},
                                {"c", "s", 4, 5000, BY(4)},
                                {"x", "far", 4, 5000, BY(4)},
                                {"y", "s", 4, 5000, BY(4)}};
    lh_plan plan = revise(workers, 4, &three);
    assert_filled(&plan, 3);
}

static void a_spare_that_is_much_slower_is_not_worth_it(void **state) {
    (void)state;
    lh_plan_worker workers[] = {
        {"a", "s", 4, 5000, BY(4)}, {"c", "s", 4, 5000, BY(4)}, {"z", "s", 2, 5000, BY(2)}};
    lh_plan plan = revise(workers, 3, &no_options);
    assert_int_equal(plan.stage_count, 3);
    assert_true(plan.stages[2].last_layer - plan.stages[2].first_layer < 4);
}

static void without_a_spare_all_is_planned_anew(void **state) {
    (void)state;
    lh_plan_worker workers[] = {
        {"a", "s", 4, 5000, BY(4)}, {"c", "s", 4, 5000, BY(4)}, {"z", "s", 4, 99, BY(4)}};
    lh_plan plan = revise(workers, 2, &no_options);
    assert_int_equal(plan.stage_count, 2);
    plan = revise(workers, 3, &no_options); /* too small for any layer */
    assert_int_equal(plan.stage_count, 2);
}

/* In the middle of a chain inside one site, somebody from afar: two slow links more. */
static void a_spare_from_afar_does_not_tear_a_site_apart(void **state) {
    (void)state;
    lh_plan_worker workers[] = {
        {"a", "s", 4, 5000, BY(4)}, {"c", "s", 4, 5000, BY(4)}, {"x", "far", 4, 5000, BY(4)}};
    lh_plan plan = revise(workers, 3, &no_options);
    assert_int_equal(plan.stages[0].worker, 2); /* its site goes before the other, by name */
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    lh_plan_worker workers[] = {{"a", "s", 4, 500, BY(4)}, {"c", "s", 4, 500, BY(4)}};
    lh_plan plan;
    lh_error error;
    assert_int_equal(lh_plan_revise(&model, workers, 2, &no_options, &torn, &plan, &error),
                     LH_ERR_UNAVAILABLE);
}

/* What was loaded under other options is no plan for these. */
static void a_plan_of_too_many_stages_is_not_kept(void **state) {
    (void)state;
    const lh_planner_options two = {.stages = 2};
    lh_plan_worker workers[] = {
        {"a", "s", 4, 5000, BY(4)}, {"c", "s", 4, 5000, BY(4)}, {"z", "s", 4, 5000, BY(4)}};
    lh_plan plan = revise(workers, 3, &two);
    assert_int_equal(plan.stage_count, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spare_fills_the_gap),
        cmocka_unit_test(of_several_spares_the_best_one),
        cmocka_unit_test(a_spare_of_the_same_site_is_preferred),
        cmocka_unit_test(a_spare_that_is_much_slower_is_not_worth_it),
        cmocka_unit_test(without_a_spare_all_is_planned_anew),
        cmocka_unit_test(a_spare_from_afar_does_not_tear_a_site_apart),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(a_plan_of_too_many_stages_is_not_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
