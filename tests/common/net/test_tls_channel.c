/* Two channels, or a channel and a raw OpenSSL peer, with a wire of memory between them. */
#include "common/net/tls_channel.h"

#include "tests/support/certificates.h"

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
    authority_issue(&ca, "other-ca", NULL, "Somebody else's CA", NULL, 30);
    authority_issue(&ca, "server", "ca", "?", "URI:longhaul://worker/attic?site=home", 30);
    authority_issue(&ca, "client", "ca", "?", "URI:longhaul://gateway", 30);
    authority_issue(&ca, "expired", "ca", "?", "URI:longhaul://worker/attic?site=home", -1);
    authority_issue(&ca, "stranger", "other-ca", "?", "URI:longhaul://worker/attic?site=home", 30);
    authority_issue(&ca, "cellar", "ca", "attic",
                    "DNS:localhost,IP:127.0.0.1,URI:longhaul://worker/cellar?site=home", 30);
    authority_issue(&ca, "nameless", "ca", "attic", "DNS:localhost,IP:127.0.0.1", 30);
    authority_issue(&ca, "two", "ca", "?",
                    "URI:longhaul://worker/attic?site=home,URI:longhaul://gateway", 30);
    return 0;
}

static int remove_certificates(void **state) {
    (void)state;
    authority_close(&ca);
    return 0;
}

typedef struct side {
    lh_tls_context *context;
    lh_tls_channel *channel;
    lh_status status;
    lh_error error;
} side;

/* meant: client: a worker's name, "": the gateway. */
static void side_open(side *s, lh_tls_role role, const char *name, const char *trusted,
                      const char *meant) {
    lh_tls_options files = authority_options(&ca, name, trusted),
                   options = meant ? lh_tls_options_for(&files, meant) : files;
    memset(s, 0, sizeof *s);
    if (lh_tls_context_create(role, &options, &s->context, &s->error) != LH_OK ||
        lh_tls_channel_create(s->context, "localhost", &s->channel, &s->error) != LH_OK)
        fail_msg("%s", s->error.message);
}

static void side_close(side *s) {
    lh_tls_channel_destroy(s->channel);
    lh_tls_context_destroy(s->context);
}

/* Carries what `from` has to say, in pieces of `piece` bytes. True when there was something. */
static bool carry(side *from, side *to, size_t piece) {
    uint8_t bytes[4096];
    size_t length = lh_tls_channel_take(from->channel, bytes, piece);
    if (length && to->status == LH_OK)
        to->status = lh_tls_channel_receive(to->channel, bytes, length, &to->error);
    return length > 0;
}

static void talk(side *a, side *b, size_t piece) {
    while (carry(a, b, piece) + carry(b, a, piece))
        ;
}

static void read_error(side *s) {
    uint8_t byte;
    size_t length;
    if (s->status == LH_OK)
        s->status = lh_tls_channel_read(s->channel, &byte, 1, &length, &s->error);
}

static void good_pair_speaks(void **state) {
    (void)state;
    static const size_t pieces[] = {1, 7, 4096};
    for (int i = 0; i < 3; i++) {
        side server, client;
        uint8_t heard[16];
        size_t length;
        side_open(&server, LH_TLS_SERVER, "server", "ca", NULL);
        side_open(&client, LH_TLS_CLIENT, "client", "ca", "attic");
        talk(&client, &server, pieces[i]);
        assert_true(lh_tls_channel_is_open(client.channel) &&
                    lh_tls_channel_is_open(server.channel));
        assert_int_equal(lh_tls_channel_peer_identity(server.channel)->kind, LH_TLS_GATEWAY);
        const lh_tls_identity *peer = lh_tls_channel_peer_identity(client.channel);
        assert_int_equal(peer->kind, LH_TLS_WORKER);
        assert_string_equal(peer->name, "attic");
        assert_string_equal(peer->site, "home");

        assert_int_equal(lh_tls_channel_write(client.channel, (const uint8_t *)"over", 4, NULL),
                         LH_OK);
        talk(&client, &server, pieces[i]);
        assert_int_equal(lh_tls_channel_read(server.channel, heard, sizeof heard, &length, NULL),
                         LH_OK);
        assert_int_equal(length, 4);
        assert_memory_equal(heard, "over", 4);
        assert_int_equal(lh_tls_channel_read(server.channel, heard, sizeof heard, &length, NULL),
                         LH_OK);
        assert_int_equal(length, 0);

        lh_tls_channel_shut_down(client.channel);
        talk(&client, &server, pieces[i]);
        assert_int_equal(lh_tls_channel_read(server.channel, heard, sizeof heard, &length, NULL),
                         LH_ERR_CLOSED);
        side_close(&client);
        side_close(&server);
    }
}

