/* What the running gateway does as time passes: its own certificate, a wrong clock, another CA. */
#include "gateway/membership/membership.h"

#include "tests/gateway/support/membership_bench.h"

#include <openssl/x509v3.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#undef lh_error

#include <cmocka.h>

/* ---- The gateway's own files ---- */

static void the_gateway_has_a_certificate_of_its_own(void **state) {
    membership_bench *b = *state;
    lh_membership_view view;
    refresh(b, NOW_S, false, &view);
    assert_true(view.is_new);
    lh_tls_options tls = lh_membership_tls(b->membership);
    lh_tls_credentials *credentials;
    assert_int_equal(lh_tls_credentials_create(&tls, &credentials, NULL), LH_OK);
    lh_tls_credentials_destroy(credentials);
    X509 *certificate = own_certificate(b);
    assert_string_equal(names_of(certificate),
                        "URI:longhaul://gateway, DNS:gateway.example, IP Address:10.0.0.1");
    assert_true(is_believed(certificate, view.trust, NOW_S));
    X509_free(certificate);
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + 5, false, &view);
    assert_false(view.is_new);
}

static void it_renews_its_own_before_it_ends(void **state) {
    membership_bench *b = *state;
    lh_membership_view view;
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + LIFE_S * 2 / 3 - 1, false, &view);
    assert_false(view.is_new);
    refresh(b, NOW_S + LIFE_S * 2 / 3, false, &view);
    assert_true(view.is_new);
    X509 *certificate = own_certificate(b);
    assert_true(is_believed(certificate, view.trust, NOW_S + LIFE_S + DAY_S));
    X509_free(certificate);
    lh_membership_view_reset(&view);
}

/* ---- A clock that is wrong for a while ---- */

static void what_was_issued_ahead_of_time_is_renewed_at_once(void **state) {
    membership_bench *b = *state;
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    assert_true(renew(b, "one", NOW_S + 20 * DAY_S)); /* both clocks are ahead */
    const lh_member early = youngest(b, "one");
    assert_true(renew(b, "one", NOW_S + 60));
    X509 *certificate = read_certificate(b->grant.certificate);
    assert_true(is_believed(certificate, b->grant.trust, NOW_S + 60));
    X509_free(certificate);
    assert_string_not_equal(youngest(b, "one").serial, early.serial);
    assert_false(renew(b, "one", NOW_S + 61));
    assert_int_equal(b->refusal.code, LH_JOIN_NOT_DUE);
}

/* Ahead by 40 days, while somebody joins: nobody is forgotten. */
static void a_clock_that_was_ahead_has_forgotten_nobody(void **state) {
    membership_bench *b = *state;
    lh_membership_view view;
    lh_join_token token = invite(b, "", 2, 60 * DAY_S);
    assert_true(join(b, &token, "one"));
    const lh_member in_use = youngest(b, "one");
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    char *csr = make_new_request();
    lh_join_request *request = request_with(&token, "two", csr);
    request->time_s = NOW_S + 40 * DAY_S;
    assert_true(join_at(b, request, NOW_S + 40 * DAY_S));
    free(csr);
    refresh(b, NOW_S + 40 * DAY_S, false, &view);
    assert_true(view.is_new);
    assert_non_null(lh_member_list_find_serial(&view.members, in_use.serial));
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + 6, false, &view);
    assert_true(view.is_new); /* the gateway's own certificate is of the future */
    assert_non_null(lh_member_list_find_serial(&view.members, in_use.serial));
    X509 *own = own_certificate(b);
    assert_true(is_believed(own, view.trust, NOW_S + 6));
    X509_free(own);
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + 7, false, &view);
    assert_false(view.is_new);
}

static void no_ca_changes_by_a_clock_that_was_just_set(void **state) {
    membership_bench *b = *state;
    lh_membership_view view;
    char next[LH_AUTHORITY_ID_BYTES];
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    assert_int_equal(lh_membership_rotate(b->membership, NOW_S, DAY_S, next, NULL), LH_OK);
    lh_upkeep_moment moment = {.now_s = NOW_S + 40 * DAY_S};
    assert_int_equal(lh_upkeep_refresh(lh_membership_upkeep(b->membership), &moment, &view, NULL),
                     LH_OK);
    assert_true(view.has_next);
    lh_membership_view_reset(&view);
    moment.is_clock_settled = true;
    moment.now_s += 60;
    assert_int_equal(lh_upkeep_refresh(lh_membership_upkeep(b->membership), &moment, &view, NULL),
                     LH_OK);
    assert_false(view.has_next);
    lh_membership_view_reset(&view);
}

