/* A client with a pin against servers of all kinds: who may see plain text. */
#include "common/net/tls_pin.h"

#include "common/net/tls_channel.h"
#include "tests/support/certificates.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#undef lh_error /* openssl/lhash.h */

static authority ca;

static int make_certificates(void **state) {
    (void)state;
    authority_open(&ca);
    authority_issue(&ca, "ca", NULL, "Longhaul test CA", NULL, 30);
    authority_issue(&ca, "other-ca", NULL, "Longhaul test CA", NULL, 30);
    authority_issue(&ca, "gateway", "ca", "?", "URI:longhaul://gateway", 30);
    authority_issue(&ca, "expired", "ca", "?", "URI:longhaul://gateway", -1);
    authority_issue(&ca, "worker", "ca", "?", "URI:longhaul://worker/attic?site=home", 30);
    authority_issue(&ca, "nameless", "ca", "?", "DNS:localhost", 30);
    authority_issue(&ca, "stranger", "other-ca", "?", "URI:longhaul://gateway", 30);
    return 0;
}

static int remove_certificates(void **state) {
    (void)state;
    authority_close(&ca);
    return 0;
}

static X509 *read_certificate(const char *name) {
    char path[160];
    snprintf(path, sizeof path, "%s/%s.pem", ca.folder, name);
    FILE *file = fopen(path, "r");
    X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);
    fclose(file);
    assert_non_null(certificate);
    return certificate;
}

static void digest_of(const char *name, uint8_t digest[LH_SHA256_BYTES]) {
    X509 *certificate = read_certificate(name);
    unsigned char *bytes = NULL;
    int length = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &bytes);
    assert_true(length > 0);
    assert_int_equal(lh_sha256_digest(bytes, (size_t)length, digest), LH_OK);
    OPENSSL_free(bytes);
    X509_free(certificate);
}

/* ---- A server that asks for no certificate ---- */

typedef struct server {
    SSL_CTX *context;
    SSL *ssl;
    BIO *in, *out; /* of ssl */
} server;

static int select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_length,
                       const unsigned char *in, unsigned in_length, void *wanted) {
    (void)ssl;
    const char *name = wanted;
    for (unsigned at = 0; at < in_length; at += in[at] + 1u)
        if (in[at] == strlen(name) && memcmp(in + at + 1, name, in[at]) == 0) {
            *out = in + at + 1;
            *out_length = in[at];
            return SSL_TLSEXT_ERR_OK;
        }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

/* `leaf` with the certificates `sent` (NULL: none) behind it. */
static void server_open(server *s, const char *leaf, const char *sent, const char *alpn) {
    char path[160];
    s->context = SSL_CTX_new(TLS_server_method());
    X509 *certificate = read_certificate(leaf);
    SSL_CTX_use_certificate(s->context, certificate);
    X509_free(certificate);
    snprintf(path, sizeof path, "%s/%s.key", ca.folder, leaf);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(s->context, path, SSL_FILETYPE_PEM), 1);
    if (sent)
        SSL_CTX_add_extra_chain_cert(s->context, read_certificate(sent)); /* takes it over */
    SSL_CTX_set_alpn_select_cb(s->context, select_alpn, (void *)(uintptr_t)alpn);
    s->ssl = SSL_new(s->context);
    s->in = BIO_new(BIO_s_mem());
    s->out = BIO_new(BIO_s_mem());
    SSL_set_bio(s->ssl, s->in, s->out);
    SSL_set_accept_state(s->ssl);
}

static void server_close(server *s) {
    SSL_free(s->ssl);
    SSL_CTX_free(s->context);
}

typedef struct meeting {
    lh_tls_pin pin;
    lh_status status; /* the client's */
    lh_error error;
    bool is_open;       /* to the client: it would send plain text now */
    size_t plain_bytes; /* that the server has read */
} meeting;

