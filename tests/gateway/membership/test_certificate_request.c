/* Requests as they come, and as they should not. */
#include "gateway/membership/certificate_request.h"

#include "tests/gateway/support/certificate_requests.h"

#include <openssl/pem.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#undef lh_error

#include <cmocka.h>

static lh_status parse(const char *pem, lh_certificate_request **request, lh_error *error) {
    *request = NULL;
    return lh_certificate_request_parse(pem, strlen(pem), request, error);
}

static void the_key_is_that_of_the_request(void **state) {
    (void)state;
    lh_certificate_request *request;
    EVP_PKEY *key = make_key("P-256");
    char *pem = make_request(key, "whoever", "DNS:gateway.example");
    assert_int_equal(parse(pem, &request, NULL), LH_OK);
    assert_int_equal(EVP_PKEY_eq(lh_certificate_request_key(request), key), 1);
    lh_certificate_request_destroy(request);
    free(pem);
    EVP_PKEY_free(key);
}

static void other_keys_are_refused(void **state) {
    (void)state;
    lh_certificate_request *request;
    lh_error error;
    EVP_PKEY *keys[] = {make_key("P-384"), make_key("P-521"), EVP_RSA_gen(2048)};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char *pem = make_request(keys[i], "whoever", NULL);
        assert_int_equal(parse(pem, &request, &error), LH_ERR_INVALID);
        assert_non_null(strstr(error.message, "P-256"));
        free(pem);
        EVP_PKEY_free(keys[i]);
    }
}

/* Whoever asks does not have the key: another one has signed. */
static void a_signature_of_another_key_is_refused(void **state) {
    (void)state;
    lh_certificate_request *request;
    lh_error error;
    EVP_PKEY *key = make_key("P-256"), *other = make_key("P-256");
    X509_REQ *forged = X509_REQ_new();
    char pem[4096];
    X509_REQ_set_pubkey(forged, key);
    assert_true(X509_REQ_sign(forged, other, EVP_sha256()) > 0);
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509_REQ(bio, forged);
    int length = BIO_read(bio, pem, sizeof pem - 1);
    pem[length] = '\0';
    assert_int_equal(parse(pem, &request, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "signature"));
    BIO_free(bio);
    X509_REQ_free(forged);
    EVP_PKEY_free(other);
    EVP_PKEY_free(key);
}

/* An encrypted one would have OpenSSL ask for a password on the gateway's terminal. */
static void what_is_no_request_is_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {
        "", "rubbish",
        "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
        "-----BEGIN CERTIFICATE REQUEST-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: "
        "AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\nAAAAAAAAAAAAAAAAAAAAAA==\n-----END "
        "CERTIFICATE REQUEST-----\n"};
    lh_certificate_request *request;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(parse(wrong[i], &request, NULL), LH_ERR_INVALID);
        assert_null(request);
    }
}

/* Each byte of a good one changed: refused, or still signed by its key. */
static void no_changed_byte_is_fatal(void **state) {
    (void)state;
    lh_certificate_request *request;
    char *pem = make_new_request();
    size_t length = strlen(pem);
    for (size_t i = 0; i < length; i++) {
        char before = pem[i];
        pem[i] = (char)(before ^ 1);
        if (lh_certificate_request_parse(pem, length, &request, NULL) == LH_OK)
            lh_certificate_request_destroy(request);
        pem[i] = before;
    }
    free(pem);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_is_that_of_the_request),
        cmocka_unit_test(other_keys_are_refused),
        cmocka_unit_test(a_signature_of_another_key_is_refused),
        cmocka_unit_test(what_is_no_request_is_refused),
        cmocka_unit_test(no_changed_byte_is_fatal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
