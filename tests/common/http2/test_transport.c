/* A connection: TLS, the wrong doors, peers that die, slow links. */
#include "tests/common/support/h2_fixture.h"
#include "tests/common/support/raw_peer.h"
#include "tests/support/certificates.h"

#include "common/base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static authority ca;
static lh_tls_options server_tls, client_tls;

static int make_certificates(void **state) {
    (void)state;
    authority_open(&ca);
    authority_issue(&ca, "ca", NULL, "Longhaul test CA", NULL, 30);
    authority_issue(&ca, "other-ca", NULL, "Somebody else's CA", NULL, 30);
    authority_issue(&ca, "server", "ca", "?", "URI:longhaul://gateway", 30);
    authority_issue(&ca, "client", "ca", "?", "URI:longhaul://worker/attic?site=home", 30);
    authority_issue(&ca, "stranger", "other-ca", "?", "URI:longhaul://worker/attic?site=home", 30);
    server_tls = authority_options(&ca, "server", "ca");
    client_tls = authority_options(&ca, "client", "ca");
    client_tls = lh_tls_options_for(&client_tls, "");
    return 0;
}

static int remove_certificates(void **state) {
    (void)state;
    authority_close(&ca);
    return 0;
}

/* ---- TLS ---- */

static char asked_by[64];

static void note_name(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                      const lh_h2_stream_events **events, void **stream_context) {
    record *r = record_accept(context, stream, request->path, events, stream_context);
    snprintf(asked_by, sizeof asked_by, "%s", request->peer_identity->name);
    r->echo = true;
    lh_h2_stream_respond_headers(stream, 200, NULL, 0, false);
}

static void tls_carries_bodies(void **state) {
    (void)state;
    enum { BYTES = 32 << 20 };
    fixture f;
    record r;
    fixture_open(&f, NULL, &server_tls, &client_tls);
    f.on_request = note_name;
    lh_h2_stream *stream = fixture_submit(&f, "/x", 0, &r);
    uint8_t *bytes = malloc(BYTES);
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);
    uint64_t hash = fnv1a(0, bytes, BYTES);
    int64_t begin_us = lh_clock_us();
    lh_h2_stream_write_owned(stream, bytes, BYTES);
    lh_h2_stream_end(stream);
    fixture_run_until(&f, &r.closes, 1, 20000);
    print_message("%.0f MB/s echoed over TLS\n",
                  (double)BYTES / (double)(lh_clock_us() - begin_us));
    assert_int_equal(r.status, LH_OK);
    assert_true(r.received == BYTES && r.hash == hash);
    assert_string_equal(asked_by, "attic");
    fixture_close(&f);
}

/* Who cannot connect, and what the client says about it. */
static void refused_with(const lh_tls_options *server, const lh_tls_options *client,
                         const char *words) {
    fixture f;
    fixture_open_server(&f, NULL, server);
    fixture_open_client(&f, "127.0.0.1", lh_h2_server_port(f.server), client);
    fixture_run_until(&f, &f.state_changes, 1, 5000);
    assert_false(f.connected);
    if (!strstr(f.reason, words))
        fail_msg("\"%s\" was expected, not \"%s\"", words, f.reason);
    record r;
    lh_error error;
    assert_int_equal(lh_h2_client_submit(f.client, "GET", "/", NULL, 0, 0, &record_events, &r,
                                         &r.stream, &error),
                     LH_ERR_UNAVAILABLE);
    assert_non_null(strstr(error.message, words));
    fixture_close(&f);
}

static void wrong_doors_are_told(void **state) {
    (void)state;
    lh_tls_options stranger = authority_options(&ca, "stranger", "ca"),
                   mistaken = lh_tls_options_for(&client_tls, "attic");
    stranger = lh_tls_options_for(&stranger, "");
    refused_with(&server_tls, NULL, "does it expect TLS");
    refused_with(NULL, &client_tls, "does not speak TLS");
    refused_with(&server_tls, &stranger, "not signed by its CA");
    refused_with(&server_tls, &mistaken, "worker attic was expected and the gateway has answered");
}