/* Who is refused, by whom, and what both are told. */
static const struct refusal {
    const char *server, *client, *client_trusts, *meant, *server_says, *client_says;
} refusals[] = {
    {"server", "stranger", "ca", "attic", "not signed by our CA",
     "does not accept our certificate"},
    {"server", "expired", "ca", "attic", "certificate has expired", "it has expired"},
    {"stranger", "client", "ca", "attic", "does not accept our certificate",
     "not signed by our CA"},
    {"expired", "client", "ca", "attic", "does not accept our certificate",
     "certificate has expired"},
    {"cellar", "client", "ca", "attic", "does not accept our certificate",
     "worker attic was expected and worker cellar of site home has answered"},
    {"client", "client", "ca", "attic", "does not accept our certificate",
     "worker attic was expected and the gateway has answered"},
    {"server", "client", "ca", "", "does not accept our certificate",
     "the gateway was expected and worker attic of site home has answered"},
    {"nameless", "client", "ca", "attic", "does not accept our certificate",
     "worker attic was expected, and the peer's certificate names nobody of the fleet: its "
     "subjectAltName needs URI:longhaul://worker/attic?site=SITE"},
    {"nameless", "client", "ca", "", "does not accept our certificate",
     "its subjectAltName needs URI:longhaul://gateway"},
    {"two", "client", "ca", "attic", "does not accept our certificate",
     "names nobody of the fleet"},
    {"server", "nameless", "ca", "attic",
     "names nobody of the fleet: its subjectAltName needs URI:longhaul://worker/NAME?site=SITE, or "
     "URI:longhaul://gateway for the gateway",
     "does not accept our certificate"},
    {"server", "two", "ca", "attic", "names nobody of the fleet",
     "does not accept our certificate"},
    {"server", "client", "other-ca", "attic", "does not accept our certificate",
     "not signed by our CA"},
};

static void bad_certificates_are_refused(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        side server, client;
        side_open(&server, LH_TLS_SERVER, r->server, "ca", NULL);
        side_open(&client, LH_TLS_CLIENT, r->client, r->client_trusts, r->meant);
        talk(&client, &server, 4096);
        /* TLS 1.3: the client learns of its certificate's refusal afterwards */
        read_error(&client);
        assert_false(lh_tls_channel_is_open(server.channel));
        assert_int_equal(server.status, LH_ERR_PROTOCOL);
        assert_int_equal(client.status, LH_ERR_PROTOCOL);
        if (!strstr(server.error.message, r->server_says) ||
            !strstr(client.error.message, r->client_says))
            fail_msg("case %zu: server \"%s\", client \"%s\"", i, server.error.message,
                     client.error.message);
        side_close(&client);
        side_close(&server);
    }
}

/* A client made of raw OpenSSL, against our server. */
static void raw_client(void (*configure)(SSL_CTX *context), const char *server_says) {
    side server;
    uint8_t bytes[16384];
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    configure(context);
    SSL *ssl = SSL_new(context);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
    side_open(&server, LH_TLS_SERVER, "server", "ca", NULL);
    for (int turn = 0; turn < 10; turn++) {
        SSL_connect(ssl);
        int length = BIO_read(out, bytes, sizeof bytes);
        if (length > 0 && server.status == LH_OK)
            server.status =
                lh_tls_channel_receive(server.channel, bytes, (size_t)length, &server.error);
        size_t answer = lh_tls_channel_take(server.channel, bytes, sizeof bytes);
        if (answer)
            BIO_write(in, bytes, (int)answer);
    }
    assert_false(lh_tls_channel_is_open(server.channel));
    assert_int_equal(server.status, LH_ERR_PROTOCOL);
    if (!strstr(server.error.message, server_says))
        fail_msg("\"%s\" was expected, not \"%s\"", server_says, server.error.message);
    SSL_free(ssl);
    SSL_CTX_free(context);
    side_close(&server);
}

static void with_h2(SSL_CTX *context) {
    SSL_CTX_set_alpn_protos(context, (const unsigned char *)"\2h2", 3);
}

static void with_certificate(SSL_CTX *context) {
    lh_tls_options options = authority_options(&ca, "client", "ca");
    SSL_CTX_use_certificate_file(context, options.certificate_file, SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context, options.key_file, SSL_FILETYPE_PEM);
}

static void with_http1(SSL_CTX *context) {
    with_certificate(context);
    SSL_CTX_set_alpn_protos(context, (const unsigned char *)"\x8http/1.1", 9);
}

static void with_tls12(SSL_CTX *context) {
    with_certificate(context);
    with_h2(context);
    SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
}

/* Its arithmetic takes milliseconds, which a stranger may not make us spend. */
static void with_costly_keys(SSL_CTX *context) {
    with_certificate(context);
    with_h2(context);
    SSL_CTX_set1_groups_list(context, "ffdhe8192");
}

static void other_clients_are_refused(void **state) {
    (void)state;
    raw_client(with_h2, "showed no certificate");
    raw_client(with_certificate, "not HTTP/2");
    raw_client(with_http1, "not HTTP/2");
    raw_client(with_tls12, "no TLS 1.3");
    raw_client(with_costly_keys, "key share");
}

