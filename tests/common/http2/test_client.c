/* The client keeps a connection up: restarts, back-off, names, GOAWAY, renewal, and closing at any
 * moment. */
#include "tests/common/support/h2_fixture.h"
#include "tests/common/support/raw_peer.h"

#include "common/base/clock.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void note_closed(void *context) {
    *(int *)context = 1;
}

static void ask_once(fixture *f) {
    record r;
    lh_h2_stream_end(fixture_submit(f, "/x", 0, &r));
    fixture_run_until(f, &r.closes, 1, 2000);
    assert_int_equal(r.status, LH_OK);
}

static void it_comes_back_with_the_server(void **state) {
    (void)state;
    fixture f;
    record r;
    int closed = 0;
    fixture_open(&f, NULL, NULL, NULL);
    ask_once(&f);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_h2_server_port(f.server));
    fixture_submit(&f, "/unfinished", 0, &r);
    fixture_run_until(&f, &f.requests, 2, 1000);
    lh_h2_server_close(f.server, note_closed, &closed);
    fixture_run_until(&f, &closed, 1, 1000);
    fixture_run_until(&f, &r.closes, 1, 1000);
    assert_int_equal(r.status, LH_ERR_CLOSED);
    fixture_run_until(&f, &f.state_changes, 2, 1000);
    assert_false(f.connected);
    fixture_run_for(&f, 300);
    fixture_listen(&f, address, NULL);
    int before = f.state_changes;
    fixture_run_until(&f, &f.state_changes, before + 1, 3000);
    assert_true(f.connected);
    ask_once(&f);
    fixture_close(&f);
}

static void names_are_resolved(void **state) {
    (void)state;
    fixture f;
    fixture_open_server(&f, NULL, NULL); /* on 127.0.0.1 alone: ::1 comes first and is refused */
    fixture_open_client(&f, "localhost", lh_h2_server_port(f.server), NULL);
    fixture_run_until(&f, &f.state_changes, 1, 5000);
    assert_true(f.connected);
    ask_once(&f);
    fixture_close(&f);
}

static void a_client_is_refused(fixture *f, const char *address, const lh_tls_options *tls,
                                lh_status expected) {
    lh_h2_client *client;
    lh_error error;
    assert_int_equal(lh_h2_client_create(&f->loop, address, tls, NULL, NULL, NULL, &client, &error),
                     expected);
    assert_true(error.message[0] != '\0');
}

static void failures_are_explained(void **state) {
    (void)state;
    fixture f;
    fixture_open_server(&f, NULL, NULL);
    lh_tls_options tls = {.certificate_file = "/nonexistent.pem",
                          .key_file = "/nonexistent.key",
                          .ca_file = "/nonexistent.ca"};
    a_client_is_refused(&f, "7", NULL, LH_ERR_INVALID);
    a_client_is_refused(&f, "127.0.0.1:1", &tls, LH_ERR_INVALID);
    failing_malloc_arm(1);
    a_client_is_refused(&f, "127.0.0.1:1", NULL, LH_ERR_NO_MEMORY);
    assert_true(failing_malloc_disarm());
    fixture_open_client(&f, "no-such-host.invalid", 1, NULL);
    fixture_run_until(&f, &f.state_changes, 1, 20000);
    assert_false(f.connected);
    assert_non_null(strstr(f.reason, "the name no-such-host.invalid is not found: "));
    fixture_close(&f);
    fixture_open_server(&f, NULL, NULL);
    fixture_open_client(&f, "127.0.0.1", 1, NULL);
    fixture_run_until(&f, &f.state_changes, 1, 2000);
    assert_non_null(strstr(f.reason, "refused"));
    fixture_close(&f);
    fixture_open_server(&f, NULL, NULL);
    fixture_open_client(&f, "255.255.255.255", 1, NULL); /* cannot even be tried */
    fixture_run_until(&f, &f.state_changes, 1, 2000);
    assert_null(strstr(f.reason, "within"));
    fixture_close(&f);
    fixture_open_server(&f, NULL, NULL);
    fixture_open_client(&f, "\xff", 1, NULL); /* no name that could be looked up */
    fixture_run_until(&f, &f.state_changes, 1, 2000);
    assert_false(f.connected);
    fixture_close(&f);
}

static void attempts_back_off(void **state) {
    (void)state;
    fixture f;
    raw_peer peer = {.curt = true}; /* closes what it accepts */
    fixture_open_server(&f, NULL, NULL);
    fixture_open_client(&f, "127.0.0.1", raw_peer_listen(&peer, &f.loop, NULL, 0), NULL);
    fixture_run_for(&f, 1500);
    /* at 0, 50, 150, 350, 750, 1550 ms, each give or take a quarter */
    assert_in_range(peer.connected, 4, 8);
    assert_int_equal(f.state_changes, 1); /* the same reason is told once */
    raw_peer_close(&peer);
    fixture_close(&f);
}