/* ---- Peers that are not what they seem ---- */

static lh_h2_limits impatient(void) {
    lh_h2_limits limits = lh_h2_default_limits();
    limits.ping_interval_ms = 100;
    limits.dead_after_ms = 300;
    limits.connect_timeout_ms = 200;
    return limits;
}

static void fixture_open_alone(fixture *f) {
    lh_h2_limits limits = impatient();
    fixture_open_server(f, &limits, NULL);
}

static void a_silent_server_times_out(void **state) {
    (void)state;
    fixture f;
    raw_peer peer = {0};
    fixture_open_alone(&f);
    int64_t begin_us = lh_clock_us();
    fixture_open_client(&f, "127.0.0.1", raw_peer_listen(&peer, &f.loop, NULL, 0), NULL);
    fixture_run_until(&f, &f.state_changes, 1, 2000);
    assert_false(f.connected);
    assert_non_null(strstr(f.reason, "within 200 ms"));
    assert_true(lh_clock_us() - begin_us >= 150000);
    raw_peer_close(&peer);
    fixture_close(&f);
}

static void a_server_of_another_protocol_is_named(void **state) {
    (void)state;
    static const char words[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    fixture f;
    raw_peer peer = {0};
    fixture_open_alone(&f);
    fixture_open_client(&f, "127.0.0.1", raw_peer_listen(&peer, &f.loop, words, sizeof words - 1),
                        NULL);
    fixture_run_until(&f, &f.state_changes, 1, 2000);
    assert_non_null(strstr(f.reason, "HTTP/1"));
    raw_peer_close(&peer);
    fixture_close(&f);
}

/* It swallows everything and never answers again, like a stopped process. */
static void a_frozen_server_is_noticed(void **state) {
    (void)state;
    fixture f;
    record r;
    raw_peer peer = {0};
    fixture_open_alone(&f);
    int port = raw_peer_listen(&peer, &f.loop, raw_server_greeting, sizeof raw_server_greeting);
    fixture_open_client(&f, "127.0.0.1", port, NULL);
    fixture_run_until(&f, &f.state_changes, 1, 2000);
    assert_true(f.connected);
    int64_t begin_us = lh_clock_us();
    lh_h2_stream_end(fixture_submit(&f, "/x", 0, &r));
    fixture_run_until(&f, &r.closes, 1, 2000);
    assert_int_equal(r.status, LH_ERR_TIMEOUT);
    assert_true(lh_clock_us() - begin_us >= 200000);
    assert_false(lh_h2_client_is_connected(f.client));
    assert_non_null(strstr(f.reason, "no PING answer"));
    raw_peer_close(&peer);
    fixture_close(&f);
}

/* The peer takes what it is sent and closes: in the handshake, before HTTP/2, later. */
static void a_connection_that_ends_says_when(void **state) {
    (void)state;
    static const char *const words[] = {"in the TLS handshake", "before it spoke HTTP/2",
                                        "the peer closed the connection"};
    for (int when = 0; when < 3; when++) {
        fixture f;
        raw_peer peer = {0};
        size_t length = when < 2 ? 0 : sizeof raw_server_greeting;
        fixture_open_server(&f, NULL, NULL);
        fixture_open_client(&f, "127.0.0.1",
                            raw_peer_listen(&peer, &f.loop, raw_server_greeting, length),
                            when == 0 ? &client_tls : NULL);
        while (peer.heard_length == 0)
            uv_run(&f.loop, UV_RUN_ONCE);
        fixture_run_for(&f, 50);
        assert_int_equal(f.connected, when == 2);
        int changes = f.state_changes;
        raw_peer_close(&peer);
        fixture_run_until(&f, &f.state_changes, changes + 1, 2000);
        assert_false(f.connected);
        assert_non_null(strstr(f.reason, words[when]));
        assert_true(when < 2 || !strstr(f.reason, "HTTP/2"));
        fixture_close(&f);
    }
}

/* Nobody waits for it, so it need not answer a PING. */
/* Its PINGs are sent and answered, one after the other. */
static void an_idle_connection_stays(void **state) {
    (void)state;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.ping_interval_ms = 50;
    limits.dead_after_ms = 600;
    fixture f;
    fixture_open(&f, &limits, NULL, NULL);
    fixture_run_for(&f, 2000);
    assert_true(f.connected);
    assert_int_equal(f.state_changes, 1);
    fixture_close(&f);
}

static void an_idle_client_is_left_alone(void **state) {
    (void)state;
    fixture f;
    raw_peer peer = {0};
    fixture_open_alone(&f);
    raw_peer_connect(&peer, &f.loop, lh_h2_server_port(f.server), raw_client_greeting,
                     sizeof raw_client_greeting);
    fixture_run_for(&f, 1200); /* four times the limit of silence */
    assert_true(peer.is_open);
    raw_peer_close(&peer);
    fixture_close(&f);
}

static const uint8_t post_root[] = {0x83, 0x86, 0x84, 0x41, 0x01, 'x'};

static void a_frozen_client_is_noticed(void **state) {
    (void)state;
    fixture f;
    uint8_t frame[64];
    raw_peer peer = {0};
    fixture_open_alone(&f);
    raw_peer_connect(&peer, &f.loop, lh_h2_server_port(f.server), raw_client_greeting,
                     sizeof raw_client_greeting);
    fixture_run_until(&f, &peer.connected, 1, 1000);
    raw_peer_send(&peer, frame,
                  /* its body never comes */
                  raw_frame(frame, 1, 4, 1, post_root, sizeof post_root));
    fixture_run_until(&f, &f.requests, 1, 1000);
    fixture_run_until(&f, &f.records->closes, 1, 2000);
    assert_int_equal(f.records->status, LH_ERR_TIMEOUT);
    raw_peer_close(&peer);
    fixture_close(&f);
}

static void a_client_that_says_nothing_is_dropped(void **state) {
    (void)state;
    fixture f;
    raw_peer peer = {0};
    fixture_open_alone(&f);
    raw_peer_connect(&peer, &f.loop, lh_h2_server_port(f.server), "PRI", 3);
    fixture_run_until(&f, &peer.closed, 1, 2000);
    raw_peer_close(&peer);
    fixture_close(&f);
}

static void a_connection_cut_in_a_body_closes_both_ends_once(void **state) {
    (void)state;
    fixture f;
    uint8_t frame[64];
    raw_peer peer = {0};
    fixture_open_alone(&f);
    raw_peer_connect(&peer, &f.loop, lh_h2_server_port(f.server), raw_client_greeting,
                     sizeof raw_client_greeting);
    fixture_run_until(&f, &peer.connected, 1, 1000);
    raw_peer_send(&peer, frame, raw_frame(frame, 1, 4, 1, post_root, sizeof post_root));
    raw_peer_send(&peer, frame, raw_frame(frame, 0, 0, 1, "half a", 6));
    fixture_run_until(&f, &f.requests, 1, 1000);
    raw_peer_close(&peer);
    fixture_run_until(&f, &f.records->closes, 1, 1000);
    assert_int_equal(f.records->status, LH_ERR_CLOSED);
    assert_int_equal(f.records->ends, 0);
    fixture_close(&f);
}

/* Our own process was stopped for longer than the limit: the peer did answer, so it is not dead. */
static void a_pause_of_our_own_kills_nobody(void **state) {
    (void)state;
    lh_h2_limits limits = impatient();
    fixture f;
    fixture_open(&f, &limits, NULL, NULL);
    fixture_run_for(&f, 150);
    for (int i = 0; i < 3; i++) {
        uv_sleep(700);
        fixture_run_for(&f, 60);
    }
    assert_true(f.connected);
    assert_int_equal(f.state_changes, 1);
    fixture_close(&f);
}

/* A connection that could go on for long lets others on the loop have their turn. */
static void a_turn_is_of_a_mebibyte(void **state) {
    (void)state;
    enum { BYTES = 64 << 20, BUFFER = 64 << 10 };
    fixture f;
    record r;
    lh_h2_client_link link;
    uint64_t before = 0, most = 0;
    fixture_open(&f, NULL, NULL, NULL);
    lh_h2_stream *stream = fixture_submit(&f, "/x", 1, &r);
    lh_h2_stream_write_owned(stream, calloc(1, BYTES), BYTES);
    lh_h2_stream_end(stream);
    while (r.closes == 0) {
        uv_run(&f.loop, UV_RUN_NOWAIT);
        lh_h2_client_read_link(f.client, &link);
        if (before && link.bytes_sent - before > most)
            most = link.bytes_sent - before;
        before = link.bytes_sent;
    }
    print_message("%.2f MiB in a turn\n", (double)most / (1 << 20));
    assert_in_range(most, 1, (1 << 20) + BUFFER);
    fixture_close(&f);
}

/* ---- A slow link ---- */

enum { LINK_BYTES_PER_MS = 2000, LINK_TICK_MS = 2 }; /* 16 Mbit/s */

/* Between client and server; passes the client's bytes on at a rate, and the server's at once. */
typedef struct slow_link {
    uv_tcp_t listener, near, far;
    uv_connect_t connect;
    uv_timer_t timer;
    bool open;
    int server_port;
    uint64_t passed; /* bytes of the client's */
} slow_link;

static void link_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer) {
    static char scratch[LINK_BYTES_PER_MS * LINK_TICK_MS];
    (void)handle;
    (void)suggested;
    *buffer = uv_buf_init(scratch, sizeof scratch);
}

