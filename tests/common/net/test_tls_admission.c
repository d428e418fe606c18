/* Who comes without a certificate, by ALPN, and whose certificate is accepted no more. */
#include "common/net/tls_channel.h"

#include "tests/support/certificates.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
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
    authority_issue(&ca, "gateway", "ca", "?", "URI:longhaul://gateway", 30);
    authority_issue(&ca, "attic", "ca", "?", "URI:longhaul://worker/attic?site=home", 30);
    return 0;
}

static int remove_certificates(void **state) {
    (void)state;
    authority_close(&ca);
    return 0;
}

/* A server as ours is, and a client that offers what it likes, over a wire of memory. */
typedef struct bench {
    lh_tls_credentials *credentials;
    lh_tls_context *context;
    lh_tls_channel *server;
    SSL_CTX *client_context;
    SSL *client;
    lh_status status;
    lh_error error;
} bench;

static void open_bench(bench *b, bool enrols) {
    lh_tls_options options = authority_options(&ca, "gateway", "ca");
    *b = (bench){0};
    assert_int_equal(lh_tls_credentials_create(&options, &b->credentials, NULL), LH_OK);
    options.credentials = b->credentials;
    assert_int_equal(lh_tls_context_create(LH_TLS_SERVER, &options, &b->context, NULL), LH_OK);
    if (enrols)
        lh_tls_context_enrol(b->context);
    assert_int_equal(lh_tls_channel_create(b->context, NULL, &b->server, NULL), LH_OK);
}

static void close_bench(bench *b) {
    SSL_free(b->client);
    SSL_CTX_free(b->client_context);
    lh_tls_channel_destroy(b->server);
    lh_tls_context_destroy(b->context);
    lh_tls_credentials_destroy(b->credentials);
}

/* alpn: in the wire's form; certificate: of a name, or NULL. */
static void open_client(bench *b, const char *alpn, const char *certificate) {
    b->client_context = SSL_CTX_new(TLS_client_method());
    if (certificate) {
        lh_tls_options files = authority_options(&ca, certificate, "ca");
        SSL_CTX_use_certificate_file(b->client_context, files.certificate_file, SSL_FILETYPE_PEM);
        SSL_CTX_use_PrivateKey_file(b->client_context, files.key_file, SSL_FILETYPE_PEM);
    }
    b->client = SSL_new(b->client_context);
    if (alpn[0])
        SSL_set_alpn_protos(b->client, (const unsigned char *)alpn, (unsigned)strlen(alpn));
    SSL_set_bio(b->client, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(b->client);
}

/* The handshake, as far as it goes. True: the server takes the client. */
static bool talk(bench *b) {
    uint8_t bytes[8192];
    for (int turn = 0; turn < 8; turn++) {
        SSL_do_handshake(b->client);
        size_t length = 0;
        BIO_read_ex(SSL_get_wbio(b->client), bytes, sizeof bytes, &length);
        if (length && b->status == LH_OK)
            b->status = lh_tls_channel_receive(b->server, bytes, length, &b->error);
        length = lh_tls_channel_take(b->server, bytes, sizeof bytes);
        BIO_write(SSL_get_rbio(b->client), bytes, (int)length);
    }
    return b->status == LH_OK && lh_tls_channel_is_open(b->server);
}

#define JOIN "\x0flonghaul-join/1"

/* What a client gets that offers these: NULL: nothing. */
static const char *selected(const char *alpn, const char *certificate, bool enrols) {
    bench b;
    const char *name = NULL;
    open_bench(&b, enrols);
    open_client(&b, alpn, certificate);
    if (talk(&b))
        name = lh_tls_channel_is_enrolling(b.server) ? "join" : "h2";
    if (name)
        assert_int_equal(lh_tls_channel_peer_identity(b.server)->kind,
                         strcmp(name, "join") == 0 ? LH_TLS_STRANGER : LH_TLS_WORKER);
    close_bench(&b);
    return name;
}

static void h2_wants_a_certificate_whatever_else_is_offered(void **state) {
    (void)state;
    static const char *const with_h2[] = {"\x02h2", "\x02h2" JOIN, JOIN "\x02h2",
                                          "\x01x" JOIN "\x02h2"};
    for (size_t i = 0; i < sizeof with_h2 / sizeof with_h2[0]; i++) {
        assert_null(selected(with_h2[i], NULL, true));
        assert_string_equal(selected(with_h2[i], "attic", true), "h2");
    }
}

static void whoever_comes_to_join_shows_none(void **state) {
    (void)state;
    assert_string_equal(selected(JOIN, NULL, true), "join");
    assert_string_equal(selected(JOIN, "attic", true), "join"); /* it was not asked */
    assert_null(selected("", NULL, true));
    assert_null(selected("", "attic", true));
    assert_null(selected("\x0flonghaul-join/2", NULL, true));
}

static void a_server_that_does_not_enrol_takes_nobody_without(void **state) {
    (void)state;
    assert_null(selected(JOIN, NULL, false));
    assert_null(selected(JOIN, "attic", false));
    assert_null(selected(JOIN "\x02h2", NULL, false));
    assert_string_equal(selected(JOIN "\x02h2", "attic", false), "h2");
}

/* The serial number of the certificate of this name, as OpenSSL prints it. */
static void serial_of(const char *name, lh_tls_serial text) {
    FILE *file = fopen(authority_options(&ca, name, "ca").certificate_file, "r");
    X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);
    BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
    char *hex = BN_bn2hex(number);
    snprintf(text, LH_TLS_SERIAL_BYTES, "%s", hex);
    OPENSSL_free(hex);
    BN_free(number);
    X509_free(certificate);
    fclose(file);
}

