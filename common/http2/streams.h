/* The streams of a session: what each has received, what it has to send, and whose turn to send it
 * is. stream.h is what their users see of them. Private to session.c. Thread: the session's. */
#pragma once

#include "common/http2/framer.h"
#include "common/http2/send_order.h"
#include "common/http2/stream.h"

/* All zeros but for the framer is a set without streams. */
typedef struct lh_h2_streams {
    lh_h2_framer *framer;
    lh_h2_stream *first;
    uint32_t count;
    uint32_t mid_headers; /* whose request headers have begun and not ended */
    lh_send_order order;  /* client: those that have not sent their END_STREAM */
} lh_h2_streams;

/* NULL: none of ours. */
lh_h2_stream *lh_h2_streams_find(const lh_h2_streams *streams, int32_t id);
/* Client: lets the stream whose turn it is send, if nghttp2 holds it back. True when one was
 * resumed. */
bool lh_h2_streams_resume_next(lh_h2_streams *streams);

/* Client: opens a stream with the header fields that all requests have, and `extra` ones.
 * LH_ERR_INVALID: a method, path or header that may not be sent; LH_ERR_NO_MEMORY. */
lh_status lh_h2_stream_submit(lh_h2_streams *streams, const char *method, const char *path,
                              const lh_h2_header *extra, size_t extra_count, int send_class,
                              const lh_h2_stream_events *events, void *context,
                              lh_h2_stream **stream, lh_error *error);
/* Server: a request's headers begin. LH_ERR_NO_MEMORY. */
lh_status lh_h2_stream_accept(lh_h2_streams *streams, int32_t id);
/* Takes the stream out, calls its on_closed and frees it. */
void lh_h2_stream_close(lh_h2_stream *stream, lh_status status);
/* The status of a stream that nghttp2 closes with this error code. */
lh_status lh_h2_stream_closing_status(const lh_h2_stream *stream, uint32_t code);

/* ---- What came, to be told to the stream's user ---- */

/* One header of a request or response. LH_ERR_NO_MEMORY. */
lh_status lh_h2_stream_add_header(lh_h2_stream *stream, const uint8_t *name, size_t name_length,
                                  const uint8_t *value, size_t value_length);
/* All headers have come. True: they were a request's, which the server was given. */
bool lh_h2_stream_end_headers(lh_h2_stream *stream);
/* A piece of the body. False: nobody wants it. */
bool lh_h2_stream_receive(lh_h2_stream *stream, const uint8_t *bytes, size_t length);
/* The peer's END_STREAM. */
void lh_h2_stream_end_received(lh_h2_stream *stream);

/* ---- What goes out ---- */

/* Moves `length` bytes of the outgoing body to `bytes`; `is_last`: END_STREAM goes too. False:
 * they cannot be had, and the stream must be reset. */
bool lh_h2_stream_pop(lh_h2_stream *stream, uint8_t *bytes, size_t length, bool is_last);
/* The latter was the case. */
bool lh_h2_stream_has_failed(const lh_h2_stream *stream);
/* Our END_STREAM has left. True: the rest of the request is not wanted. */
bool lh_h2_stream_end_sent(lh_h2_stream *stream);
bool lh_h2_stream_has_sent_end(const lh_h2_stream *stream);