static void link_pass(slow_link *l, uv_stream_t *to, ssize_t length, const uv_buf_t *buffer) {
    uv_buf_t part = uv_buf_init(buffer->base, (unsigned)length);
    /* the far side always has room at this rate */
    assert_int_equal(uv_try_write(to, &part, 1), length);
    l->passed += to == (uv_stream_t *)&l->far ? (uint64_t)length : 0;
}

static void link_close(slow_link *l) {
    if (!l->open)
        return;
    l->open = false;
    uv_close((uv_handle_t *)&l->near, NULL);
    uv_close((uv_handle_t *)&l->far, NULL);
    uv_close((uv_handle_t *)&l->timer, NULL);
}

static void link_far_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer) {
    slow_link *l = stream->data;
    if (length < 0)
        link_close(l);
    else if (length > 0)
        link_pass(l, (uv_stream_t *)&l->near, length, buffer);
}

static void link_near_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer) {
    slow_link *l = stream->data;
    uv_read_stop(stream); /* one portion a tick */
    if (length < 0)
        link_close(l);
    else if (length > 0)
        link_pass(l, (uv_stream_t *)&l->far, length, buffer);
}

static void link_tick(uv_timer_t *timer) {
    slow_link *l = timer->data;
    uv_read_start((uv_stream_t *)&l->near, link_alloc, link_near_read);
}

