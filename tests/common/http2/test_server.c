/* The server: addresses, limits, back-pressure, other people's clients, hostile peers on a real
 * socket. */
#include "tests/common/support/h2_fixture.h"
#include "tests/common/support/raw_peer.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/log_capture.h"
#include "tests/support/loop.h"
#include "tests/support/processor_time.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void note_closed(void *context) {
    *(int *)context = 1;
}

static void bad_addresses_are_explained(void **state) {
    (void)state;
    fixture f;
    lh_h2_server *server;
    lh_error error;
    char address[32];
    fixture_open_server(&f, NULL, NULL);
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_h2_server_port(f.server));
    assert_int_equal(
        lh_h2_server_create(&f.loop, address, NULL, NULL, f.on_request, &f, &server, &error),
        LH_ERR_IO);
    assert_non_null(strstr(error.message, "in use"));
    assert_non_null(strstr(error.message, address));
    assert_int_equal(
        lh_h2_server_create(&f.loop, "7", NULL, NULL, f.on_request, &f, &server, &error),
        LH_ERR_INVALID);
    assert_int_equal(lh_h2_server_create(&f.loop, "no-such-host.invalid:1", NULL, NULL,
                                         f.on_request, &f, &server, &error),
                     LH_ERR_INVALID);
    lh_tls_options tls = {.certificate_file = "/nonexistent.pem",
                          .key_file = "/nonexistent.key",
                          .ca_file = "/nonexistent.ca"};
    assert_int_equal(
        lh_h2_server_create(&f.loop, "127.0.0.1:0", &tls, NULL, f.on_request, &f, &server, &error),
        LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "/nonexistent.pem"));
    fixture_close(&f);
}

static void a_server_without_memory_is_refused(void **state) {
    (void)state;
    fixture f;
    lh_h2_server *server;
    lh_error error;
    fixture_open_server(&f, NULL, NULL);
    failing_malloc_arm(1);
    lh_status status =
        lh_h2_server_create(&f.loop, "127.0.0.1:0", NULL, NULL, f.on_request, &f, &server, &error);
    assert_true(failing_malloc_disarm());
    assert_int_equal(status, LH_ERR_NO_MEMORY);
    fixture_close(&f);
}

static int count_peers(const raw_peer *peers, int count) {
    int open = 0;
    for (int i = 0; i < count; i++)
        open += peers[i].is_open;
    return open;
}

static void connections_over_the_limit_are_closed(void **state) {
    (void)state;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.connections_max = 2;
    fixture f;
    static raw_peer peers[4];
    memset(peers, 0, sizeof peers);
    fixture_open_server(&f, &limits, NULL);
    int port = lh_h2_server_port(f.server);
    for (int i = 0; i < 4; i++) {
        raw_peer_connect(&peers[i], &f.loop, port, raw_client_greeting, sizeof raw_client_greeting);
        for (int j = 0; j < 500 && !(peers[i].is_open && count_peers(peers, i + 1) <= 2); j++)
            fixture_run_for(&f, 10);
    }
    fixture_run_for(&f, 30); /* in which no more are closed */
    assert_int_equal(count_peers(peers, 4), 2);
    assert_true(peers[3].is_open); /* those before it never made a request */
    for (int i = 0; i < 4; i++)
        if (peers[i].is_open)
            raw_peer_close(&peers[i]);
    fixture_close(&f);
}

/* ---- Before a connection speaks HTTP/2 ---- */

enum { STRANGERS = 300, PLACES = 16 };

/* Whether it has not been closed: what it has been told is read. */
static bool is_open(int socket) {
    char bytes[256];
    ssize_t length;
    do
        length = recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
    while (length > 0);
    return length < 0 && errno == EAGAIN;
}

static int count_open(const int *sockets, int count) {
    int open = 0;
    for (int i = 0; i < count; i++)
        open += is_open(sockets[i]);
    return open;
}

/* Until the server has taken all of them, and closed those for which it has no place. */
static void run_until_places_hold(fixture *f, const int *sockets, int count) {
    for (int i = 0; i < 300 * PROCESSOR_TIME_SCALE && count_open(sockets, count) > PLACES; i++)
        fixture_run_for(f, 5);
}

/* They connect, say what they say, and wait, until as many are left as there are places; each from
 * an address of its own, or all from one. */
