/* When a sequence would be through, on a chain whose costs are round numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/finish_estimate.h"
#include "tests/gateway/support/scheduler_bench.h"
#include "tests/support/failing_malloc.h"

static const uint32_t rows_max = 64;

/* 100 tokens after a prompt of 50. */
static double estimate(const lh_cost_chain *costs, uint64_t rows, uint32_t here, uint32_t places) {
    const lh_sequence sequence = {.length = 50, .request.max_tokens = 100};
    return lh_finish_estimate_us(costs, &sequence, rows, rows_max, here, places);
}

static void assert_near(double value, double expected) {
    assert_true(value > 0.999999 * expected && value < 1.000001 * expected);
}

static double token_us(const lh_cost_chain *costs, uint32_t beside) {
    double ring_us = lh_cost_decode_step(costs, 50, 1).ring_us;
    double busy_us = lh_cost_decode_step(costs, 50, beside).busiest_us;
    return ring_us > busy_us ? ring_us : busy_us;
}

static void the_prompts_rows_go_at_the_pace_of_the_busiest(void **state) {
    (void)state;
    const lh_cost_chain costs = costs_of_chain();
    double tokens_us = 100 * token_us(&costs, 1);
    assert_near(estimate(&costs, 0, 0, 8), tokens_us);
    assert_near(estimate(&costs, 32, 0, 8),
                tokens_us + lh_cost_busiest_us(&costs, 0, rows_max) / 2);
    assert_near(estimate(&costs, 640, 0, 8),
                tokens_us + lh_cost_busiest_us(&costs, 0, rows_max) * 10);
}

/* Alone a turn around the ring; with many others a row of each at the busiest stage. */
static void tokens_take_a_turn_or_the_others_rows(void **state) {
    (void)state;
    const lh_cost_chain costs = costs_of_chain();
    assert_near(estimate(&costs, 0, 1, 64), 100 * token_us(&costs, 2));
    assert_near(estimate(&costs, 0, 1, 64), 100 * lh_cost_decode_step(&costs, 50, 1).ring_us);
    assert_near(estimate(&costs, 0, 19, 64), 100 * lh_cost_decode_step(&costs, 50, 20).busiest_us);
    assert_near(estimate(&costs, 0, 63, 64), 100 * lh_cost_decode_step(&costs, 50, 64).busiest_us);
}

/* Those ahead of it beyond the places, each as long as itself. */
static void who_finds_no_place_waits(void **state) {
    (void)state;
    const lh_cost_chain costs = costs_of_chain();
    double tokens_us = 100 * token_us(&costs, 8);
    assert_near(estimate(&costs, 0, 7, 8), tokens_us);
    assert_near(estimate(&costs, 0, 8, 8), tokens_us * (1 + 1.0 / 8));
    assert_near(estimate(&costs, 0, 15, 8), tokens_us * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_prompts_rows_go_at_the_pace_of_the_busiest),
        cmocka_unit_test(tokens_take_a_turn_or_the_others_rows),
        cmocka_unit_test(who_finds_no_place_waits),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
