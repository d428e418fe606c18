/* OpenSSL's parser, and what we hold against its result. */
#include "gateway/membership/certificate_request.h"

#include "common/net/tls_key_digest.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>

#undef lh_error /* openssl/lhash.h keeps its names of before 1.1 as macros */

struct lh_certificate_request {
    X509_REQ *request;
    uint8_t key_sha256[LH_SHA256_BYTES];
};

/* PEM may say that it is encrypted: nobody is asked for a password then. */
static int refuse_password(char *text, int size, int is_written, void *context) {
    (void)text;
    (void)size;
    (void)is_written;
    (void)context;
    return -1;
}

static X509_REQ *read_pem(const char *pem, size_t length) {
    BIO *bio = length <= INT_MAX ? BIO_new_mem_buf(pem, (int)length) : NULL;
    X509_REQ *request = bio ? PEM_read_bio_X509_REQ(bio, NULL, refuse_password, NULL) : NULL;
    BIO_free(bio);
    return request;
}

/* A curve with parameters of its own has no name. */
static bool is_p256(const EVP_PKEY *key) {
    char group[32];
    size_t length;
    return EVP_PKEY_is_a(key, "EC") &&
           EVP_PKEY_get_group_name(key, group, sizeof group, &length) == 1 &&
           strcmp(group, "prime256v1") == 0;
}

static lh_status check(lh_certificate_request *request, lh_error *error) {
    EVP_PKEY *key = X509_REQ_get0_pubkey(request->request);
    if (!key || !is_p256(key))
        return lh_fail(error, LH_ERR_INVALID,
                       "the certificate request's key is no EC key on the curve P-256");
    if (X509_REQ_verify(request->request, key) != 1)
        return lh_fail(error, LH_ERR_INVALID,
                       "the certificate request's signature is not of the key that it is for");
    if (!lh_tls_key_digest(X509_REQ_get_X509_PUBKEY(request->request), request->key_sha256))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a certificate request");
    return LH_OK;
}

lh_status lh_certificate_request_parse(const char *pem, size_t length, lh_certificate_request **out,
                                       lh_error *error) {
    lh_certificate_request *request = calloc(1, sizeof *request);
    if (!request)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a certificate request");
    ERR_clear_error();
    request->request = read_pem(pem, length);
    lh_status status =
        request->request ? check(request, error)
                         : lh_fail(error, LH_ERR_INVALID, "that is no certificate request in PEM");
    ERR_clear_error();
    if (status == LH_OK)
        *out = request;
    else
        lh_certificate_request_destroy(request);
    return status;
}

void lh_certificate_request_destroy(lh_certificate_request *request) {
    if (!request)
        return;
    X509_REQ_free(request->request);
    free(request);
}

EVP_PKEY *lh_certificate_request_key(const lh_certificate_request *request) {
    return X509_REQ_get0_pubkey(request->request);
}

const uint8_t *lh_certificate_request_key_sha256(const lh_certificate_request *request) {
    return request->key_sha256;
}
