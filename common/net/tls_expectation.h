/* Whom a connection is meant for. The peer's certificate must be signed by the CA, as always; then
 * its identity is checked, in place of a host name.
 *
 * Thread: that of the connection. */
#pragma once

#include "common/net/tls_identity.h"

#include <stddef.h>

/* OpenSSL's SSL_CTX and SSL. */
struct ssl_ctx_st;
struct ssl_st;
struct x509_store_ctx_st;

typedef struct lh_tls_expectation {
    lh_tls_identity expected; /* NONE: anybody of the fleet */
    lh_tls_identity met;      /* who has answered; begins with NONE */
    bool is_refused;          /* since that is somebody else */
    /* lh_tls_expectation_bind_context: the peer has said so of this end's certificate. */
    bool is_own_revoked;
    /* Server: those without a certificate may come to get one (lh_tls_context_enrol); and this one
     * has. */
    bool may_enrol, is_enrolling;
} lh_tls_expectation;

/* Each connection of this context is for the one that is expected. For a context that has a single
 * owner, whose expectation outlives it: libcurl's. */
void lh_tls_expectation_bind_context(lh_tls_expectation *expectation, struct ssl_ctx_st *context);
/* This connection alone; its context went through _prepare_context. */
void lh_tls_expectation_prepare_context(struct ssl_ctx_st *context);
void lh_tls_expectation_bind(lh_tls_expectation *expectation, struct ssl_st *ssl);

/* The check itself, as SSL_CTX_set_cert_verify_callback wants it: 1 where the chain is good and the
 * leaf that of whom `bound` expects; NULL: the expectation of the connection. */
int lh_tls_expectation_verify(struct x509_store_ctx_st *store, void *bound);

/* Of one that is_refused: who was expected and who has answered, or what its certificate lacks. */
void lh_tls_expectation_explain(const lh_tls_expectation *expectation, char *text, size_t bytes);