static void open_strangers(fixture *f, int sockets[STRANGERS], bool from_many, const char *words) {
    struct sockaddr_in server, own;
    uv_ip4_addr("127.0.0.1", lh_h2_server_port(f->server), &server);
    for (int i = 0; i < STRANGERS; i++) {
        char address[24];
        snprintf(address, sizeof address, "127.0.%d.%d", from_many ? 1 + i / 200 : 1, i % 200 + 1);
        uv_ip4_addr(from_many ? address : "127.0.1.1", 0, &own);
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(sockets[i], (struct sockaddr *)&own, sizeof own), 0);
        assert_int_equal(connect(sockets[i], (struct sockaddr *)&server, sizeof server), 0);
        if (words)
            send(sockets[i], words, strlen(words), MSG_NOSIGNAL);
        /* Where the backlog is full, connect would wait for minutes, and the server for connect. */
        if (i % 10 == 0)
            run_until_places_hold(f, sockets, i + 1);
    }
    run_until_places_hold(f, sockets, STRANGERS);
    assert_int_equal(count_open(sockets, STRANGERS), PLACES);
}

static void strangers_keep_nobody_out(bool from_many, const char *words) {
    fixture f;
    record r;
    int sockets[STRANGERS];
    lh_h2_limits limits = lh_h2_default_limits();
    limits.connections_max = 2;
    limits.new_connections_max = PLACES;
    fixture_open_server(&f, &limits, NULL);
    open_strangers(&f, sockets, from_many, words);
    fixture_open_client(&f, "127.0.0.1", lh_h2_server_port(f.server), NULL);
    fixture_run_until(&f, &f.state_changes, 1, 5000);
    assert_true(f.connected);
    lh_h2_stream_end(fixture_submit(&f, "/x", 0, &r));
    fixture_run_until(&f, &r.closes, 1, 5000);
    assert_int_equal(r.status, LH_OK);
    for (int i = 0; i < STRANGERS; i++)
        close(sockets[i]);
    fixture_close(&f);
}

static void those_who_are_silent_keep_nobody_out(void **state) {
    (void)state;
    lh_log_set_level(LH_LOG_ERROR);
    strangers_keep_nobody_out(false, NULL);
    strangers_keep_nobody_out(true, NULL);
    lh_log_set_level(LH_LOG_INFO);
}

static void those_who_never_come_to_an_end_keep_nobody_out(void **state) {
    (void)state;
    lh_log_set_level(LH_LOG_ERROR);
    strangers_keep_nobody_out(false, "PRI * HTTP/2.0");
    strangers_keep_nobody_out(true, "PRI * HTTP/2.0");
    lh_log_set_level(LH_LOG_INFO);
}

/* Five lines at once, and then one every two seconds. */
static void the_log_has_few_lines_of_them(void **state) {
    (void)state;
    fixture f;
    int sockets[STRANGERS], lines = 0;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.new_connections_max = PLACES;
    fixture_open_server(&f, &limits, NULL);
    log_capture_begin();
    int64_t begin_us = lh_clock_us();
    open_strangers(&f, sockets, true, NULL);
    int64_t took_s = (lh_clock_us() - begin_us) / 1000000;
    char *text = log_capture_end();
    for (const char *at = text; (at = strstr(at, "another connection has got its place")); at++)
        lines++;
    free(text);
    assert_true(lines >= 5 && lines <= 6 + took_s / 2);
    for (int i = 0; i < STRANGERS; i++)
        close(sockets[i]);
    fixture_close(&f);
}

