#include "common/base/log.h"
#include "common/base/log_limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000)

static int take_many(lh_log_limit *limit, int64_t now_us, int lines) {
    unsigned long long left_out = 0;
    int written = 0;
    for (int i = 0; i < lines; i++)
        written += lh_log_limit_take(limit, now_us, &left_out);
    return written;
}

static void a_few_come_at_once_and_the_rest_is_counted(void **state) {
    (void)state;
    lh_log_limit limit = {0};
    unsigned long long left_out = 0;
    assert_int_equal(take_many(&limit, 100 * SECOND, 300), 5);
    assert_int_equal(limit.left_out, 295);
    assert_false(lh_log_limit_take(&limit, 102 * SECOND - 1, &left_out));
    assert_true(lh_log_limit_take(&limit, 102 * SECOND, &left_out));
    assert_int_equal(left_out, 296);
    assert_false(lh_log_limit_take(&limit, 102 * SECOND, &left_out));
}

static void a_line_now_and_then_is_always_written(void **state) {
    (void)state;
    lh_log_limit limit = {0};
    unsigned long long left_out = 0;
    for (int64_t now_us = 1; now_us < 1000 * SECOND; now_us += 2 * SECOND) {
        assert_true(lh_log_limit_take(&limit, now_us, &left_out));
        assert_int_equal(left_out, 0);
    }
}

static void rest_fills_it_again(void **state) {
    (void)state;
    lh_log_limit limit = {0};
    assert_int_equal(take_many(&limit, SECOND, 10), 5);
    assert_int_equal(take_many(&limit, 10000 * SECOND, 10), 5);
    assert_int_equal(limit.left_out, 5); /* those before are told */
}

static void more_may_come_at_once(void **state) {
    (void)state;
    lh_log_limit limit = {.at_once = 200};
    assert_int_equal(take_many(&limit, SECOND, 300), 200);
    assert_int_equal(take_many(&limit, 3 * SECOND, 10), 1);
}

static void who_debugs_sees_all(void **state) {
    (void)state;
    lh_log_limit limit = {0};
    lh_log_set_level(LH_LOG_DEBUG);
    assert_int_equal(take_many(&limit, SECOND, 300), 300);
    lh_log_set_level(LH_LOG_INFO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_come_at_once_and_the_rest_is_counted),
        cmocka_unit_test(a_line_now_and_then_is_always_written),
        cmocka_unit_test(rest_fills_it_again),
        cmocka_unit_test(more_may_come_at_once),
        cmocka_unit_test(who_debugs_sees_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
