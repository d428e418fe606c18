/* A list, and for a client the order in which its members send. */
#include "common/http2/streams.h"

#include "common/base/byte_queue.h"
#include "common/http2/request.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADERS_MAX = 64 /* of a request or response of ours */ };

struct lh_h2_stream {
    lh_h2_streams *streams;
    lh_h2_stream *next, *previous;
    lh_send_place place; /* client: its turn to send */
    int32_t id;
    const lh_h2_stream_events *events; /* NULL: a server's that was answered at once */
    void *context;
    lh_h2_request_builder *request; /* server: until its headers are complete */
    lh_byte_queue outgoing;
    struct {
        uint64_t length;       /* that has not left */
        lh_h2_read_body *read; /* NULL: what goes out is written, not pulled */
        void *context;
    } pulled;
    size_t unconsumed;         /* given to on_body, not yet consumed */
    int http_status;           /* client: the last one that came, 1xx included */
    bool is_response_reported; /* client */
    bool has_responded;        /* server */
    bool is_ended;             /* the user has ended the outgoing body */
    bool is_end_sent, is_end_received;
    bool is_cancelled; /* by the user, or being closed: no event but on_closed */
    bool has_failed;   /* its body could not be read */
    bool is_deferred;  /* nghttp2 was told to wait until it is resumed */
};

/* ---- The list ---- */

lh_h2_stream *lh_h2_streams_find(const lh_h2_streams *streams, int32_t id) {
    return nghttp2_session_get_stream_user_data(streams->framer->nghttp2, id);
}

static lh_h2_stream *add(lh_h2_streams *streams) {
    lh_h2_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->streams = streams;
    stream->next = streams->first;
    if (stream->next)
        stream->next->previous = stream;
    streams->first = stream;
    streams->count++;
    return stream;
}

static void drop_request(lh_h2_stream *stream) {
    if (!stream->request)
        return;
    lh_h2_request_builder_destroy(stream->request);
    stream->request = NULL;
    assert(stream->streams->mid_headers > 0);
    stream->streams->mid_headers--;
}

static void take_out(lh_h2_stream *stream) {
    lh_h2_streams *streams = stream->streams;
    assert(streams->count > 0 && (stream->previous || streams->first == stream));
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        streams->first = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
    streams->count--;
    lh_send_order_leave(&streams->order, &stream->place);
}

static void destroy(lh_h2_stream *stream) {
    drop_request(stream);
    lh_byte_queue_reset(&stream->outgoing);
    free(stream);
}

lh_status lh_h2_stream_accept(lh_h2_streams *streams, int32_t id) {
    lh_h2_stream *stream = add(streams);
    if (!stream)
        return LH_ERR_NO_MEMORY;
    stream->id = id;
    stream->request = lh_h2_request_builder_create();
    if (!stream->request) {
        take_out(stream);
        destroy(stream);
        return LH_ERR_NO_MEMORY;
    }
    streams->mid_headers++;
    nghttp2_session_set_stream_user_data(streams->framer->nghttp2, id, stream);
    return LH_OK;
}

void lh_h2_stream_close(lh_h2_stream *stream, lh_status status) {
    lh_h2_framer *framer = stream->streams->framer;
    stream->is_cancelled = true;
    take_out(stream);
    nghttp2_session_set_stream_user_data(framer->nghttp2, stream->id, NULL);
    if (stream->unconsumed && !framer->is_dead)
        lh_h2_framer_check_memory(
            framer, nghttp2_session_consume_connection(framer->nghttp2, stream->unconsumed));
    if (stream->events)
        stream->events->on_closed(stream, stream->context, status);
    destroy(stream);
    lh_h2_framer_wake(framer); /* its turn to send passes on */
}

lh_status lh_h2_stream_closing_status(const lh_h2_stream *stream, uint32_t code) {
    if (stream->is_cancelled)
        return LH_ERR_CANCELLED;
    switch (code) {
    case NGHTTP2_NO_ERROR: /* a server may answer early and then reset with this: RFC 9113, 8.1 */
        return stream->is_end_received ? LH_OK : LH_ERR_CANCELLED;
    case NGHTTP2_REFUSED_STREAM:
        return LH_ERR_UNAVAILABLE;
    case NGHTTP2_CANCEL:
    case NGHTTP2_INTERNAL_ERROR:
    case NGHTTP2_CONNECT_ERROR:
        return LH_ERR_CANCELLED;
    default:
        return LH_ERR_PROTOCOL;
    }
}

