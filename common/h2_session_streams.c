/* Streams: their list, what users do with them, and their bodies on the way out. */
#include "common/h2_session_state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAME_HEADER_BYTES = 9,
    HEADERS_MAX = 64 /* of a request or response of ours */
};

/* ---- The list ---- */

lh_h2_stream *lh_h2_session_find(lh_h2_session *session, int32_t id) {
    return nghttp2_session_get_stream_user_data(session->nghttp2, id);
}

lh_h2_stream *lh_h2_session_add_stream(lh_h2_session *session) {
    lh_h2_stream *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->session = session;
    stream->next = session->streams;
    if (stream->next)
        stream->next->previous = stream;
    session->streams = stream;
    session->open_streams++;
    return stream;
}

static void unlist(lh_h2_stream *stream) {
    lh_h2_session *session = stream->session;
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        session->streams = stream->next;
    if (stream->next)
        stream->next->previous = stream->previous;
    session->open_streams--;
    lh_send_order_leave(&session->order, &stream->place);
}

void lh_h2_session_close_stream(lh_h2_stream *stream, lh_status status) {
    lh_h2_session *session = stream->session;
    stream->cancelled = true;
    unlist(stream);
    nghttp2_session_set_stream_user_data(session->nghttp2, stream->id, NULL);
    if (stream->unconsumed && !session->dead &&
        nghttp2_session_consume_connection(session->nghttp2, stream->unconsumed) != 0)
        lh_h2_session_set_failure(session, LH_ERR_NO_MEMORY, "out of memory");
    if (stream->events)
        stream->events->on_closed(stream, stream->context, status);
    lh_h2_request_builder_destroy(stream->request);
    lh_byte_queue_reset(&stream->outgoing);
    free(stream);
    if (!session->dead)
        lh_h2_session_wake(session); /* its turn to send passes on */
}

/* ---- The outgoing body ---- */

static bool has_output(const lh_h2_stream *stream) {
    return stream->outgoing.bytes > 0 || stream->ended;
}

static lh_h2_stream *stream_at(lh_send_place *place) {
    return (lh_h2_stream *)((char *)place - offsetof(lh_h2_stream, place));
}

/* Something to send, and the peer takes it: a stream whose window is used up does not hold up the other
 * class. */
static bool is_ready(const lh_send_place *place) {
    const lh_h2_stream *stream = stream_at((lh_send_place *)place);
    if (!has_output(stream))
        return false;
    int32_t window = nghttp2_session_get_stream_remote_window_size(stream->session->nghttp2, stream->id);
    return window != 0; /* -1: not opened yet */
}

static bool is_its_turn(const lh_h2_stream *stream) {
    const lh_h2_session *session = stream->session;
    return session->config.role == LH_H2_SERVER ||
           lh_send_order_pick(&session->order, is_ready) == &stream->place;
}

static ssize_t on_read(nghttp2_session *nghttp2, int32_t id, uint8_t *buffer, size_t length, uint32_t *flags,
                       nghttp2_data_source *source, void *user_data) {
    (void)nghttp2;
    (void)id;
    (void)buffer;
    (void)user_data;
    lh_h2_stream *stream = source->ptr;
    if (!has_output(stream) || !is_its_turn(stream)) {
        stream->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (stream->outgoing.bytes < length)
        length = stream->outgoing.bytes;
    if (length == stream->outgoing.bytes && stream->ended)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)length;
}

nghttp2_data_provider lh_h2_session_provider(lh_h2_stream *stream) {
    return (nghttp2_data_provider){.source.ptr = stream, .read_callback = on_read};
}

int lh_h2_session_on_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame, const uint8_t *header,
                               size_t length, nghttp2_data_source *source, void *user_data) {
    (void)nghttp2;
    lh_h2_session *session = user_data;
    lh_h2_stream *stream = source->ptr;
    assert(session->capacity - session->used >= FRAME_HEADER_BYTES + length);
    memcpy(session->buffer + session->used, header, FRAME_HEADER_BYTES);
    lh_byte_queue_pop(&stream->outgoing, session->buffer + session->used + FRAME_HEADER_BYTES, length);
    session->used += FRAME_HEADER_BYTES + length;
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        lh_send_order_leave(&session->order, &stream->place);
    return NGHTTP2_ERR_PAUSE; /* let _pull see whether there is room for another frame */
}

ssize_t lh_h2_session_on_frame_bytes(nghttp2_session *nghttp2, uint8_t type, int32_t id,
                                     int32_t session_window, int32_t stream_window, uint32_t peer_max,
                                     void *user_data) {
    (void)nghttp2;
    (void)type;
    (void)id;
    const lh_h2_session *session = user_data;
    int64_t bytes = session->frame_bytes;
    bytes = bytes < peer_max ? bytes : peer_max;
    bytes = bytes < session_window ? bytes : session_window;
    return (ssize_t)(bytes < stream_window ? bytes : stream_window);
}

static bool resume(lh_h2_stream *stream) {
    if (!stream->deferred)
        return false;
    stream->deferred = false;
    int code = nghttp2_session_resume_data(stream->session->nghttp2, stream->id);
    if (code == NGHTTP2_ERR_NOMEM)
        lh_h2_session_set_failure(stream->session, LH_ERR_NO_MEMORY, "out of memory");
    return code == 0;
}

bool lh_h2_session_resume_next(lh_h2_session *session) {
    lh_send_place *place = lh_send_order_pick(&session->order, is_ready);
    return place && resume(stream_at(place));
}

/* There is something new to send: a client's stream is resumed when its turn comes. */
static void offer(lh_h2_stream *stream) {
    if (stream->session->config.role == LH_H2_SERVER)
        resume(stream);
    lh_h2_session_wake(stream->session);
}