/* ---- A disk that takes nothing ---- */

static void starting_writes_nothing_where_nothing_has_changed(void **state) {
    membership_bench *b = *state;
    lh_membership_view view;
    char path[128];
    lh_membership_options options = membership_options_of(b);
    static const char *const names[] = {LH_RECORDS_FILE, LH_TRUST_FILE, LH_OWN_CERTIFICATE_FILE};
    struct stat before[3], after;
    assert_int_equal(lh_membership_note_listen(b->membership, "127.0.0.1:7100", NULL), LH_OK);
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", b->folder, names[i]);
        assert_int_equal(stat(path, &before[i]), 0);
    }
    lh_membership_close(b->membership);
    assert_int_equal(lh_membership_open(&options, NOW_S + 60, &b->membership, NULL), LH_OK);
    assert_int_equal(lh_membership_note_listen(b->membership, "127.0.0.1:7100", NULL), LH_OK);
    refresh(b, NOW_S + 60, false, &view);
    assert_true(view.is_new);
    lh_membership_view_reset(&view);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", b->folder, names[i]);
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(after.st_ino, before[i].st_ino);
    }
}

static void another_name_of_the_gateway_is_another_certificate(void **state) {
    membership_bench *b = *state;
    lh_membership_view view;
    lh_membership_options options = membership_options_of(b);
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    lh_membership_close(b->membership);
    options.hosts[0] = "other.example";
    assert_int_equal(lh_membership_open(&options, NOW_S, &b->membership, NULL), LH_OK);
    refresh(b, NOW_S + 60, false, &view);
    lh_membership_view_reset(&view);
    X509 *own = own_certificate(b);
    assert_string_equal(names_of(own),
                        "URI:longhaul://gateway, DNS:other.example, IP Address:10.0.0.1");
    X509_free(own);
}

/* ---- Another CA ---- */

static void one_ca_follows_another(void **state) {
    membership_bench *b = *state;
    lh_membership_view view;
    char next[LH_AUTHORITY_ID_BYTES], before_sha256[LH_SHA256_HEX_BYTES];
    lh_join_token token = invite(b, "", 5, 3600);
    assert_true(join(b, &token, "one"));
    X509 *old = read_certificate(b->grant.certificate);
    refresh(b, NOW_S, false, &view);
    assert_false(view.has_next);
    memcpy(before_sha256, view.trust_sha256, sizeof before_sha256);
    lh_membership_view_reset(&view);

    assert_int_equal(lh_membership_rotate(b->membership, NOW_S, DAY_S, next, NULL), LH_OK);
    assert_int_equal(lh_membership_rotate(b->membership, NOW_S, DAY_S, next, NULL), LH_ERR_BUSY);
    refresh(b, NOW_S, true, &view); /* they believe the bundle before */
    assert_true(view.has_next);
    assert_string_not_equal(view.trust_sha256, before_sha256);
    lh_membership_view_reset(&view);
    assert_true(join(b, &token, "two"));
    X509 *meanwhile = read_certificate(b->grant.certificate);

    refresh(b, NOW_S + 1, false, &view);
    assert_true(view.has_next);
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + 2, true, &view);
    assert_true(view.is_new);
    assert_false(view.has_next);
    assert_true(is_believed(old, view.trust, NOW_S));
    assert_true(is_believed(meanwhile, view.trust, NOW_S));
    X509 *own = own_certificate(b);
    assert_true(is_believed(own, view.trust, NOW_S));
    lh_membership_view_reset(&view);

    assert_true(renew(b, "one", NOW_S + 3));
    assert_true(renew(b, "two", NOW_S + 3));
    X509 *renewed = read_certificate(b->grant.certificate);
    refresh(b, NOW_S + 60, false, &view); /* a copy of their keys may have renewed */
    assert_true(is_believed(old, view.trust, NOW_S));
    lh_membership_view_reset(&view);
    lh_certificates_in_use *in_use = calloc(1, sizeof *in_use);
    lh_certificates_in_use_note(in_use, "one", youngest(b, "one").expires_s);
    lh_certificates_in_use_note(in_use, "two", NOW_S + LIFE_S);
    lh_upkeep_moment moment = {.now_s = NOW_S + 80, .is_clock_settled = true, .in_use = in_use};
    lh_upkeep *upkeep = lh_membership_upkeep(b->membership);
    assert_int_equal(lh_upkeep_refresh(upkeep, &moment, &view, NULL), LH_OK);
    assert_false(view.is_new); /* two uses the one before */
    lh_certificates_in_use_note(in_use, "two", youngest(b, "two").expires_s);
    moment.now_s += 20;
    assert_int_equal(lh_upkeep_refresh(upkeep, &moment, &view, NULL), LH_OK);
    free(in_use);
    assert_true(view.is_new);
    assert_false(is_believed(old, view.trust, NOW_S));
    assert_true(is_believed(renewed, view.trust, NOW_S));
    assert_true(is_believed(own, view.trust, NOW_S));
    lh_membership_view_reset(&view);
    lh_records records = read_records(b);
    assert_int_equal(records.authorities.count, 1);
    lh_records_reset(&records);
    X509_free(old);
    X509_free(meanwhile);
    X509_free(renewed);
    X509_free(own);
}