static void link_connected(uv_connect_t *connect, int code) {
    slow_link *l = connect->data;
    assert_int_equal(code, 0);
    uv_read_start((uv_stream_t *)&l->far, link_alloc, link_far_read);
    uv_timer_start(&l->timer, link_tick, LINK_TICK_MS, LINK_TICK_MS);
}

static void link_connection(uv_stream_t *listener, int code) {
    slow_link *l = listener->data;
    struct sockaddr_in address;
    assert_int_equal(code, 0);
    uv_tcp_init(listener->loop, &l->near);
    uv_tcp_init(listener->loop, &l->far);
    uv_timer_init(listener->loop, &l->timer);
    l->near.data = l->far.data = l->timer.data = l->connect.data = l;
    l->open = true;
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&l->near), 0);
    uv_ip4_addr("127.0.0.1", l->server_port, &address);
    assert_int_equal(
        uv_tcp_connect(&l->connect, &l->far, (struct sockaddr *)&address, link_connected), 0);
}

static int link_open(slow_link *l, uv_loop_t *loop, int server_port) {
    struct sockaddr_in address;
    int length = sizeof address, descriptor, small = 16 << 10;
    *l = (slow_link){.server_port = server_port};
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(loop, &l->listener);
    l->listener.data = l;
    uv_tcp_bind(&l->listener, (struct sockaddr *)&address, 0);
    uv_fileno((uv_handle_t *)&l->listener, &descriptor);
    /* a short queue, as a link has */
    setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    assert_int_equal(uv_listen((uv_stream_t *)&l->listener, 1, link_connection), 0);
    uv_tcp_getsockname(&l->listener, (struct sockaddr *)&address, &length);
    return ntohs(address.sin_port);
}

