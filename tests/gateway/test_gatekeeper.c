/* Who is let in, before and after the file has changed. */
#include "gateway/access/gatekeeper.h"

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

static lh_gatekeeper *make(const char *text, const lh_key_limits *limits) {
    lh_gatekeeper *gatekeeper = NULL;
    lh_error error;
    write_keys(text);
    if (lh_gatekeeper_create(path, limits, 0, &gatekeeper, &error))
        fail_msg("%s", error.message);
    return gatekeeper;
}

static bool is_let_in(lh_gatekeeper *gatekeeper, const char *shown) {
    lh_pass pass;
    bool open = lh_pass_open(gatekeeper, shown, 1000, &pass);
    lh_pass_close(&pass, 0);
    return open;
}

static void without_a_file_everybody_is_let_in(void **state) {
    (void)state;
    lh_gatekeeper *gatekeeper;
    lh_pass pass;
    lh_account_refusal refusal;
    lh_allowance requests, tokens;
    assert_int_equal(lh_gatekeeper_create("", &none, 0, &gatekeeper, NULL), LH_OK);
    assert_int_equal(lh_gatekeeper_keys(gatekeeper), 0);
    assert_int_equal(lh_gatekeeper_reload(gatekeeper, 0, NULL), LH_OK);
    assert_true(lh_pass_open(gatekeeper, NULL, 0, &pass));
    assert_true(pass.is_admin);
    assert_true(pass.tenant == 0);
    assert_int_equal(pass.priority, INT32_MIN);
    assert_true(lh_pass_may_take(&pass, 0, &refusal) && lh_pass_take(&pass, UINT64_MAX, 0, &refusal));
    lh_pass_spend(&pass, 5, 0);
    lh_pass_allowances(&pass, 0, &requests, &tokens);
    assert_int_equal(requests.most + tokens.most, 0);
    lh_pass_enter(&pass, 3, 0);
    lh_pass_close(&pass, 6 * SECOND);
    assert_true(lh_pass_open(gatekeeper, "Bearer x", 0, &pass));
    assert_int_equal(lh_pass_turn_us(&pass, 1, 6 * SECOND), 2 * SECOND);
    lh_pass_close(&pass, 0);
    lh_gatekeeper_destroy(gatekeeper);
}

static void a_key_is_a_client(void **state) {
    (void)state;
    lh_pass one, two, other;
    lh_gatekeeper *gatekeeper =
        make("alice " ONE " priority=5\nbob " TWO " admin\nalice " THREE " priority=5\n", &none);
    assert_int_equal(lh_gatekeeper_keys(gatekeeper), 3);
    assert_false(is_let_in(gatekeeper, NULL));
    assert_false(is_let_in(gatekeeper, "Bearer four"));
    assert_false(is_let_in(gatekeeper, "Bearer on"));
    assert_false(is_let_in(gatekeeper, "one"));
    assert_true(lh_pass_open(gatekeeper, "Bearer one", 0, &one));
    assert_true(lh_pass_open(gatekeeper, "Bearer two", 0, &two));
    assert_true(lh_pass_open(gatekeeper, "Bearer three", 0, &other));
    assert_string_equal(one.name, "alice");
    assert_int_equal(one.priority, 5);
    assert_false(one.is_admin);
    assert_true(two.is_admin);
    assert_int_equal(two.priority, 0);
    assert_true(one.tenant == other.tenant && one.tenant != two.tenant && one.tenant && two.tenant);
    lh_pass_close(&one, 0);
    lh_pass_close(&two, 0);
    lh_pass_close(&other, 0);
    lh_gatekeeper_destroy(gatekeeper);
}

/* Prefixes are kept by it, so it must not change with the run or the order of lines. */
static void a_tenant_stays_the_same(void **state) {
    (void)state;
    uint64_t tenant = 0;
    static const char *const files[] = {"alice " ONE "\n", "bob " TWO "\nalice " ONE "\n"};
    for (int i = 0; i < 2; i++) {
        lh_gatekeeper *gatekeeper = make(files[i], &none);
        lh_pass pass;
        assert_true(lh_pass_open(gatekeeper, "Bearer one", 0, &pass));
        assert_true(i == 0 || tenant == pass.tenant);
        tenant = pass.tenant;
        lh_pass_close(&pass, 0);
        lh_gatekeeper_destroy(gatekeeper);
    }
}

static void a_key_expires(void **state) {
    (void)state;
    lh_pass pass;
    lh_gatekeeper *gatekeeper = make("alice " ONE " expires=1970-01-02\n", &none);
    assert_true(lh_pass_open(gatekeeper, "Bearer one", 86399, &pass));
    lh_pass_close(&pass, 0);
    assert_false(lh_pass_open(gatekeeper, "Bearer one", 86400, &pass));
    lh_pass_close(&pass, 0);
    lh_gatekeeper_destroy(gatekeeper);
}

