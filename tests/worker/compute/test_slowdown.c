/* Work lasts longer by the factor, in the sum; and the words of the flag. */
#include "worker/compute/slowdown.h"

#include "common/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

static int64_t processor_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void work_for(int64_t us) {
    for (int64_t end = processor_us() + us; processor_us() < end;) {
    }
}

/* Pieces of at least 30 us, each too short to be slept for alone; returns what they took. */
static int64_t run_pieces(lh_slowdown *slowdown, int count) {
    int64_t begin_us = lh_clock_us();
    for (int i = 0; i < count; i++) {
        lh_slowdown_mark mark;
        lh_slowdown_begin(slowdown, &mark);
        work_for(30);
        lh_slowdown_end(slowdown, &mark);
    }
    return lh_clock_us() - begin_us;
}

static void test_work_lasts_longer(void **state) {
    (void)state;
    lh_slowdown slowdown = {0};
    lh_slowdown_set(&slowdown, 4);
    assert_true(lh_slowdown_factor(&slowdown) == 4);
    int64_t took_us = run_pieces(&slowdown, 400);
    /* What is still owed is too little to be slept for. */
    assert_in_range(took_us, 4 * 400 * 30 - LH_SLOWDOWN_SLEEP_MIN_NS / 1000 - 100, INT64_MAX);
    assert_in_range(slowdown.owed_ns, 3 * 400 * 30000, INT64_MAX);
    /* Work takes a third of what is owed for it; the rest is the machine's own. */
    assert_in_range(took_us, 0, slowdown.owed_ns / 1000 * 8 / 3 + 100000);
}

/* However little it is. */
static void test_what_is_owed_can_be_settled(void **state) {
    (void)state;
    lh_slowdown slowdown = {0};
    lh_slowdown_set(&slowdown, 4);
    int64_t took_us = run_pieces(&slowdown, 4);
    assert_in_range(slowdown.debt_ns, 1, LH_SLOWDOWN_SLEEP_MIN_NS);
    const int64_t owed_us = slowdown.debt_ns / 1000, begin_us = lh_clock_us();
    lh_slowdown_settle(&slowdown);
    took_us += lh_clock_us() - begin_us;
    assert_in_range(lh_clock_us() - begin_us, owed_us, INT64_MAX);
    assert_true(slowdown.debt_ns <= 0);
    assert_in_range(took_us, 4 * 4 * 30, INT64_MAX);
    lh_slowdown_settle(&slowdown); /* nothing is owed any more */
}

static void test_no_factor_no_sleep(void **state) {
    (void)state;
    lh_slowdown slowdown = {0};
    assert_true(lh_slowdown_factor(&slowdown) == 1);
    run_pieces(&slowdown, 10);
    assert_int_equal(slowdown.debt_ns, 0);
    /* One that is switched off in the middle of a piece owes nothing. */
    lh_slowdown_set(&slowdown, 1.5);
    lh_slowdown_mark mark;
    lh_slowdown_begin(&slowdown, &mark);
    work_for(30);
    lh_slowdown_set(&slowdown, 1);
    lh_slowdown_end(&slowdown, &mark);
    assert_int_equal(slowdown.debt_ns, 0);
}

static void test_flag(void **state) {
    (void)state;
    double factors[2];
    lh_error error;
    assert_int_equal(lh_slowdown_parse("2.5", factors, &error), LH_OK);
    assert_true(factors[0] == 2.5 && factors[1] == 2.5);
    assert_int_equal(lh_slowdown_parse("1,3", factors, &error), LH_OK);
    assert_true(factors[0] == 1 && factors[1] == 3);
    static const char *const bad[] = {"",     "x",  "0.9", "-1",    "nan", "inf",
                                      "1001", "2,", ",2",  "2,3,4", "2x",  "2;3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(lh_slowdown_parse(bad[i], factors, &error), LH_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_work_lasts_longer),
        cmocka_unit_test(test_what_is_owed_can_be_settled),
        cmocka_unit_test(test_no_factor_no_sleep),
        cmocka_unit_test(test_flag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