static void whoever_is_off_is_waited_for_until_the_overlap_is_over(void **state) {
    membership_bench *b = *state;
    lh_membership_view view;
    char next[LH_AUTHORITY_ID_BYTES];
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    assert_int_equal(lh_membership_rotate(b->membership, NOW_S, DAY_S, next, NULL), LH_OK);
    refresh(b, NOW_S + DAY_S - 1, false, &view);
    assert_true(view.has_next);
    lh_membership_view_reset(&view);
    refresh(b, NOW_S + DAY_S + 10, false, &view);
    assert_false(view.has_next);
    lh_membership_view_reset(&view);
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    lh_records records = read_records(b);
    assert_string_equal(records.members.members[0].authority, next);
    lh_records_reset(&records);
}

/* The key of a CA that signs no more is not kept. */
static void old_keys_are_dropped(void **state) {
    membership_bench *b = *state;
    lh_membership_view view;
    char next[LH_AUTHORITY_ID_BYTES], name[64];
    lh_join_token token = invite(b, "", 1, 3600);
    assert_true(join(b, &token, "one"));
    lh_records records = read_records(b);
    snprintf(name, sizeof name, "ca-%s.pem", records.authorities.entries[0].id);
    lh_records_reset(&records);
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    assert_int_equal(lh_membership_rotate(b->membership, NOW_S, DAY_S, next, NULL), LH_OK);
    refresh(b, NOW_S, false, &view);
    lh_membership_view_reset(&view);
    char *pem = read_file(b, name);
    assert_non_null(strstr(pem, "PRIVATE KEY"));
    free(pem);
    refresh(b, NOW_S, true, &view);
    lh_membership_view_reset(&view);
    pem = read_file(b, name);
    assert_null(strstr(pem, "PRIVATE KEY"));
    assert_non_null(strstr(pem, "CERTIFICATE"));
    free(pem);
}

int main(void) {
#define TEST(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, membership_bench_open, membership_bench_close)
    const struct CMUnitTest tests[] = {
        TEST(what_was_issued_ahead_of_time_is_renewed_at_once),
        TEST(a_clock_that_was_ahead_has_forgotten_nobody),
        TEST(no_ca_changes_by_a_clock_that_was_just_set),
        TEST(starting_writes_nothing_where_nothing_has_changed),
        TEST(another_name_of_the_gateway_is_another_certificate),
        TEST(the_gateway_has_a_certificate_of_its_own),
        TEST(it_renews_its_own_before_it_ends),
        TEST(one_ca_follows_another),
        TEST(whoever_is_off_is_waited_for_until_the_overlap_is_over),
        TEST(old_keys_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