static void limits_are_of_the_client(void **state) {
    (void)state;
    const lh_key_limits limits = {.concurrent_requests = 1};
    lh_pass one, three, two;
    lh_account_refusal refusal;
    lh_gatekeeper *gatekeeper = make(
        "alice " ONE "\nalice " THREE "\nbob " TWO " concurrent-requests=0 tokens-per-minute=60\n", &limits);
    assert_true(lh_pass_open(gatekeeper, "Bearer one", 0, &one));
    assert_true(lh_pass_open(gatekeeper, "Bearer three", 0, &three));
    assert_true(lh_pass_open(gatekeeper, "Bearer two", 0, &two));
    assert_true(lh_pass_take(&one, 5, 0, &refusal));
    assert_false(lh_pass_may_take(&three, 0, &refusal));
    assert_false(lh_pass_take(&three, 5, 0, &refusal));
    assert_int_equal(refusal.limit, LH_ACCOUNT_CONCURRENT);
    lh_pass_close(&three, 0);
    lh_pass_close(&one, 8 * SECOND);
    assert_true(lh_pass_open(gatekeeper, "Bearer three", 0, &three));
    assert_true(lh_pass_take(&three, 5, 0, &refusal));
    lh_pass_refund(&three, 0);
    lh_pass_refund(&three, 0);
    assert_true(lh_pass_take(&three, 5, 0, &refusal));

    lh_allowance requests, tokens;
    assert_true(lh_pass_take(&two, 20, 0, &refusal));
    lh_pass_spend(&two, 3, 0);
    lh_pass_spend(&two, 10, 0);
    lh_pass_spend(&two, 10, 0);
    lh_pass_allowances(&two, 0, &requests, &tokens);
    assert_int_equal(requests.most, 0);
    assert_int_equal(tokens.most, 60);
    assert_int_equal(tokens.remaining, 30);
    assert_int_equal(tokens.whole_us, 30 * SECOND);
    lh_pass_close(&two, 0);
    lh_pass_close(&three, 0);
    lh_gatekeeper_destroy(gatekeeper);
}

static void another_file_takes_effect(void **state) {
    (void)state;
    lh_pass old, fresh;
    lh_account_refusal refusal;
    lh_gatekeeper *gatekeeper = make("alice " ONE " requests-per-minute=2\ngone " TWO "\n", &none);
    lh_pass gone;
    assert_true(lh_pass_open(gatekeeper, "Bearer one", 0, &old));
    assert_true(lh_pass_open(gatekeeper, "Bearer two", 0, &gone));
    assert_true(lh_pass_take(&old, 1, 0, &refusal));
    assert_true(lh_pass_take(&gone, 1, 0, &refusal));
    write_keys("alice " THREE " requests-per-minute=2\n");
    assert_int_equal(lh_gatekeeper_reload(gatekeeper, 0, NULL), LH_OK);
    assert_false(is_let_in(gatekeeper, "Bearer one"));
    assert_false(is_let_in(gatekeeper, "Bearer two"));
    assert_true(lh_pass_open(gatekeeper, "Bearer three", 0, &fresh));
    assert_true(fresh.tenant == old.tenant);
    assert_true(lh_pass_take(&fresh, 1, 0, &refusal));
    assert_false(lh_pass_may_take(&fresh, 0, &refusal)); /* the one before the change counts */
    assert_string_equal(gone.name, "gone");
    lh_pass_spend(&gone, 7, 0);
    lh_pass_close(&gone, 0);
    lh_pass_close(&old, 0);
    lh_pass_close(&fresh, 0);
    lh_gatekeeper_destroy(gatekeeper);
}

static void a_wrong_file_changes_nothing(void **state) {
    (void)state;
    lh_error error;
    lh_gatekeeper *gatekeeper = make("alice " ONE "\n", &none);
    static const char *const wrong[] = {"alice " TWO "\nbob\n", "", "alice " TWO "\nbob " TWO "\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_keys(wrong[i]);
        assert_int_equal(lh_gatekeeper_reload(gatekeeper, 0, &error), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, path));
        assert_true(is_let_in(gatekeeper, "Bearer one"));
        assert_false(is_let_in(gatekeeper, "Bearer two"));
    }
    lh_gatekeeper_destroy(gatekeeper);
    assert_int_equal(lh_gatekeeper_create(path, &none, 0, &gatekeeper, &error), LH_ERR_INVALID);
}

static void without_memory_nothing_changes(void **state) {
    (void)state;
    lh_gatekeeper *gatekeeper = make("alice " ONE "\n", &none);
    write_keys("bob " TWO "\ncarol " THREE "\n");
    for (unsigned nth = 1;; nth++) {
        failing_malloc_arm(nth);
        lh_status status = lh_gatekeeper_reload(gatekeeper, 0, NULL);
        bool failed = failing_malloc_disarm();
        if (!failed) {
            assert_int_equal(status, LH_OK);
            break;
        }
        assert_int_equal(status, LH_ERR_NO_MEMORY);
        assert_true(is_let_in(gatekeeper, "Bearer one"));
        assert_int_equal(lh_gatekeeper_keys(gatekeeper), 1);
    }
    assert_true(is_let_in(gatekeeper, "Bearer two") && is_let_in(gatekeeper, "Bearer three"));
    lh_gatekeeper_destroy(gatekeeper);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_file_everybody_is_let_in),
        cmocka_unit_test(a_key_is_a_client),
        cmocka_unit_test(a_tenant_stays_the_same),
        cmocka_unit_test(a_key_expires),
        cmocka_unit_test(limits_are_of_the_client),
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
