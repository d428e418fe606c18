/* When to come again. */
#include "gateway/auth/retry_estimator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS 1000LL

/* Four come in, and one leaves each 100 ms, whose place is taken again; until `until_us`. */
static int64_t run_steadily(lh_retry_estimator *retry_estimator, int64_t until_us) {
    int64_t now_us = 0;
    lh_retry_estimator_enter(retry_estimator, 4, 0);
    for (now_us = 100 * MS; now_us < until_us; now_us += 100 * MS) {
        lh_retry_estimator_leave(retry_estimator, 1, now_us);
        lh_retry_estimator_enter(retry_estimator, 1, now_us);
    }
    return now_us - 100 * MS;
}

static void tells_each_its_own_turn(void **state) {
    (void)state;
    lh_retry_estimator retry_estimator = {0};
    int64_t now_us = run_steadily(&retry_estimator, 10000 * MS);
    for (int round = 0; round < 3; round++)
        /* four are inside: longer than they take the line does not get */
        for (int i = 1; i <= 5; i++)
            assert_int_equal(lh_retry_estimator_wait_us(&retry_estimator, 1, now_us), i * 100 * MS);
}

static void several_places_take_longer(void **state) {
    (void)state;
    lh_retry_estimator retry_estimator = {0};
    int64_t now_us = run_steadily(&retry_estimator, 10000 * MS);
    assert_int_equal(lh_retry_estimator_wait_us(&retry_estimator, 3, now_us), 300 * MS);
    assert_int_equal(lh_retry_estimator_wait_us(&retry_estimator, 1, now_us), 400 * MS);
}

static void the_line_moves_on(void **state) {
    (void)state;
    lh_retry_estimator retry_estimator = {0};
    int64_t now_us = run_steadily(&retry_estimator, 10000 * MS);
    assert_int_equal(lh_retry_estimator_wait_us(&retry_estimator, 2, now_us), 200 * MS);
    assert_int_equal(lh_retry_estimator_wait_us(&retry_estimator, 1, now_us + 50 * MS), 250 * MS);
    assert_int_equal(lh_retry_estimator_wait_us(&retry_estimator, 1, now_us + 100 * MS), 300 * MS);
}

static void follows_a_rate_that_changes(void **state) {
    (void)state;
    lh_retry_estimator retry_estimator = {0};
    int64_t now_us = run_steadily(&retry_estimator, 10000 * MS);
    for (int i = 0; i < 200; i++) {
        now_us += 10 * MS;
        lh_retry_estimator_leave(&retry_estimator, 1, now_us);
        lh_retry_estimator_enter(&retry_estimator, 1, now_us);
    }
    int64_t turn_us = lh_retry_estimator_wait_us(&retry_estimator, 1, now_us);
    assert_in_range(turn_us, 9 * MS, 11 * MS);
    now_us += 5000 * MS; /* nobody leaves any more */
    assert_int_equal(lh_retry_estimator_wait_us(&retry_estimator, 1, now_us), 5000 * MS);
}

static void an_empty_house_is_no_slow_one(void **state) {
    (void)state;
    lh_retry_estimator retry_estimator = {0};
    int64_t now_us = run_steadily(&retry_estimator, 10000 * MS);
    lh_retry_estimator_leave(&retry_estimator, 4, now_us);
    now_us += 3600000 * MS;
    lh_retry_estimator_enter(&retry_estimator, 4, now_us);
    lh_retry_estimator_leave(&retry_estimator, 1, now_us + 100 * MS);
    assert_in_range(lh_retry_estimator_wait_us(&retry_estimator, 1, now_us + 100 * MS), 70 * MS,
                    101 * MS);
}

static void guesses_before_anybody_has_left(void **state) {
    (void)state;
    lh_retry_estimator retry_estimator = {0};
    lh_retry_estimator_enter(&retry_estimator, 4, 0);
    assert_int_equal(lh_retry_estimator_wait_us(&retry_estimator, 1, 0), 1000 * MS);
    lh_retry_estimator empty = {0};
    assert_int_equal(lh_retry_estimator_wait_us(&empty, 1, 0), 1000 * MS);
    assert_int_equal(lh_retry_estimator_wait_us(&empty, 1, 0), 1000 * MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_each_its_own_turn),
        cmocka_unit_test(several_places_take_longer),
        cmocka_unit_test(the_line_moves_on),
        cmocka_unit_test(follows_a_rate_that_changes),
        cmocka_unit_test(an_empty_house_is_no_slow_one),
        cmocka_unit_test(guesses_before_anybody_has_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