static bool is_refused(const fixture *f) {
    lh_h2_client_link link;
    lh_h2_client_read_link(f->client, &link);
    return link.refused;
}

/* Nobody listens there: that is known while it is so, and of nothing else that keeps it down. */
static void a_refusal_is_known_while_it_lasts(void **state) {
    (void)state;
    fixture f;
    char address[32];
    fixture_open(&f, NULL, NULL, NULL);
    assert_false(is_refused(&f));
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_h2_server_port(f.server));
    lh_h2_server_close(f.server, NULL, NULL);
    fixture_run_until(&f, &f.state_changes, 2, 2000);
    assert_false(f.connected || is_refused(&f)); /* the server has gone: not yet tried again */
    fixture_run_until(&f, &f.state_changes, 3, 2000);
    assert_non_null(strstr(f.reason, "refused"));
    assert_true(is_refused(&f));
    fixture_listen(&f, address, NULL);
    fixture_run_until(&f, &f.state_changes, 4, 5000);
    assert_true(f.connected);
    assert_false(is_refused(&f));
    fixture_close(&f);
    raw_peer peer = {.curt = true};
    fixture_open_server(&f, NULL, NULL);
    fixture_open_client(&f, "127.0.0.1", raw_peer_listen(&peer, &f.loop, NULL, 0), NULL);
    fixture_run_until(&f, &f.state_changes, 1, 2000);
    assert_false(f.connected || is_refused(&f));
    raw_peer_close(&peer);
    fixture_close(&f);
}

static void nothing_is_submitted_while_it_is_down(void **state) {
    (void)state;
    fixture f;
    record r;
    lh_error error;
    fixture_open(&f, NULL, NULL, NULL);
    lh_h2_server_close(f.server, NULL, NULL);
    f.server = NULL;
    fixture_run_until(&f, &f.state_changes, 2, 2000);
    assert_int_equal(lh_h2_client_submit(f.client, "GET", "/x", NULL, 0, 0, &record_events, &r,
                                         &r.stream, &error),
                     LH_ERR_UNAVAILABLE);
    assert_non_null(strstr(error.message, "not connected to 127.0.0.1:"));
    assert_non_null(strstr(error.message, f.reason));
    fixture_close(&f);
}

/* A server that says GOAWAY: no new streams there, the old one is left alone, and the client
 * connects again. */
static void goaway_is_obeyed(void **state) {
    (void)state;
    fixture f;
    record r;
    uint8_t frame[64];
    raw_peer peer = {0};
    fixture_open_server(&f, NULL, NULL);
    int port = raw_peer_listen(&peer, &f.loop, raw_server_greeting, sizeof raw_server_greeting);
    fixture_open_client(&f, "127.0.0.1", port, NULL);
    fixture_run_until(&f, &f.state_changes, 1, 1000);
    lh_h2_stream_end(fixture_submit(&f, "/x", 0, &r));
    fixture_run_for(&f, 20);
    /* up to stream 1 */
    raw_peer_send(&peer, frame, raw_frame(frame, 7, 0, 0, "\0\0\0\1\0\0\0\0", 8));
    fixture_run_until(&f, &f.state_changes, 2, 1000);
    assert_false(f.connected);
    assert_non_null(strstr(f.reason, "going away"));
    assert_int_equal(r.closes, 0);
    raw_peer_send(&peer, frame, raw_frame(frame, 1, 5, 1, "\x88", 1)); /* :status 200 */
    fixture_run_until(&f, &r.closes, 1, 1000);
    assert_int_equal(r.status, LH_OK);
    assert_int_equal(r.http_status, 200);
    fixture_run_until(&f, &peer.closed, 1, 1000); /* drained, so closed */
    fixture_run_until(&f, &f.state_changes, 3, 1000);
    assert_true(f.connected);
    assert_int_equal(peer.connected, 2);
    raw_peer_close(&peer);
    fixture_close(&f);
}

/* ---- Renewal ---- */

static char last_peer[64];
static int peers;

static void count_peers(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                        const lh_h2_stream_events **events, void **stream_context) {
    record *r = record_accept(context, stream, request->path, events, stream_context);
    if (strcmp(last_peer, request->peer) != 0)
        peers++;
    snprintf(last_peer, sizeof last_peer, "%s", request->peer);
    r->echo = true;
    lh_h2_stream_respond_headers(stream, 200, NULL, 0, false);
}

