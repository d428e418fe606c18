/* Making of nghttp2's session, and its failures in plain words. */
#include "common/http2/framer.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONNECTION_WINDOWS = 4, /* a connection's window, in streams' */
    /* PING and SETTINGS that wait for their answer: a peer that floods and does not read */
    OUTBOUND_ACKS_MAX = 256,
    /* nghttp2's limit counts harmless ones too: ours is in conduct.c */
    RESETS_BURST = 10000,
    RESETS_PER_S = 1000,
    CONTINUATIONS_MAX = 8,
    SETTINGS_MAX = 32
};

static int submit_settings(const lh_h2_framer *framer) {
    const lh_h2_limits *limits = framer->config->limits;
    assert(limits->window_bytes > 0 && limits->streams_max > 0);
    uint32_t header_bytes =
        limits->header_bytes_max > UINT32_MAX ? UINT32_MAX : (uint32_t)limits->header_bytes_max;
    nghttp2_settings_entry entries[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
         lh_min_u32(limits->window_bytes, NGHTTP2_MAX_WINDOW_SIZE)},
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, framer->is_server ? limits->streams_max : 0},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, header_bytes},
        {NGHTTP2_SETTINGS_HEADER_TABLE_SIZE, 0}, /* conduct.h says why */
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},       /* a client's */
    };
    size_t count = sizeof entries / sizeof entries[0];
    int code = nghttp2_submit_settings(framer->nghttp2, NGHTTP2_FLAG_NONE, entries,
                                       framer->is_server ? count - 1 : count);
    int64_t window =
        lh_min_i64((int64_t)limits->window_bytes * CONNECTION_WINDOWS, NGHTTP2_MAX_WINDOW_SIZE);
    if (code == 0)
        code = nghttp2_session_set_local_window_size(framer->nghttp2, NGHTTP2_FLAG_NONE, 0,
                                                     (int32_t)window);
    return code;
}

static nghttp2_option *options_create(void) {
    nghttp2_option *option;
    if (nghttp2_option_new(&option) != 0)
        return NULL;
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_deflate_dynamic_table_size(option, 0);
    nghttp2_option_set_max_outbound_ack(option, OUTBOUND_ACKS_MAX);
    nghttp2_option_set_stream_reset_rate_limit(option, RESETS_BURST, RESETS_PER_S);
    nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    return option;
}

/* nghttp2 allocates through these, that is, as the rest of the program does: tests make each
 * allocation fail. */
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

lh_status lh_h2_framer_open(lh_h2_framer *framer, const lh_h2_session_config *config,
                            const nghttp2_session_callbacks *callbacks, void *user_data) {
    framer->config = config;
    framer->is_server = config->role == LH_H2_SERVER;
    nghttp2_mem memory = {NULL, on_malloc, on_free, on_calloc, on_realloc};
    nghttp2_option *option = options_create();
    int code = NGHTTP2_ERR_NOMEM;
    if (option)
        code = (framer->is_server ? nghttp2_session_server_new3 : nghttp2_session_client_new3)(
            &framer->nghttp2, callbacks, user_data, option, &memory);
    nghttp2_option_del(option);
    return code == 0 && submit_settings(framer) == 0 ? LH_OK : LH_ERR_NO_MEMORY;
}

void lh_h2_framer_close(lh_h2_framer *framer) {
    nghttp2_session_del(framer->nghttp2);
}

void lh_h2_framer_wake(lh_h2_framer *framer) {
    framer->config->on_wake(framer->config->context);
}

void lh_h2_framer_fail(lh_h2_framer *framer, lh_status status, const char *reason) {
    if (framer->failure)
        return;
    framer->failure = status;
    snprintf(framer->reason, sizeof framer->reason, "%s", reason);
    lh_h2_framer_wake(framer);
}

void lh_h2_framer_check_memory(lh_h2_framer *framer, int code) {
    if (code == NGHTTP2_ERR_NOMEM)
        lh_h2_framer_fail(framer, LH_ERR_NO_MEMORY, "out of memory");
}

void lh_h2_framer_fail_code(lh_h2_framer *framer, ssize_t code) {
    lh_h2_framer_check_memory(framer, (int)code);
    if (code == NGHTTP2_ERR_FLOODED)
        lh_h2_framer_fail(framer, LH_ERR_LIMIT,
                          "the peer floods the connection with control frames");
    else
        lh_h2_framer_fail(framer, LH_ERR_PROTOCOL, nghttp2_strerror((int)code));
}

lh_status lh_h2_framer_failure(const lh_h2_framer *framer, lh_error *error) {
    return framer->failure ? lh_fail(error, framer->failure, "%s", framer->reason) : LH_OK;
}

size_t lh_h2_framer_last_words(const lh_h2_framer *framer, int32_t last_id, uint8_t *words) {
    uint32_t code = framer->failure == LH_ERR_LIMIT      ? NGHTTP2_ENHANCE_YOUR_CALM
                    : framer->failure == LH_ERR_PROTOCOL ? NGHTTP2_PROTOCOL_ERROR
                                                         : NGHTTP2_INTERNAL_ERROR;
    uint32_t payload[] = {htobe32((uint32_t)last_id), htobe32(code)};
    static const uint8_t header[] = {0, 0, sizeof payload, NGHTTP2_GOAWAY, 0, 0, 0, 0, 0};
    memcpy(words, header, sizeof header);
    memcpy(words + sizeof header, payload, sizeof payload);
    return sizeof header + sizeof payload;
}
