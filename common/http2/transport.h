/* One TCP connection, with or without TLS, that carries an HTTP/2 session: what server and client
 * share. Reads into the session, writes what it has to say while the kernel takes it, watches that
 * the peer is alive. Private to common/http2.
 *
 * Closing waits for the end of the tick: on_down comes from the loop, after all streams got their
 * on_closed; on_released when the handles are gone, and the memory goes after it. Thread: the
 * loop's. */
#pragma once

#include "common/http2/session.h"
#include "common/net/tls_channel.h"

#include <uv.h>

typedef struct lh_h2_transport lh_h2_transport;

typedef struct lh_h2_transport_config {
    uv_loop_t *loop;
    const lh_h2_limits *limits; /* as long as the transport */
    lh_h2_role role;
    lh_tls_context *tls;   /* NULL: none */
    const char *host;      /* client: for the certificate's check; as long as the transport */
    const char *authority; /* client: as long as the transport */
    lh_h2_on_request *on_request;
    void *server_context;
    /* The peer speaks HTTP/2, and with TLS is who it should be. */
    void (*on_ready)(void *owner, lh_h2_transport *transport);
    /* It may have become idle, or the peer may have said GOAWAY. */
    void (*on_change)(void *owner, lh_h2_transport *transport);
    /* NULL: nobody asks. */
    void (*on_round_trip)(void *owner, lh_h2_transport *transport, int64_t round_trip_us);
    void (*on_down)(void *owner, lh_h2_transport *transport, lh_status status, const char *reason);
    void (*on_released)(void *owner, lh_h2_transport *transport);
    void *owner;
} lh_h2_transport_config;

/* LH_ERR_NO_MEMORY, LH_ERR_IO. From then on it must be closed. */
lh_status lh_h2_transport_create(const lh_h2_transport_config *config, lh_h2_transport **transport,
                                 lh_error *error);
/* Takes the connection that waits at `listener`. A failure closes it. */
void lh_h2_transport_accept(lh_h2_transport *transport, uv_stream_t *listener);
/* A failure closes it. */
void lh_h2_transport_connect(lh_h2_transport *transport, const struct sockaddr *address);
/* Says GOAWAY and closes at the end of the tick. The first status and reason stay. */
void lh_h2_transport_close(lh_h2_transport *transport, lh_status status, const char *reason);

/* NULL until it is ready. */
lh_h2_session *lh_h2_transport_session(lh_h2_transport *transport);
bool lh_h2_transport_is_ready(const lh_h2_transport *transport);
bool lh_h2_transport_is_closing(const lh_h2_transport *transport);
/* "127.0.0.1:4711", "" before it stands; as long as the transport. */
const char *lh_h2_transport_peer(const lh_h2_transport *transport);
uint64_t lh_h2_transport_bytes_sent(const lh_h2_transport *transport);
/* All that the session had to say is with the kernel. */
bool lh_h2_transport_is_dry(const lh_h2_transport *transport);
/* How much the kernel may hold unsent: an urgent frame waits for it. What is over
 * `unsent_bytes_max` waits here, so that its order may still change. */
void lh_h2_transport_set_unsent_max(lh_h2_transport *transport, size_t unsent_bytes_max);
/* -1: there is none. */
int lh_h2_transport_descriptor(const lh_h2_transport *transport);
/* For the owner's list. */
lh_h2_transport **lh_h2_transport_next(lh_h2_transport *transport);
