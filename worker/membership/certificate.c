/* X.509 by OpenSSL, from and in PEM. */
#include "worker/membership/certificate.h"

#include "common/net/tls_identity.h"
#include "common/net/tls_key_digest.h"
#include "common/protocol/join/join_messages.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <string.h>
#include <time.h>

#undef lh_error /* openssl/lhash.h keeps its names of before 1.1 as macros */

/* NULL: none. */
static X509 *parse_first(const char *pem) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    ERR_clear_error();
    return certificate;
}

/* ---- Life ---- */

static bool read_time(const ASN1_TIME *time, int64_t *seconds) {
    struct tm parts;
    if (!time || ASN1_TIME_to_tm(time, &parts) != 1)
        return false;
    *seconds = timegm(&parts);
    return true;
}

lh_status lh_certificate_read_life(const char *pem, lh_certificate_life *life, lh_error *error) {
    X509 *certificate = parse_first(pem);
    bool is_read = certificate &&
                   read_time(X509_get0_notBefore(certificate), &life->not_before_s) &&
                   read_time(X509_get0_notAfter(certificate), &life->not_after_s);
    X509_free(certificate);
    return is_read ? LH_OK : lh_fail(error, LH_ERR_INVALID, "that is no certificate in PEM");
}

int64_t lh_certificate_renewal_s(const lh_certificate_life *life) {
    int64_t life_s = life->not_after_s - life->not_before_s - LH_JOIN_BACKDATED_S;
    return life->not_after_s - (life_s > 0 ? life_s / 3 : 0);
}

/* ---- Checks ---- */

static bool is_of_key(X509 *certificate, const char *pem) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    bool is_own = key && X509_check_private_key(certificate, key) == 1;
    EVP_PKEY_free(key);
    BIO_free(bio);
    return is_own;
}

static bool add_all(X509_STORE *store, const char *pem) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *ca;
    bool is_added = bio;
    while (is_added && (ca = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        is_added = X509_STORE_add_cert(store, ca) == 1;
        X509_free(ca);
    }
    BIO_free(bio);
    return is_added;
}

static bool is_signed(X509 *certificate, const char *trust) {
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    bool is_good = store && context && add_all(store, trust) &&
                   X509_STORE_set_flags(store, X509_V_FLAG_NO_CHECK_TIME) == 1 &&
                   X509_STORE_CTX_init(context, store, certificate, NULL) == 1 &&
                   X509_verify_cert(context) == 1;
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return is_good;
}

static bool is_for(X509 *certificate, const char *name, const char *site) {
    lh_tls_identity identity = lh_tls_identity_of(certificate);
    return identity.kind == LH_TLS_WORKER && strcmp(identity.name, name) == 0 &&
           strcmp(identity.site, site) == 0;
}

lh_status lh_certificate_check(const char *pem, const char *key, const char *trust,
                               const char *name, const char *site, lh_error *error) {
    X509 *certificate = parse_first(pem);
    lh_status status = LH_OK;
    if (!certificate)
        status = lh_fail(error, LH_ERR_INVALID, "it is no certificate in PEM");
    else if (!is_of_key(certificate, key))
        status = lh_fail(error, LH_ERR_INVALID, "it is for another key");
    else if (!is_signed(certificate, trust))
        status = lh_fail(error, LH_ERR_INVALID, "no CA of the fleet has signed it");
    else if (!is_for(certificate, name, site))
        status = lh_fail(error, LH_ERR_INVALID, "it is not for worker %s on site %s", name, site);
    X509_free(certificate);
    ERR_clear_error();
    return status;
}

bool lh_certificate_is_by_first(const char *pem, const char *trust) {
    X509 *certificate = parse_first(pem), *first = parse_first(trust);
    EVP_PKEY *key = first ? X509_get0_pubkey(first) : NULL;
    bool is_signed_by_it = certificate && key && X509_verify(certificate, key) == 1;
    X509_free(certificate);
    X509_free(first);
    ERR_clear_error();
    return is_signed_by_it;
}

/* ---- Pins ---- */

bool lh_certificate_has_pin(const char *trust, const uint8_t pin[LH_SHA256_BYTES]) {
    BIO *bio = BIO_new_mem_buf(trust, -1);
    X509 *ca;
    bool is_found = false;
    while (bio && !is_found && (ca = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        is_found = lh_tls_key_has_digest(X509_get_X509_PUBKEY(ca), pin);
        X509_free(ca);
    }
    BIO_free(bio);
    ERR_clear_error();
    return is_found;
}
