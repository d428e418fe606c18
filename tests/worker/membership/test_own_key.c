/* A key, and the request that it signs. */
#include "worker/membership/own_key.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#undef lh_error /* openssl/lhash.h */

static X509_REQ *parse(const char *pem) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509_REQ *request = PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL);
    BIO_free(bio);
    assert_non_null(request);
    return request;
}

static void a_request_is_signed_by_its_key_and_asks_for_nothing(void **state) {
    (void)state;
    char key[LH_OWN_KEY_BYTES], pem[4096], curve[32] = "";
    assert_int_equal(lh_own_key_make(key, NULL), LH_OK);
    assert_non_null(strstr(key, "BEGIN PRIVATE KEY"));
    assert_int_equal(lh_own_key_request(key, pem, sizeof pem, NULL), LH_OK);
    X509_REQ *request = parse(pem);
    EVP_PKEY *public_key = X509_REQ_get0_pubkey(request);
    assert_int_equal(X509_REQ_verify(request, public_key), 1);
    EVP_PKEY_get_group_name(public_key, curve, sizeof curve, NULL);
    assert_string_equal(curve, "prime256v1");
    assert_int_equal(X509_NAME_entry_count(X509_REQ_get_subject_name(request)), 0);
    assert_int_equal(X509_REQ_get_attr_count(request), 0);
    X509_REQ_free(request);
}

static void the_same_key_gives_the_same_public_key(void **state) {
    (void)state;
    char key[LH_OWN_KEY_BYTES], other[LH_OWN_KEY_BYTES], pem[4096];
    X509_REQ *requests[3];
    assert_int_equal(lh_own_key_make(key, NULL), LH_OK);
    assert_int_equal(lh_own_key_make(other, NULL), LH_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lh_own_key_request(i < 2 ? key : other, pem, sizeof pem, NULL), LH_OK);
        requests[i] = parse(pem);
    }
    EVP_PKEY *first = X509_REQ_get0_pubkey(requests[0]);
    assert_int_equal(EVP_PKEY_eq(first, X509_REQ_get0_pubkey(requests[1])), 1);
    assert_int_not_equal(EVP_PKEY_eq(first, X509_REQ_get0_pubkey(requests[2])), 1);
    for (int i = 0; i < 3; i++)
        X509_REQ_free(requests[i]);
}

static void what_is_no_key_is_refused(void **state) {
    (void)state;
    char key[LH_OWN_KEY_BYTES], pem[4096];
    assert_int_equal(lh_own_key_request("", pem, sizeof pem, NULL), LH_ERR_INVALID);
    assert_int_equal(
        lh_own_key_request("-----BEGIN PRIVATE KEY-----\nAAAA\n", pem, sizeof pem, NULL),
        LH_ERR_INVALID);
    assert_int_equal(lh_own_key_make(key, NULL), LH_OK);
    assert_int_equal(lh_own_key_request(key, pem, 100, NULL), LH_ERR_LIMIT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_signed_by_its_key_and_asks_for_nothing),
        cmocka_unit_test(the_same_key_gives_the_same_public_key),
        cmocka_unit_test(what_is_no_key_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
