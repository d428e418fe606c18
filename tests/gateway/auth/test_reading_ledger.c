/* What clients have used of the readers' time. */
#include "gateway/auth/reading_ledger.h"

#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND 1000000LL

static lh_reading_ledger *ledger;

static int open_ledger(void **state) {
    (void)state;
    return lh_reading_ledger_create(&ledger, NULL) != LH_OK;
}

static int close_ledger(void **state) {
    (void)state;
    lh_reading_ledger_destroy(ledger);
    return 0;
}

/* A minute's share may be used at once; a debt is waited for, at the rate of the share. */
static void a_share_is_used_up_and_comes_back(void **state) {
    (void)state;
    const lh_reading_share share = {7, 6000};
    assert_int_equal(lh_reading_ledger_wait_us(ledger, &share, 0), 0);
    lh_reading_ledger_spend(ledger, &share, 5 * SECOND, 0);
    assert_int_equal(lh_reading_ledger_wait_us(ledger, &share, 0), 0);
    lh_reading_ledger_spend(ledger, &share, 2 * SECOND, 0);
    int64_t wait_us = lh_reading_ledger_wait_us(ledger, &share, 0);
    assert_in_range(wait_us, 10 * SECOND, 10 * SECOND + 100);
    assert_true(lh_reading_ledger_wait_us(ledger, &share, wait_us - SECOND) > 0);
    assert_int_equal(lh_reading_ledger_wait_us(ledger, &share, wait_us), 0);
}

static void shares_are_of_each_client(void **state) {
    (void)state;
    const lh_reading_share one = {1, 1000}, other = {2, 1000}, unlimited = {3, 0};
    lh_reading_ledger_spend(ledger, &one, 10 * SECOND, 0);
    lh_reading_ledger_spend(ledger, &unlimited, 1000 * SECOND, 0);
    assert_true(lh_reading_ledger_wait_us(ledger, &one, 0) > 0);
    assert_int_equal(lh_reading_ledger_wait_us(ledger, &other, 0), 0);
    assert_int_equal(lh_reading_ledger_wait_us(ledger, &unlimited, 0), 0);
    /* Another line of the list of keys. */
    assert_int_equal(lh_reading_ledger_wait_us(ledger, &(lh_reading_share){1, 0}, 0), 0);
}

/* No share is so large that it runs over. */
static void any_number_is_a_share(void **state) {
    (void)state;
    const lh_reading_share share = {1, UINT32_MAX};
    lh_reading_ledger_spend(ledger, &share, 900 * SECOND, 0);
    assert_int_equal(lh_reading_ledger_wait_us(ledger, &share, 0), 0);
    lh_reading_ledger_spend(ledger, &share, 3600 * 1000 * SECOND, 0);
    assert_true(lh_reading_ledger_wait_us(ledger, &share, 0) > 0);
}

static void use_settles(void **state) {
    (void)state;
    const lh_reading_share share = {5, 0};
    assert_int_equal(lh_reading_ledger_settled_us(ledger, 5, 3 * SECOND), 3 * SECOND);
    lh_reading_ledger_spend(ledger, &share, SECOND, 3 * SECOND);
    assert_int_equal(lh_reading_ledger_settled_us(ledger, 5, 3 * SECOND), 7 * SECOND);
    lh_reading_ledger_spend(ledger, &share, SECOND, 4 * SECOND);
    assert_int_equal(lh_reading_ledger_settled_us(ledger, 5, 4 * SECOND), 11 * SECOND);
    assert_int_equal(lh_reading_ledger_settled_us(ledger, 5, 12 * SECOND), 12 * SECOND);
}

/* However many clients come, whoever has used most is not forgotten. */
static void who_used_most_is_remembered(void **state) {
    (void)state;
    const lh_reading_share heavy = {1, 1000};
    lh_reading_ledger_spend(ledger, &heavy, 100 * SECOND, 0);
    for (uint64_t client = 2; client < 100000; client++)
        lh_reading_ledger_spend(ledger, &(lh_reading_share){client, 1000}, 100, 0);
    assert_true(lh_reading_ledger_wait_us(ledger, &heavy, 0) > 0);
}

static void missing_memory_is_told(void **state) {
    (void)state;
    lh_reading_ledger *other;
    failing_malloc_arm(1);
    lh_status status = lh_reading_ledger_create(&other, NULL);
    assert_true(failing_malloc_disarm());
    assert_int_equal(status, LH_ERR_NO_MEMORY);
    lh_reading_ledger_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_share_is_used_up_and_comes_back, open_ledger,
                                        close_ledger),
        cmocka_unit_test_setup_teardown(shares_are_of_each_client, open_ledger, close_ledger),
        cmocka_unit_test_setup_teardown(any_number_is_a_share, open_ledger, close_ledger),
        cmocka_unit_test_setup_teardown(use_settles, open_ledger, close_ledger),
        cmocka_unit_test_setup_teardown(who_used_most_is_remembered, open_ledger, close_ledger),
        cmocka_unit_test(missing_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
