/* OpenSSL over a pair of memory BIOs. */
#include "common/net/tls_channel.h"

#include "common/net/tls_expectation.h"
#include "common/net/tls_reason.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

#undef lh_error /* openssl/lhash.h keeps its names of before 1.1 as macros */

enum {
    /* answers to a peer that asks for new keys for ever and does not read */
    UNSENT_BYTES_MAX = 1 << 20
};

struct lh_tls_context {
    lh_tls_credentials *credentials, *own_credentials; /* the second NULL: those of the options */
    lh_tls_role role;
    lh_tls_identity expected; /* client: whom */
    bool enrols;
};

struct lh_tls_channel {
    SSL *ssl;
    BIO *sealed_in, *sealed_out; /* of ssl */
    lh_tls_expectation peer;
    bool open;
};

/* ---- Failures ---- */

static lh_status certificate_failure(const lh_tls_channel *channel, long result, lh_error *error) {
    char text[LH_ERROR_MESSAGE_BYTES];
    switch (result) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return lh_fail(error, LH_ERR_PROTOCOL, "the peer's certificate is not signed by our CA: %s",
                       X509_verify_cert_error_string(result));
    case X509_V_ERR_CERT_REJECTED:
        lh_tls_expectation_explain(&channel->peer, text, sizeof text);
        return lh_fail(error, LH_ERR_PROTOCOL, "%s", text);
    default:
        return lh_fail(error, LH_ERR_PROTOCOL, "the peer's certificate is not accepted: %s",
                       X509_verify_cert_error_string(result));
    }
}