static void shake_hands(lh_tls_channel *client, server *s, meeting *m) {
    uint8_t bytes[8192], plain[64];
    size_t length;
    for (bool has_moved = true; has_moved;) {
        has_moved = false;
        length = lh_tls_channel_take(client, bytes, sizeof bytes);
        if (length > 0) {
            BIO_write(s->in, bytes, (int)length);
            has_moved = true;
        }
        if (SSL_read_ex(s->ssl, plain, sizeof plain, &length) == 1)
            m->plain_bytes += length;
        int sealed = BIO_read(s->out, bytes, sizeof bytes);
        if (sealed > 0 && m->status == LH_OK) {
            m->status = lh_tls_channel_receive(client, bytes, (size_t)sealed, &m->error);
            has_moved = true;
        }
    }
    ERR_clear_error();
}

/* A client with the pin of `pinned` meets a server, and says hello where its side is open. */
static meeting meet(const char *pinned, const char *leaf, const char *sent, const char *alpn) {
    meeting m = {.status = LH_OK};
    server s;
    lh_tls_options options = {.expected = lh_tls_identity_named("")};
    lh_tls_context *context;
    lh_tls_channel *client;
    digest_of(pinned, m.pin.digest);
    assert_int_equal(lh_tls_pin_open(&m.pin, &options.credentials, NULL), LH_OK);
    assert_int_equal(lh_tls_context_create(LH_TLS_CLIENT, &options, &context, NULL), LH_OK);
    assert_int_equal(lh_tls_channel_create(context, "192.0.2.1", &client, NULL), LH_OK);
    server_open(&s, leaf, sent, alpn);
    shake_hands(client, &s, &m);
    m.is_open = lh_tls_channel_is_open(client);
    if (m.is_open) {
        assert_int_equal(lh_tls_channel_write(client, (const uint8_t *)"secret", 6, NULL), LH_OK);
        shake_hands(client, &s, &m);
    }
    server_close(&s);
    lh_tls_channel_destroy(client);
    lh_tls_context_destroy(context);
    lh_tls_credentials_destroy(options.credentials);
    return m;
}

static void the_gateway_of_the_pin_is_believed(void **state) {
    (void)state;
    meeting m = meet("ca", "gateway", "ca", LH_TLS_ALPN_JOIN);
    assert_int_equal(m.status, LH_OK);
    assert_true(m.is_open);
    assert_string_equal(m.pin.fault, "");
    assert_int_equal(m.plain_bytes, 6);
}

static void nobody_else_sees_a_byte(void **state) {
    (void)state;
    static const struct {
        const char *pinned, *leaf, *sent, *fault;
    } cases[] = {
        /* another fleet, whose CA even has the same name */
        {"ca", "stranger", "other-ca", "not of the token's fleet"},
        {"other-ca", "gateway", "ca", "not of the token's fleet"},
        /* the pinned CA is shown, and has not signed it */
        {"ca", "stranger", "ca", "is not accepted"},
        /* it has, and is not shown: nobody can tell */
        {"ca", "gateway", NULL, "not of the token's fleet"},
        {"ca", "worker", "ca", "not its gateway"},
        {"ca", "nameless", "ca", "not its gateway"},
        {"ca", "expired", "ca", "this machine's clock says"},
        /* a pin of the leaf's own key makes no CA of it */
        {"gateway", "gateway", "ca", "is not accepted"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        meeting m = meet(cases[i].pinned, cases[i].leaf, cases[i].sent, LH_TLS_ALPN_JOIN);
        assert_int_equal(m.status, LH_ERR_PROTOCOL);
        assert_false(m.is_open);
        assert_int_equal(m.plain_bytes, 0);
        if (!strstr(m.pin.fault, cases[i].fault))
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, m.pin.fault, cases[i].fault);
    }
}

static void a_port_without_joining_is_told_from_another_fleet(void **state) {
    (void)state;
    meeting m = meet("ca", "gateway", "ca", "h2");
    assert_int_equal(m.status, LH_ERR_PROTOCOL);
    assert_false(m.is_open);
    assert_string_equal(m.pin.fault, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gateway_of_the_pin_is_believed),
        cmocka_unit_test(nobody_else_sees_a_byte),
        cmocka_unit_test(a_port_without_joining_is_told_from_another_fleet),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
