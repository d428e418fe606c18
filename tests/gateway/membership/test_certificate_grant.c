/* Renewing, by those who may and by copies of their keys. */
#include "gateway/membership/membership.h"

#include "gateway/membership/admission.h"
#include "tests/gateway/support/membership_bench.h"

#include <openssl/x509v3.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#undef lh_error

#include <cmocka.h>

static bool is_in_records(const membership_bench *b, const char *serial) {
    lh_records records = read_records(b);
    bool is_there = lh_member_list_find_serial(&records.members, serial);
    lh_records_reset(&records);
    return is_there;
}

static void a_member_renews_with_a_fresh_key(void **state) {
    membership_bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    assert_true(renew(b, "one", NOW_S + LIFE_S / 2));
    X509 *certificate = read_certificate(b->grant.certificate);
    assert_true(is_believed(certificate, b->grant.trust, NOW_S + LIFE_S + DAY_S));
    assert_non_null(strstr(names_of(certificate), "IP Address:192.0.2.8"));
    X509_free(certificate);
    assert_false(renew(b, "nobody", NOW_S));
    assert_int_equal(b->refusal.code, LH_JOIN_TOKEN_REVOKED);
}

static void a_certificate_is_renewed_when_half_of_its_life_is_over(void **state) {
    membership_bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    assert_false(renew(b, "one", NOW_S + LIFE_S / 2 - 1));
    assert_int_equal(b->refusal.code, LH_JOIN_NOT_DUE);
    assert_non_null(strstr(b->refusal.message, "2027-01-30T08:00:00Z")); /* from then on */
    assert_true(renew(b, "one", NOW_S + LIFE_S / 2));
    assert_false(renew(b, "one", NOW_S + LIFE_S / 2));
    assert_int_equal(b->refusal.code, LH_JOIN_NOT_DUE);
}

/* A copy of the key asks again and again, in time and out of it. */
static void a_copied_key_ousts_nobody(void **state) {
    membership_bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    const lh_member in_use = youngest(b, "one");
    for (int i = 0; i < 20; i++)
        assert_false(renew_from(b, &in_use, false, NOW_S + i));
    assert_true(is_in_records(b, in_use.serial));
    const int64_t due_s = NOW_S + LIFE_S * 2 / 3;
    for (int i = 0; i < 20; i++)
        assert_int_equal(renew_from(b, &in_use, false, due_s + i),
                         i + 1 < (int)LH_ADMISSION_ANYWHERE_MAX);
    assert_int_equal(b->refusal.code, LH_JOIN_TOO_MANY);
    assert_true(is_in_records(b, in_use.serial));
    assert_true(renew_from(b, &in_use, true, due_s + 60)); /* the worker itself */
    assert_true(is_in_records(b, in_use.serial));
}

/* The gateway's answer was lost, or the disk that should have kept it. */
static void the_same_key_again_gets_the_same_certificate(void **state) {
    membership_bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    char *csr = make_new_request();
    assert_true(join(b, &token, "one"));
    const lh_member first = youngest(b, "one");
    const int64_t due_s = NOW_S + LIFE_S * 2 / 3;
    assert_true(renew_with(b, &first, csr, true, due_s));
    const lh_member renewed = youngest(b, "one");
    for (int i = 0; i < 20; i++) {
        assert_true(renew_with(b, i % 2 ? &first : &renewed, csr, false, due_s + i));
        assert_string_equal(youngest(b, "one").serial, renewed.serial);
        X509 *certificate = read_certificate(b->grant.certificate);
        lh_tls_serial serial;
        lh_tls_serial_of(certificate, serial);
        assert_string_equal(serial, renewed.serial);
        assert_true(is_believed(certificate, b->grant.trust, due_s + LIFE_S - 1));
        assert_false(is_believed(certificate, b->grant.trust, due_s + LIFE_S + 1));
        X509_free(certificate);
    }
    lh_records records = read_records(b);
    assert_int_equal(records.members.count, 2);
    lh_records_reset(&records);
    free(csr);
}

static void joining_again_and_again_fills_nothing(void **state) {
    membership_bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    char *csr = make_new_request();
    for (int i = 0; i < 20; i++)
        assert_true(join_at(b, request_with(&token, "one", csr), NOW_S + i));
    lh_records records = read_records(b);
    assert_int_equal(records.members.count, 1);
    lh_records_reset(&records);
    free(csr);
}

/* As one whose disk forgets every renewal: what has ended makes room. */
static void renewals_do_not_fill_the_records(void **state) {
    membership_bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    int64_t now_s = NOW_S;
    for (int i = 0; i < 20; i++) {
        now_s += LIFE_S * 2 / 3;
        assert_true(renew(b, "one", now_s));
    }
    lh_records records = read_records(b);
    assert_in_range(records.members.count, 2, LH_MEMBER_CERTIFICATES_MAX);
    assert_int_equal(records.members.members[records.members.count - 1].issued_s, now_s);
    lh_records_reset(&records);
}

int main(void) {
#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, membership_bench_open, membership_bench_close)
    const struct CMUnitTest tests[] = {
        TEST(a_member_renews_with_a_fresh_key),
        TEST(a_certificate_is_renewed_when_half_of_its_life_is_over),
        TEST(a_copied_key_ousts_nobody),
        TEST(the_same_key_again_gets_the_same_certificate),
        TEST(joining_again_and_again_fills_nothing),
        TEST(renewals_do_not_fill_the_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