/* ---- What came ---- */

lh_status lh_h2_stream_add_header(lh_h2_stream *stream, const uint8_t *name, size_t name_length,
                                  const uint8_t *value, size_t value_length) {
    if (stream->request)
        return lh_h2_request_builder_add(stream->request, name, name_length, value, value_length);
    if (!stream->is_response_reported && name_length == 7 && memcmp(name, ":status", 7) == 0)
        stream->http_status =
            atoi((const char *)value); /* three digits and a terminator: nghttp2 has checked */
    return LH_OK;
}

static void dispatch_request(lh_h2_stream *stream) {
    const lh_h2_session_config *config = stream->streams->framer->config;
    lh_h2_request request;
    lh_status status = lh_h2_request_builder_finish(stream->request, &request);
    request.peer = config->peer;
    request.connection = config->connection;
    request.peer_identity = config->peer_identity;
    if (status == LH_ERR_INVALID)
        lh_h2_stream_respond(stream, 400,
                             "the request needs a method and a path that begins with '/'\n");
    else if (status == LH_OK)
        config->on_request(config->server_context, stream, &request, &stream->events,
                           &stream->context);
    assert(!stream->events || stream->events->on_closed);
    if (!stream->events && !stream->has_responded)
        lh_h2_stream_cancel(stream);
    drop_request(stream);
}

static void report_response(lh_h2_stream *stream) {
    if (stream->is_response_reported || stream->http_status < 200)
        return;
    stream->is_response_reported = true;
    if (stream->events->on_response && !stream->is_cancelled)
        stream->events->on_response(stream, stream->context, stream->http_status);
}

bool lh_h2_stream_end_headers(lh_h2_stream *stream) {
    bool is_request = stream->request;
    if (is_request)
        dispatch_request(stream);
    else if (!stream->streams->framer->is_server)
        report_response(stream);
    return is_request;
}

bool lh_h2_stream_receive(lh_h2_stream *stream, const uint8_t *bytes, size_t length) {
    if (!stream->events || !stream->events->on_body || stream->is_cancelled)
        return false;
    stream->unconsumed += length;
    stream->events->on_body(stream, stream->context, bytes, length);
    return true;
}

void lh_h2_stream_end_received(lh_h2_stream *stream) {
    stream->is_end_received = true;
    if (stream->events && stream->events->on_end && !stream->is_cancelled)
        stream->events->on_end(stream, stream->context);
}

void lh_h2_stream_consume(lh_h2_stream *stream, size_t length) {
    lh_h2_framer *framer = stream->streams->framer;
    assert(length <= stream->unconsumed);
    if (framer->is_dead)
        return;
    stream->unconsumed -= length;
    lh_h2_framer_check_memory(framer, nghttp2_session_consume(framer->nghttp2, stream->id, length));
    lh_h2_framer_wake(framer);
}

/* ---- The outgoing body ---- */

static uint64_t outgoing_bytes(const lh_h2_stream *stream) {
    return stream->pulled.read ? stream->pulled.length : stream->outgoing.bytes;
}

static bool has_output(const lh_h2_stream *stream) {
    return outgoing_bytes(stream) > 0 || stream->is_ended;
}

static lh_h2_stream *stream_at(const lh_send_place *place) {
    return (lh_h2_stream *)((char *)place - offsetof(lh_h2_stream, place));
}

/* Something to send, and the peer takes it: a stream whose window is used up does not hold up the
 * other class. */
static bool is_ready(const lh_send_place *place) {
    const lh_h2_stream *stream = stream_at(place);
    if (!has_output(stream))
        return false;
    int32_t window =
        nghttp2_session_get_stream_remote_window_size(stream->streams->framer->nghttp2, stream->id);
    return window != 0; /* -1: not opened yet */
}

static bool is_its_turn(const lh_h2_stream *stream) {
    const lh_h2_streams *streams = stream->streams;
    return streams->framer->is_server ||
           lh_send_order_pick(&streams->order, is_ready) == &stream->place;
}

static ssize_t on_read(nghttp2_session *nghttp2, int32_t id, uint8_t *buffer, size_t length,
                       uint32_t *flags, nghttp2_data_source *source, void *user_data) {
    (void)nghttp2;
    (void)id;
    (void)buffer;
    (void)user_data;
    lh_h2_stream *stream = source->ptr;
    if (!has_output(stream) || !is_its_turn(stream)) {
        stream->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    uint64_t outgoing = outgoing_bytes(stream);
    if (outgoing < length)
        length = (size_t)outgoing;
    if (length == outgoing && stream->is_ended)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)length;
}

