/* Life of a session: making it, bytes in, bytes out, its end. Events are in h2_session_events.c, streams in
 * h2_session_streams.c. */
#include "common/h2_session_state.h"
#include "common/link_warmth.h"

#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OUTBOUND_ACKS_MAX =
        256, /* PING and SETTINGS that wait for their answer: a peer that floods and does not read */
    OUTBOUND_SPARE = 1024,  /* control frames in the queue, above what its streams may cause */
    CONNECTION_WINDOWS = 4, /* a connection's window, in streams' */
    RESETS_BURST = 10000,   /* nghttp2's limit counts harmless ones too: ours is in h2_session_events.c */
    RESETS_PER_S = 1000,
    CONTINUATIONS_MAX = 8,
    SETTINGS_MAX = 32
};

lh_h2_limits lh_h2_default_limits(void) {
    return (lh_h2_limits){.window_bytes = 16u << 20,
                          .streams_max = 256,
                          .connections_max = 64,
                          .header_bytes_max = 16u << 10,
                          .ping_interval_ms = 500,
                          .dead_after_ms = 2000,
                          .connect_timeout_ms = 3000,
                          .renew_after = 1u << 29,
                          .probe_bytes_max = LH_LINK_PROBE_BYTES_MAX};
}

void lh_h2_session_wake(lh_h2_session *session) {
    session->config.on_wake(session->config.context);
}

void lh_h2_session_set_failure(lh_h2_session *session, lh_status status, const char *reason) {
    if (session->failure)
        return;
    session->failure = status;
    snprintf(session->reason, sizeof session->reason, "%s", reason);
    lh_h2_session_wake(session);
}

static lh_status failure(const lh_h2_session *session, lh_error *error) {
    return lh_fail(error, session->failure, "%s", session->reason);
}

/* What nghttp2 returned in a place where only its fatal errors are possible. */
static lh_status fail_with(lh_h2_session *session, ssize_t code, lh_error *error) {
    if (code == NGHTTP2_ERR_NOMEM)
        lh_h2_session_set_failure(session, LH_ERR_NO_MEMORY, "out of memory");
    else if (code == NGHTTP2_ERR_FLOODED)
        lh_h2_session_set_failure(session, LH_ERR_LIMIT,
                                  "the peer floods the connection with control frames");
    else if (code == NGHTTP2_ERR_BAD_CLIENT_MAGIC)
        lh_h2_session_set_failure(session, LH_ERR_PROTOCOL,
                                  "the peer does not speak HTTP/2 with prior knowledge");
    else
        lh_h2_session_set_failure(session, LH_ERR_PROTOCOL, nghttp2_strerror((int)code));
    return failure(session, error);
}

static int submit_settings(lh_h2_session *session) {
    const lh_h2_limits *limits = &session->limits;
    bool server = session->config.role == LH_H2_SERVER;
    uint32_t header_bytes =
        limits->header_bytes_max > UINT32_MAX ? UINT32_MAX : (uint32_t)limits->header_bytes_max;
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits->window_bytes},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, server ? limits->streams_max : 0},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, header_bytes},
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
    };
    size_t count = sizeof entries / sizeof entries[0];
    int code =
        nghttp2_submit_settings(session->nghttp2, NGHTTP2_FLAG_NONE, entries, server ? count - 1 : count);
    int64_t window = (int64_t)limits->window_bytes * CONNECTION_WINDOWS;
    if (window > NGHTTP2_MAX_WINDOW_SIZE)
        window = NGHTTP2_MAX_WINDOW_SIZE;
    if (code == 0)
        code = nghttp2_session_set_local_window_size(session->nghttp2, NGHTTP2_FLAG_NONE, 0, (int32_t)window);
    return code;
}

static nghttp2_option *options_create(void) {
    nghttp2_option *option;
    if (nghttp2_option_new(&option) != 0)
        return NULL;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_outbound_ack(option, OUTBOUND_ACKS_MAX);
    nghttp2_option_set_stream_reset_rate_limit(option, RESETS_BURST, RESETS_PER_S);
    nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    return option;
}

