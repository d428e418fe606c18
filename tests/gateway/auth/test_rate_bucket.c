/* A minute's worth, to the microsecond. */
#include "gateway/auth/rate_bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND 1000000LL
#define MINUTE (60 * SECOND)

static void holds_a_minute_and_fills_evenly(void **state) {
    (void)state;
    lh_rate_bucket bucket;
    lh_rate_bucket_init(&bucket, 6, 5);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1, 5), 0);
        lh_rate_bucket_spend(&bucket, 1, 5);
    }
    assert_int_equal(lh_rate_bucket_remaining(&bucket, 5), 0);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1, 5), 10 * SECOND);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 6, 5), MINUTE);
    assert_true(lh_rate_bucket_wait_us(&bucket, 1, 5 + 10 * SECOND - 1) > 0);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1, 5 + 10 * SECOND - 1), 1);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1, 5 + 10 * SECOND), 0);
    lh_rate_bucket_spend(&bucket, 1, 5 + 10 * SECOND);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1, 5 + 10 * SECOND), 10 * SECOND);
    assert_int_equal(lh_rate_bucket_remaining(&bucket, 5 + 1000 * MINUTE), 6);
}

/* However often it is asked meanwhile. */
static void loses_nothing_by_being_asked(void **state) {
    (void)state;
    lh_rate_bucket bucket;
    lh_rate_bucket_init(&bucket, 7, 0);
    lh_rate_bucket_spend(&bucket, 7, 0);
    for (int64_t now_us = 0; now_us < MINUTE; now_us += 997)
        assert_int_equal(lh_rate_bucket_remaining(&bucket, now_us),
                         (uint32_t)(now_us * 7 / MINUTE));
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 7, MINUTE - 1), 1);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 7, MINUTE), 0);
}

static void a_debt_is_waited_for(void **state) {
    (void)state;
    lh_rate_bucket bucket;
    lh_rate_bucket_init(&bucket, 60, 0);
    lh_rate_bucket_spend(&bucket, 90, 0);
    assert_int_equal(lh_rate_bucket_remaining(&bucket, 0), 0);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1, 0), 31 * SECOND);
    lh_rate_bucket_refund(&bucket, 30, 0);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1, 0), SECOND);
    lh_rate_bucket_refund(&bucket, 1000, 0);
    assert_int_equal(lh_rate_bucket_remaining(&bucket, 0), 60);
}

static void more_than_the_limit_waits_for_all_of_it(void **state) {
    (void)state;
    lh_rate_bucket bucket;
    lh_rate_bucket_init(&bucket, 60, 0);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1000, 0), 0);
    lh_rate_bucket_spend(&bucket, 1, 0);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1000, 0), SECOND);
    lh_rate_bucket_spend(&bucket, 1000, SECOND);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1, SECOND), 941 * SECOND);
}

static void a_debt_has_an_end(void **state) {
    (void)state;
    for (uint32_t limit = 1; limit <= 1000000000; limit *= 10) {
        lh_rate_bucket bucket;
        lh_rate_bucket_init(&bucket, limit, 0);
        for (int i = 0; i < 3; i++) {
            lh_rate_bucket_spend(&bucket, UINT64_MAX, 0);
            assert_int_equal(lh_rate_bucket_wait_us(&bucket, UINT64_MAX, 0) <= 61 * MINUTE, 1);
        }
        assert_int_equal(lh_rate_bucket_wait_us(&bucket, limit, 0), 61 * MINUTE);
        assert_int_equal(lh_rate_bucket_remaining(&bucket, INT64_MAX), limit);
    }
}

static void without_a_limit_all_is_let_through(void **state) {
    (void)state;
    lh_rate_bucket bucket;
    lh_rate_bucket_init(&bucket, 0, 0);
    lh_rate_bucket_spend(&bucket, UINT64_MAX, 0);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, UINT64_MAX, 0), 0);
    lh_rate_bucket_refund(&bucket, 5, 1);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, UINT64_MAX, 1), 0);
}

static void another_limit_keeps_the_share(void **state) {
    (void)state;
    lh_rate_bucket bucket;
    lh_rate_bucket_init(&bucket, 100, 0);
    lh_rate_bucket_spend(&bucket, 75, 0);
    lh_rate_bucket_set_limit(&bucket, 100, 0);
    assert_int_equal(lh_rate_bucket_remaining(&bucket, 0), 25);
    lh_rate_bucket_set_limit(&bucket, 1000, 0);
    assert_int_equal(lh_rate_bucket_remaining(&bucket, 0), 250);
    lh_rate_bucket_set_limit(&bucket, 0, 0);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1000000, 0), 0);
    lh_rate_bucket_set_limit(&bucket, 8, 0);
    assert_int_equal(lh_rate_bucket_remaining(&bucket, 0), 8);
}

/* A clock that stands still, or an answer that was begun before another was ended. */
static void time_does_not_run_backwards(void **state) {
    (void)state;
    lh_rate_bucket bucket;
    lh_rate_bucket_init(&bucket, 60, 100 * SECOND);
    lh_rate_bucket_spend(&bucket, 60, 100 * SECOND);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1, 90 * SECOND), SECOND);
    assert_int_equal(lh_rate_bucket_wait_us(&bucket, 1, 101 * SECOND), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holds_a_minute_and_fills_evenly),
        cmocka_unit_test(loses_nothing_by_being_asked),
        cmocka_unit_test(a_debt_is_waited_for),
        cmocka_unit_test(more_than_the_limit_waits_for_all_of_it),
        cmocka_unit_test(a_debt_has_an_end),
        cmocka_unit_test(without_a_limit_all_is_let_through),
        cmocka_unit_test(another_limit_keeps_the_share),
        cmocka_unit_test(time_does_not_run_backwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
