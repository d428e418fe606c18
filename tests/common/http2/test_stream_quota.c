/* Places of streams over loopback whose bodies come, or do not: who gets one, and who loses it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/base/log.h"
#include "common/http2/client.h"
#include "common/http2/server.h"
#include "common/http2/stream_quota.h"
#include "tests/support/loop.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One request, at the client. */
typedef struct exchange {
    lh_h2_stream *stream;
    int http_status;
    bool is_closed;
    lh_status status;
    char body[128];
} exchange;

typedef struct bench {
    uv_loop_t loop;
    lh_stream_quota quota;
    lh_h2_server *server;
    lh_h2_client *client;
    bool is_connected;
} bench;

/* ---- The server: bodies are taken, and nothing is answered ---- */

static void on_piece(lh_h2_stream *stream, void *place, const uint8_t *bytes, size_t length) {
    (void)bytes;
    lh_h2_stream_consume(stream, length);
    lh_stream_place_move(place);
}

static void on_left(lh_h2_stream *stream, void *place, lh_status status) {
    (void)stream;
    (void)status;
    lh_stream_place_leave(place);
    free(place);
}

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    static const lh_h2_stream_events stream_events = {.on_body = on_piece, .on_closed = on_left};
    bench *b = context;
    lh_stream_place *place = malloc(sizeof *place);
    assert_non_null(place);
    if (lh_stream_place_enter_for(place, &b->quota, stream, request,
                                  lh_h2_request_header(request, "sender")) != LH_OK) {
        free(place);
        return;
    }
    *events = &stream_events;
    *stream_context = place;
}

/* ---- The client ---- */

static void on_state(void *context, bool connected, const char *reason) {
    (void)reason;
    ((bench *)context)->is_connected = connected;
}

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    (void)stream;
    ((exchange *)context)->http_status = http_status;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    exchange *e = context;
    assert_true(length < sizeof e->body);
    memcpy(e->body, bytes, length);
    e->body[length] = 0;
    lh_h2_stream_consume(stream, length);
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    exchange *e = context;
    (void)stream;
    e->status = status;
    e->is_closed = true;
}

static void begin_for(bench *b, exchange *e, const char *sender) {
    const lh_h2_header header = {.name = "sender", .value = sender};
    static const lh_h2_stream_events events = {
        .on_response = on_response, .on_body = on_body, .on_closed = on_closed};
    *e = (exchange){0};
    assert_int_equal(
        lh_h2_client_submit(b->client, "PUT", "/", &header, 1, 1, &events, e, &e->stream, NULL),
        LH_OK);
}

static void begin(bench *b, exchange *e) {
    begin_for(b, e, "");
}

/* Writes a byte each time. */
static void drip(uv_timer_t *timer) {
    exchange *e = timer->data;
    if (!e->is_closed)
        lh_h2_stream_write(e->stream, "x", 1);
}

/* ---- Life ---- */

static void open_bench(bench *b, const lh_stream_quota_limits *limits) {
    char address[32];
    *b = (bench){0};
    signal(SIGPIPE, SIG_IGN); /* as the programs do */
    assert_int_equal(uv_loop_init(&b->loop), 0);
    lh_stream_quota_init(&b->quota, &b->loop, "letters", limits);
    assert_int_equal(
        lh_h2_server_create(&b->loop, "127.0.0.1:0", NULL, NULL, on_request, b, &b->server, NULL),
        LH_OK);
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_h2_server_port(b->server));
    assert_int_equal(
        lh_h2_client_create(&b->loop, address, NULL, NULL, on_state, b, &b->client, NULL), LH_OK);
    loop_run_until_set(&b->loop, &b->is_connected);
}

static void close_bench(bench *b) {
    bool is_server_closed = false, is_client_closed = false, is_quota_closed = false;
    lh_h2_server_close(b->server, loop_set_flag, &is_server_closed);
    loop_run_until_set(&b->loop, &is_server_closed);
    lh_h2_client_close(b->client, loop_set_flag, &is_client_closed);
    loop_run_until_set(&b->loop, &is_client_closed);
    lh_stream_quota_close(&b->quota, loop_set_flag, &is_quota_closed);
    loop_run_until_set(&b->loop, &is_quota_closed);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&b->loop), 0);
}

/* ---- Places ---- */

static void refused(bench *b, int http_status, const char *text) {
    exchange e;
    begin(b, &e);
    loop_run_until_set(&b->loop, &e.is_closed);
    assert_int_equal(e.http_status, http_status);
    assert_string_equal(e.body, text);
}

