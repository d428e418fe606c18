/* Each step comes once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "worker/serve/step_window.h"

#include <stdlib.h>

static lh_step_window window;

static int begin(void **state) {
    (void)state;
    window = (lh_step_window){0};
    return 0;
}

static void each_comes_once(void **state) {
    (void)state;
    for (uint64_t step = 0; step < 100; step++)
        assert_true(lh_step_window_admit(&window, step));
    for (uint64_t step = 0; step < 100; step++)
        assert_false(lh_step_window_admit(&window, step));
    window = (lh_step_window){0};
    assert_true(lh_step_window_admit(&window, 50));
}

static void they_may_overtake_each_other(void **state) {
    (void)state;
    assert_true(lh_step_window_admit(&window, 5));
    assert_true(lh_step_window_admit(&window, 5000));
    assert_true(lh_step_window_admit(&window, 4));
    assert_true(lh_step_window_admit(&window, 4999));
    assert_false(lh_step_window_admit(&window, 5));
    assert_false(lh_step_window_admit(&window, 5000));
}

static void what_is_long_past_has_come(void **state) {
    (void)state;
    assert_true(lh_step_window_admit(&window, LH_STEP_WINDOW));
    assert_false(lh_step_window_admit(&window, 0));
    assert_true(lh_step_window_admit(&window, 1));
    assert_true(lh_step_window_admit(&window, UINT64_MAX - 1));
    assert_false(lh_step_window_admit(&window, UINT64_MAX));
    assert_false(lh_step_window_admit(&window, LH_STEP_WINDOW + 1));
}

static void a_number_far_ahead_is_out_of_reach(void **state) {
    (void)state;
    assert_true(lh_step_window_reaches(&window, 0));
    assert_true(lh_step_window_reaches(&window, LH_STEP_FIRST_MAX));
    assert_false(lh_step_window_reaches(&window, LH_STEP_FIRST_MAX + 1));
    assert_false(lh_step_window_reaches(&window, UINT64_C(1) << 63));
    assert_true(lh_step_window_admit(&window, 1000));
    assert_true(lh_step_window_reaches(&window, 3));
    assert_true(lh_step_window_reaches(&window, 1001 + LH_STEP_JUMP_MAX));
    assert_false(lh_step_window_reaches(&window, 1002 + LH_STEP_JUMP_MAX));
    assert_false(lh_step_window_reaches(&window, UINT64_MAX));
}

/* Beside a table of all that came. */
static void random_orders(void **state) {
    (void)state;
    enum { STEPS = 200000, SPREAD = 3000 };
    bool *came = calloc(STEPS + SPREAD, sizeof *came);
    assert_non_null(came);
    srand(1);
    for (uint64_t i = 0; i < STEPS; i++) {
        uint64_t step = i + (uint64_t)rand() % SPREAD;
        assert_int_equal(lh_step_window_admit(&window, step), !came[step]);
        came[step] = true;
    }
    free(came);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_comes_once, begin),
        cmocka_unit_test_setup(they_may_overtake_each_other, begin),
        cmocka_unit_test_setup(what_is_long_past_has_come, begin),
        cmocka_unit_test_setup(a_number_far_ahead_is_out_of_reach, begin),
        cmocka_unit_test_setup(random_orders, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
