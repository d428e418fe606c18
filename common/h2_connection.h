/* HTTP/2 over TCP or TLS on a libuv loop: a server that takes requests and a client that submits them, both with bodies that
 * stream in either direction. nghttp2 is behind h2_session, OpenSSL and sockets are behind h2_connection.
 *
 * Thread: the loop's. Callbacks never run inside a call of the user into this module for the same stream: they come from the
 * loop (STYLE.md, trap 5), so a callback may call anything here. A stream pointer is valid until its on_closed returns.
 *
 * TLS: with lh_tls_options the connection is TLS 1.3 with ALPN "h2" and both sides must show a certificate that the CA has
 * signed; without, it is h2c with prior knowledge.
 *
 * Send order (DESIGN.md): requests carry a class. A stream of class 0 that has bytes ready goes before any of class 1; within a
 * class streams leave whole, in the order in which they were submitted. Windows are sized by `window_bytes` (bandwidth-delay
 * product). A client renews its connection before stream ids run out, and reconnects with back-off. */
#pragma once

#include "common/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

typedef struct lh_tls_options {
    const char *certificate_file, *key_file, *ca_file; /* PEM */
} lh_tls_options;

typedef struct lh_h2_limits {
    uint32_t window_bytes;        /* of a stream; a connection gets four times as much. Default 16 MiB */
    uint32_t streams_max;         /* concurrent, per connection. Default 256 */
    uint32_t connections_max;     /* server. Default 64 */
    size_t header_bytes_max;      /* of one request. Default 16 KiB */
    int64_t ping_interval_ms;     /* 0: none. Default 1000 */
    int64_t dead_after_ms;        /* no byte and no PING answer for so long: the connection is dead. Default 3000 */
    int64_t connect_timeout_ms;   /* Default 3000 */
} lh_h2_limits;

lh_h2_limits lh_h2_default_limits(void);

typedef struct lh_h2_stream lh_h2_stream; /* one request and its response, on either side */

/* Every stream has a user's context and this table. */
typedef struct lh_h2_stream_events {
    /* Client: the response's headers. */
    void (*on_response)(lh_h2_stream *stream, void *context, int http_status);
    /* Body bytes; the window is opened again when the user calls lh_h2_stream_consume. */
    void (*on_body)(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length);
    /* The peer's END_STREAM. */
    void (*on_end)(lh_h2_stream *stream, void *context);
    /* Always the last call, exactly once. LH_OK: both sides ended; LH_ERR_CANCELLED: RST_STREAM; LH_ERR_CLOSED, LH_ERR_TIMEOUT: the
     * connection went; LH_ERR_PROTOCOL. The stream is gone after it. */
    void (*on_closed)(lh_h2_stream *stream, void *context, lh_status status);
} lh_h2_stream_events;

/* Appends to the stream's outgoing body. Bytes are copied in the first form; in the second the buffer is taken over and freed with
 * free(). The outgoing queue of a stream has no bound of its own: callers watch lh_h2_stream_queued_bytes. */
lh_status lh_h2_stream_write(lh_h2_stream *stream, const void *bytes, size_t length);
lh_status lh_h2_stream_write_owned(lh_h2_stream *stream, void *bytes, size_t length);
void lh_h2_stream_end(lh_h2_stream *stream);
/* RST_STREAM(CANCEL); on_closed comes from the loop. */
void lh_h2_stream_cancel(lh_h2_stream *stream);
void lh_h2_stream_consume(lh_h2_stream *stream, size_t length);
size_t lh_h2_stream_queued_bytes(const lh_h2_stream *stream);

/* ---- Server ------------------------------------------------------------------------------------------------------ */

typedef struct lh_h2_header {
    const char *name, *value; /* lower case name; valid during the call */
} lh_h2_header;

typedef struct lh_h2_request {
    const char *method, *path; /* path without query; valid during the call */
    const char *query;         /* after '?', or "" */
    const char *peer;          /* "127.0.0.1:4711" */
    const char *peer_name;     /* subject's common name of the client's certificate; "" without TLS */
    size_t header_count;
    const lh_h2_header *headers;
} lh_h2_request;

/* The value of a header, or NULL. */
const char *lh_h2_request_header(const lh_h2_request *request, const char *name);

typedef struct lh_h2_server lh_h2_server;

/* A new request: set *events and *context (both stay with the stream), or answer at once with lh_h2_stream_respond and leave
 * *events NULL: the rest of its body is discarded. */
typedef void lh_h2_on_request(void *server_context, lh_h2_stream *stream, const lh_h2_request *request,
                              const lh_h2_stream_events **events, void **context);

/* listen: "HOST:PORT", "[V6]:PORT", port 0: any (lh_h2_server_port tells which). tls may be NULL. */
lh_status lh_h2_server_create(uv_loop_t *loop, const char *listen, const lh_tls_options *tls, const lh_h2_limits *limits,
                              lh_h2_on_request *on_request, void *server_context, lh_h2_server **server, lh_error *error);
int lh_h2_server_port(const lh_h2_server *server);
/* Stops listening, sends GOAWAY, closes; on_closed (may be NULL) comes when all is released. */
void lh_h2_server_close(lh_h2_server *server, void (*on_closed)(void *), void *context);

/* Response headers. With end, no body follows. extra may be NULL when extra_count is 0. */
lh_status lh_h2_stream_respond_headers(lh_h2_stream *stream, int http_status, const lh_h2_header *extra,
                                       size_t extra_count, bool end);
/* A whole response; body is copied, "application/json" when it begins with '{', else "text/plain". */
lh_status lh_h2_stream_respond(lh_h2_stream *stream, int http_status, const char *body);

/* ---- Client ------------------------------------------------------------------------------------------------------ */

typedef struct lh_h2_client lh_h2_client;

/* Connected or not, with the reason; from the loop. While it is down, streams are refused and connecting goes on. */
typedef void lh_h2_on_client_state(void *context, bool connected, const char *reason);

/* address: "HOST:PORT". Starts to connect. tls may be NULL; with it the server's name is checked against HOST. */
lh_status lh_h2_client_create(uv_loop_t *loop, const char *address, const lh_tls_options *tls, const lh_h2_limits *limits,
                              lh_h2_on_client_state *on_state, void *context, lh_h2_client **client, lh_error *error);
bool lh_h2_client_is_connected(const lh_h2_client *client);
/* Smoothed round trip by PING, microseconds; 0 while unknown. */
int64_t lh_h2_client_round_trip_us(const lh_h2_client *client);
uint64_t lh_h2_client_bytes_sent(const lh_h2_client *client);
void lh_h2_client_close(lh_h2_client *client, void (*on_closed)(void *), void *context);

/* Opens a request whose body is written afterwards. LH_ERR_UNAVAILABLE: not connected; LH_ERR_BUSY: the peer's concurrent
 * stream limit is reached. send_class: 0 overtakes 1. */
lh_status lh_h2_client_submit(lh_h2_client *client, const char *method, const char *path, const lh_h2_header *extra,
                              size_t extra_count, int send_class, const lh_h2_stream_events *events, void *context,
                              lh_h2_stream **stream, lh_error *error);