/* nghttp2 allocates through these, that is, as the rest of the program does: tests make each allocation fail.
 */
static void *on_malloc(size_t size, void *context) {
    (void)context;
    return malloc(size);
}

static void on_free(void *memory, void *context) {
    (void)context;
    free(memory);
}

static void *on_calloc(size_t count, size_t size, void *context) {
    (void)context;
    return calloc(count, size);
}

static void *on_realloc(void *memory, size_t size, void *context) {
    (void)context;
    return realloc(memory, size);
}

static int nghttp2_create(lh_h2_session *session) {
    nghttp2_mem memory = {NULL, on_malloc, on_free, on_calloc, on_realloc};
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = options_create();
    int code = NGHTTP2_ERR_NOMEM;
    if (option && lh_h2_session_callbacks(&callbacks) == LH_OK)
        code = session->config.role == LH_H2_SERVER
                   ? nghttp2_session_server_new3(&session->nghttp2, callbacks, session, option, &memory)
                   : nghttp2_session_client_new3(&session->nghttp2, callbacks, session, option, &memory);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    return code;
}

lh_status lh_h2_session_create(const lh_h2_session_config *config, lh_h2_session **out, lh_error *error) {
    lh_h2_session *session = calloc(1, sizeof *session);
    if (!session)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    session->config = *config;
    session->limits = *config->limits;
    session->frame_bytes = LH_H2_FRAME_BYTES_MAX;
    assert(session->limits.window_bytes > 0 && session->limits.streams_max > 0);
    if (session->limits.window_bytes > NGHTTP2_MAX_WINDOW_SIZE)
        session->limits.window_bytes = NGHTTP2_MAX_WINDOW_SIZE;
    if (nghttp2_create(session) != 0 || submit_settings(session) != 0) {
        lh_h2_session_destroy(session);
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory");
    }
    *out = session;
    return LH_OK;
}

void lh_h2_session_destroy(lh_h2_session *session) {
    assert(!session->streams);
    nghttp2_session_del(session->nghttp2);
    free(session);
}

/* The peer took the wrong door: say so in words that name the mistake. */
static const char *foreign_protocol(const lh_h2_session *session, const uint8_t *bytes, size_t length) {
    if (session->settings_came || length < 5)
        return NULL;
    if (bytes[0] >= 0x14 && bytes[0] <= 0x17 && bytes[1] == 0x03)
        return "the peer speaks TLS, this side is set up without";
    if (memcmp(bytes, "HTTP/", 5) == 0)
        return "the peer speaks HTTP/1, not HTTP/2";
    return NULL;
}

lh_status lh_h2_session_receive(lh_h2_session *session, const uint8_t *bytes, size_t length,
                                lh_error *error) {
    assert(!session->dead);
    if (session->failure)
        return failure(session, error);
    const char *foreign = foreign_protocol(session, bytes, length);
    if (foreign) {
        lh_h2_session_set_failure(session, LH_ERR_PROTOCOL, foreign);
        return failure(session, error);
    }
    ssize_t code = nghttp2_session_mem_recv(session->nghttp2, bytes, length);
    if (code < 0)
        return fail_with(session, code, error);
    size_t queue_max = OUTBOUND_SPARE + 4u * (size_t)session->limits.streams_max;
    if (nghttp2_session_get_outbound_queue_size(session->nghttp2) > queue_max)
        return fail_with(session, NGHTTP2_ERR_FLOODED, error);
    return session->failure ? failure(session, error) : LH_OK;
}

/* Frames are chosen one by one, each when there is room for any: none waits here while a more urgent one
 * comes. */
static lh_status fill(lh_h2_session *session, lh_error *error) {
    while (session->capacity - session->used >= LH_H2_PULL_BYTES_MIN) {
        const uint8_t *bytes;
        size_t before = session->used;
        ssize_t length = nghttp2_session_mem_send(session->nghttp2, &bytes); /* DATA goes to on_send_data */
        if (length < 0)
            return fail_with(session, length, error);
        if ((size_t)length > session->capacity - session->used)
            return fail_with(session, NGHTTP2_ERR_FRAME_SIZE_ERROR, error);
        if (length)
            memcpy(session->buffer + session->used, bytes, (size_t)length);
        session->used += (size_t)length;
        if (session->used == before && !lh_h2_session_resume_next(session))
            break;
    }
    return session->failure ? failure(session, error) : LH_OK;
}

