/* One client's limits. */
#include "gateway/auth/account.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND 1000000LL

/* A request with its prompt, or nothing. */
static bool take(lh_account *account, uint64_t tokens, int64_t now_us,
                 lh_account_refusal *refusal) {
    if (!lh_account_take_request(account, now_us, refusal))
        return false;
    if (lh_account_take_prompt(account, tokens, now_us, refusal))
        return true;
    lh_account_refund(account, 0, now_us);
    return false;
}

static bool has_room(lh_account *account, int64_t now_us, lh_account_refusal *refusal) {
    if (!lh_account_take_request(account, now_us, refusal))
        return false;
    lh_account_refund(account, 0, now_us);
    return true;
}

static void each_limit_refuses_by_its_name(void **state) {
    (void)state;
    lh_account account;
    lh_account_refusal refusal;
    lh_account_init(&account, &(lh_key_limits){.requests_per_minute = 2}, 0);
    assert_true(take(&account, 1000000, 0, &refusal));
    assert_true(take(&account, 1000000, 0, &refusal));
    assert_false(take(&account, 1, 10 * SECOND, &refusal));
    assert_int_equal(refusal.limit, LH_ACCOUNT_REQUESTS);
    assert_int_equal(refusal.most, 2);
    assert_int_equal(refusal.wait_us, 20 * SECOND);
    assert_true(take(&account, 1, 30 * SECOND, &refusal));

    lh_account_init(&account, &(lh_key_limits){.tokens_per_minute = 60}, 0);
    assert_true(take(&account, 50, 0, &refusal));
    assert_false(take(&account, 20, 0, &refusal));
    assert_int_equal(refusal.limit, LH_ACCOUNT_TOKENS);
    assert_int_equal(refusal.wait_us, 10 * SECOND);
    assert_true(take(&account, 10, 0, &refusal));

    lh_account_init(&account, &(lh_key_limits){.concurrent_requests = 2}, 0);
    assert_true(take(&account, 1, 0, &refusal));
    assert_true(take(&account, 1, 0, &refusal));
    assert_false(take(&account, 1, 0, &refusal));
    assert_int_equal(refusal.limit, LH_ACCOUNT_CONCURRENT);
    assert_int_equal(refusal.most, 2);
    lh_account_leave(&account, 4 * SECOND);
    assert_true(take(&account, 1, 0, &refusal));
    assert_false(take(&account, 1, 0, &refusal));
    assert_int_equal(refusal.wait_us, 2 * SECOND);
}

/* The wait that is told is the longest, and what is refused costs nothing of any limit. */
static void a_refusal_takes_nothing(void **state) {
    (void)state;
    lh_account account;
    lh_account_refusal refusal;
    lh_account_init(&account, &(lh_key_limits){60, 60, 1, 0}, 0);
    assert_true(take(&account, 60, 0, &refusal));
    for (int i = 0; i < 100; i++)
        assert_false(take(&account, 30, 0, &refusal));
    assert_int_equal(refusal.limit, LH_ACCOUNT_TOKENS);
    assert_int_equal(refusal.wait_us, SECOND); /* a prompt has one token at least */
    assert_false(take(&account, 30, 30 * SECOND, &refusal));
    assert_int_equal(refusal.limit, LH_ACCOUNT_CONCURRENT);
    lh_account_leave(&account, SECOND);
    assert_int_equal(lh_rate_bucket_remaining(&account.requests, 30 * SECOND), 60);
    assert_true(take(&account, 30, 30 * SECOND, &refusal));
}

static void what_is_drawn_is_paid_by_the_next(void **state) {
    (void)state;
    lh_account account;
    lh_account_refusal refusal;
    lh_account_init(&account, &(lh_key_limits){.tokens_per_minute = 60}, 0);
    assert_true(take(&account, 10, 0, &refusal));
    lh_rate_bucket_spend(&account.tokens, 100, 0);
    lh_account_leave(&account, SECOND);
    assert_false(has_room(&account, 0, &refusal));
    assert_int_equal(refusal.wait_us, 51 * SECOND);
    assert_true(has_room(&account, 51 * SECOND, &refusal));
}

static void a_refund_leaves_no_trace(void **state) {
    (void)state;
    lh_account account;
    lh_account_refusal refusal;
    lh_account_init(&account, &(lh_key_limits){1, 60, 1, 0}, 0);
    for (int i = 0; i < 10; i++) {
        assert_true(take(&account, 60, 0, &refusal));
        lh_account_refund(&account, 60, 0);
    }
    assert_true(take(&account, 60, 0, &refusal));
}

static void other_limits_count_what_runs(void **state) {
    (void)state;
    lh_account account;
    lh_account_refusal refusal;
    lh_account_init(&account, &(lh_key_limits){0}, 0);
    for (int i = 0; i < 3; i++)
        assert_true(take(&account, 1, 0, &refusal));
    lh_account_set_limits(&account, &(lh_key_limits){.concurrent_requests = 2}, 0);
    assert_false(has_room(&account, 0, &refusal));
    lh_account_leave(&account, 1);
    assert_false(has_room(&account, 0, &refusal));
    lh_account_leave(&account, 1);
    assert_true(has_room(&account, 0, &refusal));
}

/* Whoever asks for what cannot be answered has asked. */
static void what_is_read_in_vain_has_counted(void **state) {
    (void)state;
    lh_account account;
    lh_account_refusal refusal;
    lh_account_init(&account, &(lh_key_limits){.requests_per_minute = 2, .concurrent_requests = 1},
                    0);
    for (int i = 0; i < 2; i++) {
        assert_true(lh_account_take_request(&account, 0, &refusal));
        lh_account_drop(&account);
    }
    assert_false(lh_account_take_request(&account, 0, &refusal));
    assert_int_equal(refusal.limit, LH_ACCOUNT_REQUESTS);
    assert_int_equal(refusal.wait_us, 30 * SECOND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_limit_refuses_by_its_name),
        cmocka_unit_test(a_refusal_takes_nothing),
        cmocka_unit_test(what_is_drawn_is_paid_by_the_next),
        cmocka_unit_test(a_refund_leaves_no_trace),
        cmocka_unit_test(what_is_read_in_vain_has_counted),
        cmocka_unit_test(other_limits_count_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
