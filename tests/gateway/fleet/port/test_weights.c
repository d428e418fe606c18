/* Transfers over loopback: what those cost that nobody reads, who is refused, who is dropped, and
 * what becomes of them when the file is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/http2/client.h"
#include "common/http2/server.h"
#include "gateway/fleet/port/weights.h"
#include "tests/support/certificates.h"
#include "tests/support/loop.h"
#include "tests/support/tiny_llama.h"

#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CLIENTS_MAX = 3, EXCHANGES_MAX = 750, WINDOW_BYTES = 65536 };

/* One GET and what came of it. */
typedef struct exchange {
    struct bench *bench;
    lh_h2_stream *stream;
    int http_status;
    bool is_reading, is_closed; /* reading: it takes what comes at once */
    lh_status status;
    size_t received, held;
    const uint8_t *expected; /* what is to come; NULL: it is not compared */
} exchange;

typedef struct bench {
    uv_loop_t loop;
    char path[40];
    lh_model_file *file;
    lh_fleet_weights weights;
    lh_h2_server *server;
    lh_h2_client *clients[CLIENTS_MAX];
    bool is_connected[CLIENTS_MAX];
    uint32_t client_count;
    exchange exchanges[EXCHANGES_MAX];
    uint32_t count, answered, closed;
} bench;

enum { TEXT_BYTES = 1 << 20 };

static char text[TEXT_BYTES + 1]; /* of "/text" */

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    bench *b = context;
    lh_file_pieces pieces;
    if (strcmp(request->path, "/text") == 0) {
        lh_fleet_weights_take_text(&b->weights, text, stream, request, events, stream_context);
        return;
    }
    const bool has_pieces = strncmp(request->path, "/pieces/", 8) == 0;
    if (has_pieces)
        assert_int_equal(
            lh_file_pieces_parse(request->path + 8, lh_model_file_size(b->file), &pieces), LH_OK);
    lh_fleet_weights_take(&b->weights, has_pieces ? &pieces : NULL, stream, request, events,
                          stream_context);
}

/* ---- Clients ---- */

static void on_state(void *is_connected, bool connected, const char *reason) {
    (void)reason;
    *(bool *)is_connected = connected;
}

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    exchange *e = context;
    (void)stream;
    e->http_status = http_status;
    e->bench->answered++;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    exchange *e = context;
    if (e->expected)
        assert_memory_equal(bytes, e->expected + e->received, length);
    e->received += length;
    if (e->is_reading)
        lh_h2_stream_consume(stream, length);
    else
        e->held += length;
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    exchange *e = context;
    (void)stream;
    e->status = status;
    e->is_closed = true;
    e->bench->closed++;
}

static exchange *get_path(bench *b, uint32_t client, const char *path, const char *range,
                          bool is_reading) {
    static const lh_h2_stream_events events = {
        .on_response = on_response, .on_body = on_body, .on_closed = on_closed};
    const lh_h2_header header = {"range", range};
    assert_true(b->count < EXCHANGES_MAX);
    exchange *e = &b->exchanges[b->count++];
    *e = (exchange){.bench = b, .is_reading = is_reading};
    assert_int_equal(lh_h2_client_submit(b->clients[client], "GET", path, &header, range != NULL, 1,
                                         &events, e, &e->stream, NULL),
                     LH_OK);
    lh_h2_stream_end(e->stream);
    return e;
}

static exchange *get(bench *b, uint32_t client, const char *range, bool is_reading) {
    return get_path(b, client, "/weights", range, is_reading);
}

static bool are_answered(void *context) {
    const bench *b = context;
    return b->answered == b->count;
}

static bool are_closed(void *context) {
    const bench *b = context;
    return b->closed == b->count;
}

static int status_of(bench *b, const exchange *e) {
    assert_true(loop_run_until(&b->loop, are_answered, b, 20000));
    return e->http_status;
}