lh_status lh_h2_stream_write(lh_h2_stream *stream, const void *bytes, size_t length) {
    if (stream->cancelled)
        return LH_ERR_CANCELLED;
    assert(!stream->ended);
    lh_status status = lh_byte_queue_push(&stream->outgoing, bytes, length);
    if (status == LH_OK)
        offer(stream);
    return status;
}

lh_status lh_h2_stream_write_owned(lh_h2_stream *stream, void *bytes, size_t length) {
    if (stream->cancelled) {
        free(bytes);
        return LH_ERR_CANCELLED;
    }
    assert(!stream->ended);
    lh_status status = lh_byte_queue_push_owned(&stream->outgoing, bytes, length);
    if (status == LH_OK)
        offer(stream);
    return status;
}

void lh_h2_stream_end(lh_h2_stream *stream) {
    if (stream->cancelled || stream->ended)
        return;
    stream->ended = true;
    offer(stream);
}

void lh_h2_stream_cancel(lh_h2_stream *stream) {
    lh_h2_session *session = stream->session;
    if (stream->cancelled)
        return;
    stream->cancelled = true;
    lh_send_order_leave(&session->order, &stream->place);
    lh_byte_queue_reset(&stream->outgoing);
    if (nghttp2_submit_rst_stream(session->nghttp2, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL) != 0)
        lh_h2_session_set_failure(session, LH_ERR_NO_MEMORY, "out of memory");
    lh_h2_session_wake(session);
}

void lh_h2_stream_consume(lh_h2_stream *stream, size_t length) {
    lh_h2_session *session = stream->session;
    assert(length <= stream->unconsumed);
    if (session->dead)
        return;
    stream->unconsumed -= length;
    if (nghttp2_session_consume(session->nghttp2, stream->id, length) == NGHTTP2_ERR_NOMEM)
        lh_h2_session_set_failure(session, LH_ERR_NO_MEMORY, "out of memory");
    lh_h2_session_wake(session);
}

size_t lh_h2_stream_queued_bytes(const lh_h2_stream *stream) {
    return stream->outgoing.bytes;
}

/* ---- Headers ---- */

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

lh_status lh_h2_stream_respond_headers(lh_h2_stream *stream, int http_status, const lh_h2_header *extra,
                                       size_t extra_count, bool end) {
    lh_h2_session *session = stream->session;
    assert(session->config.role == LH_H2_SERVER && !stream->responded && http_status >= 200 &&
           http_status <= 999);
    if (stream->cancelled)
        return LH_ERR_CANCELLED;
    char digits[16];
    snprintf(digits, sizeof digits, "%d", http_status);
    nghttp2_nv fields[HEADERS_MAX];
    size_t count = 0;
    fields[count++] = field(":status", digits);
    if (!add_fields(fields, &count, extra, extra_count))
        return LH_ERR_INVALID;
    nghttp2_data_provider provider = lh_h2_session_provider(stream);
    if (nghttp2_submit_response(session->nghttp2, stream->id, fields, count, end ? NULL : &provider) != 0)
        return LH_ERR_NO_MEMORY;
    stream->responded = true;
    if (end)
        stream->ended = true;
    lh_h2_session_wake(session);
    return LH_OK;
}

lh_status lh_h2_stream_respond(lh_h2_stream *stream, int http_status, const char *body) {
    lh_h2_header type = {"content-type", body[0] == '{' ? "application/json" : "text/plain; charset=utf-8"};
    if (stream->cancelled)
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

static lh_status check_room(const lh_h2_session *session, lh_error *error) {
    uint32_t limit =
        nghttp2_session_get_remote_settings(session->nghttp2, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    if (lh_h2_session_is_shutting_down(session) || !nghttp2_session_check_request_allowed(session->nghttp2))
        return lh_fail(error, LH_ERR_UNAVAILABLE, "the connection is closing");
    if (session->open_streams >= limit)
        return lh_fail(error, LH_ERR_BUSY, "the peer takes no more than %u requests at once", limit);
    return LH_OK;
}

lh_status lh_h2_session_submit(lh_h2_session *session, const char *method, const char *path,
                               const lh_h2_header *extra, size_t extra_count, int send_class,
                               const lh_h2_stream_events *events, void *context, lh_h2_stream **out,
                               lh_error *error) {
    assert(session->config.role == LH_H2_CLIENT && events && events->on_closed);
    lh_status status = check_room(session, error);
    if (status != LH_OK)
        return status;
    nghttp2_nv fields[HEADERS_MAX];
    size_t count = 0;
    fields[count++] = field(":method", method);
    fields[count++] = field(":scheme", session->config.scheme);
    fields[count++] = field(":authority", session->config.authority);
    fields[count++] = field(":path", path);
    if (!nghttp2_check_method(fields[0].value, fields[0].valuelen) ||
        !nghttp2_check_path(fields[3].value, fields[3].valuelen) || path[0] != '/')
        return lh_fail(error, LH_ERR_INVALID, "%s %s is no method and path", method, path);
    if (!add_fields(fields, &count, extra, extra_count))
        return lh_fail(error, LH_ERR_INVALID, "a header of %s %s must not be sent: see its name and value",
                       method, path);
    lh_h2_stream *stream = lh_h2_session_add_stream(session);
    if (!stream)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    stream->events = events;
    stream->context = context;
    nghttp2_data_provider provider = lh_h2_session_provider(stream);
    stream->id = nghttp2_submit_request(session->nghttp2, NULL, fields, count, &provider, stream);
    if (stream->id < 0) {
        stream->events = NULL;
        lh_h2_session_close_stream(stream, LH_ERR_NO_MEMORY);
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    }
    lh_send_order_join(&session->order, &stream->place, send_class);
    lh_h2_session_wake(session);
    *out = stream;
    return LH_OK;
}
