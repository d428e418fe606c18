/* The whole body of a small request, which comes within bounds: of bytes, of
 * time, and of how many there are at once (stream_quota.h). Thread: the loop's.
 */
#pragma once

#include "common/http2/stream_quota.h"

#define LH_BODY_READER_BYTES_MAX (16u << 10)

typedef struct lh_body_reader lh_body_reader;

/* A part of what its owner holds for the request; written by body_reader.c
 * alone. */
struct lh_body_reader {
    lh_stream_place place;
    lh_h2_stream *stream; /* NULL once it has closed */
    /* All of it has come; the stream is to be answered, now or later. */
    void (*on_whole)(lh_body_reader *reader);
    /* It is longer than it may be; the stream is to be answered. NULL: 413 with a
   * text. */
    void (*on_too_long)(lh_body_reader *reader);
    /* The stream has closed, whatever came before. The last call: it frees the
   * owner. */
    void (*on_closed)(lh_body_reader *reader);
    bool is_too_long;
    size_t length;
    char bytes[LH_BODY_READER_BYTES_MAX];
};

/* The callbacks are set. LH_ERR_LIMIT: there is no place, and the request has
 * been answered so; the owner frees the reader. */
lh_status lh_body_reader_begin(lh_body_reader *reader, lh_stream_quota *quota, lh_h2_stream *stream,
                               const lh_h2_request *request, const lh_h2_stream_events **events,
                               void **context);
