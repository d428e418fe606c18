/* The chain that the peer sends is searched for the pinned key; who has it is the one CA that is
 * trusted, and then OpenSSL checks the chain as always. */
#include "common/net/tls_pin.h"

#include "common/net/tls_expectation.h"
#include "common/net/tls_key_digest.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#undef lh_error /* openssl/lhash.h keeps its names of before 1.1 as macros */

/* ---- Why a peer is refused ---- */

static void render_time(const struct tm *time, char text[32]) {
    if (strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", time) == 0)
        strcpy(text, "?");
}

static void explain_time(lh_tls_pin *pin, const X509 *certificate) {
    char from[32] = "?", until[32] = "?", now[32] = "?";
    struct tm parts;
    time_t seconds = time(NULL);
    if (certificate && ASN1_TIME_to_tm(X509_get0_notBefore(certificate), &parts) == 1)
        render_time(&parts, from);
    if (certificate && ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) == 1)
        render_time(&parts, until);
    if (gmtime_r(&seconds, &parts))
        render_time(&parts, now);
    snprintf(pin->fault, sizeof pin->fault,
             "the gateway's certificate is valid from %s to %s, and this machine's clock says %s: "
             "set the clock that is wrong",
             from, until, now);
}

static void explain(lh_tls_pin *pin, X509_STORE_CTX *store) {
    int code = X509_STORE_CTX_get_error(store);
    if (code == X509_V_ERR_CERT_NOT_YET_VALID || code == X509_V_ERR_CERT_HAS_EXPIRED)
        explain_time(pin, X509_STORE_CTX_get_current_cert(store));
    else if (code == X509_V_ERR_CERT_REJECTED)
        snprintf(pin->fault, sizeof pin->fault,
                 "somebody else of the token's fleet answers there, not its gateway");
    else
        snprintf(pin->fault, sizeof pin->fault, "the gateway's certificate is not accepted: %s",
                 X509_verify_cert_error_string(code));
}

/* ---- The check ---- */

static X509 *find_pinned(STACK_OF(X509) * chain, const uint8_t digest[LH_SHA256_BYTES]) {
    for (int i = 0; i < sk_X509_num(chain); i++)
        if (lh_tls_key_has_digest(X509_get_X509_PUBKEY(sk_X509_value(chain, i)), digest))
            return sk_X509_value(chain, i);
    return NULL;
}

/* SSL_CTX_set_cert_verify_callback. */
static int verify(X509_STORE_CTX *store, void *context) {
    lh_tls_pin *pin = context;
    X509 *ca = find_pinned(X509_STORE_CTX_get0_untrusted(store), pin->digest);
    if (!ca) {
        snprintf(pin->fault, sizeof pin->fault,
                 "whoever answers there is not of the token's fleet: its CA has another key. The "
                 "token's secret was not sent");
        X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_UNTRUSTED);
        return 0;
    }
    STACK_OF(X509) *trusted = sk_X509_new_null();
    if (!trusted || sk_X509_push(trusted, ca) <= 0) {
        sk_X509_free(trusted);
        X509_STORE_CTX_set_error(store, X509_V_ERR_OUT_OF_MEM);
        return 0;
    }
    X509_STORE_CTX_set0_trusted_stack(store, trusted);
    int is_good = lh_tls_expectation_verify(store, NULL);
    X509_STORE_CTX_set0_trusted_stack(store, NULL);
    sk_X509_free(trusted); /* the certificates are the peer's chain's */
    if (!is_good)
        explain(pin, store);
    return is_good;
}

/* ---- The context ---- */

static bool set_policy(SSL_CTX *ssl, lh_tls_pin *pin) {
    static const unsigned char alpn[] = "\x0f" LH_TLS_ALPN_JOIN;
    _Static_assert(sizeof alpn == 1 + 15 + 1, "the length stands before the name");
    SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_cert_verify_callback(ssl, verify, pin);
    SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    return SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_alpn_protos(ssl, alpn, sizeof alpn - 1) == 0;
}

lh_status lh_tls_pin_open(lh_tls_pin *pin, lh_tls_credentials **credentials, lh_error *error) {
    SSL_CTX *ssl = SSL_CTX_new(TLS_client_method());
    pin->fault[0] = '\0';
    if (ssl && set_policy(ssl, pin))
        return lh_tls_credentials_adopt(ssl, credentials, error);
    SSL_CTX_free(ssl);
    ERR_clear_error();
    return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
}
