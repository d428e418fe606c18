/* A session fed with bytes: the first chooses the role, whether a good preface goes first, and how
 * the rest is cut. */
#include "common/http2/session.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 17 << 10, ANSWERS_MAX = 1 << 20 };

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    bool *keep = context;
    lh_h2_stream_write(stream, bytes, length);
    if (!*keep)
        lh_h2_stream_consume(stream, length);
    if (length && bytes[0] == 'c')
        lh_h2_stream_cancel(stream);
}

static void on_end(lh_h2_stream *stream, void *context) {
    (void)context;
    lh_h2_stream_end(stream);
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)context;
    (void)status;
}

static const lh_h2_stream_events events = {NULL, on_body, on_end, on_closed};

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **stream_events, void **stream_context) {
    if (request->path[0] != '/')
        abort();
    if (strcmp(request->path, "/") == 0) {
        lh_h2_stream_respond(stream, 200, "{}");
        return;
    }
    lh_h2_stream_respond_headers(stream, 200, NULL, 0, false);
    *stream_events = &events;
    *stream_context = context;
}

static void on_note(void *context) {
    (void)context;
}

static void on_ping_answer(void *context, uint64_t number) {
    (void)context;
    (void)number;
}

static lh_status drain(lh_h2_session *session) {
    static uint8_t buffer[BUFFER_BYTES];
    lh_status status;
    size_t length, total = 0;
    do {
        status = lh_h2_session_pull(session, buffer, sizeof buffer, &length, NULL);
        total += length;
    } while (status == LH_OK && length && total < ANSWERS_MAX);
    return status;
}

static lh_status feed(lh_h2_session *session, const uint8_t *bytes, size_t length, size_t piece) {
    lh_status status = LH_OK;
    while (length && status == LH_OK) {
        size_t part = length < piece ? length : piece;
        status = lh_h2_session_receive(session, bytes, part, NULL);
        bytes += part;
        length -= part;
        if (drain(session) != LH_OK)
            break;
    }
    return status;
}

enum { FRAMES_BYTES = 1 << 16 };

/* Header blocks that HPACK takes: GET /, POST /x, :status 200, trailers. */
static const char *const blocks[] = {"\x82\x86\x84\x41\1x", "\x83\x86\x44\2/x\x41\1x", "\x88",
                                     "\x40\1t\1t"};

/* Type, flags, stream, length, payload, again and again. HEADERS whose length says so get a block
 * that is right. */
static size_t build_frames(const uint8_t *data, size_t size, uint8_t *frames) {
    size_t used = 0;
    while (size >= 4 && used + 9 + 255 <= FRAMES_BYTES) {
        uint8_t type = data[0] % 11, flags = data[1], stream = data[2] & 15;
        size_t length = data[3];
        const void *payload = data + 4;
        data += 4;
        size -= 4;
        if (type == 1 && length >= 252) {
            payload = blocks[length - 252];
            length = strlen(payload);
            flags &= 5; /* neither padding nor priority */
        } else {
            length = length < size ? length : size;
            data += length;
            size -= length;
        }
        const uint8_t header[] = {0, 0, (uint8_t)length, type, flags, 0, 0, 0, stream};
        memcpy(frames + used, header, sizeof header);
        memcpy(frames + used + sizeof header, payload, length);
        used += sizeof header + length;
    }
    return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    static uint8_t frames[FRAMES_BYTES];
    static const lh_tls_identity nobody = {.kind = LH_TLS_NONE};
    if (size < 2)
        return 0;
    bool keep = data[0] & 4;
    lh_h2_role role = data[0] & 1 ? LH_H2_CLIENT : LH_H2_SERVER;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.window_bytes = 65535;
    lh_h2_session_config config = {
        .role = role,
        .limits = &limits,
        .peer = "fuzzer",
        .peer_identity = &nobody,
        .on_request = on_request,
        .server_context = &keep,
        .authority = "fuzzer",
        .scheme = "http",
        .on_wake = on_note,
        .on_settings = on_note,
        .on_ping_answer = on_ping_answer,
    };
    lh_h2_session *session;
    if (lh_h2_session_create(&config, &session, NULL) != LH_OK)
        return 0;
    lh_status status = LH_OK;
    if (role == LH_H2_SERVER && !(data[0] & 2))
        status = feed(session, preface, sizeof preface, sizeof preface);
    if (role == LH_H2_CLIENT) {
        for (int i = 0; i < 3; i++) {
            lh_h2_stream *stream;
            if (lh_h2_session_submit(session, "POST", "/x", NULL, 0, i & 1, &events, &keep, &stream,
                                     NULL) == LH_OK)
                lh_h2_stream_write(stream, data, size);
        }
        drain(session);
    }
    size_t length = size - 2, piece = data[1] ? data[1] : FRAMES_BYTES;
    const uint8_t *bytes = data + 2;
    if (data[0] & 8) {
        length = build_frames(bytes, length, frames);
        bytes = frames;
    }
    if (status == LH_OK)
        feed(session, bytes, length, piece);
    if (!lh_h2_session_is_done(session, NULL))
        lh_h2_session_shut_down(session);
    drain(session);
    lh_h2_session_fail(session, LH_ERR_CLOSED);
    lh_h2_session_destroy(session);
    return 0;
}