static void those_alone_are_accepted_that_are_listed(void **state) {
    (void)state;
    lh_tls_serial serials[2] = {"00FF"};
    serial_of("attic", serials[1]);
    for (size_t count = 0; count <= 2; count++) {
        bench b;
        open_bench(&b, true);
        assert_int_equal(lh_tls_credentials_reload_for(b.credentials, serials, count, NULL), LH_OK);
        assert_int_equal(lh_tls_credentials_reload(b.credentials, NULL), LH_OK); /* it stays */
        lh_tls_channel_destroy(b.server);
        assert_int_equal(lh_tls_channel_create(b.context, NULL, &b.server, NULL), LH_OK);
        open_client(&b, "\x02h2", "attic");
        assert_int_equal(talk(&b), count == 2);
        if (count < 2)
            assert_non_null(strstr(b.error.message, "revoked"));
        close_bench(&b);
    }
}

/* Whoever has the CA's key is not the gateway for that. */
static void a_gateways_certificate_has_to_be_listed_too(void **state) {
    (void)state;
    bench b;
    lh_tls_serial serial;
    serial_of("attic", serial);
    open_bench(&b, true);
    assert_int_equal(lh_tls_credentials_reload_for(b.credentials, &serial, 1, NULL), LH_OK);
    lh_tls_channel_destroy(b.server);
    assert_int_equal(lh_tls_channel_create(b.context, NULL, &b.server, NULL), LH_OK);
    open_client(&b, "\x02h2", "gateway");
    assert_false(talk(&b));
    close_bench(&b);
}

static void one_that_is_open_is_told_when_it_is_accepted_no_more(void **state) {
    (void)state;
    bench b;
    lh_tls_serial serial;
    serial_of("attic", serial);
    open_bench(&b, true);
    open_client(&b, "\x02h2", "attic");
    assert_true(talk(&b));
    assert_true(lh_tls_channel_is_admitted(b.server, b.context));
    assert_int_equal(lh_tls_credentials_reload_for(b.credentials, &serial, 1, NULL), LH_OK);
    assert_true(lh_tls_channel_is_admitted(b.server, b.context));
    assert_int_equal(lh_tls_credentials_reload_for(b.credentials, &serial, 0, NULL), LH_OK);
    assert_false(lh_tls_channel_is_admitted(b.server, b.context));
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h2_wants_a_certificate_whatever_else_is_offered),
        cmocka_unit_test(whoever_comes_to_join_shows_none),
        cmocka_unit_test(a_server_that_does_not_enrol_takes_nobody_without),
        cmocka_unit_test(those_alone_are_accepted_that_are_listed),
        cmocka_unit_test(a_gateways_certificate_has_to_be_listed_too),
        cmocka_unit_test(one_that_is_open_is_told_when_it_is_accepted_no_more),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
