/* What nghttp2 tells of incoming and outgoing frames becomes the streams' events; the peer's faults
 * are counted. */
#include "common/http2/session.h"

#include "common/base/arithmetic.h"
#include "common/http2/conduct.h"
#include "common/http2/framer.h"
#include "common/http2/streams.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FRAME_HEADER_BYTES = 9,
    OUTBOUND_SPARE = 1024, /* control frames in the queue, above what its streams may cause */
    PREFACE_QUOTED_BYTES = 24
};

struct lh_h2_session {
    lh_h2_session_config config;
    lh_h2_framer framer;
    lh_h2_streams streams;

    uint32_t frame_bytes; /* of a DATA frame, at most */

    uint8_t *buffer; /* during _pull */
    size_t capacity, used;

    lh_h2_conduct conduct;
    lh_h2_frame_scanner scanner;
    int32_t last_id; /* server: of the last request that reached the user */
    bool settings_came, shutting_down, goaway_came, goaway_sent;
    char complaint[160]; /* nghttp2's or the peer's last one */
};

/* What a callback returns when the peer may have gone over its budget. */
static int judge(lh_h2_session *session, lh_status status, const lh_error *error) {
    if (status == LH_OK)
        return 0;
    lh_h2_framer_fail(&session->framer, status, error->message);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int count_fault(lh_h2_session *session) {
    lh_error error;
    return judge(session, lh_h2_conduct_count_fault(&session->conduct, &error), &error);
}

/* A stream that was answered to its end may be reset: its client has what it wants and need not
 * send the rest. One that has ended on both sides is gone here, and clients (libcurl 7.88) reset it
 * all the same. */
static int count_reset(lh_h2_session *session, int32_t id) {
    const lh_h2_stream *stream = lh_h2_streams_find(&session->streams, id);
    lh_error error;
    if (!session->framer.is_server || !stream || lh_h2_stream_has_sent_end(stream))
        return 0;
    return judge(session, lh_h2_conduct_count_reset(&session->conduct, &error), &error);
}

static int reset(lh_h2_session *session, int32_t id, uint32_t code) {
    return nghttp2_submit_rst_stream(session->framer.nghttp2, NGHTTP2_FLAG_NONE, id, code);
}

/* ---- Incoming ---- */

static int on_begin_frame(nghttp2_session *nghttp2, const nghttp2_frame_hd *header,
                          void *user_data) {
    (void)nghttp2;
    lh_h2_session *session = user_data;
    lh_error error;
    if (header->type != NGHTTP2_HEADERS && header->type != NGHTTP2_CONTINUATION)
        return 0;
    return judge(session,
                 lh_h2_conduct_count_block_frame(&session->conduct, header->type == NGHTTP2_HEADERS,
                                                 header->length, &error),
                 &error);
}

static int on_begin_headers(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user_data) {
    (void)nghttp2;
    lh_h2_session *session = user_data;
    if (!session->framer.is_server || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    int32_t id = frame->hd.stream_id;
    if (session->shutting_down || lh_h2_stream_accept(&session->streams, id) != LH_OK)
        return reset(session, id, NGHTTP2_REFUSED_STREAM);
    return 0;
}

/* Whoever goes over the limit is not decoded any further: a fatal error ends nghttp2's work amid
 * the block. */
static int count_field(lh_h2_session *session, size_t name_length, size_t value_length) {
    lh_error error;
    return judge(session,
                 lh_h2_conduct_count_field(&session->conduct, name_length, value_length,
                                           session->config.limits->header_bytes_max, &error),
                 &error);
}

static int on_header(nghttp2_session *nghttp2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *user_data) {
    (void)nghttp2;
    (void)flags;
    lh_h2_session *session = user_data;
    lh_h2_stream *stream = lh_h2_streams_find(&session->streams, frame->hd.stream_id);
    if (count_field(session, name_length, value_length) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    bool failed =
        stream && lh_h2_stream_add_header(stream, name, name_length, value, value_length) != LH_OK;
    return failed ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE : 0;
}

/* HEADERS and DATA. */
static void on_stream_frame(lh_h2_session *session, const nghttp2_frame *frame) {
    lh_h2_stream *stream = lh_h2_streams_find(&session->streams, frame->hd.stream_id);
    if (frame->hd.type == NGHTTP2_HEADERS)
        lh_h2_conduct_end_block(&session->conduct);
    if (!stream)
        return;
    if (frame->hd.type == NGHTTP2_HEADERS && lh_h2_stream_end_headers(stream))
        session->last_id = frame->hd.stream_id;
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        lh_h2_stream_end_received(stream);
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
    lh_h2_session *session = user_data;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        on_stream_frame(session, frame);
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
    lh_h2_session *session = user_data;
    lh_h2_stream *stream = lh_h2_streams_find(&session->streams, id);
    if (stream && lh_h2_stream_receive(stream, bytes, length))
        return 0;
    return nghttp2_session_consume(nghttp2, id, length) == NGHTTP2_ERR_NOMEM ? NGHTTP2_ERR_NOMEM
                                                                             : 0;
}

static int on_invalid_frame(nghttp2_session *nghttp2, const nghttp2_frame *frame, int code,
                            void *user_data) {
    (void)nghttp2;
    (void)frame;
    (void)code;
    return count_fault(user_data);
}

static int on_complaint(nghttp2_session *nghttp2, int code, const char *message, size_t length,
                        void *user_data) {
    (void)nghttp2;
    (void)code;
    lh_h2_session *session = user_data;
    snprintf(session->complaint, sizeof session->complaint, "%.*s", (int)length, message);
    return 0;
}

/* ---- Outgoing ---- */

/* A response went out whole while the request's body still comes, and nobody wants that. */
static void end_of_stream_sent(lh_h2_session *session, int32_t id) {
    lh_h2_stream *stream = lh_h2_streams_find(&session->streams, id);
    if (stream && lh_h2_stream_end_sent(stream))
        reset(session, id, NGHTTP2_NO_ERROR);
}

/* A reset that the peer has caused counts against it. */
static int reset_sent(lh_h2_session *session, const nghttp2_frame *frame) {
    uint32_t code = frame->rst_stream.error_code;
    const lh_h2_stream *stream = lh_h2_streams_find(&session->streams, frame->hd.stream_id);
    bool is_ours = code == NGHTTP2_NO_ERROR || code == NGHTTP2_CANCEL ||
                   (stream && lh_h2_stream_has_failed(stream));
    return is_ours ? 0 : count_fault(session);
}

/* With an error code when nghttp2 found the peer at fault. */
static void goaway_sent(lh_h2_session *session, uint32_t code) {
    char reason[sizeof session->framer.reason];
    session->goaway_sent = true;
    if (code == NGHTTP2_NO_ERROR)
        return;
    snprintf(reason, sizeof reason, "the peer broke HTTP/2's rules: %s%s%.100s",
             nghttp2_http2_strerror(code), session->complaint[0] ? ": " : "", session->complaint);
    lh_h2_framer_fail(&session->framer, LH_ERR_PROTOCOL, reason);
}

static int on_frame_send(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user_data) {
    (void)nghttp2;
    lh_h2_session *session = user_data;
    switch (frame->hd.type) {
    case NGHTTP2_DATA:
    case NGHTTP2_HEADERS:
        if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
            end_of_stream_sent(session, frame->hd.stream_id);
        return 0;
    case NGHTTP2_RST_STREAM:
        return reset_sent(session, frame);
    case NGHTTP2_GOAWAY:
        goaway_sent(session, frame->goaway.error_code);
        return 0;
    default:
        return 0;
    }
}

/* ---- The end ---- */

static int on_stream_close(nghttp2_session *nghttp2, int32_t id, uint32_t code, void *user_data) {
    (void)nghttp2;
    lh_h2_session *session = user_data;
    lh_h2_stream *stream = lh_h2_streams_find(&session->streams, id);
    if (!stream)
        return 0;
    lh_status status = lh_h2_stream_closing_status(stream, code);
    session->conduct.completed += status == LH_OK;
    lh_h2_stream_close(stream, status);
    return 0;
}

/* DATA goes straight into the owner's buffer. */
static int on_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame, const uint8_t *header,
                        size_t length, nghttp2_data_source *source, void *user_data) {
    (void)nghttp2;
    lh_h2_session *session = user_data;
    assert(session->capacity - session->used >= FRAME_HEADER_BYTES + length);
    memcpy(session->buffer + session->used, header, FRAME_HEADER_BYTES);
    if (!lh_h2_stream_pop(source->ptr, session->buffer + session->used + FRAME_HEADER_BYTES, length,
                          frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* INTERNAL_ERROR */
    session->used += FRAME_HEADER_BYTES + length;
    lh_h2_conduct_note_sent(&session->conduct, length);
    return NGHTTP2_ERR_PAUSE; /* let _pull see whether there is room for another frame */
}

/* How much a DATA frame may hold. */
static ssize_t on_frame_bytes(nghttp2_session *nghttp2, uint8_t type, int32_t id,
                              int32_t session_window, int32_t stream_window, uint32_t peer_max,
                              void *user_data) {
    (void)nghttp2;
    (void)type;
    (void)id;
    const lh_h2_session *session = user_data;
    int64_t window = lh_min_i64(session_window, stream_window);
    return (ssize_t)lh_min_i64(lh_min_u32(session->frame_bytes, peer_max), window);
}

static nghttp2_session_callbacks *callbacks_create(void) {
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_error_callback2(callbacks, on_complaint);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, on_send_data);
    nghttp2_session_callbacks_set_data_source_read_length_callback(callbacks, on_frame_bytes);
    return callbacks;
}

/* ---- Life ---- */

lh_status lh_h2_session_create(const lh_h2_session_config *config, lh_h2_session **out,
                               lh_error *error) {
    lh_h2_session *session = calloc(1, sizeof *session);
    if (!session)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    session->config = *config;
    session->frame_bytes = LH_H2_FRAME_BYTES_MAX;
    session->streams.framer = &session->framer;
    lh_h2_frame_scanner_init(&session->scanner,
                             config->role == LH_H2_SERVER ? NGHTTP2_CLIENT_MAGIC_LEN : 0);
    nghttp2_session_callbacks *callbacks = callbacks_create();
    lh_status status =
        callbacks ? lh_h2_framer_open(&session->framer, &session->config, callbacks, session)
                  : LH_ERR_NO_MEMORY;
    nghttp2_session_callbacks_del(callbacks);
    if (status != LH_OK) {
        lh_h2_session_destroy(session);
        return lh_fail(error, status, "out of memory");
    }
    *out = session;
    return LH_OK;
}

void lh_h2_session_destroy(lh_h2_session *session) {
    assert(!session->streams.first);
    lh_h2_framer_close(&session->framer);
    free(session);
}

/* The peer took the wrong door: say so in words that name the mistake. */
static const char *foreign_protocol(const lh_h2_session *session, const uint8_t *bytes,
                                    size_t length) {
    if (session->settings_came || length < 5)
        return NULL;
    if (bytes[0] >= 0x14 && bytes[0] <= 0x17 && bytes[1] == 0x03)
        return "the peer speaks TLS, this side is set up without";
    if (memcmp(bytes, "HTTP/", 5) == 0)
        return "the peer speaks HTTP/1, not HTTP/2";
    return NULL;
}

/* The first bytes name the program that took the wrong port, so the reason quotes them. */
static void fail_preface(lh_h2_framer *framer, const uint8_t *bytes, size_t length) {
    char quoted[PREFACE_QUOTED_BYTES + 1] = {0};
    char reason[sizeof framer->reason];
    for (size_t i = 0; i < length && i < PREFACE_QUOTED_BYTES; i++)
        quoted[i] = bytes[i] >= ' ' && bytes[i] <= '~' && bytes[i] != '"' ? (char)bytes[i] : '.';
    snprintf(reason, sizeof reason,
             "the peer does not speak HTTP/2 with prior knowledge: it begins with '%s'", quoted);
    lh_h2_framer_fail(framer, LH_ERR_PROTOCOL, reason);
}

static lh_status count_frames(lh_h2_session *session, const uint8_t *bytes, size_t length,
                              lh_error *error) {
    lh_h2_frame_header frame;
    lh_status status = LH_OK;
    while (status == LH_OK && lh_h2_frame_scanner_next(&session->scanner, &bytes, &length, &frame))
        status = lh_h2_conduct_count_frame(&session->conduct, &frame, error);
    return status;
}

lh_status lh_h2_session_receive(lh_h2_session *session, const uint8_t *bytes, size_t length,
                                lh_error *error) {
    lh_h2_framer *framer = &session->framer;
    assert(!framer->is_dead);
    const char *foreign = foreign_protocol(session, bytes, length);
    lh_error flood;
    if (foreign)
        lh_h2_framer_fail(framer, LH_ERR_PROTOCOL, foreign);
    else if (count_frames(session, bytes, length, &flood) != LH_OK)
        lh_h2_framer_fail(framer, flood.status, flood.message);
    if (framer->failure)
        return lh_h2_framer_failure(framer, error);
    ssize_t code = nghttp2_session_mem_recv(framer->nghttp2, bytes, length);
    size_t queue_max = OUTBOUND_SPARE + 4u * (size_t)session->config.limits->streams_max;
    if (code >= 0 && nghttp2_session_get_outbound_queue_size(framer->nghttp2) > queue_max)
        code = NGHTTP2_ERR_FLOODED;
    if (code == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
        fail_preface(framer, bytes, length);
    else if (code < 0)
        lh_h2_framer_fail_code(framer, code);
    return lh_h2_framer_failure(framer, error);
}

void lh_h2_session_note_time(lh_h2_session *session, uint64_t passed_ms) {
    lh_h2_conduct_note_time(&session->conduct, passed_ms);
}

/* Frames are chosen one by one, each when there is room for any: none waits here while a more
 * urgent one comes. */
static void fill(lh_h2_session *session) {
    while (session->capacity - session->used >= LH_H2_PULL_BYTES_MIN) {
        const uint8_t *bytes;
        size_t before = session->used;
        /* DATA goes to on_send_data */
        ssize_t length = nghttp2_session_mem_send(session->framer.nghttp2, &bytes);
        if (length > (ssize_t)(session->capacity - session->used))
            length = NGHTTP2_ERR_FRAME_SIZE_ERROR;
        if (length < 0) {
            lh_h2_framer_fail_code(&session->framer, length);
            return;
        }
        if (length)
            memcpy(session->buffer + session->used, bytes, (size_t)length);
        session->used += (size_t)length;
        if (session->used == before && !lh_h2_streams_resume_next(&session->streams))
            return;
    }
}

lh_status lh_h2_session_pull(lh_h2_session *session, uint8_t *buffer, size_t capacity,
                             size_t *length, lh_error *error) {
    lh_h2_framer *framer = &session->framer;
    assert(!framer->is_dead && capacity >= LH_H2_PULL_BYTES_MIN);
    session->buffer = buffer;
    session->capacity = capacity;
    session->used = 0;
    if (!framer->failure)
        lh_h2_streams_resume_next(&session->streams);
    if (!framer->failure) {
        fill(session);
    } else if (!session->goaway_sent) {
        session->used = lh_h2_framer_last_words(framer, session->last_id, buffer);
        session->goaway_sent = true;
    }
    *length = session->used;
    session->buffer = NULL;
    return lh_h2_framer_failure(framer, error);
}

void lh_h2_session_set_frame_bytes(lh_h2_session *session, uint32_t bytes) {
    assert(bytes > 0 && bytes <= LH_H2_FRAME_BYTES_MAX);
    session->frame_bytes = bytes;
}

bool lh_h2_session_is_done(const lh_h2_session *session, lh_error *error) {
    const lh_h2_framer *framer = &session->framer;
    if (lh_h2_framer_failure(framer, error) != LH_OK)
        return true;
    if (nghttp2_session_want_read(framer->nghttp2) || nghttp2_session_want_write(framer->nghttp2))
        return false;
    lh_fail(error, LH_ERR_CLOSED, "%s",
            session->complaint[0] ? session->complaint : "the connection is closed");
    return true;
}

void lh_h2_session_fail(lh_h2_session *session, lh_status status) {
    session->framer.is_dead = true;
    while (session->streams.first)
        lh_h2_stream_close(session->streams.first, status);
}

lh_status lh_h2_session_ping(lh_h2_session *session, uint64_t number) {
    uint8_t opaque[8];
    memcpy(opaque, &number, sizeof opaque);
    if (nghttp2_submit_ping(session->framer.nghttp2, NGHTTP2_FLAG_NONE, opaque) != 0)
        return LH_ERR_NO_MEMORY;
    lh_h2_framer_wake(&session->framer);
    return LH_OK;
}

void lh_h2_session_shut_down(lh_h2_session *session) {
    if (session->shutting_down || session->framer.failure)
        return;
    session->shutting_down = true;
    if (session->goaway_sent)
        return;
    int32_t last = nghttp2_session_get_last_proc_stream_id(session->framer.nghttp2);
    lh_h2_framer_check_memory(&session->framer,
                              nghttp2_submit_goaway(session->framer.nghttp2, NGHTTP2_FLAG_NONE,
                                                    last, NGHTTP2_NO_ERROR, NULL, 0));
    lh_h2_framer_wake(&session->framer);
}

bool lh_h2_session_is_shutting_down(const lh_h2_session *session) {
    return session->shutting_down || session->goaway_came || session->framer.failure ||
           session->framer.is_dead;
}

bool lh_h2_session_is_mid_headers(const lh_h2_session *session) {
    return session->streams.mid_headers > 0;
}

uint32_t lh_h2_session_open_streams(const lh_h2_session *session) {
    return session->streams.count;
}

bool lh_h2_session_has_served(const lh_h2_session *session) {
    return session->last_id > 0;
}

static lh_status check_room(const lh_h2_session *session, lh_error *error) {
    uint32_t limit = nghttp2_session_get_remote_settings(session->framer.nghttp2,
                                                         NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    if (lh_h2_session_is_shutting_down(session) ||
        !nghttp2_session_check_request_allowed(session->framer.nghttp2))
        return lh_fail(error, LH_ERR_UNAVAILABLE, "the connection is closing");
    if (session->streams.count >= limit)
        return lh_fail(error, LH_ERR_BUSY, "the peer takes no more than %u requests at once",
                       limit);
    return LH_OK;
}

lh_status lh_h2_session_submit(lh_h2_session *session, const char *method, const char *path,
                               const lh_h2_header *extra, size_t extra_count, int send_class,
                               const lh_h2_stream_events *events, void *context,
                               lh_h2_stream **stream, lh_error *error) {
    assert(!session->framer.is_server && events && events->on_closed);
    lh_status status = check_room(session, error);
    return status != LH_OK
               ? status
               : lh_h2_stream_submit(&session->streams, method, path, extra, extra_count,
                                     send_class, events, context, stream, error);
}
