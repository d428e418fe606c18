/* Rows within a budget: exact on stages whose times are known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/cost/step_budget.h"

/* Stages of 1 ms for a step and so much for each row. */
static lh_cost_chain chain_of(double first_row_us, double second_row_us) {
    lh_cost_chain chain = {.stage_count = 2, .width = 64};
    const double row_us[] = {first_row_us, second_row_us};
    for (int s = 0; s < 2; s++)
        chain.stages[s] = (lh_compute_profile){
            .point_count = 2, .points = {{1, 1000 + row_us[s]}, {512, 1000 + 512 * row_us[s]}}};
    for (int h = 0; h < 3; h++)
        chain.hops[h].bytes_per_us = 1;
    assert_int_equal(lh_cost_chain_check(&chain, NULL), LH_OK);
    return chain;
}

static void what_fits_stays_whole(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(100, 50);
    assert_int_equal(lh_step_budget_rows(&chain, 0, 90, 10000), 90);
    assert_int_equal(lh_step_budget_rows(&chain, 0, 1, 10000), 1);
}

/* 10 ms are 90 rows of the slower stage: 88, which are whole units. */
static void the_slowest_stage_decides_and_parts_are_even(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(100, 50), reversed = chain_of(50, 100);
    assert_int_equal(lh_step_budget_rows(&chain, 0, 88 * 4, 10000), 88);
    assert_int_equal(lh_step_budget_rows(&reversed, 0, 88 * 4, 10000), 88);
    assert_int_equal(lh_step_budget_rows(&chain, 0, 96, 10000), 48);
    assert_int_equal(lh_step_budget_rows(&chain, 0, 91, 10000), 48);
    assert_int_equal(lh_step_budget_rows(&chain, 0, 200, 10000), 72);
    assert_int_equal(lh_step_budget_rows(&chain, 0, 128, 10000), 64);
}

static void later_rows_cost_more(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(100, 100);
    chain.stages[1].us_per_row_position = 0.1; /* at position 1000 a row takes twice as long */
    assert_int_equal(lh_step_budget_rows(&chain, 1000, 4000, 9400), 40);
}

static void a_budget_that_is_too_small_is_overdrawn_by_the_least(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(100, 100);
    assert_int_equal(lh_step_budget_rows(&chain, 0, 512, 1), 8);
    assert_int_equal(lh_step_budget_rows(&chain, 0, 9, 1), 8);
    assert_int_equal(lh_step_budget_rows(&chain, 0, 5, 1), 5);
}

/* Whatever is asked: never more than there is, never more than fits but for the least. */
static void every_answer_fits(void **state) {
    (void)state;
    lh_cost_chain chain = chain_of(100, 30);
    for (uint32_t rows = 1; rows <= 600; rows++)
        for (int64_t budget_us = 1000; budget_us < 70000; budget_us += 3700) {
            uint32_t part = lh_step_budget_rows(&chain, 0, rows, budget_us);
            assert_in_range(part, 1, rows);
            assert_true(part <= 8 ||
                        lh_cost_stage_us(&chain.stages[0], 0, part) <= (double)budget_us);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_stays_whole),
        cmocka_unit_test(the_slowest_stage_decides_and_parts_are_even),
        cmocka_unit_test(later_rows_cost_more),
        cmocka_unit_test(a_budget_that_is_too_small_is_overdrawn_by_the_least),
        cmocka_unit_test(every_answer_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
