/* One side of an HTTP/2 connection as a pure machine over nghttp2: bytes in, bytes out, no sockets,
 * no clock.
 *
 * The owner gives it what the peer sent (_receive) and sends what it has to say (_pull). Streams'
 * callbacks run inside these two and _fail, and nowhere else. None of the three, nor _destroy, may
 * be called from a callback.
 *
 * Send order: a client's request bodies leave by class and then in the order of submission
 * (send_order.h). A server's responses share the connection fairly, since they become ready in no
 * order.
 *
 * Hostile peers: header bytes, concurrent streams, resets, faults, frames that carry nothing
 * (conduct.h) and queued control frames are bounded; who goes over is told GOAWAY and the session
 * is done. Thread: the owner's. */
#pragma once

#include "common/http2/limits.h"
#include "common/http2/stream.h"

typedef struct lh_h2_session lh_h2_session;

typedef enum lh_h2_role { LH_H2_SERVER, LH_H2_CLIENT } lh_h2_role;

typedef struct lh_h2_session_config {
    lh_h2_role role;
    const lh_h2_limits *limits; /* as long as the session */
    /* Server: who asks, and who is asked. They must outlive the session. */
    const char *peer;
    const lh_tls_identity *peer_identity;
    uint64_t connection; /* lh_h2_request.connection */
    lh_h2_on_request *on_request;
    void *server_context;
    /* Client: ":authority" and ":scheme" of its requests. The strings must outlive the session. */
    const char *authority, *scheme;
    /* There is something to pull. Called within users' calls too: take a note and pull later. */
    void (*on_wake)(void *context);
    /* The peer's first SETTINGS came: it speaks HTTP/2. */
    void (*on_settings)(void *context);
    /* A PING with this number was answered. */
    void (*on_ping_answer)(void *context, uint64_t number);
    void *context;
} lh_h2_session_config;

/* LH_ERR_NO_MEMORY. The first bytes to send are there at once. */
lh_status lh_h2_session_create(const lh_h2_session_config *config, lh_h2_session **session,
                               lh_error *error);
/* Only after _fail, or when no stream is left. */
void lh_h2_session_destroy(lh_h2_session *session);

/* Takes all `length` bytes. LH_ERR_PROTOCOL, LH_ERR_LIMIT, LH_ERR_NO_MEMORY: the session is dead;
 * pull what it has to say, then fail and destroy it. */
lh_status lh_h2_session_receive(lh_h2_session *session, const uint8_t *bytes, size_t length,
                                lh_error *error);

/* The largest frame that we send. A buffer for _pull must have room for one, and should for a few.
 */
#define LH_H2_PULL_BYTES_MIN (16384u + 10u)

/* DATA frames have at most `bytes` from now on, 1 to LH_H2_FRAME_BYTES_MAX (the default): a slow
 * link is free again for an urgent frame after each. */
#define LH_H2_FRAME_BYTES_MAX 16384u
void lh_h2_session_set_frame_bytes(lh_h2_session *session, uint32_t bytes);

/* Time has passed: what a peer may do grows with it. */
void lh_h2_session_note_time(lh_h2_session *session, uint64_t passed_ms);

/* Fills the buffer with what should be sent next; *length 0: nothing now. Errors as in _receive. */
lh_status lh_h2_session_pull(lh_h2_session *session, uint8_t *buffer, size_t capacity,
                             size_t *length, lh_error *error);

/* Nothing is to be received any more, nor sent but what _pull still gives: all has been done after
 * a GOAWAY, or the session has failed. The error is then the status with which to fail it, and the
 * reason in plain words. */
bool lh_h2_session_is_done(const lh_h2_session *session, lh_error *error);

/* Closes all streams with `status`, which calls their on_closed. */
void lh_h2_session_fail(lh_h2_session *session, lh_status status);

/* Queues a PING with a number of the caller's. LH_ERR_NO_MEMORY. */
lh_status lh_h2_session_ping(lh_h2_session *session, uint64_t number);
/* Queues GOAWAY. Requests that come later are refused. */
void lh_h2_session_shut_down(lh_h2_session *session);
/* The peer sent GOAWAY or we did: no new stream. */
bool lh_h2_session_is_shutting_down(const lh_h2_session *session);
/* The peer is in the middle of a request's headers. */
bool lh_h2_session_is_mid_headers(const lh_h2_session *session);
uint32_t lh_h2_session_open_streams(const lh_h2_session *session);
/* Server: a request has come. */
bool lh_h2_session_has_served(const lh_h2_session *session);

/* Client: opens a stream. LH_ERR_BUSY: the peer's limit of concurrent streams; LH_ERR_UNAVAILABLE:
 * shutting down or out of stream ids; LH_ERR_INVALID: a method, path or header that may not be
 * sent; LH_ERR_NO_MEMORY. */
lh_status lh_h2_session_submit(lh_h2_session *session, const char *method, const char *path,
                               const lh_h2_header *extra, size_t extra_count, int send_class,
                               const lh_h2_stream_events *events, void *context,
                               lh_h2_stream **stream, lh_error *error);