static void connect_as(bench *b, const lh_tls_options *tls) {
    lh_h2_limits limits = lh_h2_default_limits();
    char address[32];
    uint32_t i = b->client_count++;
    limits.window_bytes = WINDOW_BYTES;
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_h2_server_port(b->server));
    assert_int_equal(lh_h2_client_create(&b->loop, address, tls, &limits, on_state,
                                         &b->is_connected[i], &b->clients[i], NULL),
                     LH_OK);
    loop_run_until_set(&b->loop, &b->is_connected[i]);
}

/* ---- Life ---- */

/* Of more than 4 MiB. */
static void save_model(char *path) {
    strcpy(path, "/tmp/longhaul-test-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    tiny_llama tiny = tiny_llama_default();
    tiny.vocabulary = 100000;
    tiny_llama_save(&tiny, path);
}

static bench *open_bench(const lh_stream_quota_limits *limits, const lh_tls_options *tls) {
    bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    signal(SIGPIPE, SIG_IGN); /* as the programs do */
    save_model(b->path);
    assert_int_equal(lh_model_file_open(b->path, &b->file, NULL), LH_OK);
    assert_true(lh_model_file_size(b->file) > 4194304);
    assert_int_equal(uv_loop_init(&b->loop), 0);
    assert_int_equal(
        lh_h2_server_create(&b->loop, "127.0.0.1:0", tls, NULL, on_request, b, &b->server, NULL),
        LH_OK);
    lh_fleet_weights_init(&b->weights, &b->loop, b->file, limits);
    return b;
}

static void close_bench(bench *b) {
    bool is_closed = false;
    lh_h2_server_close(b->server, loop_set_flag, &is_closed);
    loop_run_until_set(&b->loop, &is_closed);
    for (uint32_t i = 0; i < b->client_count; i++) {
        is_closed = false;
        lh_h2_client_close(b->clients[i], loop_set_flag, &is_closed);
        loop_run_until_set(&b->loop, &is_closed);
    }
    is_closed = false;
    lh_fleet_weights_close(&b->weights, loop_set_flag, &is_closed);
    loop_run_until_set(&b->loop, &is_closed);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&b->loop), 0);
    lh_model_file_close(b->file);
    unlink(b->path);
    free(b);
}

/* ---- What is not read ---- */

static size_t allocated_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* 3 connections with 250 transfers each, of which not one is refused. Of what they cost, a half and
 * more is the clients'. */
static void leave_unread(const char *path) {
    lh_stream_quota_limits limits = lh_fleet_weights_default_limits();
    limits.peer_max = limits.all_max = EXCHANGES_MAX;
    bench *b = open_bench(&limits, NULL);
    for (uint32_t i = 0; i < CLIENTS_MAX; i++)
        connect_as(b, NULL);
    size_t before = allocated_bytes();
    for (uint32_t i = 0; i < EXCHANGES_MAX; i++)
        get_path(b, i % CLIENTS_MAX, path, NULL, false);
    for (uint32_t i = 0; i < EXCHANGES_MAX; i++)
        assert_int_equal(status_of(b, &b->exchanges[i]), 200);
    size_t after = allocated_bytes();
    assert_int_equal(b->weights.quota.count, EXCHANGES_MAX);
    print_message("%d transfers that nobody reads: %zu KiB\n", EXCHANGES_MAX,
                  (after - before) >> 10);
    assert_true(after < before + (16u << 20));
    close_bench(b);
}

static void what_nobody_reads_costs_next_to_nothing(void **state) {
    (void)state;
    memset(text, 't', TEXT_BYTES);
    leave_unread("/weights");
    leave_unread("/text");
}

static void a_text_comes_whole(void **state) {
    (void)state;
    lh_stream_quota_limits limits = lh_fleet_weights_default_limits();
    bench *b = open_bench(&limits, NULL);
    connect_as(b, NULL);
    for (int i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + i % 25);
    exchange *e = get_path(b, 0, "/text", NULL, true);
    e->expected = (const uint8_t *)text;
    loop_run_until_set(&b->loop, &e->is_closed);
    assert_int_equal(e->http_status, 200);
    assert_int_equal(e->status, LH_OK);
    assert_int_equal(e->received, TEXT_BYTES);
    close_bench(b);
}