static void connections_are_renewed_unnoticed(void **state) {
    (void)state;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.renew_after = 10;
    fixture f;
    fixture_open(&f, &limits, NULL, NULL);
    f.on_request = count_peers;
    peers = 0;
    for (int i = 0; i < 100; i++)
        ask_once(&f);
    assert_in_range(peers, 5, 10);
    assert_int_equal(f.state_changes, 1);
    lh_h2_client_link link;
    lh_h2_client_read_link(f.client, &link);
    assert_in_range(link.bytes_sent, 100 * 10, 100 * 1000);
    fixture_close(&f);
}

/* While a stream is open the connection is not changed, so that nothing overtakes it; when ids are
 * nearly out, requests wait. */
static void renewal_keeps_the_order(void **state) {
    (void)state;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.renew_after = 3;
    fixture f;
    record first, rest[6], last;
    lh_error error;
    fixture_open(&f, &limits, NULL, NULL);
    f.on_request = count_peers;
    peers = 0;
    last_peer[0] = '\0';
    fixture_submit(&f, "/long", 0, &first);
    for (int i = 0; i < 5; i++) {
        lh_h2_stream_end(fixture_submit(&f, "/x", 1, &rest[i]));
        fixture_run_until(&f, &rest[i].closes, 1, 1000);
    }
    assert_int_equal(peers, 1);
    assert_int_equal(lh_h2_client_submit(f.client, "GET", "/x", NULL, 0, 0, &record_events, &last,
                                         &last.stream, &error),
                     LH_ERR_BUSY);
    assert_non_null(strstr(error.message, "renewed"));
    lh_h2_stream_end(first.stream);
    fixture_run_until(&f, &first.closes, 1, 1000);
    fixture_run_for(&f, 20);
    ask_once(&f);
    assert_int_equal(peers, 2);
    assert_int_equal(f.state_changes, 1);
    fixture_close(&f);
}

static void count_tcp(uv_handle_t *handle, void *count) {
    *(int *)count += uv_handle_get_type(handle) == UV_TCP && !uv_is_closing(handle);
}

/* Of both ends, and the listener. */
static int count_sockets(const fixture *f) {
    int count = 0;
    uv_walk((uv_loop_t *)&f->loop, count_tcp, &count);
    return count;
}

static bool has_a_successor(void *context) {
    return count_sockets(context) == 1 + 2 * 2;
}

static bool has_one_connection(void *context) {
    return count_sockets(context) == 1 + 2;
}

/* Nothing has to be asked for first. */
static void the_old_connection_goes_with_its_last_stream(void **state) {
    (void)state;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.renew_after = 2;
    fixture f;
    record r;
    fixture_open(&f, &limits, NULL, NULL);
    fixture_submit(&f, "/long", 1, &r);
    for (int i = 0; i < 2; i++)
        ask_once(&f);
    assert_true(loop_run_until(&f.loop, has_a_successor, &f, 20000));
    fixture_run_for(&f, 50);
    assert_true(has_a_successor(&f));
    lh_h2_stream_end(r.stream);
    assert_true(loop_run_until(&f.loop, has_one_connection, &f, 20000));
    assert_int_equal(r.status, LH_OK);
    assert_int_equal(f.state_changes, 1);
    fixture_close(&f);
}

/* ---- Closing at any moment ---- */

typedef struct closer {
    fixture f;
    lh_h2_client *client;
    lh_h2_server *server;
    int at; /* the event in which both are closed */
    int closed, streams_closed;
} closer;

enum {
    AT_REQUEST,
    AT_SERVER_BODY,
    AT_SERVER_CLOSED,
    AT_RESPONSE,
    AT_BODY,
    AT_END,
    AT_CLOSED,
    MOMENTS
};

static void count_closed(void *context) {
    closer *c = context;
    c->closed++;
}

static void moment(closer *c, int which) {
    if (c->at != which)
        return;
    lh_h2_client_close(c->client, count_closed, c);
    lh_h2_server_close(c->server, count_closed, c);
    lh_h2_client_close(c->client, count_closed, c); /* again: nothing */
}

static void closing_response(lh_h2_stream *stream, void *context, int http_status) {
    (void)stream;
    (void)http_status;
    moment(context, AT_RESPONSE);
}

static void closing_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    (void)bytes;
    lh_h2_stream_consume(stream, length);
    moment(context, AT_BODY);
}

static void closing_end(lh_h2_stream *stream, void *context) {
    (void)stream;
    moment(context, AT_END);
}