static bool has_two(void *quota) {
    return ((const lh_stream_quota *)quota)->count == 2;
}

static void who_finds_no_place_is_told_why(void **state) {
    (void)state;
    static const struct {
        lh_stream_quota_limits limits;
        int http_status;
        const char *text;
    } rows[] = {
        {{.peer_max = 2, .all_max = 9, .stall_ms = 30000},
         429,
         "letters: a peer may have 2 at once\n"},
        {{.peer_max = 9, .all_max = 2, .stall_ms = 30000},
         503,
         "letters: all peers may have 2 at once\n"},
    };
    for (size_t i = 0; i < 2; i++) {
        bench b;
        exchange first, second;
        open_bench(&b, &rows[i].limits);
        begin(&b, &first);
        begin(&b, &second);
        assert_true(loop_run_until(&b.loop, has_two, &b.quota, 20000));
        refused(&b, rows[i].http_status, rows[i].text);
        lh_h2_stream_cancel(first.stream); /* and its place is free */
        loop_run_until_set(&b.loop, &first.is_closed);
        begin(&b, &first);
        assert_true(loop_run_until(&b.loop, has_two, &b.quota, 20000));
        refused(&b, rows[i].http_status, rows[i].text);
        assert_false(second.is_closed);
        close_bench(&b);
    }
}

/* While one beside it moves a byte at a time, and is not. */
static void who_stands_still_is_dropped(void **state) {
    (void)state;
    const lh_stream_quota_limits limits = {.peer_max = 9, .all_max = 9, .stall_ms = 240};
    bench b;
    exchange slow, stuck;
    uv_timer_t timer = {.data = &slow};
    open_bench(&b, &limits);
    begin(&b, &slow);
    uv_timer_init(&b.loop, &timer);
    uv_timer_start(&timer, drip, 5, 5);
    for (int i = 0; i < 3; i++) {
        begin(&b, &stuck);
        loop_run_until_set(&b.loop, &stuck.is_closed);
        assert_int_equal(stuck.status, LH_ERR_CANCELLED);
        assert_false(slow.is_closed);
    }
    assert_int_equal(b.quota.count, 1);
    uv_close((uv_handle_t *)&timer, NULL);
    close_bench(&b);
}

static void who_lasts_too_long_is_dropped_though_it_moves(void **state) {
    (void)state;
    const lh_stream_quota_limits limits = {
        .peer_max = 9, .all_max = 9, .stall_ms = 240, .whole_ms = 480};
    bench b;
    exchange slow;
    uv_timer_t timer = {.data = &slow};
    open_bench(&b, &limits);
    begin(&b, &slow);
    uv_timer_init(&b.loop, &timer);
    uv_timer_start(&timer, drip, 5, 5);
    loop_run_until_set(&b.loop, &slow.is_closed);
    assert_int_equal(slow.status, LH_ERR_CANCELLED);
    assert_int_equal(b.quota.count, 0);
    uv_close((uv_handle_t *)&timer, NULL);
    close_bench(&b);
}

static bool has_one(void *quota) {
    return ((const lh_stream_quota *)quota)->count == 1;
}

/* The oldest of those that never moved makes room; one that may be here does not. */
static void a_newcomer_takes_the_place_of_who_stands_still(void **state) {
    (void)state;
    const lh_stream_quota_limits limits = {
        .peer_max = 2, .all_max = 9, .stall_ms = 60000, .has_turnover = true};
    bench b;
    exchange first, second, third;
    open_bench(&b, &limits);
    begin(&b, &first);
    assert_true(loop_run_until(&b.loop, has_one, &b.quota, 20000));
    lh_stream_place_set_patience(b.quota.first, 2);
    begin(&b, &second);
    assert_true(loop_run_until(&b.loop, has_two, &b.quota, 20000));
    begin(&b, &third);
    loop_run_until_set(&b.loop, &second.is_closed);
    assert_int_equal(second.status, LH_ERR_CANCELLED);
    assert_true(loop_run_until(&b.loop, has_two, &b.quota, 20000));
    assert_false(first.is_closed || third.is_closed);
    for (lh_stream_place *place = b.quota.first; place; place = place->next)
        lh_stream_place_set_patience(place, 2);
    refused(&b, 429, "letters: a peer may have 2 at once\n");
    close_bench(&b);
}

