/* OpenSSL's check of the chain, and then ours of the leaf. */
#include "common/net/tls_expectation.h"

#include "common/net/tls_admission.h"

#include <assert.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>

#undef lh_error /* openssl/lhash.h keeps its names of before 1.1 as macros */

/* A certificate in the list of those that we have issued ourselves is good before its time, too:
 * one of the two clocks was wrong when it was issued, or is wrong now, and its owner has to reach
 * us to get another one. */
static int on_fault(int is_good, X509_STORE_CTX *store) {
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    if (is_good || X509_STORE_CTX_get_error(store) != X509_V_ERR_CERT_NOT_YET_VALID ||
        X509_STORE_CTX_get_error_depth(store) != 0 ||
        !lh_tls_admission_lists(SSL_get_SSL_CTX(ssl), X509_STORE_CTX_get_current_cert(store)))
        return is_good;
    X509_STORE_CTX_set_error(store, X509_V_OK);
    return 1;
}

int lh_tls_expectation_verify(X509_STORE_CTX *store, void *bound) {
    const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    lh_tls_expectation *expectation = bound ? bound : SSL_get_app_data(ssl);
    X509_STORE_CTX_set_verify_cb(store, on_fault);
    if (X509_verify_cert(store) != 1)
        return 0;
    assert(expectation);
    expectation->met = lh_tls_identity_of(X509_STORE_CTX_get0_cert(store));
    expectation->is_refused = !lh_tls_identity_meets(&expectation->met, &expectation->expected);
    if (expectation->is_refused)
        X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
    bool is_revoked = !lh_tls_admission_has(SSL_get_SSL_CTX(ssl), X509_STORE_CTX_get0_cert(store));
    if (is_revoked && !expectation->is_refused)
        X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REVOKED);
    return !expectation->is_refused && !is_revoked;
}

/* With TLS 1.3 the peer's word on our certificate comes after the handshake, as an alert. */
static void on_info(const SSL *ssl, int where, int alert) {
    lh_tls_expectation *expectation = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    bool is_heard = (where & SSL_CB_READ_ALERT) == SSL_CB_READ_ALERT;
    if (is_heard && (alert & 0xff) == SSL_AD_CERTIFICATE_REVOKED)
        expectation->is_own_revoked = true;
}

void lh_tls_expectation_bind_context(lh_tls_expectation *expectation, SSL_CTX *context) {
    SSL_CTX_set_app_data(context, expectation);
    SSL_CTX_set_info_callback(context, on_info);
    SSL_CTX_set_cert_verify_callback(context, lh_tls_expectation_verify, expectation);
}

void lh_tls_expectation_prepare_context(SSL_CTX *context) {
    SSL_CTX_set_cert_verify_callback(context, lh_tls_expectation_verify, NULL);
}

void lh_tls_expectation_bind(lh_tls_expectation *expectation, SSL *ssl) {
    SSL_set_app_data(ssl, expectation);
}

/* What somebody's certificate would have to say. */
static void describe_wanted(const lh_tls_identity *expected, char *text, size_t bytes) {
    if (expected->kind == LH_TLS_WORKER)
        snprintf(text, bytes, "URI:longhaul://worker/%s?site=SITE", expected->name);
    else
        snprintf(text, bytes, "%s",
                 expected->kind == LH_TLS_GATEWAY ? LH_TLS_GATEWAY_URI
                                                  : LH_TLS_WORKER_URI ", or " LH_TLS_GATEWAY_URI
                                                                      " for the gateway");
}

void lh_tls_expectation_explain(const lh_tls_expectation *expectation, char *text, size_t bytes) {
    char expected[LH_TLS_IDENTITY_TEXT_BYTES], met[LH_TLS_IDENTITY_TEXT_BYTES], wanted[128];
    assert(expectation->is_refused);
    lh_tls_identity_describe(&expectation->expected, expected);
    lh_tls_identity_describe(&expectation->met, met);
    describe_wanted(&expectation->expected, wanted, sizeof wanted);
    if (expectation->met.kind != LH_TLS_STRANGER)
        snprintf(text, bytes, "%s was expected and %s has answered", expected, met);
    else if (expectation->expected.kind != LH_TLS_NONE)
        snprintf(text, bytes,
                 "%s was expected, and the peer's certificate names nobody of the fleet: its "
                 "subjectAltName needs %s",
                 expected, wanted);
    else
        snprintf(text, bytes,
                 "the peer's certificate names nobody of the fleet: its subjectAltName needs %s",
                 wanted);
}