/* Over both protocols, at a socket for both; a machine may have no IPv6. */
static void any_address_is_of_both_protocols(void **state) {
    (void)state;
    static const char *const hosts[] = {"127.0.0.1", "[::1]"};
    int probe = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has_ipv6 = bind(probe, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    close(probe);
    for (size_t i = 0; i < 2 && has_ipv6; i++) {
        fixture f;
        record r;
        fixture_open_server(&f, NULL, NULL);
        lh_h2_server_close(f.server, NULL, NULL);
        fixture_listen(&f, "[::]:0", NULL);
        fixture_open_client(&f, hosts[i], lh_h2_server_port(f.server), NULL);
        fixture_run_until(&f, &f.state_changes, 1, 5000);
        assert_true(f.connected);
        lh_h2_stream_end(fixture_submit(&f, "/x", 0, &r));
        fixture_run_until(&f, &r.closes, 1, 5000);
        assert_int_equal(r.status, LH_OK);
        fixture_close(&f);
    }
}

/* ---- Back-pressure ---- */

enum { BODY_BYTES = 100 << 20, WINDOW_BYTES = 1 << 20 };

static void keep_all(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                     const lh_h2_stream_events **events, void **stream_context) {
    record_accept(context, stream, request->path, events, stream_context)->hold = true;
    lh_h2_stream_respond_headers(stream, 200, NULL, 0, false);
}

/* 100 MB to a server that consumes little by little: what is under way never exceeds the window. */
static void a_slow_consumer_slows_the_sender(void **state) {
    (void)state;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.window_bytes = WINDOW_BYTES;
    fixture f;
    record r;
    fixture_open(&f, &limits, NULL, NULL);
    f.on_request = keep_all;
    lh_h2_stream *stream = fixture_submit(&f, "/x", 0, &r);
    uint8_t *bytes = malloc(BODY_BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < BODY_BYTES; i++)
        bytes[i] = (uint8_t)(i * 13 >> 5);
    uint64_t hash = fnv1a(0, bytes, BODY_BYTES);
    lh_h2_stream_write_owned(stream, bytes, BODY_BYTES);
    lh_h2_stream_end(stream);
    for (int i = 0; i < 200 && (!f.records || f.records->received < WINDOW_BYTES); i++)
        fixture_run_for(&f, 100);
    fixture_run_for(&f, 100); /* in which no more comes */
    record *at_server = f.records;
    assert_int_equal(at_server->received, WINDOW_BYTES);
    assert_int_equal(lh_h2_stream_queued_bytes(stream), BODY_BYTES - WINDOW_BYTES);
    while (at_server->ends == 0) {
        assert_true(at_server->held <= WINDOW_BYTES);
        lh_h2_stream_consume(at_server->stream, at_server->held);
        at_server->held = 0;
        uv_run(&f.loop, UV_RUN_ONCE);
    }
    assert_int_equal(at_server->received, BODY_BYTES);
    assert_true(at_server->hash == hash);
    lh_h2_stream_end(at_server->stream);
    fixture_run_until(&f, &r.closes, 1, 1000);
    fixture_close(&f);
}

/* ---- Other people's clients ---- */

static void on_child_exit(uv_process_t *process, int64_t code, int signal) {
    *(int *)process->data = signal == 0 && code == 0 ? 1 : 2;
    uv_close((uv_handle_t *)process, NULL);
}

static void hello(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                  const lh_h2_stream_events **events, void **stream_context) {
    if (strcmp(request->path, "/hello") == 0 && strcmp(request->query, "a=b") == 0) {
        assert_int_equal(lh_h2_stream_respond(stream, 200, "hello\n"), LH_OK);
        return;
    }
    record *r = record_accept(context, stream, request->path, events, stream_context);
    r->echo = true;
    lh_h2_stream_respond_headers(stream, 200, NULL, 0, false);
}

/* Runs a command line with the server's port as $1 beside the server. */
static void passes(fixture *f, const char *command) {
    char port[8];
    int done = 0;
    uv_process_t process = {.data = &done};
    snprintf(port, sizeof port, "%d", lh_h2_server_port(f->server));
    char *arguments[] = {"sh", "-c", (char *)command, "sh", port, NULL};
    uv_stdio_container_t stdio[] = {{.flags = UV_IGNORE},
                                    {.flags = UV_INHERIT_FD, .data.fd = 2},
                                    {.flags = UV_INHERIT_FD, .data.fd = 2}};
    uv_process_options_t options = {.exit_cb = on_child_exit,
                                    .file = "/bin/sh",
                                    .args = arguments,
                                    .stdio_count = 3,
                                    .stdio = stdio};
    assert_int_equal(uv_spawn(&f->loop, &process, &options), 0);
    fixture_run_until(f, &done, 1, 20000);
    fixture_run_for(f, 1);
    if (done != 1)
        fail_msg("failed: %s", command);
}

static void other_clients_are_served(void **state) {
    (void)state;
    fixture f;
    fixture_open_server(&f, NULL, NULL);
    f.on_request = hello;
    if (system("command -v curl >/dev/null && command -v cmp >/dev/null") == 0) {
        passes(&f, "test \"$(curl -sS --http2-prior-knowledge -w '%{http_code} %{http_version} "
                   "%{content_type}' \"http://127.0.0.1:$1/hello?a=b\")\" = 'hello\n200 2 "
                   "text/plain; charset=utf-8'");
        passes(
            &f,
            "head -c 3000000 /dev/urandom > /tmp/longhaul-echo-$$ && curl -sS "
            "--http2-prior-knowledge --data-binary @/tmp/longhaul-echo-$$ -o /tmp/longhaul-back-$$ "
            "http://127.0.0.1:$1/echo && cmp /tmp/longhaul-echo-$$ /tmp/longhaul-back-$$; code=$?; "
            "rm -f /tmp/longhaul-echo-$$ /tmp/longhaul-back-$$; exit $code");
    } else {
        print_message("skipped: no curl\n");
    }
    if (system("command -v nghttp >/dev/null") == 0)
        passes(&f, "nghttp -nv -m 50 \"http://127.0.0.1:$1/hello?a=b\" | grep -c ':status: 200' | "
                   "grep -qx 50");
    else
        print_message("skipped: no nghttp\n");
    fixture_close(&f);
}

/* ---- Hostile peers ---- */

static void garbage_is_closed_at_once(void **state) {
    (void)state;
    static const char words[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    fixture f;
    static raw_peer peer;
    memset(&peer, 0, sizeof peer);
    fixture_open_server(&f, NULL, NULL);
    raw_peer_connect(&peer, &f.loop, lh_h2_server_port(f.server), words, sizeof words - 1);
    fixture_run_until(&f, &peer.closed, 1, 1000);
    assert_true(raw_find_goaway(peer.heard, peer.heard_length) > 0);
    fixture_close(&f);
}

typedef struct talker {
    int socket;
    uint8_t heard[256];
    size_t heard_length;
} talker;

static bool hears_goaway(void *context) {
    talker *t = context;
    ssize_t length = recv(t->socket, t->heard + t->heard_length, sizeof t->heard - t->heard_length,
                          MSG_DONTWAIT);
    t->heard_length += length > 0 ? (size_t)length : 0;
    return raw_find_goaway(t->heard, t->heard_length) > 0;
}

/* A connection that is closed while its peer talks on sends a reset, which may destroy the GOAWAY
 * that says why: so it stays open for a moment. */
static void last_words_reach_a_peer_that_talks_on(void **state) {
    (void)state;
    static const char words[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    fixture f;
    talker t = {.socket = socket(AF_INET, SOCK_STREAM, 0)};
    struct sockaddr_in address;
    int code = 0;
    socklen_t length = sizeof code;
    fixture_open_server(&f, NULL, NULL);
    uv_ip4_addr("127.0.0.1", lh_h2_server_port(f.server), &address);
    assert_int_equal(connect(t.socket, (struct sockaddr *)&address, sizeof address), 0);
    send(t.socket, words, sizeof words, 0);
    assert_true(loop_run_until(&f.loop, hears_goaway, &t, 20000));
    send(t.socket, words, sizeof words, 0);
    getsockopt(t.socket, SOL_SOCKET, SO_ERROR, &code, &length);
    assert_int_equal(code, 0);
    close(t.socket);
    fixture_close(&f);
}

static void refuse_all(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    record_accept(context, stream, request->path, events, stream_context);
}

/* Streams opened and reset as fast as the socket takes them: GOAWAY within a second, and others are
 * served on. */
static void a_rapid_reset_flood_is_ended(void **state) {
    (void)state;
    static const uint8_t get_root[] = {0x82, 0x86, 0x84, 0x41, 0x01, 'x'};
    enum { STREAMS = 5000, STREAM_BYTES = 9 + sizeof get_root + 9 + 4 };
    fixture f;
    record r;
    static raw_peer peer;
    static uint8_t flood[STREAMS * STREAM_BYTES];
    memset(&peer, 0, sizeof peer);
    fixture_open(&f, NULL, NULL, NULL);
    f.on_request = refuse_all;
    size_t length = 0;
    for (uint32_t i = 0; i < STREAMS; i++) {
        length += raw_frame(flood + length, 1, 4, i * 2 + 1, get_root, sizeof get_root);
        length += raw_frame(flood + length, 3, 0, i * 2 + 1, "\0\0\0\10", 4);
    }
    raw_peer_connect(&peer, &f.loop, lh_h2_server_port(f.server), raw_client_greeting,
                     sizeof raw_client_greeting);
    fixture_run_until(&f, &peer.connected, 1, 1000);
    raw_peer_send(&peer, flood, length);
    fixture_run_until(&f, &peer.closed, 1, 1000);
    assert_true(raw_find_goaway(peer.heard, peer.heard_length) > 0);
    assert_true(f.requests < STREAMS / 2);
    f.on_request = NULL;
    lh_h2_stream_end(fixture_submit(&f, "/x", 0, &r));
    fixture_run_until(&f, &r.closes, 1, 1000);
    assert_int_equal(r.status, LH_OK);
    fixture_close(&f);
}

/* Random bytes and random frames behind a good preface, on many connections. */
static void noise_breaks_nothing(void **state) {
    (void)state;
    fixture f;
    uint32_t seed = 1;
    static raw_peer peer;
    lh_log_set_level(LH_LOG_ERROR);
    fixture_open_server(&f, NULL, NULL);
    for (int i = 0; i < 200; i++) {
        uint8_t bytes[512];
        memset(&peer, 0, sizeof peer);
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
        raw_peer_connect(&peer, &f.loop, lh_h2_server_port(f.server), raw_client_greeting,
                         sizeof raw_client_greeting);
        fixture_run_until(&f, &peer.connected, 1, 1000);
        uint8_t frame[600];
        raw_peer_send(
            &peer, frame,
            raw_frame(frame, bytes[0] % 12, bytes[1], bytes[2] & 3, bytes, bytes[3] & 63));
        raw_peer_send(&peer, bytes, sizeof bytes);
        fixture_run_for(&f, 1);
        raw_peer_close(&peer);
        fixture_run_for(&f, 1);
    }
    lh_log_set_level(LH_LOG_INFO);
    fixture_close(&f);
}

/* After its last request nothing will come. */
static void a_client_that_says_goaway_is_let_go(void **state) {
    (void)state;
    static const uint8_t get_root[] = {0x82, 0x86, 0x84, 0x41, 0x01, 'x'};
    fixture f;
    static raw_peer peer;
    uint8_t frames[64];
    memset(&peer, 0, sizeof peer);
    fixture_open_server(&f, NULL, NULL);
    raw_peer_connect(&peer, &f.loop, lh_h2_server_port(f.server), raw_client_greeting,
                     sizeof raw_client_greeting);
    fixture_run_until(&f, &peer.connected, 1, 1000);
    size_t length = raw_frame(frames, 1, 4, 1, get_root, sizeof get_root);
    length += raw_frame(frames + length, 7, 0, 0, "\0\0\0\0\0\0\0\0", 8);
    raw_peer_send(&peer, frames, length);
    fixture_run_until(&f, &f.requests, 1, 1000);
    fixture_run_for(&f, 20);
    assert_int_equal(peer.closed, 0);
    raw_peer_send(&peer, frames, raw_frame(frames, 0, 1, 1, NULL, 0)); /* its end: echoed */
    fixture_run_until(&f, &peer.closed, 1, 5000);
    assert_int_equal(f.records->status, LH_OK);
    fixture_close(&f);
}

/* A server that closes tells its peers so. */
static void closing_says_goaway(void **state) {
    (void)state;
    fixture f;
    static raw_peer peer;
    int closed = 0;
    memset(&peer, 0, sizeof peer);
    fixture_open_server(&f, NULL, NULL);
    raw_peer_connect(&peer, &f.loop, lh_h2_server_port(f.server), raw_client_greeting,
                     sizeof raw_client_greeting);
    fixture_run_for(&f, 20);
    lh_h2_server_close(f.server, note_closed, &closed);
    f.server = NULL;
    fixture_run_until(&f, &peer.closed, 1, 1000);
    assert_int_equal(raw_find_goaway(peer.heard, peer.heard_length), 0);
    fixture_run_until(&f, &closed, 1, 1000);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_addresses_are_explained),
        cmocka_unit_test(a_server_without_memory_is_refused),
        cmocka_unit_test(connections_over_the_limit_are_closed),
        cmocka_unit_test(those_who_are_silent_keep_nobody_out),
        cmocka_unit_test(those_who_never_come_to_an_end_keep_nobody_out),
        cmocka_unit_test(the_log_has_few_lines_of_them),
        cmocka_unit_test(any_address_is_of_both_protocols),
        cmocka_unit_test(a_slow_consumer_slows_the_sender),
        cmocka_unit_test(other_clients_are_served),
        cmocka_unit_test(garbage_is_closed_at_once),
        cmocka_unit_test(last_words_reach_a_peer_that_talks_on),
        cmocka_unit_test(a_rapid_reset_flood_is_ended),
        cmocka_unit_test(noise_breaks_nothing),
        cmocka_unit_test(a_client_that_says_goaway_is_let_go),
        cmocka_unit_test(closing_says_goaway),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
