/* A CA signs what it is told, and nothing else. */
#include "gateway/membership/certificate_authority.h"

#include "tests/gateway/support/certificate_requests.h"

#include <openssl/x509v3.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#undef lh_error

#include <cmocka.h>

#define NOW_S 1800000000LL
#define DAY_S 86400

static lh_certificate_authority *made(void) {
    lh_certificate_authority *authority;
    assert_int_equal(lh_certificate_authority_make(NOW_S, &authority, NULL), LH_OK);
    return authority;
}

/* Terminated; the caller frees it. */
static char *certificate_of(const lh_certificate_authority *authority) {
    lh_text_buffer pem = {0};
    assert_int_equal(lh_certificate_authority_render_certificate(authority, &pem), LH_OK);
    assert_int_equal(lh_text_buffer_append(&pem, "", 1, NULL), LH_OK);
    return pem.bytes;
}

static X509 *issued(const lh_certificate_authority *authority, const lh_certificate_terms *terms,
                    char serial[LH_SERIAL_BYTES]) {
    lh_text_buffer pem = {0};
    EVP_PKEY *key = make_key("P-256");
    assert_int_equal(lh_certificate_authority_issue(authority, key, terms, serial, &pem, NULL),
                     LH_OK);
    assert_int_equal(lh_text_buffer_append(&pem, "", 1, NULL), LH_OK);
    X509 *certificate = read_certificate(pem.bytes);
    assert_int_equal(EVP_PKEY_eq(X509_get0_pubkey(certificate), key), 1);
    lh_text_buffer_reset(&pem);
    EVP_PKEY_free(key);
    return certificate;
}

static const char *const hosts[] = {"10.1.2.3", "fd00::7", "office.example"};
static const lh_certificate_terms office = {.common_name = "office-1",
                                            .uri = "longhaul://worker/office-1?site=office",
                                            .hosts = hosts,
                                            .host_count = 3,
                                            .not_before_s = NOW_S - 3600,
                                            .not_after_s = NOW_S + 30 * DAY_S};

static void signs_what_it_is_told(void **state) {
    (void)state;
    char serial[LH_SERIAL_BYTES] = "";
    lh_certificate_authority *authority = made();
    char *trust = certificate_of(authority);
    X509 *certificate = issued(authority, &office, serial);
    assert_string_equal(names_of(certificate),
                        "URI:longhaul://worker/office-1?site=office, IP Address:10.1.2.3, IP "
                        "Address:FD00:0:0:0:0:0:0:7, DNS:office.example");
    assert_true(is_believed(certificate, trust, NOW_S));
    assert_true(is_believed(certificate, trust, NOW_S - 3599));
    assert_false(is_believed(certificate, trust, NOW_S - 3601));
    assert_true(is_believed(certificate, trust, NOW_S + 30 * DAY_S - 1));
    assert_false(is_believed(certificate, trust, NOW_S + 30 * DAY_S + 1));
    assert_int_equal(X509_check_ca(certificate), 0);
    X509_free(certificate);
    free(trust);
    lh_certificate_authority_destroy(authority);
}

static void serials_are_told_as_they_stand_in_the_certificate(void **state) {
    (void)state;
    char serial[LH_SERIAL_BYTES] = "", other[LH_SERIAL_BYTES] = "";
    lh_certificate_authority *authority = made();
    X509 *certificate = issued(authority, &office, serial);
    BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
    char *hex = BN_bn2hex(number);
    assert_string_equal(hex, serial);
    assert_int_equal(strlen(serial), LH_SERIAL_BYTES - 1);
    OPENSSL_free(hex);
    BN_free(number);
    X509_free(certificate);
    X509_free(issued(authority, &office, other));
    assert_string_not_equal(serial, other);
    lh_certificate_authority_destroy(authority);
}

