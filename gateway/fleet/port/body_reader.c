/* A buffer and a place. */
#include "gateway/fleet/port/body_reader.h"

#include <string.h>

static void refuse(lh_body_reader *reader) {
    reader->is_too_long = true;
    if (reader->on_too_long)
        reader->on_too_long(reader);
    else
        lh_h2_stream_respond(reader->stream, 413, "the body is longer than 16 KiB\n");
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    lh_body_reader *reader = context;
    lh_h2_stream_consume(stream, length);
    lh_stream_place_move(&reader->place);
    if (reader->is_too_long)
        return;
    if (length > sizeof reader->bytes - reader->length) {
        refuse(reader);
        return;
    }
    memcpy(reader->bytes + reader->length, bytes, length);
    reader->length += length;
}

static void on_end(lh_h2_stream *stream, void *context) {
    lh_body_reader *reader = context;
    (void)stream;
    if (!reader->is_too_long)
        reader->on_whole(reader);
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    lh_body_reader *reader = context;
    (void)stream;
    (void)status;
    lh_stream_place_leave(&reader->place);
    reader->stream = NULL;
    reader->on_closed(reader);
}

lh_status lh_body_reader_begin(lh_body_reader *reader, lh_stream_quota *quota, lh_h2_stream *stream,
                               const lh_h2_request *request, const lh_h2_stream_events **events,
                               void **context) {
    static const lh_h2_stream_events stream_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_closed};
    lh_status status = lh_stream_place_enter(&reader->place, quota, stream, request);
    if (status != LH_OK)
        return status;
    reader->stream = stream;
    reader->is_too_long = false;
    reader->length = 0;
    *events = &stream_events;
    *context = reader;
    return LH_OK;
}
