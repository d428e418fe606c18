/* A key on P-256 by OpenSSL; PEM goes through memory alone. */
#include "worker/membership/own_key.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>

#undef lh_error /* openssl/lhash.h keeps its names of before 1.1 as macros */

/* Moves what was written into text[capacity]. */
static lh_status take_text(BIO *bio, char *text, size_t capacity, lh_error *error) {
    char *bytes;
    long length = BIO_get_mem_data(bio, &bytes);
    if (length <= 0 || (size_t)length >= capacity)
        return lh_fail(error, LH_ERR_LIMIT, "a PEM text of %ld bytes does not fit", length);
    memcpy(text, bytes, (size_t)length);
    text[length] = '\0';
    return LH_OK;
}

lh_status lh_own_key_make(char text[LH_OWN_KEY_BYTES], lh_error *error) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    BIO *bio = BIO_new(BIO_s_secmem()); /* which is cleared when it is freed */
    lh_status status =
        key && bio && PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1
            ? take_text(bio, text, LH_OWN_KEY_BYTES, error)
            : lh_fail(error, LH_ERR_NO_MEMORY, "a key cannot be made: out of memory");
    BIO_free(bio);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return status;
}

static EVP_PKEY *parse_key(const char *text) {
    BIO *bio = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    return key;
}

lh_status lh_own_key_request(const char *text, char *pem, size_t capacity, lh_error *error) {
    EVP_PKEY *key = parse_key(text);
    X509_REQ *request = X509_REQ_new();
    BIO *bio = BIO_new(BIO_s_mem());
    lh_status status = LH_OK;
    if (!request || !bio)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    else if (!key)
        status = lh_fail(error, LH_ERR_INVALID, "that is no private key in PEM");
    else if (X509_REQ_set_version(request, X509_REQ_VERSION_1) != 1 ||
             X509_REQ_set_pubkey(request, key) != 1 ||
             X509_REQ_sign(request, key, EVP_sha256()) <= 0 ||
             PEM_write_bio_X509_REQ(bio, request) != 1)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "a certificate request cannot be made");
    else
        status = take_text(bio, pem, capacity, error);
    BIO_free(bio);
    X509_REQ_free(request);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return status;
}