static void comes_back_from_its_file(void **state) {
    (void)state;
    lh_certificate_authority *authority = made(), *back;
    lh_text_buffer pem = {0};
    char serial[LH_SERIAL_BYTES] = "", *trust = certificate_of(authority);
    assert_int_equal(lh_certificate_authority_render_key(authority, &pem), LH_OK);
    assert_int_equal(lh_certificate_authority_render_certificate(authority, &pem), LH_OK);
    assert_int_equal(lh_certificate_authority_parse(pem.bytes, pem.length, &back, NULL), LH_OK);
    lh_text_buffer_reset(&pem);
    assert_string_equal(lh_certificate_authority_id(back), lh_certificate_authority_id(authority));
    assert_memory_equal(lh_certificate_authority_pin(back), lh_certificate_authority_pin(authority),
                        LH_SHA256_BYTES);
    X509 *certificate = issued(back, &office, serial);
    assert_true(is_believed(certificate, trust, NOW_S));
    X509_free(certificate);
    free(trust);
    lh_certificate_authority_destroy(back);
    lh_certificate_authority_destroy(authority);
}

static void without_its_key_it_signs_nothing(void **state) {
    (void)state;
    lh_certificate_authority *authority = made(), *back;
    char serial[LH_SERIAL_BYTES] = "", *pem = certificate_of(authority);
    lh_text_buffer out = {0};
    EVP_PKEY *key = make_key("P-256");
    assert_int_equal(lh_certificate_authority_parse(pem, strlen(pem), &back, NULL), LH_OK);
    assert_true(lh_certificate_authority_has_key(authority));
    assert_false(lh_certificate_authority_has_key(back));
    assert_int_equal(lh_certificate_authority_issue(back, key, &office, serial, &out, NULL),
                     LH_ERR_INVALID);
    EVP_PKEY_free(key);
    free(pem);
    lh_certificate_authority_destroy(back);
    lh_certificate_authority_destroy(authority);
}

/* Nothing, rubbish, a certificate that is no CA's, another one's key. */
static void refuses_files_that_are_none(void **state) {
    (void)state;
    char serial[LH_SERIAL_BYTES] = "";
    lh_certificate_authority *authority = made(), *other = made(), *none = NULL;
    lh_text_buffer leaf = {0}, mixed = {0};
    assert_int_equal(lh_certificate_authority_parse("", 0, &none, NULL), LH_ERR_INVALID);
    assert_int_equal(lh_certificate_authority_parse("rubbish", 7, &none, NULL), LH_ERR_INVALID);
    assert_int_equal(lh_certificate_authority_issue_pair(authority, &office, serial, &leaf, NULL),
                     LH_OK);
    assert_int_equal(lh_certificate_authority_parse(leaf.bytes, leaf.length, &none, NULL),
                     LH_ERR_INVALID);
    assert_int_equal(lh_certificate_authority_render_key(other, &mixed), LH_OK);
    assert_int_equal(lh_certificate_authority_render_certificate(authority, &mixed), LH_OK);
    assert_int_equal(lh_certificate_authority_parse(mixed.bytes, mixed.length, &none, NULL),
                     LH_ERR_INVALID);
    assert_null(none);
    lh_text_buffer_reset(&leaf);
    lh_text_buffer_reset(&mixed);
    lh_certificate_authority_destroy(other);
    lh_certificate_authority_destroy(authority);
}

/* Two of them in one bundle are told apart. */
static void each_believes_its_own(void **state) {
    (void)state;
    char serial[LH_SERIAL_BYTES] = "", both[8192];
    lh_certificate_authority *authority = made(), *other = made();
    char *trust = certificate_of(authority), *others = certificate_of(other);
    X509 *certificate = issued(authority, &office, serial);
    assert_string_not_equal(lh_certificate_authority_id(authority),
                            lh_certificate_authority_id(other));
    assert_false(is_believed(certificate, others, NOW_S));
    snprintf(both, sizeof both, "%s%s", others, trust);
    assert_true(is_believed(certificate, both, NOW_S));
    X509_free(certificate);
    free(trust);
    free(others);
    lh_certificate_authority_destroy(other);
    lh_certificate_authority_destroy(authority);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_what_it_is_told),
        cmocka_unit_test(serials_are_told_as_they_stand_in_the_certificate),
        cmocka_unit_test(comes_back_from_its_file),
        cmocka_unit_test(without_its_key_it_signs_nothing),
        cmocka_unit_test(refuses_files_that_are_none),
        cmocka_unit_test(each_believes_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
