/* One HTTP/2 request with its response, on either side: what both ends of a connection share. No
 * sockets, no clock.
 *
 * Thread: that of the connection's loop. Callbacks never run inside a user's call of this module:
 * they come from the loop (a callback may call anything here). A stream pointer is valid until its
 * on_closed returns. */
#pragma once

#include "common/base/status.h"
#include "common/net/tls_identity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_h2_stream lh_h2_stream; /* one request and its response, on either side */

/* Every stream has a user's context and this table. Entries but on_closed may be NULL; without
 * on_body the body is discarded. */
typedef struct lh_h2_stream_events {
    /* Client: the response's headers. */
    void (*on_response)(lh_h2_stream *stream, void *context, int http_status);
    /* Body bytes; the window is opened again when the user calls lh_h2_stream_consume. */
    void (*on_body)(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length);
    /* The peer's END_STREAM. */
    void (*on_end)(lh_h2_stream *stream, void *context);
    /* Always the last call, exactly once. LH_OK: both sides ended; LH_ERR_CANCELLED: RST_STREAM;
     * LH_ERR_UNAVAILABLE: the peer refused the stream and has done nothing about it; LH_ERR_CLOSED,
     * LH_ERR_TIMEOUT, LH_ERR_NO_MEMORY: the connection went; LH_ERR_PROTOCOL. The stream is gone
     * after it. */
    void (*on_closed)(lh_h2_stream *stream, void *context, lh_status status);
} lh_h2_stream_events;

/* Appends to the stream's outgoing body. Bytes are copied in the first form; in the second the
 * buffer is taken over, also on failure, and freed with free(). The outgoing queue of a stream has
 * no bound of its own: callers watch lh_h2_stream_queued_bytes. LH_ERR_CANCELLED: the stream was
 * cancelled or is being closed; LH_ERR_NO_MEMORY. */
lh_status lh_h2_stream_write(lh_h2_stream *stream, const void *bytes, size_t length);
lh_status lh_h2_stream_write_owned(lh_h2_stream *stream, void *bytes, size_t length);
void lh_h2_stream_end(lh_h2_stream *stream);

/* Gives the next `length` bytes of a body: all of them, or an error, which resets the stream
 * (INTERNAL_ERROR). From the loop; it calls nothing of this module. */
typedef lh_status lh_h2_read_body(void *context, uint8_t *bytes, size_t length);
/* The outgoing body is `length` bytes, which `read` is asked for when they leave: they fit into the
 * peer's windows and into the connection's buffer, where they go. So a peer who takes nothing costs
 * nothing. In place of _write and _end; `context` must live until on_closed. */
void lh_h2_stream_pull_body(lh_h2_stream *stream, uint64_t length, lh_h2_read_body *read,
                            void *context);
/* RST_STREAM(CANCEL). Nothing but on_closed, from the loop, comes after it. */
void lh_h2_stream_cancel(lh_h2_stream *stream);
/* The user is done with `length` of the bytes that on_body gave it. Bytes not consumed when the
 * stream closes are given back to the connection's window by themselves. */
void lh_h2_stream_consume(lh_h2_stream *stream, size_t length);
/* Body bytes written and not yet handed to the connection; those that are pulled never count. */
size_t lh_h2_stream_queued_bytes(const lh_h2_stream *stream);

typedef struct lh_h2_header {
    const char *name, *value; /* lower case name; valid during the call */
} lh_h2_header;

typedef struct lh_h2_request {
    const char *method, *path; /* path without query, begins with '/'; valid during the call */
    const char *query;         /* after '?', or "" */
    const char *peer;          /* "127.0.0.1:4711" */
    uint64_t connection;       /* its number, of which no other one of this server has the same */
    const lh_tls_identity *peer_identity; /* as long as the connection */
    size_t header_count;                  /* without the pseudo headers */
    const lh_h2_header *headers;
} lh_h2_request;

/* The value of a header, or NULL. */
const char *lh_h2_request_header(const lh_h2_request *request, const char *name);

/* A new request: set *events and *context (both stay with the stream), or answer at once with
 * lh_h2_stream_respond (or cancel) and leave *events NULL: the rest of its body is not wanted. */
typedef void lh_h2_on_request(void *server_context, lh_h2_stream *stream,
                              const lh_h2_request *request, const lh_h2_stream_events **events,
                              void **context);

/* Response headers, once. With end, no body follows. extra may be NULL when extra_count is 0.
 * LH_ERR_CANCELLED: the stream was cancelled; LH_ERR_INVALID: a header that may not be sent;
 * LH_ERR_NO_MEMORY. */
lh_status lh_h2_stream_respond_headers(lh_h2_stream *stream, int http_status,
                                       const lh_h2_header *extra, size_t extra_count, bool end);
/* A whole response; body is copied, "application/json" when it begins with '{', else "text/plain".
 */
lh_status lh_h2_stream_respond(lh_h2_stream *stream, int http_status, const char *body);