static void what_does_not_move_is_dropped(void **state) {
    (void)state;
    lh_stream_quota_limits limits = lh_fleet_weights_default_limits();
    limits.stall_ms = 60;
    bench *b = open_bench(&limits, NULL);
    connect_as(b, NULL);
    exchange *e = get(b, 0, NULL, false);
    loop_run_until_set(&b->loop, &e->is_closed);
    assert_int_equal(e->http_status, 200);
    assert_int_equal(e->status, LH_ERR_CANCELLED);
    assert_in_range(e->received, 1, WINDOW_BYTES);
    assert_int_equal(b->weights.quota.count, 0);
    close_bench(b);
}

static void read_some(uv_timer_t *timer) {
    exchange *e = timer->data;
    size_t some = e->held < 4096 ? e->held : 4096;
    if (e->is_closed)
        return;
    lh_h2_stream_consume(e->stream, some);
    e->held -= some;
}

/* Slow is not stuck: it goes on for several times as long as one that stands still. */
static void what_moves_slowly_is_not_dropped(void **state) {
    (void)state;
    lh_stream_quota_limits limits = lh_fleet_weights_default_limits();
    limits.stall_ms = 240;
    bench *b = open_bench(&limits, NULL);
    connect_as(b, NULL);
    exchange *slow = get(b, 0, NULL, false);
    uv_timer_t timer = {.data = slow};
    uv_timer_init(&b->loop, &timer);
    uv_timer_start(&timer, read_some, 5, 5);
    for (int i = 0; i < 3; i++) {
        exchange *stuck = get(b, 0, NULL, false);
        loop_run_until_set(&b->loop, &stuck->is_closed);
        assert_int_equal(stuck->status, LH_ERR_CANCELLED);
        assert_false(slow->is_closed);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    close_bench(b);
}

/* ---- Who is refused ---- */

static void a_peer_has_its_share_whatever_its_connections(void **state) {
    (void)state;
    const lh_stream_quota_limits limits = {.peer_max = 2, .all_max = 5, .stall_ms = 30000};
    bench *b = open_bench(&limits, NULL);
    connect_as(b, NULL);
    connect_as(b, NULL);
    exchange *first = get(b, 0, NULL, false);
    assert_int_equal(status_of(b, first), 200);
    assert_int_equal(status_of(b, get(b, 1, "bytes=0-9999999", false)), 206);
    assert_int_equal(status_of(b, get(b, 0, NULL, false)), 429);
    assert_int_equal(status_of(b, get(b, 1, "bytes=0-1", true)), 429);
    lh_h2_stream_cancel(first->stream); /* which makes room */
    loop_run_until_set(&b->loop, &first->is_closed);
    exchange *next = get(b, 0, "bytes=0-99999", true);
    assert_int_equal(status_of(b, next), 206);
    loop_run_until_set(&b->loop, &next->is_closed);
    assert_int_equal(next->status, LH_OK);
    assert_int_equal(next->received, 100000);
    close_bench(b);
}

static void certificates_have_their_own_shares_of_what_all_may_have(void **state) {
    (void)state;
    static const char *const names[] = {"w-1", "w-2", "w-3"};
    const lh_stream_quota_limits limits = {.peer_max = 2, .all_max = 3, .stall_ms = 30000};
    authority ca;
    authority_open(&ca);
    authority_issue(&ca, "ca", NULL, "Longhaul test CA", NULL, 30);
    authority_issue(&ca, "gateway", "ca", "?", "URI:longhaul://gateway", 30);
    lh_tls_options server = authority_options(&ca, "gateway", "ca");
    bench *b = open_bench(&limits, &server);
    for (int i = 0; i < 3; i++) {
        char uri[80];
        snprintf(uri, sizeof uri, "URI:longhaul://worker/%s?site=home", names[i]);
        authority_issue(&ca, names[i], "ca", "?", uri, 30);
        lh_tls_options own = authority_options(&ca, names[i], "ca"),
                       client = lh_tls_options_for(&own, "");
        connect_as(b, &client);
    }
    assert_int_equal(status_of(b, get(b, 0, NULL, false)), 200);
    assert_int_equal(status_of(b, get(b, 0, NULL, false)), 200);
    assert_int_equal(status_of(b, get(b, 0, NULL, false)), 429);
    assert_int_equal(status_of(b, get(b, 1, NULL, false)), 200);
    assert_int_equal(status_of(b, get(b, 1, NULL, false)), 503);
    assert_int_equal(status_of(b, get(b, 2, NULL, false)), 503);
    close_bench(b);
    authority_close(&ca);
}

/* ---- A file that is cut ---- */

static void a_file_that_is_cut_fails_what_lies_behind_its_end(void **state) {
    (void)state;
    const lh_stream_quota_limits limits = lh_fleet_weights_default_limits();
    bench *b = open_bench(&limits, NULL);
    connect_as(b, NULL);
    exchange *torn = get(b, 0, NULL, false);
    assert_int_equal(status_of(b, torn), 200);
    assert_int_equal(truncate(b->path, 1000000), 0);
    torn->is_reading = true;
    lh_h2_stream_consume(torn->stream, torn->held);
    loop_run_until_set(&b->loop, &torn->is_closed);
    assert_int_equal(torn->status, LH_ERR_CANCELLED);
    assert_in_range(torn->received, 1, 1000000);
    exchange *whole = get(b, 0, "bytes=500000-999999", true);
    loop_run_until_set(&b->loop, &whole->is_closed);
    assert_int_equal(whole->status, LH_OK);
    assert_int_equal(whole->received, 500000);
    assert_true(b->is_connected[0]);
    assert_int_equal(b->weights.quota.count, 0);
    close_bench(b);
}

static int quiet(void **state) {
    (void)state;
    lh_log_set_level(LH_LOG_ERROR);
    return 0;
}

/* Of three pieces, whole and from the midst of the second one on; and no more than there is. */
static void pieces_of_the_file_are_a_file(void **state) {
    (void)state;
    enum { OFFSET = 5000, BYTES = 70001, STRIDE = 200003 };
    const lh_stream_quota_limits limits = lh_fleet_weights_default_limits();
    bench *b = open_bench(&limits, NULL);
    uint8_t *expected = malloc(3 * BYTES);
    assert_non_null(expected);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(
            lh_model_file_read(b->file, OFFSET + i * STRIDE, expected + i * BYTES, BYTES, NULL),
            LH_OK);
    connect_as(b, NULL);
    exchange *whole = get_path(b, 0, "/pieces/5000-70001-200003-3", NULL, true);
    whole->expected = expected;
    exchange *part = get_path(b, 0, "/pieces/5000-70001-200003-3", "bytes=100000-200000", true);
    part->expected = expected + 100000;
    exchange *beyond = get_path(b, 0, "/pieces/5000-70001-200003-3", "bytes=210003-", true);
    assert_int_equal(status_of(b, whole), 200);
    assert_int_equal(status_of(b, part), 206);
    assert_int_equal(status_of(b, beyond), 416);
    assert_true(loop_run_until(&b->loop, are_closed, b, 20000));
    assert_int_equal(whole->received, 3 * BYTES);
    assert_int_equal(part->received, 100001);
    free(expected);
    close_bench(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_the_file_are_a_file),
        cmocka_unit_test(what_nobody_reads_costs_next_to_nothing),
        cmocka_unit_test(a_text_comes_whole),
        cmocka_unit_test(what_does_not_move_is_dropped),
        cmocka_unit_test(what_moves_slowly_is_not_dropped),
        cmocka_unit_test(a_peer_has_its_share_whatever_its_connections),
        cmocka_unit_test(certificates_have_their_own_shares_of_what_all_may_have),
        cmocka_unit_test(a_file_that_is_cut_fails_what_lies_behind_its_end),
    };
    return cmocka_run_group_tests(tests, quiet, NULL);
}