/* They leave their peer in an order; and none moves while all of them stand still. */
/* A relay's: who holds many open makes room by his own, not by another sender's. */
static void senders_of_one_peer_share_its_places(void **state) {
    (void)state;
    enum { PLACES = 4 };
    bench b;
    exchange held[2 * PLACES], other;
    open_bench(&b,
               &(lh_stream_quota_limits){
                   .peer_max = PLACES, .all_max = 100, .stall_ms = 60000, .has_turnover = true});
    for (uint32_t i = 0; i < PLACES; i++)
        begin_for(&b, &held[i], "bad");
    begin_for(&b, &other, "good");
    loop_run_until_set(&b.loop, &held[0].is_closed);
    for (uint32_t i = PLACES; i < 2 * PLACES; i++) {
        begin_for(&b, &held[i], "bad");
        loop_run_until_set(&b.loop, &held[i - PLACES + 1].is_closed);
    }
    assert_false(other.is_closed);
    close_bench(&b);
}

static void who_waits_behind_another_does_not_stand_still(void **state) {
    (void)state;
    const lh_stream_quota_limits limits = {
        .peer_max = 9, .all_max = 9, .stall_ms = 120, .is_by_peer = true};
    bench b;
    exchange moving, waiting;
    uv_timer_t timer = {.data = &moving};
    open_bench(&b, &limits);
    begin(&b, &moving);
    begin(&b, &waiting);
    uv_timer_init(&b.loop, &timer);
    uv_timer_start(&timer, drip, 5, 5);
    for (uint64_t end_ms = uv_now(&b.loop) + 600; uv_now(&b.loop) < end_ms;)
        uv_run(&b.loop, UV_RUN_ONCE);
    assert_false(moving.is_closed || waiting.is_closed);
    uv_close((uv_handle_t *)&timer, NULL);
    loop_run_until_set(&b.loop, &waiting.is_closed);
    assert_int_equal(waiting.status, LH_ERR_CANCELLED);
    close_bench(&b);
}

static void who_waits_behind_a_patient_one_is_as_patient(void **state) {
    (void)state;
    const lh_stream_quota_limits limits = {
        .peer_max = 9, .all_max = 9, .stall_ms = 60, .is_by_peer = true};
    bench b;
    exchange patient, waiting;
    open_bench(&b, &limits);
    begin(&b, &patient);
    assert_true(loop_run_until(&b.loop, has_one, &b.quota, 20000));
    lh_stream_place_set_patience(b.quota.first, 20);
    begin(&b, &waiting);
    assert_true(loop_run_until(&b.loop, has_two, &b.quota, 20000));
    loop_run_for(&b.loop, 300);
    assert_false(patient.is_closed || waiting.is_closed);
    loop_run_until_set(&b.loop, &waiting.is_closed);
    assert_int_equal(waiting.status, LH_ERR_CANCELLED);
    close_bench(&b);
}

/* Whoever has one address of IPv6 has 2^64 of them. */
static void a_network_of_ipv6_is_one_peer(void **state) {
    (void)state;
    static const lh_tls_identity nobody = {.kind = LH_TLS_NONE};
    static const lh_stream_quota_limits limits = {.peer_max = 1, .all_max = 9, .stall_ms = 60000};
    lh_h2_request request = {.peer = "[2001:db8::1]:1", .peer_identity = &nobody};
    lh_stream_place place;
    bench b;
    open_bench(&b, &limits);
    assert_int_equal(lh_stream_place_enter(&place, &b.quota, NULL, &request), LH_OK);
    request.peer = "[2001:db8::2]:1";
    assert_true(lh_stream_quota_is_full(&b.quota, &request));
    request.peer = "[2001:db8:0:1::1]:1";
    assert_false(lh_stream_quota_is_full(&b.quota, &request));
    lh_stream_place_leave(&place);
    close_bench(&b);
}

static int quiet(void **state) {
    (void)state;
    lh_log_set_level(LH_LOG_ERROR);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_finds_no_place_is_told_why),
        cmocka_unit_test(who_stands_still_is_dropped),
        cmocka_unit_test(a_newcomer_takes_the_place_of_who_stands_still),
        cmocka_unit_test(senders_of_one_peer_share_its_places),
        cmocka_unit_test(who_waits_behind_another_does_not_stand_still),
        cmocka_unit_test(who_waits_behind_a_patient_one_is_as_patient),
        cmocka_unit_test(who_lasts_too_long_is_dropped_though_it_moves),
        cmocka_unit_test(a_network_of_ipv6_is_one_peer),
    };
    return cmocka_run_group_tests(tests, quiet, NULL);
}
