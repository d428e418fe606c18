/* What nghttp2 tells about incoming and outgoing frames, turned into streams' events. */
#include "common/h2_session_state.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FAULTS_FREE = 64,       /* faults a peer may make at once ... */
    FAULTS_PER_STREAMS = 8, /* ... and one more for so many streams that ended well */
    RESETS_FREE = 500,      /* a fleet cancels what is in flight */
    RESETS_PER_STREAMS = 2
};

static lh_h2_session *session_of(void *user_data) {
    return user_data;
}

/* What a peer does wrong, or undoes, costs us work and it nothing (rapid reset, CVE-2023-44487; MadeYouReset,
 * CVE-2025-8671): so there is a budget, which grows with the streams that end well. */
static int spend(lh_h2_session *session, uint64_t spent, uint64_t free, uint64_t per_streams,
                 const char *what) {
    char reason[96];
    if (spent <= free + session->completed / per_streams)
        return 0;
    snprintf(reason, sizeof reason, "the peer made %llu %s", (unsigned long long)spent, what);
    lh_h2_session_set_failure(session, LH_ERR_LIMIT, reason);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int count_fault(lh_h2_session *session) {
    return spend(session, ++session->faults, FAULTS_FREE, FAULTS_PER_STREAMS, "protocol faults");
}

/* A stream that was answered to its end may be reset: its client has what it wants and need not send the rest. */
static int count_reset(lh_h2_session *session, int32_t id) {
    const lh_h2_stream *stream = lh_h2_session_find(session, id);
    if (session->config.role == LH_H2_CLIENT || (stream && stream->end_sent))
        return 0;
    return spend(session, ++session->resets, RESETS_FREE, RESETS_PER_STREAMS, "resets of streams");
}

static int reset(lh_h2_session *session, int32_t id, uint32_t code) {
    return nghttp2_submit_rst_stream(session->nghttp2, NGHTTP2_FLAG_NONE, id, code);
}

/* ---- Incoming ---- */

static int on_begin_headers(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user_data) {
    lh_h2_session *session = session_of(user_data);
    if (session->config.role != LH_H2_SERVER || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    int32_t id = frame->hd.stream_id;
    if (session->shutting_down)
        return reset(session, id, NGHTTP2_REFUSED_STREAM);
    lh_h2_stream *stream = lh_h2_session_add_stream(session);
    if (!stream)
        return reset(session, id, NGHTTP2_REFUSED_STREAM);
    stream->id = id;
    stream->request = lh_h2_request_builder_create(session->limits.header_bytes_max);
    if (!stream->request) {
        lh_h2_session_close_stream(stream, LH_ERR_NO_MEMORY);
        return reset(session, id, NGHTTP2_REFUSED_STREAM);
    }
    session->mid_headers++;
    nghttp2_session_set_stream_user_data(nghttp2, id, stream);
    return 0;
}

static int on_header(nghttp2_session *nghttp2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *user_data) {
    (void)nghttp2;
    (void)flags;
    lh_h2_stream *stream = lh_h2_session_find(session_of(user_data), frame->hd.stream_id);
    if (!stream)
        return 0;
    if (stream->request) {
        lh_status status = lh_h2_request_builder_add(stream->request, name, name_length, value, value_length);
        return status == LH_ERR_NO_MEMORY ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
    }
    if (!stream->response_reported && name_length == 7 && memcmp(name, ":status", 7) == 0)
        stream->http_status =
            atoi((const char *)value); /* three digits and a terminator: nghttp2 has checked */
    return 0;
}

static void request_drop(lh_h2_stream *stream) {
    if (!stream->request)
        return;
    lh_h2_request_builder_destroy(stream->request);
    stream->request = NULL;
    stream->session->mid_headers--;
}

static void dispatch_request(lh_h2_stream *stream) {
    lh_h2_session *session = stream->session;
    lh_h2_request request;
    session->last_id = stream->id;
    lh_status status = lh_h2_request_builder_finish(stream->request, &request);
    request.peer = session->config.peer;
    request.peer_name = session->config.peer_name;
    if (status == LH_ERR_LIMIT)
        lh_h2_stream_respond(stream, 431, "the request's headers are over the limit\n");
    else if (status == LH_ERR_INVALID)
        lh_h2_stream_respond(stream, 400, "the request needs a method and a path that begins with '/'\n");
    else if (status != LH_OK)
        lh_h2_stream_cancel(stream);
    else
        session->config.on_request(session->config.server_context, stream, &request, &stream->events,
                                   &stream->context);
    assert(!stream->events || stream->events->on_closed);
    if (!stream->events && !stream->responded)
        lh_h2_stream_cancel(stream);
    request_drop(stream);
}

static void report_end(lh_h2_stream *stream) {
    stream->remote_ended = true;
    if (stream->events && stream->events->on_end && !stream->cancelled)
        stream->events->on_end(stream, stream->context);
}

static void report_response(lh_h2_stream *stream) {
    if (stream->response_reported || stream->http_status < 200)
        return;
    stream->response_reported = true;
    if (stream->events->on_response && !stream->cancelled)
        stream->events->on_response(stream, stream->context, stream->http_status);
}

static void on_headers_frame(lh_h2_session *session, const nghttp2_frame *frame) {
    lh_h2_stream *stream = lh_h2_session_find(session, frame->hd.stream_id);
    if (!stream)
        return;
    if (stream->request)
        dispatch_request(stream);
    else if (session->config.role == LH_H2_CLIENT)
        report_response(stream);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        report_end(stream);
}

static void on_data_frame(lh_h2_session *session, const nghttp2_frame *frame) {
    lh_h2_stream *stream = lh_h2_session_find(session, frame->hd.stream_id);
    if (stream && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        report_end(stream);
}

static void on_settings_frame(lh_h2_session *session, const nghttp2_frame *frame) {
    if (session->settings_came || (frame->hd.flags & NGHTTP2_FLAG_ACK))
        return;
    session->settings_came = true;
    session->config.on_settings(session->config.context);
}

static void on_ping_frame(lh_h2_session *session, const nghttp2_frame *frame) {
    uint64_t number;
    if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
        return;
    memcpy(&number, frame->ping.opaque_data, sizeof number);
    session->config.on_ping_answer(session->config.context, number);
}

static void on_goaway_frame(lh_h2_session *session, const nghttp2_frame *frame) {
    session->goaway_came = true;
    if (frame->goaway.error_code == NGHTTP2_NO_ERROR)
        return;
    snprintf(session->complaint, sizeof session->complaint, "the peer closed the connection: %s",
             nghttp2_http2_strerror(frame->goaway.error_code));
}

static int on_frame_recv(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user_data) {
    (void)nghttp2;
    lh_h2_session *session = session_of(user_data);
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        on_headers_frame(session, frame);
        break;
    case NGHTTP2_DATA:
        on_data_frame(session, frame);
        break;
    case NGHTTP2_SETTINGS:
        on_settings_frame(session, frame);
        break;
    case NGHTTP2_PING:
        on_ping_frame(session, frame);
        break;
    case NGHTTP2_GOAWAY:
        on_goaway_frame(session, frame);
        break;
    case NGHTTP2_RST_STREAM:
        return count_reset(session, frame->hd.stream_id);
    default:
        break;
    }
    return 0;
}

static int on_data_chunk(nghttp2_session *nghttp2, uint8_t flags, int32_t id, const uint8_t *bytes,
                         size_t length, void *user_data) {
    (void)flags;
    lh_h2_stream *stream = lh_h2_session_find(session_of(user_data), id);
    if (!stream || !stream->events || !stream->events->on_body || stream->cancelled)
        return nghttp2_session_consume(nghttp2, id, length) == NGHTTP2_ERR_NOMEM ? NGHTTP2_ERR_NOMEM : 0;
    stream->unconsumed += length;
    stream->events->on_body(stream, stream->context, bytes, length);
    return 0;
}

static int on_invalid_frame(nghttp2_session *nghttp2, const nghttp2_frame *frame, int code, void *user_data) {
    (void)nghttp2;
    (void)frame;
    (void)code;
    return count_fault(session_of(user_data));
}

static int on_complaint(nghttp2_session *nghttp2, int code, const char *message, size_t length,
                        void *user_data) {
    (void)nghttp2;
    (void)code;
    lh_h2_session *session = session_of(user_data);
    snprintf(session->complaint, sizeof session->complaint, "%.*s", (int)length, message);
    return 0;
}

/* ---- Outgoing ---- */

/* A response went out whole while the request's body still comes, and nobody wants that. */
static void end_of_stream_sent(lh_h2_session *session, int32_t id) {
    lh_h2_stream *stream = lh_h2_session_find(session, id);
    if (!stream)
        return;
    stream->end_sent = true;
    if (session->config.role == LH_H2_SERVER && !stream->events && !stream->remote_ended)
        reset(session, id, NGHTTP2_NO_ERROR);
}

/* With an error code when nghttp2 found the peer at fault. */
static void goaway_sent(lh_h2_session *session, uint32_t code) {
    char reason[sizeof session->reason];
    session->goaway_sent = true;
    if (code == NGHTTP2_NO_ERROR)
        return;
    snprintf(reason, sizeof reason, "the peer broke HTTP/2's rules: %s%s%.100s", nghttp2_http2_strerror(code),
             session->complaint[0] ? ": " : "", session->complaint);
    lh_h2_session_set_failure(session, LH_ERR_PROTOCOL, reason);
}

static int on_frame_send(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user_data) {
    (void)nghttp2;
    lh_h2_session *session = session_of(user_data);
    uint32_t code;
    switch (frame->hd.type) {
    case NGHTTP2_DATA:
    case NGHTTP2_HEADERS:
        if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
            end_of_stream_sent(session, frame->hd.stream_id);
        return 0;
    case NGHTTP2_RST_STREAM:
        code = frame->rst_stream.error_code;
        return code == NGHTTP2_NO_ERROR || code == NGHTTP2_CANCEL ? 0 : count_fault(session);
    case NGHTTP2_GOAWAY:
        goaway_sent(session, frame->goaway.error_code);
        return 0;
    default:
        return 0;
    }
}

/* ---- The end ---- */

static lh_status closing_status(const lh_h2_stream *stream, uint32_t code) {
    switch (code) {
    case NGHTTP2_NO_ERROR: /* a server may answer early and then reset with this: RFC 9113, 8.1 */
        return stream->remote_ended && !stream->cancelled ? LH_OK : LH_ERR_CANCELLED;
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

static int on_stream_close(nghttp2_session *nghttp2, int32_t id, uint32_t code, void *user_data) {
    (void)nghttp2;
    lh_h2_session *session = session_of(user_data);
    lh_h2_stream *stream = lh_h2_session_find(session, id);
    if (!stream)
        return 0;
    lh_status status = stream->cancelled ? LH_ERR_CANCELLED : closing_status(stream, code);
    session->completed += status == LH_OK;
    request_drop(stream);
    lh_h2_session_close_stream(stream, status);
    return 0;
}

lh_status lh_h2_session_callbacks(nghttp2_session_callbacks **out) {
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return LH_ERR_NO_MEMORY;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_error_callback2(callbacks, on_complaint);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, lh_h2_session_on_send_data);
    nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, lh_h2_session_on_frame_bytes);
    *out = callbacks;
    return LH_OK;
}