static void urgent_overtakes_on(const lh_tls_options *server, const lh_tls_options *client) {
    enum { BULK = 1 << 20, URGENT = 4000 };
    fixture f;
    slow_link link;
    record bulk1, bulk2, urgent;
    fixture_open_server(&f, NULL, server);
    fixture_open_client(&f, "127.0.0.1", link_open(&link, &f.loop, lh_h2_server_port(f.server)),
                        client);
    fixture_run_until(&f, &f.state_changes, 1, 2000);
    lh_h2_stream *one = fixture_submit(&f, "/bulk1", 1, &bulk1),
                 *two = fixture_submit(&f, "/bulk2", 1, &bulk2);
    lh_h2_stream_write_owned(one, calloc(1, BULK), BULK);
    lh_h2_stream_write_owned(two, calloc(1, BULK), BULK);
    lh_h2_stream_end(one);
    lh_h2_stream_end(two);
    fixture_run_for(&f, 200);
    uint64_t before = link.passed;
    lh_h2_stream *three = fixture_submit(&f, "/urgent", 0, &urgent);
    lh_h2_stream_write_owned(three, calloc(1, URGENT), URGENT);
    lh_h2_stream_end(three);
    fixture_run_until(&f, &urgent.closes, 1, 5000);
    /* By what the link has carried meanwhile: a clock would also count how late this process is. */
    double took_ms = (double)(link.passed - before) / LINK_BYTES_PER_MS;
    print_message("urgent bytes took %.0f ms of a link of %d Mbit/s that was full\n", took_ms,
                  LINK_BYTES_PER_MS * 8 / 1000);
    assert_int_equal(bulk1.closes, 0);
    assert_true(took_ms < 120);
    fixture_run_until(&f, &bulk2.closes, 1, 10000);
    record *first = NULL, *second = NULL;
    for (record *r = f.records; r; r = r->next)
        *(strcmp(r->path, "/bulk1") == 0 ? &first : &second) =
            strcmp(r->path, "/urgent") ? r : second;
    assert_non_null(first);
    assert_non_null(second);
    assert_true(first->last_us <= second->first_us);
    uv_close((uv_handle_t *)&link.listener, NULL);
    fixture_close(&f);
}

static void urgent_overtakes_on_a_slow_link(void **state) {
    (void)state;
    urgent_overtakes_on(NULL, NULL);
    urgent_overtakes_on(&server_tls, &client_tls);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tls_carries_bodies),
        cmocka_unit_test(wrong_doors_are_told),
        cmocka_unit_test(a_silent_server_times_out),
        cmocka_unit_test(a_server_of_another_protocol_is_named),
        cmocka_unit_test(a_frozen_server_is_noticed),
        cmocka_unit_test(a_connection_that_ends_says_when),
        cmocka_unit_test(an_idle_connection_stays),
        cmocka_unit_test(an_idle_client_is_left_alone),
        cmocka_unit_test(a_frozen_client_is_noticed),
        cmocka_unit_test(a_client_that_says_nothing_is_dropped),
        cmocka_unit_test(a_connection_cut_in_a_body_closes_both_ends_once),
        cmocka_unit_test(a_pause_of_our_own_kills_nobody),
        cmocka_unit_test(a_turn_is_of_a_mebibyte),
        cmocka_unit_test(urgent_overtakes_on_a_slow_link),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