static void plain_bytes_are_refused(void **state) {
    (void)state;
    static const char *const words[] = {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                                        "GET / HTTP/1.1\r\n\r\n", "\0\0\0\0\0\0\0\0\0\0"};
    for (int i = 0; i < 3; i++) {
        side server;
        side_open(&server, LH_TLS_SERVER, "server", "ca", NULL);
        server.status = lh_tls_channel_receive(server.channel, (const uint8_t *)words[i],
                                               i == 2 ? 10 : strlen(words[i]), &server.error);
        assert_int_equal(server.status, LH_ERR_PROTOCOL);
        assert_non_null(strstr(server.error.message, "not"));
        side_close(&server);
    }
}

/* One byte of the handshake or of sealed data is damaged: an error, never other bytes. */
static void damage_is_noticed(void **state) {
    (void)state;
    for (size_t at = 0; at < 200; at += 3) {
        side server, client;
        uint8_t bytes[4096], heard[64];
        size_t length;
        side_open(&server, LH_TLS_SERVER, "server", "ca", NULL);
        side_open(&client, LH_TLS_CLIENT, "client", "ca", "attic");
        talk(&client, &server, 4096);
        assert_int_equal(lh_tls_channel_write(client.channel,
                                              (const uint8_t *)"a message of 21 bytes", 21, NULL),
                         LH_OK);
        length = lh_tls_channel_take(client.channel, bytes, sizeof bytes);
        if (at >= length) {
            side_close(&client);
            side_close(&server);
            break;
        }
        bytes[at] ^= 0x10;
        server.status = lh_tls_channel_receive(server.channel, bytes, length, &server.error);
        if (server.status == LH_OK)
            server.status =
                lh_tls_channel_read(server.channel, heard, sizeof heard, &length, &server.error);
        assert_true(server.status == LH_ERR_PROTOCOL || length == 0);
        side_close(&client);
        side_close(&server);
    }
}

/* A client that asks for new keys, again and again, and does not read the answers. */
static void key_updates_that_nobody_reads_are_bounded(void **state) {
    (void)state;
    side server;
    static uint8_t bytes[16384];
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    with_certificate(context);
    with_h2(context);
    SSL *ssl = SSL_new(context);
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl, in, out);
    side_open(&server, LH_TLS_SERVER, "server", "ca", NULL);
    for (int turn = 0; turn < 10; turn++) {
        SSL_connect(ssl);
        int length = BIO_read(out, bytes, sizeof bytes);
        if (length > 0)
            assert_int_equal(
                lh_tls_channel_receive(server.channel, bytes, (size_t)length, &server.error),
                LH_OK);
        size_t answer = lh_tls_channel_take(server.channel, bytes, sizeof bytes);
        if (answer)
            BIO_write(in, bytes, (int)answer);
    }
    assert_true(lh_tls_channel_is_open(server.channel));
    int updates = 0;
    for (; updates < 1000000 && server.status == LH_OK; updates++) {
        size_t read;
        assert_int_equal(SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        assert_int_equal(SSL_write(ssl, "", 0) >= 0 || SSL_do_handshake(ssl) == 1, 1);
        int length = BIO_read(out, bytes, sizeof bytes);
        assert_true(length > 0);
        server.status =
            lh_tls_channel_receive(server.channel, bytes, (size_t)length, &server.error);
        if (server.status == LH_OK)
            server.status =
                lh_tls_channel_read(server.channel, bytes, sizeof bytes, &read, &server.error);
    }
    assert_int_equal(server.status, LH_ERR_LIMIT);
    assert_non_null(strstr(server.error.message, "new keys"));
    SSL_free(ssl);
    SSL_CTX_free(context);
    side_close(&server);
}

static void bad_files_are_named(void **state) {
    (void)state;
    lh_tls_context *context;
    lh_error error;
    lh_tls_options options = authority_options(&ca, "nobody", "ca");
    assert_int_equal(lh_tls_context_create(LH_TLS_SERVER, &options, &context, &error),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "nobody.pem"));
    lh_tls_options server = authority_options(&ca, "server", "nobody"),
                   client = authority_options(&ca, "client", "ca");
    assert_int_equal(lh_tls_context_create(LH_TLS_SERVER, &server, &context, &error),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "CA file"));
    assert_int_equal(lh_tls_context_create(LH_TLS_CLIENT, &client, &context, &error),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "has to expect somebody"));
    client = lh_tls_options_for(&client, "attic");
    client.certificate_file = server.certificate_file;
    assert_int_equal(lh_tls_context_create(LH_TLS_CLIENT, &client, &context, &error),
                     LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "does not belong"));
    client.key_file = NULL;
    assert_int_equal(lh_tls_context_create(LH_TLS_CLIENT, &client, &context, &error),
                     LH_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_pair_speaks),
        cmocka_unit_test(bad_certificates_are_refused),
        cmocka_unit_test(other_clients_are_refused),
        cmocka_unit_test(plain_bytes_are_refused),
        cmocka_unit_test(damage_is_noticed),
        cmocka_unit_test(bad_files_are_named),
        cmocka_unit_test(key_updates_that_nobody_reads_are_bounded),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