static uint32_t goaway_code(lh_status failure) {
    if (failure == LH_ERR_LIMIT)
        return NGHTTP2_ENHANCE_YOUR_CALM;
    return failure == LH_ERR_PROTOCOL ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_INTERNAL_ERROR;
}

/* GOAWAY by hand: after a fatal error nghttp2 may only be deleted. */
static lh_status last_words(lh_h2_session *session, lh_error *error) {
    uint32_t words[] = {htobe32((uint32_t)session->last_id), htobe32(goaway_code(session->failure))};
    static const uint8_t header[] = {0, 0, sizeof words, NGHTTP2_GOAWAY, 0, 0, 0, 0, 0};
    if (!session->goaway_sent) {
        memcpy(session->buffer, header, sizeof header);
        memcpy(session->buffer + sizeof header, words, sizeof words);
        session->used = sizeof header + sizeof words;
        session->goaway_sent = true;
    }
    return failure(session, error);
}

lh_status lh_h2_session_pull(lh_h2_session *session, uint8_t *buffer, size_t capacity, size_t *length,
                             lh_error *error) {
    assert(!session->dead && capacity >= LH_H2_PULL_BYTES_MIN);
    session->buffer = buffer;
    session->capacity = capacity;
    session->used = 0;
    if (!session->failure)
        lh_h2_session_resume_next(session);
    lh_status status = session->failure ? last_words(session, error) : fill(session, error);
    *length = session->used;
    session->buffer = NULL;
    return status;
}

void lh_h2_session_set_frame_bytes(lh_h2_session *session, uint32_t bytes) {
    assert(bytes > 0 && bytes <= LH_H2_FRAME_BYTES_MAX);
    session->frame_bytes = bytes;
}

bool lh_h2_session_is_done(const lh_h2_session *session) {
    return session->failure ||
           (!nghttp2_session_want_read(session->nghttp2) && !nghttp2_session_want_write(session->nghttp2));
}

lh_status lh_h2_session_done_status(const lh_h2_session *session, lh_error *error) {
    if (session->failure)
        return failure(session, error);
    return lh_fail(error, LH_ERR_CLOSED, "%s",
                   session->complaint[0] ? session->complaint : "the connection is closed");
}

void lh_h2_session_fail(lh_h2_session *session, lh_status status) {
    session->dead = true;
    while (session->streams)
        lh_h2_session_close_stream(session->streams, status);
}

lh_status lh_h2_session_ping(lh_h2_session *session, uint64_t number) {
    uint8_t opaque[8];
    memcpy(opaque, &number, sizeof opaque);
    if (nghttp2_submit_ping(session->nghttp2, NGHTTP2_FLAG_NONE, opaque) != 0)
        return LH_ERR_NO_MEMORY;
    lh_h2_session_wake(session);
    return LH_OK;
}

void lh_h2_session_shut_down(lh_h2_session *session) {
    if (session->shutting_down || session->failure)
        return;
    session->shutting_down = true;
    if (session->goaway_sent)
        return;
    int32_t last = nghttp2_session_get_last_proc_stream_id(session->nghttp2);
    if (nghttp2_submit_goaway(session->nghttp2, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0) != 0)
        lh_h2_session_set_failure(session, LH_ERR_NO_MEMORY, "out of memory");
    lh_h2_session_wake(session);
}

bool lh_h2_session_is_shutting_down(const lh_h2_session *session) {
    return session->shutting_down || session->goaway_came || session->failure || session->dead;
}

bool lh_h2_session_is_mid_headers(const lh_h2_session *session) {
    return session->mid_headers > 0;
}

uint32_t lh_h2_session_open_streams(const lh_h2_session *session) {
    return session->open_streams;
}
