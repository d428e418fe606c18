/* When the wall clock was set, and how long it is not trusted for. */
#include "gateway/membership/clock_jumps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { DAY_S = 86400 };
#define WALL_S INT64_C(1800000000)
#define S(n)   ((n) * INT64_C(1000000))

static void a_clock_that_goes_on_is_settled(void **state) {
    (void)state;
    lh_clock_jumps jumps = {0};
    for (int i = 0; i < 100; i++) {
        int64_t step_s = i % 2 ? LH_CLOCK_JUMP_S : 0; /* kept right by small steps */
        assert_int_equal(lh_clock_jumps_note(&jumps, WALL_S + 10 * i + step_s, S(10 * i)), 0);
        assert_true(lh_clock_jumps_is_settled(&jumps));
    }
}

static void a_clock_that_was_set_settles_after_an_hour(void **state) {
    (void)state;
    lh_clock_jumps jumps = {0};
    lh_clock_jumps_note(&jumps, WALL_S, S(5));
    assert_int_equal(lh_clock_jumps_note(&jumps, WALL_S + 1 + 40 * DAY_S, S(6)), 40 * DAY_S);
    assert_false(lh_clock_jumps_is_settled(&jumps));
    assert_int_equal(lh_clock_jumps_note(&jumps, WALL_S + 7, S(12)), -40 * DAY_S);
    assert_false(lh_clock_jumps_is_settled(&jumps));
    assert_int_equal(lh_clock_jumps_note(&jumps, WALL_S + 3606, S(3611)), 0);
    assert_false(lh_clock_jumps_is_settled(&jumps));
    assert_int_equal(lh_clock_jumps_note(&jumps, WALL_S + 3607, S(3612)), 0);
    assert_true(lh_clock_jumps_is_settled(&jumps));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_that_goes_on_is_settled),
        cmocka_unit_test(a_clock_that_was_set_settles_after_an_hour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
