/* One TCP connection, with or without TLS, that carries an HTTP/2 session: what server and client
 * share. Reads into the session, writes what it has to say while the kernel takes it, watches that
 * the peer is alive. Private to common/http2.
 *
 * Closing waits for the end of the tick: on_down comes from the loop, after all streams got their
 * on_closed; on_released when the handles are gone, and the memory goes after it. Thread: the
 * loop's. */
#pragma once

#include "common/http2/liveness.h"
#include "common/http2/output.h"
#include "common/http2/session.h"
#include "common/net/address.h"
#include "common/net/tls_channel.h"

#include <uv.h>

typedef struct lh_h2_transport lh_h2_transport;

typedef struct lh_h2_transport_config {
    uv_loop_t *loop;
    const lh_h2_limits *limits; /* as long as the transport */
    lh_h2_role role;
    lh_tls_context *tls;   /* NULL: none */
    const char *host;      /* client: to which it connects; as long as the transport */
    const char *authority; /* client: as long as the transport */
    uint64_t connection;   /* server: its number */
    lh_h2_on_request *on_request;
    void *server_context;
    /* Server: of a peer without a certificate, who comes to get one; NULL: nobody may. */
    lh_h2_on_request *on_enrolment;
    void *enrolment_context;
    /* Server: before the peer speaks HTTP/2, and of one that enrols always, what has come waits for
     * lh_h2_transport_take_turn, and no more is read. NULL: nothing waits. */
    void (*on_wait)(void *owner, lh_h2_transport *transport);
    /* NULL: nobody asks; so may the next two be. The peer speaks HTTP/2, and with TLS is who it
     * should be. */
    void (*on_ready)(void *owner, lh_h2_transport *transport);
    /* It may have become idle, or the peer may have said GOAWAY. */
    void (*on_change)(void *owner, lh_h2_transport *transport);
    void (*on_round_trip)(void *owner, lh_h2_transport *transport, int64_t round_trip_us);
    void (*on_down)(void *owner, lh_h2_transport *transport, lh_status status, const char *reason);
    void (*on_released)(void *owner, lh_h2_transport *transport);
    void *owner;
    lh_h2_transport **list; /* the owner's connections: this one too, until on_released */
} lh_h2_transport_config;

/* Written by transport.c alone. */
struct lh_h2_transport {
    lh_h2_transport_config config;
    lh_h2_transport *next; /* of the list */
    uv_tcp_t tcp;
    uv_timer_t timer;
    uv_idle_t idle; /* runs while there is something to do at the end of the tick */
    uv_connect_t connect;
    int open_handles;
    lh_tls_channel *tls;
    lh_h2_session *session; /* NULL before the TLS handshake is done */
    lh_h2_liveness liveness;
    char peer[LH_ADDRESS_TEXT_BYTES]; /* "127.0.0.1:4711", "" before it stands */
    uint64_t address;                 /* lh_address_key */
    bool heard;                       /* a byte has come */
    size_t waiting_bytes;             /* of input */
    bool ready, peer_closed, closing, down;
    bool is_enrolling;     /* the session is for that alone */
    int64_t enrolment_ms;  /* how long it has been */
    bool is_curt;          /* does not wait for the peer to read its last words */
    size_t lingered_bytes; /* that have come after them */
    bool dry;              /* all that the session had to say is with the kernel */
    lh_status close_status;
    char close_reason[LH_ERROR_MESSAGE_BYTES];
    lh_h2_output output; /* its bytes and what follows are not initialized */
    uint8_t input[64 << 10], plain[LH_H2_OUTPUT_BYTES_MAX];
};

/* LH_ERR_NO_MEMORY, LH_ERR_IO. From then on it must be closed. */
lh_status lh_h2_transport_create(const lh_h2_transport_config *config, lh_h2_transport **transport,
                                 lh_error *error);
/* Takes the connection that waits at `listener`. A failure closes it. */
void lh_h2_transport_accept(lh_h2_transport *transport, uv_stream_t *listener);
/* Deals with what waits, and reads on. */
void lh_h2_transport_take_turn(lh_h2_transport *transport);
/* A failure closes it. */
void lh_h2_transport_connect(lh_h2_transport *transport, const struct sockaddr *address);
/* Says GOAWAY and closes at the end of the tick. The first status and reason stay. */
void lh_h2_transport_close(lh_h2_transport *transport, lh_status status, const char *reason);
/* The same without a moment for the peer to read it, also of one that is closing. */
void lh_h2_transport_abort(lh_h2_transport *transport, lh_status status, const char *reason);