static void closing_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)status;
    closer *c = context;
    c->streams_closed++;
    moment(c, AT_CLOSED);
}

static const lh_h2_stream_events closing_events = {closing_response, closing_body, closing_end,
                                                   closing_closed};

static void closing_server_body(lh_h2_stream *stream, void *context, const uint8_t *bytes,
                                size_t length) {
    lh_h2_stream_write(stream, bytes, length);
    lh_h2_stream_consume(stream, length);
    moment(context, AT_SERVER_BODY);
}

static void closing_server_end(lh_h2_stream *stream, void *context) {
    (void)context;
    lh_h2_stream_end(stream);
}

static void closing_server_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)status;
    closer *c = context;
    c->streams_closed++;
    moment(c, AT_SERVER_CLOSED);
}

static const lh_h2_stream_events closing_server_events = {
    NULL, closing_server_body, closing_server_end, closing_server_closed};

static void closing_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                            const lh_h2_stream_events **events, void **stream_context) {
    (void)request;
    lh_h2_stream_respond_headers(stream, 200, NULL, 0, false);
    *events = &closing_server_events;
    *stream_context = context;
    moment(context, AT_REQUEST);
}

static void closing_state(void *context, bool connected, const char *reason) {
    (void)reason;
    closer *c = context;
    c->f.connected = connected;
}

static void both_may_be_closed_in_any_callback(void **state) {
    (void)state;
    for (int at = 0; at < MOMENTS; at++) {
        closer c = {.at = at};
        char address[32];
        uv_loop_t *loop = &c.f.loop;
        lh_h2_stream *stream;
        uv_loop_init(loop);
        assert_int_equal(lh_h2_server_create(loop, "127.0.0.1:0", NULL, NULL, closing_request, &c,
                                             &c.server, NULL),
                         LH_OK);
        snprintf(address, sizeof address, "127.0.0.1:%d", lh_h2_server_port(c.server));
        assert_int_equal(
            lh_h2_client_create(loop, address, NULL, NULL, closing_state, &c, &c.client, NULL),
            LH_OK);
        while (!c.f.connected)
            uv_run(loop, UV_RUN_ONCE);
        assert_int_equal(lh_h2_client_submit(c.client, "POST", "/", NULL, 0, 0, &closing_events, &c,
                                             &stream, NULL),
                         LH_OK);
        lh_h2_stream_write(stream, "body", 4);
        lh_h2_stream_end(stream);
        uv_run(loop, UV_RUN_DEFAULT);
        assert_int_equal(c.closed, 2);
        assert_int_equal(c.streams_closed, 2);
        assert_int_equal(uv_loop_close(loop), 0);
    }
}

static void a_client_may_be_closed_at_any_time(void **state) {
    (void)state;
    static const char *const addresses[] = {"localhost:%d", "127.0.0.1:%d"};
    for (int turns = 0; turns < 24; turns++) {
        uv_loop_t loop;
        lh_h2_server *server;
        lh_h2_client *client;
        fixture f = {0};
        char address[32];
        int closed[2] = {0};
        uv_loop_init(&loop);
        assert_int_equal(lh_h2_server_create(&loop, "127.0.0.1:0", NULL, NULL, closing_request, &f,
                                             &server, NULL),
                         LH_OK);
        snprintf(address, sizeof address, addresses[turns & 1], lh_h2_server_port(server));
        assert_int_equal(
            lh_h2_client_create(&loop, address, NULL, NULL, closing_state, &f, &client, NULL),
            LH_OK);
        for (int i = 0; i < turns / 2; i++)
            uv_run(&loop, UV_RUN_NOWAIT);
        lh_h2_client_close(client, note_closed, &closed[0]);
        lh_h2_server_close(server, note_closed, &closed[1]);
        uv_run(&loop, UV_RUN_DEFAULT);
        assert_int_equal(closed[0] + closed[1], 2);
        assert_int_equal(uv_loop_close(&loop), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back_with_the_server),
        cmocka_unit_test(names_are_resolved),
        cmocka_unit_test(failures_are_explained),
        cmocka_unit_test(attempts_back_off),
        cmocka_unit_test(a_refusal_is_known_while_it_lasts),
        cmocka_unit_test(nothing_is_submitted_while_it_is_down),
        cmocka_unit_test(goaway_is_obeyed),
        cmocka_unit_test(connections_are_renewed_unnoticed),
        cmocka_unit_test(renewal_keeps_the_order),
        cmocka_unit_test(the_old_connection_goes_with_its_last_stream),
        cmocka_unit_test(both_may_be_closed_in_any_callback),
        cmocka_unit_test(a_client_may_be_closed_at_any_time),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
