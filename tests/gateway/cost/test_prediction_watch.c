#include "gateway/cost/prediction_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* How many of so many prompts, each of 100 ms as predicted, are told of. */
static int told(lh_prediction_watch *watch, int prompts, double times) {
    lh_prediction_watch window;
    int count = 0;
    for (int i = 0; i < prompts; i++)
        count += lh_prediction_watch_note(watch, times * 100e3, 100e3, &window);
    return count;
}

static void what_is_near_is_not_told(void **state) {
    (void)state;
    lh_prediction_watch watch = {0};
    assert_int_equal(told(&watch, 1000, 1.9), 0);
    assert_int_equal(told(&watch, 1000, 0.6), 0);
}

static void what_is_far_is_told_with_growing_pauses(void **state) {
    (void)state;
    for (int is_slower = 0; is_slower < 2; is_slower++) {
        double times = is_slower ? 3 : 0.3;
        lh_prediction_watch watch = {0};
        assert_int_equal(told(&watch, 7, times), 0);
        assert_int_equal(told(&watch, 1, times), 1);
        assert_int_equal(told(&watch, 15, times), 0);
        assert_int_equal(told(&watch, 1, times), 1);
        assert_int_equal(told(&watch, 8 << 10, times), 12); /* 32 to 1024, then every 1024 */
    }
}

static void the_window_is_what_it_is_about(void **state) {
    (void)state;
    lh_prediction_watch watch = {0}, window = {0};
    assert_int_equal(told(&watch, 7, 5), 0);
    assert_true(lh_prediction_watch_note(&watch, 500e3, 100e3, &window));
    assert_int_equal(window.prompts, 8);
    assert_float_equal(window.measured_us, 4e6, 1);
    assert_float_equal(window.predicted_us, 8e5, 1);
}

static void a_good_window_makes_it_as_quick_as_before(void **state) {
    (void)state;
    lh_prediction_watch watch = {0};
    assert_int_equal(told(&watch, 8, 3), 1);
    assert_int_equal(told(&watch, 16, 1), 0);
    assert_int_equal(told(&watch, 8, 3), 1);
}

static void short_prompts_alone_are_not_enough(void **state) {
    (void)state;
    lh_prediction_watch watch = {0}, window;
    for (int i = 0; i < 499; i++)
        assert_false(lh_prediction_watch_note(&watch, 9000, 1000, &window));
    assert_true(lh_prediction_watch_note(&watch, 9000, 1000, &window));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_near_is_not_told),
        cmocka_unit_test(what_is_far_is_told_with_growing_pauses),
        cmocka_unit_test(the_window_is_what_it_is_about),
        cmocka_unit_test(a_good_window_makes_it_as_quick_as_before),
        cmocka_unit_test(short_prompts_alone_are_not_enough),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