static lh_status channel_failure(const lh_tls_channel *channel, lh_error *error) {
    unsigned long code = ERR_peek_error();
    long result = SSL_get_verify_result(channel->ssl);
    if (result != X509_V_OK && ERR_GET_REASON(code) == SSL_R_CERTIFICATE_VERIFY_FAILED)
        return certificate_failure(channel, result, error);
    if (ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    return lh_fail(error, LH_ERR_PROTOCOL, "%s", lh_tls_reason(code));
}

/* ---- Contexts ---- */

lh_status lh_tls_context_create(lh_tls_role role, const lh_tls_options *options,
                                lh_tls_context **out, lh_error *error) {
    if (role == LH_TLS_CLIENT && options->expected.kind != LH_TLS_WORKER &&
        options->expected.kind != LH_TLS_GATEWAY)
        return lh_fail(error, LH_ERR_INVALID, "a TLS client has to expect somebody");
    lh_tls_context *context = calloc(1, sizeof *context);
    if (!context)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    context->role = role;
    context->expected = options->expected;
    context->credentials = options->credentials;
    lh_status status = options->credentials
                           ? LH_OK
                           : lh_tls_credentials_create(options, &context->own_credentials, error);
    if (status != LH_OK) {
        lh_tls_context_destroy(context);
        return status;
    }
    if (context->own_credentials)
        context->credentials = context->own_credentials;
    *out = context;
    return LH_OK;
}

void lh_tls_context_enrol(lh_tls_context *context) {
    assert(context->role == LH_TLS_SERVER);
    context->enrols = true;
}

void lh_tls_context_destroy(lh_tls_context *context) {
    if (!context)
        return;
    lh_tls_credentials_destroy(context->own_credentials);
    free(context);
}

/* ---- Channels ---- */

/* SNI is for names alone (RFC 6066, 3). */
static bool set_server_name(SSL *ssl, const char *host) {
    ASN1_OCTET_STRING *address = a2i_IPADDRESS(host);
    bool is_address = address;
    ASN1_OCTET_STRING_free(address);
    ERR_clear_error();
    return is_address || SSL_set_tlsext_host_name(ssl, host) == 1;
}

/* With what the credentials hold now, which it keeps for as long as it lives. */
static SSL *open_ssl(const lh_tls_context *context) {
    SSL_CTX *current = lh_tls_credentials_acquire(context->credentials);
    SSL *ssl = SSL_new(current);
    SSL_CTX_free(current);
    return ssl;
}

static bool attach_buffers(lh_tls_channel *channel) {
    BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
    if (!in || !out) {
        BIO_free(in);
        BIO_free(out);
        return false;
    }
    BIO_set_mem_eof_return(in, -1); /* empty is "try again", not the end */
    SSL_set_bio(channel->ssl, in, out);
    channel->sealed_in = in;
    channel->sealed_out = out;
    return true;
}

lh_status lh_tls_channel_create(lh_tls_context *context, const char *host, lh_tls_channel **out,
                                lh_error *error) {
    lh_tls_channel *channel = calloc(1, sizeof *channel);
    bool client = context->role == LH_TLS_CLIENT;
    if (channel)
        channel->ssl = open_ssl(context);
    if (!channel || !channel->ssl || !attach_buffers(channel) ||
        (client && !set_server_name(channel->ssl, host))) {
        lh_tls_channel_destroy(channel);
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    }
    if (client)
        channel->peer.expected = context->expected;
    channel->peer.may_enrol = !client && context->enrols;
    lh_tls_expectation_bind(&channel->peer, channel->ssl);
    if (client)
        SSL_set_connect_state(channel->ssl);
    else
        SSL_set_accept_state(channel->ssl);
    SSL_do_handshake(channel->ssl); /* a client's first words; a server has none yet */
    ERR_clear_error();
    *out = channel;
    return LH_OK;
}

void lh_tls_channel_destroy(lh_tls_channel *channel) {
    if (!channel)
        return;
    SSL_free(channel->ssl);
    free(channel);
}

static bool is_http2(const unsigned char *protocol, unsigned length) {
    static const char *const names[] = {"h2", LH_TLS_ALPN_JOIN};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (length == strlen(names[i]) && memcmp(protocol, names[i], length) == 0)
            return true;
    return false;
}

static lh_status finish_handshake(lh_tls_channel *channel, lh_error *error) {
    const unsigned char *protocol;
    unsigned length;
    SSL_get0_alpn_selected(channel->ssl, &protocol, &length);
    if (!is_http2(protocol, length))
        return lh_fail(error, LH_ERR_PROTOCOL, "the peer speaks TLS but not HTTP/2 (ALPN h2)");
    if (!SSL_get0_peer_certificate(channel->ssl))
        channel->peer.met = (lh_tls_identity){.kind = LH_TLS_STRANGER};
    channel->open = true;
    return LH_OK;
}

static bool would_wait(const lh_tls_channel *channel, int code) {
    return SSL_get_error(channel->ssl, code) == SSL_ERROR_WANT_READ;
}

lh_status lh_tls_channel_receive(lh_tls_channel *channel, const uint8_t *bytes, size_t length,
                                 lh_error *error) {
    size_t written;
    if (length && BIO_write_ex(channel->sealed_in, bytes, length, &written) != 1)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    if (BIO_ctrl_pending(channel->sealed_out) > UNSENT_BYTES_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "the peer asks for new keys and does not read");
    if (channel->open)
        return LH_OK;
    ERR_clear_error();
    int code = SSL_do_handshake(channel->ssl);
    if (code == 1)
        return finish_handshake(channel, error);
    return would_wait(channel, code) ? LH_OK : channel_failure(channel, error);
}

bool lh_tls_channel_is_open(const lh_tls_channel *channel) {
    return channel->open;
}

lh_status lh_tls_channel_read(lh_tls_channel *channel, uint8_t *buffer, size_t capacity,
                              size_t *length, lh_error *error) {
    *length = 0;
    ERR_clear_error();
    int code = SSL_read_ex(channel->ssl, buffer, capacity, length);
    if (code == 1 || would_wait(channel, code))
        return LH_OK;
    if (SSL_get_error(channel->ssl, code) == SSL_ERROR_ZERO_RETURN)
        return lh_fail(error, LH_ERR_CLOSED, "the peer closed the connection");
    return channel_failure(channel, error);
}

lh_status lh_tls_channel_write(lh_tls_channel *channel, const uint8_t *bytes, size_t length,
                               lh_error *error) {
    assert(channel->open);
    size_t written;
    ERR_clear_error();
    return SSL_write_ex(channel->ssl, bytes, length, &written) == 1
               ? LH_OK
               : channel_failure(channel, error);
}

void lh_tls_channel_shut_down(lh_tls_channel *channel) {
    if (channel->open)
        SSL_shutdown(channel->ssl);
    ERR_clear_error();
}

size_t lh_tls_channel_take(lh_tls_channel *channel, uint8_t *buffer, size_t capacity) {
    size_t length = 0;
    if (BIO_ctrl_pending(channel->sealed_out) > 0)
        BIO_read_ex(channel->sealed_out, buffer, capacity, &length);
    return length;
}

const lh_tls_identity *lh_tls_channel_peer_identity(const lh_tls_channel *channel) {
    assert(channel->open);
    return &channel->peer.met;
}

bool lh_tls_channel_is_enrolling(const lh_tls_channel *channel) {
    assert(channel->open);
    return channel->peer.is_enrolling;
}

bool lh_tls_channel_is_admitted(const lh_tls_channel *channel, const lh_tls_context *context) {
    X509 *certificate = SSL_get0_peer_certificate(channel->ssl);
    if (!certificate || X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0)
        return true;
    SSL_CTX *current = lh_tls_credentials_acquire(context->credentials);
    bool is_admitted = lh_tls_admission_has(current, certificate);
    SSL_CTX_free(current);
    return is_admitted;
}