static nghttp2_data_provider provider_of(lh_h2_stream *stream) {
    return (nghttp2_data_provider){.source.ptr = stream, .read_callback = on_read};
}

static bool pull(lh_h2_stream *stream, uint8_t *bytes, size_t length) {
    assert(length <= stream->pulled.length);
    stream->pulled.length -= length;
    if (length == 0 || stream->pulled.read(stream->pulled.context, bytes, length) == LH_OK)
        return true;
    stream->has_failed = stream->is_cancelled = true;
    return false;
}

bool lh_h2_stream_pop(lh_h2_stream *stream, uint8_t *bytes, size_t length, bool is_last) {
    bool is_had = true;
    if (stream->pulled.read)
        is_had = pull(stream, bytes, length);
    else
        lh_byte_queue_pop(&stream->outgoing, bytes, length);
    if (is_last || !is_had)
        lh_send_order_leave(&stream->streams->order, &stream->place);
    return is_had;
}

bool lh_h2_stream_has_failed(const lh_h2_stream *stream) {
    return stream->has_failed;
}

bool lh_h2_stream_end_sent(lh_h2_stream *stream) {
    stream->is_end_sent = true;
    return stream->streams->framer->is_server && !stream->events && !stream->is_end_received;
}

bool lh_h2_stream_has_sent_end(const lh_h2_stream *stream) {
    return stream->is_end_sent;
}

static bool resume(lh_h2_stream *stream) {
    lh_h2_framer *framer = stream->streams->framer;
    if (!stream->is_deferred)
        return false;
    stream->is_deferred = false;
    int code = nghttp2_session_resume_data(framer->nghttp2, stream->id);
    lh_h2_framer_check_memory(framer, code);
    return code == 0;
}

bool lh_h2_streams_resume_next(lh_h2_streams *streams) {
    lh_send_place *place = lh_send_order_pick(&streams->order, is_ready);
    return place && resume(stream_at(place));
}

/* There is something new to send, unless `status` says otherwise: a client's stream is resumed when
 * its turn comes. */
static lh_status offer(lh_h2_stream *stream, lh_status status) {
    if (status != LH_OK)
        return status;
    if (stream->streams->framer->is_server)
        resume(stream);
    lh_h2_framer_wake(stream->streams->framer);
    return LH_OK;
}

lh_status lh_h2_stream_write(lh_h2_stream *stream, const void *bytes, size_t length) {
    if (stream->is_cancelled)
        return LH_ERR_CANCELLED;
    assert(!stream->is_ended);
    return offer(stream, lh_byte_queue_push(&stream->outgoing, bytes, length));
}

lh_status lh_h2_stream_write_owned(lh_h2_stream *stream, void *bytes, size_t length) {
    if (stream->is_cancelled) {
        free(bytes);
        return LH_ERR_CANCELLED;
    }
    assert(!stream->is_ended);
    return offer(stream, lh_byte_queue_push_owned(&stream->outgoing, bytes, length));
}

void lh_h2_stream_end(lh_h2_stream *stream) {
    if (stream->is_cancelled || stream->is_ended)
        return;
    stream->is_ended = true;
    offer(stream, LH_OK);
}

void lh_h2_stream_pull_body(lh_h2_stream *stream, uint64_t length, lh_h2_read_body *read,
                            void *context) {
    if (stream->is_cancelled)
        return;
    assert(!stream->is_ended && !stream->pulled.read && stream->outgoing.bytes == 0);
    stream->pulled.length = length;
    stream->pulled.read = read;
    stream->pulled.context = context;
    lh_h2_stream_end(stream);
}

void lh_h2_stream_cancel(lh_h2_stream *stream) {
    lh_h2_framer *framer = stream->streams->framer;
    if (stream->is_cancelled)
        return;
    stream->is_cancelled = true;
    lh_send_order_leave(&stream->streams->order, &stream->place);
    lh_byte_queue_reset(&stream->outgoing);
    stream->pulled.length = 0;
    lh_h2_framer_check_memory(framer, nghttp2_submit_rst_stream(framer->nghttp2, NGHTTP2_FLAG_NONE,
                                                                stream->id, NGHTTP2_CANCEL));
    lh_h2_framer_wake(framer);
}

