/* Who is let in, before and after the file has changed. */
#include "gateway/auth/authenticator.h"

#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SECOND 1000000LL
/* echo -n one | sha256sum, and so on */
#define ONE   "sha256:7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed"
#define TWO   "sha256:3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"
#define THREE "sha256:8b5b9db0c13db24256c829aa364aa90c6d2eba318b9232a4ab9313b954d3555f"

static char path[] = "/tmp/longhaul-gate-XXXXXX";
static const lh_key_limits none = {0};

static void write_keys(const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static lh_authenticator *make(const char *text, const lh_key_limits *limits) {
    lh_authenticator *authenticator = NULL;
    lh_error error;
    write_keys(text);
    if (lh_authenticator_create(path, limits, 0, &authenticator, &error))
        fail_msg("%s", error.message);
    return authenticator;
}

static bool is_let_in(lh_authenticator *authenticator, const char *shown) {
    lh_ticket ticket;
    bool open = lh_ticket_open(authenticator, shown, 1000, &ticket);
    lh_ticket_close(&ticket, 0);
    return open;
}

static bool take(lh_ticket *ticket, uint64_t tokens, lh_account_refusal *refusal) {
    return lh_ticket_take_request(ticket, 0, refusal) &&
           lh_ticket_take_prompt(ticket, tokens, 0, refusal);
}

static void without_a_file_everybody_is_let_in(void **state) {
    (void)state;
    lh_authenticator *authenticator;
    lh_ticket ticket;
    lh_account_refusal refusal;
    lh_allowance requests, tokens;
    assert_int_equal(lh_authenticator_create("", &none, 0, &authenticator, NULL), LH_OK);
    assert_int_equal(lh_authenticator_keys(authenticator), 0);
    assert_int_equal(lh_authenticator_reload(authenticator, 0, NULL), LH_OK);
    assert_true(lh_ticket_open(authenticator, NULL, 0, &ticket));
    assert_true(ticket.is_admin);
    assert_true(ticket.tenant == 0);
    assert_int_equal(ticket.priority, INT32_MIN);
    assert_true(take(&ticket, UINT64_MAX, &refusal));
    lh_ticket_spend(&ticket, 5, 0);
    lh_ticket_allowances(&ticket, 0, &requests, &tokens);
    assert_int_equal(requests.most + tokens.most, 0);
    lh_ticket_enter(&ticket, 3, 0);
    lh_ticket_close(&ticket, 6 * SECOND);
    assert_true(lh_ticket_open(authenticator, "Bearer x", 0, &ticket));
    assert_int_equal(lh_ticket_retry_us(&ticket, 1, 6 * SECOND), 2 * SECOND);
    lh_ticket_close(&ticket, 0);
    lh_authenticator_destroy(authenticator);
}

static void a_key_is_a_client(void **state) {
    (void)state;
    lh_ticket one, two, other;
    lh_authenticator *authenticator =
        make("alice " ONE " priority=5\nbob " TWO " admin\nalice " THREE " priority=5\n", &none);
    assert_int_equal(lh_authenticator_keys(authenticator), 3);
    assert_false(is_let_in(authenticator, NULL));
    assert_false(is_let_in(authenticator, "Bearer four"));
    assert_false(is_let_in(authenticator, "Bearer on"));
    assert_false(is_let_in(authenticator, "one"));
    assert_true(lh_ticket_open(authenticator, "Bearer one", 0, &one));
    assert_true(lh_ticket_open(authenticator, "Bearer two", 0, &two));
    assert_true(lh_ticket_open(authenticator, "Bearer three", 0, &other));
    assert_string_equal(one.name, "alice");
    assert_int_equal(one.priority, 5);
    assert_false(one.is_admin);
    assert_true(two.is_admin);
    assert_int_equal(two.priority, 0);
    assert_true(one.tenant == other.tenant && one.tenant != two.tenant && one.tenant && two.tenant);
    lh_ticket_close(&one, 0);
    lh_ticket_close(&two, 0);
    lh_ticket_close(&other, 0);
    lh_authenticator_destroy(authenticator);
}

/* Prefixes are kept by it, so it must not change with the run or the order of lines. */
static void a_tenant_stays_the_same(void **state) {
    (void)state;
    uint64_t tenant = 0;
    static const char *const files[] = {"alice " ONE "\n", "bob " TWO "\nalice " ONE "\n"};
    for (int i = 0; i < 2; i++) {
        lh_authenticator *authenticator = make(files[i], &none);
        lh_ticket ticket;
        assert_true(lh_ticket_open(authenticator, "Bearer one", 0, &ticket));
        assert_true(i == 0 || tenant == ticket.tenant);
        tenant = ticket.tenant;
        lh_ticket_close(&ticket, 0);
        lh_authenticator_destroy(authenticator);
    }
}

static void a_key_expires(void **state) {
    (void)state;
    lh_ticket ticket;
    lh_authenticator *authenticator = make("alice " ONE " expires=1970-01-02\n", &none);
    assert_true(lh_ticket_open(authenticator, "Bearer one", 86399, &ticket));
    lh_ticket_close(&ticket, 0);
    assert_false(lh_ticket_open(authenticator, "Bearer one", 86400, &ticket));
    lh_ticket_close(&ticket, 0);
    lh_authenticator_destroy(authenticator);
}

static void limits_are_of_the_client(void **state) {
    (void)state;
    const lh_key_limits limits = {.concurrent_requests = 1};
    lh_ticket one, three, two;
    lh_account_refusal refusal;
    lh_authenticator *authenticator = make("alice " ONE "\nalice " THREE "\nbob " TWO
                                           " concurrent-requests=0 tokens-per-minute=60\n",
                                           &limits);
    assert_true(lh_ticket_open(authenticator, "Bearer one", 0, &one));
    assert_true(lh_ticket_open(authenticator, "Bearer three", 0, &three));
    assert_true(lh_ticket_open(authenticator, "Bearer two", 0, &two));
    assert_true(take(&one, 5, &refusal));
    assert_false(lh_ticket_take_request(&three, 0, &refusal));
    assert_int_equal(refusal.limit, LH_ACCOUNT_CONCURRENT);
    lh_ticket_close(&three, 0);
    lh_ticket_close(&one, 8 * SECOND);
    assert_true(lh_ticket_open(authenticator, "Bearer three", 0, &three));
    assert_true(take(&three, 5, &refusal));
    lh_ticket_refund(&three, 0);
    lh_ticket_refund(&three, 0);
    assert_true(take(&three, 5, &refusal));

    lh_allowance requests, tokens;
    assert_true(take(&two, 20, &refusal));
    lh_ticket_spend(&two, 3, 0);
    lh_ticket_spend(&two, 10, 0);
    lh_ticket_spend(&two, 10, 0);
    lh_ticket_allowances(&two, 0, &requests, &tokens);
    assert_int_equal(requests.most, 0);
    assert_int_equal(tokens.most, 60);
    assert_int_equal(tokens.remaining, 30);
    assert_int_equal(tokens.whole_us, 30 * SECOND);
    lh_ticket_close(&two, 0);
    lh_ticket_close(&three, 0);
    lh_authenticator_destroy(authenticator);
}

/* A request that was read and cannot be answered has counted; one that found no room has not. */
static void what_was_read_counts(void **state) {
    (void)state;
    lh_ticket ticket;
    lh_account_refusal refusal;
    lh_authenticator *authenticator =
        make("alice " ONE " requests-per-minute=1 concurrent-requests=1 reading-ms-per-minute=7\n",
             &none);
    assert_true(lh_ticket_open(authenticator, "Bearer one", 0, &ticket));
    assert_int_equal(ticket.reading_ms_per_minute, 7);
    for (int i = 0; i < 3; i++) {
        assert_true(lh_ticket_take_request(&ticket, 0, &refusal));
        lh_ticket_refund(&ticket, 0);
    }
    assert_true(lh_ticket_take_request(&ticket, 0, &refusal));
    lh_ticket_leave(&ticket, SECOND);
    assert_false(lh_ticket_take_request(&ticket, SECOND, &refusal));
    assert_int_equal(refusal.limit, LH_ACCOUNT_REQUESTS);
    lh_ticket_close(&ticket, SECOND);
    lh_authenticator_destroy(authenticator);
}

static void another_file_takes_effect(void **state) {
    (void)state;
    lh_ticket old, fresh, more;
    lh_account_refusal refusal;
    lh_authenticator *authenticator =
        make("alice " ONE " requests-per-minute=2\ngone " TWO "\n", &none);
    lh_ticket gone;
    assert_true(lh_ticket_open(authenticator, "Bearer one", 0, &old));
    assert_true(lh_ticket_open(authenticator, "Bearer two", 0, &gone));
    assert_true(take(&old, 1, &refusal));
    assert_true(take(&gone, 1, &refusal));
    write_keys("alice " THREE " requests-per-minute=2\n");
    assert_int_equal(lh_authenticator_reload(authenticator, 0, NULL), LH_OK);
    assert_false(is_let_in(authenticator, "Bearer one"));
    assert_false(is_let_in(authenticator, "Bearer two"));
    assert_true(lh_ticket_open(authenticator, "Bearer three", 0, &fresh));
    assert_true(fresh.tenant == old.tenant);
    assert_true(take(&fresh, 1, &refusal));
    assert_true(lh_ticket_open(authenticator, "Bearer three", 0, &more));
    /* the one before the change counts */
    assert_false(lh_ticket_take_request(&more, 0, &refusal));
    lh_ticket_close(&more, 0);
    assert_string_equal(gone.name, "gone");
    lh_ticket_spend(&gone, 7, 0);
    lh_ticket_close(&gone, 0);
    lh_ticket_close(&old, 0);
    lh_ticket_close(&fresh, 0);
    lh_authenticator_destroy(authenticator);
}

static void a_wrong_file_changes_nothing(void **state) {
    (void)state;
    lh_error error;
    lh_authenticator *authenticator = make("alice " ONE "\n", &none);
    static const char *const wrong[] = {"alice " TWO "\nbob\n", "", "alice " TWO "\nbob " TWO "\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_keys(wrong[i]);
        assert_int_equal(lh_authenticator_reload(authenticator, 0, &error), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, path));
        assert_true(is_let_in(authenticator, "Bearer one"));
        assert_false(is_let_in(authenticator, "Bearer two"));
    }
    lh_authenticator_destroy(authenticator);
    assert_int_equal(lh_authenticator_create(path, &none, 0, &authenticator, &error),
                     LH_ERR_INVALID);
}

static void without_memory_nothing_changes(void **state) {
    (void)state;
    lh_authenticator *authenticator = make("alice " ONE "\n", &none);
    write_keys("bob " TWO "\ncarol " THREE "\n");
    for (unsigned nth = 1;; nth++) {
        failing_malloc_arm(nth);
        lh_status status = lh_authenticator_reload(authenticator, 0, NULL);
        bool failed = failing_malloc_disarm();
        if (!failed) {
            assert_int_equal(status, LH_OK);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_true(is_let_in(authenticator, "Bearer one"));
        assert_int_equal(lh_authenticator_keys(authenticator), 1);
    }
    assert_true(is_let_in(authenticator, "Bearer two") && is_let_in(authenticator, "Bearer three"));
    lh_authenticator_destroy(authenticator);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_file_everybody_is_let_in),
        cmocka_unit_test(a_key_is_a_client),
        cmocka_unit_test(a_tenant_stays_the_same),
        cmocka_unit_test(a_key_expires),
        cmocka_unit_test(limits_are_of_the_client),
        cmocka_unit_test(what_was_read_counts),
        cmocka_unit_test(another_file_takes_effect),
        cmocka_unit_test(a_wrong_file_changes_nothing),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    close(fd);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