size_t lh_h2_stream_queued_bytes(const lh_h2_stream *stream) {
    return stream->outgoing.bytes;
}

/* ---- Headers of ours ---- */

static nghttp2_nv field(const char *name, const char *value) {
    return (nghttp2_nv){.name = (uint8_t *)name,
                        .value = (uint8_t *)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value),
                        .flags = NGHTTP2_NV_FLAG_NONE};
}

/* Adds the user's headers behind `count` others. False when one must not be sent. */
static bool add_fields(nghttp2_nv fields[HEADERS_MAX], size_t *count, const lh_h2_header *extra,
                       size_t extra_count) {
    if (extra_count > HEADERS_MAX - *count)
        return false;
    for (size_t i = 0; i < extra_count; i++) {
        nghttp2_nv nv = field(extra[i].name, extra[i].value);
        if (!nghttp2_check_header_name(nv.name, nv.namelen) ||
            !nghttp2_check_header_value(nv.value, nv.valuelen))
            return false;
        fields[(*count)++] = nv;
    }
    return true;
}

lh_status lh_h2_stream_respond_headers(lh_h2_stream *stream, int http_status,
                                       const lh_h2_header *extra, size_t extra_count, bool end) {
    lh_h2_framer *framer = stream->streams->framer;
    assert(framer->is_server && !stream->has_responded && http_status >= 200 && http_status <= 999);
    if (stream->is_cancelled)
        return LH_ERR_CANCELLED;
    char digits[16];
    snprintf(digits, sizeof digits, "%d", http_status);
    nghttp2_nv fields[HEADERS_MAX];
    size_t count = 0;
    fields[count++] = field(":status", digits);
    if (!add_fields(fields, &count, extra, extra_count))
        return LH_ERR_INVALID;
    nghttp2_data_provider provider = provider_of(stream);
    if (nghttp2_submit_response(framer->nghttp2, stream->id, fields, count,
                                end ? NULL : &provider) != 0)
        return LH_ERR_NO_MEMORY;
    stream->has_responded = true;
    stream->is_ended |= end;
    lh_h2_framer_wake(framer);
    return LH_OK;
}

lh_status lh_h2_stream_respond(lh_h2_stream *stream, int http_status, const char *body) {
    lh_h2_header type = {"content-type",
                         body[0] == '{' ? "application/json" : "text/plain; charset=utf-8"};
    if (stream->is_cancelled)
        return LH_ERR_CANCELLED;
    lh_status status = lh_byte_queue_push(&stream->outgoing, body, strlen(body));
    if (status == LH_OK)
        status = lh_h2_stream_respond_headers(stream, http_status, &type, 1, false);
    if (status == LH_OK)
        lh_h2_stream_end(stream);
    else
        lh_h2_stream_cancel(stream);
    return status;
}

lh_status lh_h2_stream_submit(lh_h2_streams *streams, const char *method, const char *path,
                              const lh_h2_header *extra, size_t extra_count, int send_class,
                              const lh_h2_stream_events *events, void *context, lh_h2_stream **out,
                              lh_error *error) {
    const lh_h2_session_config *config = streams->framer->config;
    nghttp2_nv fields[HEADERS_MAX] = {field(":method", method), field(":scheme", config->scheme),
                                      field(":authority", config->authority), field(":path", path)};
    size_t count = 4;
    if (!nghttp2_check_method(fields[0].value, fields[0].valuelen) ||
        !nghttp2_check_path(fields[3].value, fields[3].valuelen) || path[0] != '/')
        return lh_fail(error, LH_ERR_INVALID, "%s %s is no method and path", method, path);
    if (!add_fields(fields, &count, extra, extra_count))
        return lh_fail(error, LH_ERR_INVALID,
                       "a header of %s %s must not be sent: see its name and value", method, path);
    lh_h2_stream *stream = add(streams);
    if (!stream)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    nghttp2_data_provider provider = provider_of(stream);
    stream->id =
        nghttp2_submit_request(streams->framer->nghttp2, NULL, fields, count, &provider, stream);
    if (stream->id < 0) {
        take_out(stream);
        destroy(stream);
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    }
    stream->events = events;
    stream->context = context;
    lh_send_order_join(&streams->order, &stream->place, send_class);
    lh_h2_framer_wake(streams->framer);
    *out = stream;
    return LH_OK;
}
