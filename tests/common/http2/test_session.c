/* Two sessions with a wire of memory between them, and a session against hand-made frames. */
#include "common/http2/session.h"

#include "tests/common/support/raw_peer.h"
#include "tests/support/failing_malloc.h"

#include <nghttp2/nghttp2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BUFFER_BYTES = 17 << 10, STREAMS = 16 };

typedef struct seen {
    lh_h2_stream *stream;
    char path[32], query[32], header[32];
    int responses, http_status, ends, closes, bodies;
    lh_status status;
    size_t received, first_at, last_at; /* position among all body bytes that this end got */
    bool hold;                          /* do not consume */
} seen;

/* One end of the wire. */
typedef struct end {
    lh_h2_session *session;
    seen streams[STREAMS];
    int count, settings, wakes;
    uint64_t pong;
    size_t body_bytes;
    lh_status status;
    lh_error error;
    uint8_t out[BUFFER_BYTES];
    size_t out_length, sent_bytes;
    void (*on_request)(struct end *server, seen *s, const lh_h2_stream_events **events);
    bool hold;
} end;

typedef struct pair {
    end client, server;
    lh_h2_limits limits;
} pair;

/* ---- Events ---- */

static end *owner;

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    seen *s = context;
    assert_ptr_equal(s->stream, stream);
    s->responses++;
    s->http_status = http_status;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    seen *s = context;
    (void)bytes;
    assert_int_equal(s->closes, 0);
    if (s->received == 0)
        s->first_at = owner->body_bytes;
    s->received += length;
    s->bodies++;
    owner->body_bytes += length;
    s->last_at = owner->body_bytes;
    if (!s->hold)
        lh_h2_stream_consume(stream, length);
}

static void on_end(lh_h2_stream *stream, void *context) {
    (void)stream;
    seen *s = context;
    assert_int_equal(s->closes, 0);
    s->ends++;
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    seen *s = context;
    assert_ptr_equal(s->stream, stream);
    s->closes++;
    s->status = status;
    assert_int_equal(lh_h2_stream_write(stream, "x", 1), LH_ERR_CANCELLED); /* harmless */
    lh_h2_stream_cancel(stream);
}

static const lh_h2_stream_events events = {on_response, on_body, on_end, on_closed};

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **stream_events, void **stream_context) {
    end *server = context;
    assert_true(server->count < STREAMS);
    seen *s = &server->streams[server->count++];
    const char *header = lh_h2_request_header(request, "x-test");
    s->stream = stream;
    s->hold = server->hold;
    snprintf(s->path, sizeof s->path, "%s", request->path);
    snprintf(s->query, sizeof s->query, "%s", request->query);
    snprintf(s->header, sizeof s->header, "%s", header ? header : "");
    assert_true(request->method && request->path[0] == '/');
    assert_string_equal(request->peer, "peer");
    *stream_context = s;
    if (server->on_request)
        server->on_request(server, s, stream_events);
    else
        *stream_events = &events;
}

static void on_wake(void *context) {
    end *e = context;
    e->wakes++;
}

static void on_settings(void *context) {
    end *e = context;
    e->settings++;
}

static void on_ping_answer(void *context, uint64_t number) {
    end *e = context;
    e->pong = number;
}

/* ---- The wire ---- */

static bool end_try_open(end *e, lh_h2_role role, const lh_h2_limits *limits) {
    static const lh_tls_identity nobody = {.kind = LH_TLS_NONE};
    lh_h2_session_config config = {
        .role = role,
        .limits = limits,
        .peer = "peer",
        .peer_identity = &nobody,
        .on_request = on_request,
        .server_context = e,
        .authority = "test",
        .scheme = "http",
        .on_wake = on_wake,
        .on_settings = on_settings,
        .on_ping_answer = on_ping_answer,
        .context = e,
    };
    return lh_h2_session_create(&config, &e->session, &e->error) == LH_OK;
}

static void end_open(end *e, lh_h2_role role, const lh_h2_limits *limits) {
    assert_true(end_try_open(e, role, limits));
}

static void end_close(end *e) {
    lh_h2_session_fail(e->session, LH_ERR_CLOSED);
    lh_h2_session_destroy(e->session);
    for (int i = 0; i < e->count; i++)
        if (e->streams[i].stream)
            assert_int_equal(e->streams[i].closes, 1);
}

/* One buffer from `from` to `to`, in pieces. True when there was something. */
static bool carry_piecewise(end *from, end *to, size_t piece) {
    size_t length = 0;
    owner = from;
    if (from->status == LH_OK)
        from->status =
            lh_h2_session_pull(from->session, from->out, BUFFER_BYTES, &length, &from->error);
    from->sent_bytes += length;
    owner = to;
    for (size_t at = 0; at < length && to->status == LH_OK; at += piece) {
        size_t part = length - at < piece ? length - at : piece;
        to->status = lh_h2_session_receive(to->session, from->out + at, part, &to->error);
    }
    return length > 0;
}

static bool carry(end *from, end *to) {
    return carry_piecewise(from, to, BUFFER_BYTES);
}

static void settle(pair *p) {
    while (carry(&p->client, &p->server) + carry(&p->server, &p->client))
        ;
}

static void pair_open(pair *p, const lh_h2_limits *limits) {
    memset(p, 0, sizeof *p);
    p->limits = limits ? *limits : lh_h2_default_limits();
    end_open(&p->client, LH_H2_CLIENT, &p->limits);
    end_open(&p->server, LH_H2_SERVER, &p->limits);
    settle(p);
    assert_int_equal(p->client.settings, 1);
    assert_int_equal(p->server.settings, 1);
}

static void pair_close(pair *p) {
    end_close(&p->client);
    end_close(&p->server);
}

static lh_status submit_to(pair *p, const char *path, int send_class, seen **out) {
    assert_true(p->client.count < STREAMS);
    seen *s = &p->client.streams[p->client.count++];
    lh_h2_header header = {"x-test", "yes"};
    *out = s;
    return lh_h2_session_submit(p->client.session, "POST", path, &header, 1, send_class, &events, s,
                                &s->stream, &p->client.error);
}

static seen *submit(pair *p, const char *path, int send_class) {
    seen *s;
    assert_int_equal(submit_to(p, path, send_class, &s), LH_OK);
    return s;
}

static void write_zeros(seen *s, size_t length) {
    void *bytes = calloc(1, length);
    assert_non_null(bytes);
    assert_int_equal(lh_h2_stream_write_owned(s->stream, bytes, length), LH_OK);
}

static seen *server_stream(pair *p, const char *path) {
    for (int i = 0; i < p->server.count; i++)
        if (strcmp(p->server.streams[i].path, path) == 0)
            return &p->server.streams[i];
    fail_msg("the server has not seen %s", path);
    return NULL;
}

/* ---- Requests and responses ---- */

static void a_request_gets_its_response(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    seen *s = submit(&p, "/a/b?c=d&e", 0);
    lh_h2_stream_write(s->stream, "question", 8);
    settle(&p);
    seen *r = server_stream(&p, "/a/b");
    assert_string_equal(r->query, "c=d&e");
    assert_string_equal(r->header, "yes");
    assert_int_equal(r->received, 8);
    assert_int_equal(r->ends, 0);
    lh_h2_stream_end(s->stream);
    settle(&p);
    assert_int_equal(r->ends, 1);
    assert_int_equal(lh_h2_stream_respond_headers(r->stream, 200, NULL, 0, false), LH_OK);
    settle(&p);
    assert_int_equal(s->http_status, 200);
    write_zeros(r, 100000);
    settle(&p);
    assert_int_equal(s->received, 100000);
    assert_int_equal(s->closes, 0);
    lh_h2_stream_end(r->stream);
    settle(&p);
    assert_int_equal(s->ends, 1);
    assert_int_equal(s->closes, 1);
    assert_int_equal(r->closes, 1);
    assert_int_equal(s->status, LH_OK);
    assert_int_equal(r->status, LH_OK);
    assert_int_equal(lh_h2_session_open_streams(p.client.session), 0);
    assert_int_equal(lh_h2_session_open_streams(p.server.session), 0);
    pair_close(&p);
}

static void bytes_may_come_singly(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    seen *s = submit(&p, "/x", 0);
    lh_h2_stream_write(s->stream, "0123456789", 10);
    lh_h2_stream_end(s->stream);
    while (carry_piecewise(&p.client, &p.server, 1) + carry_piecewise(&p.server, &p.client, 1))
        ;
    seen *r = server_stream(&p, "/x");
    assert_int_equal(r->received, 10);
    assert_int_equal(r->ends, 1);
    pair_close(&p);
}

/* ---- Bodies that are pulled ---- */

typedef struct pulled {
    size_t given, fails_at; /* bytes; 0: never */
    int calls;
} pulled;

static pulled source;

static lh_status give(void *context, uint8_t *bytes, size_t length) {
    pulled *from = context;
    from->calls++;
    if (from->fails_at && from->given + length > from->fails_at)
        return LH_ERR_IO;
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(from->given + i);
    from->given += length;
    return LH_OK;
}

enum { PULLED_BYTES = 200000, WINDOW_BYTES = 70000 };

static void answer_pulled(end *server, seen *s, const lh_h2_stream_events **stream_events) {
    (void)server;
    *stream_events = &events;
    assert_int_equal(lh_h2_stream_respond_headers(s->stream, 200, NULL, 0, false), LH_OK);
    lh_h2_stream_pull_body(s->stream, PULLED_BYTES, give, &source);
}

static void pulled_open(pair *p, size_t fails_at) {
    lh_h2_limits limits = lh_h2_default_limits();
    limits.window_bytes = WINDOW_BYTES;
    source = (pulled){.fails_at = fails_at};
    pair_open(p, &limits);
    p->server.on_request = answer_pulled;
}

static void a_pulled_body_is_asked_for_as_it_can_leave(void **state) {
    (void)state;
    pair p;
    pulled_open(&p, 0);
    seen *s = submit(&p, "/x", 0);
    lh_h2_stream_end(s->stream);
    s->hold = true;
    settle(&p);
    seen *r = server_stream(&p, "/x");
    assert_int_equal(s->received, WINDOW_BYTES);
    assert_int_equal(source.given, WINDOW_BYTES);
    assert_int_equal(lh_h2_stream_queued_bytes(r->stream), 0);
    s->hold = false;
    lh_h2_stream_consume(s->stream, WINDOW_BYTES);
    settle(&p);
    assert_int_equal(s->received, PULLED_BYTES);
    assert_int_equal(source.given, PULLED_BYTES);
    assert_int_equal(s->ends, 1);
    assert_int_equal(s->status, LH_OK);
    assert_int_equal(r->status, LH_OK);
    assert_int_equal(r->closes, 1);
    pair_close(&p);
}

/* What both ends have seen of streams that are closed. */
static void forget(pair *p) {
    p->client.count = p->server.count = 0;
    memset(p->client.streams, 0, sizeof p->client.streams);
    memset(p->server.streams, 0, sizeof p->server.streams);
}

/* It is no fault of the peer's, however often it happens: the connection stays. */
static void a_pulled_body_that_fails_resets_its_stream_alone(void **state) {
    (void)state;
    pair p;
    pulled_open(&p, 40000);
    for (int i = 0; i < 1000; i++) {
        source.given = 0;
        forget(&p);
        seen *s = submit(&p, "/x", 0);
        lh_h2_stream_end(s->stream);
        settle(&p);
        assert_in_range(s->received, 1, 40000);
        assert_int_equal(s->ends, 0);
        assert_int_equal(s->status, LH_ERR_CANCELLED);
        assert_int_equal(server_stream(&p, "/x")->status, LH_ERR_CANCELLED);
    }
    source = (pulled){0};
    forget(&p);
    seen *s = submit(&p, "/y", 0);
    lh_h2_stream_end(s->stream);
    settle(&p);
    assert_int_equal(s->status, LH_OK);
    pair_close(&p);
}

static void a_cancelled_body_is_not_pulled_any_more(void **state) {
    (void)state;
    pair p;
    pulled_open(&p, 0);
    seen *s = submit(&p, "/x", 0);
    lh_h2_stream_end(s->stream);
    s->hold = true;
    settle(&p);
    int calls = source.calls;
    lh_h2_stream_cancel(server_stream(&p, "/x")->stream);
    lh_h2_stream_consume(s->stream, s->received);
    settle(&p);
    assert_int_equal(source.calls, calls);
    assert_int_equal(s->status, LH_ERR_CANCELLED);
    pair_close(&p);
}

/* ---- Early ends ---- */

static void answer_at_once(end *server, seen *s, const lh_h2_stream_events **stream_events) {
    (void)server;
    *stream_events = NULL;
    assert_int_equal(lh_h2_stream_respond(s->stream, 503, "{\"error\":\"busy\"}"), LH_OK);
    s->stream = NULL;
}

static void an_early_answer_stops_the_body(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    p.server.on_request = answer_at_once;
    seen *s = submit(&p, "/x", 0);
    write_zeros(s, 100 << 20);
    settle(&p);
    assert_int_equal(s->http_status, 503);
    assert_int_equal(s->received, 16);
    assert_int_equal(s->ends, 1);
    assert_int_equal(s->closes, 1);
    assert_int_equal(s->status, LH_OK);
    assert_true(p.client.sent_bytes < 1 << 20);
    s = submit(&p, "/y", 0); /* a body that ends in time is no fault */
    lh_h2_stream_end(s->stream);
    settle(&p);
    assert_int_equal(s->status, LH_OK);
    assert_int_equal(s->closes, 1);
    pair_close(&p);
}

static void neglect(end *server, seen *s, const lh_h2_stream_events **stream_events) {
    (void)server;
    *stream_events = NULL;
    s->stream = NULL;
}

static void a_neglected_request_is_reset(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    p.server.on_request = neglect;
    seen *s = submit(&p, "/x", 0);
    settle(&p);
    assert_int_equal(s->closes, 1);
    assert_int_equal(s->status, LH_ERR_CANCELLED);
    pair_close(&p);
}

/* Asks with a header of so many bytes; how the server answers, 0: not at all. */
static int ask_with_header(pair *p, size_t value_bytes) {
    static char value[1 << 15];
    memset(value, 'v', value_bytes);
    value[value_bytes] = '\0';
    lh_h2_header header = {"x-long", value};
    seen *s = &p->client.streams[p->client.count++];
    assert_int_equal(lh_h2_session_submit(p->client.session, "GET", "/x", &header, 1, 0, &events, s,
                                          &s->stream, NULL),
                     LH_OK);
    lh_h2_stream_end(s->stream);
    settle(p);
    return s->http_status;
}

/* RFC 9113, 6.5.2: names, values and 32 bytes for each. */
static void headers_may_be_16_kib_by_default(void **state) {
    (void)state;
    enum {
        OTHERS = 7 + 3 + 7 + 4 + 10 + 4 + 5 + 2 + 4 * 32, /* method, scheme, authority, path */
        VALUE_MAX = (16 << 10) - OTHERS - 6 - 32
    };
    pair p;
    pair_open(&p, NULL);
    p.server.on_request = answer_at_once;
    assert_int_equal(ask_with_header(&p, VALUE_MAX), 503);
    assert_int_equal(p.server.count, 1);
    assert_int_equal(ask_with_header(&p, VALUE_MAX + 1), 0);
    assert_int_equal(p.server.count, 1);
    assert_int_equal(p.server.status, LH_ERR_LIMIT);
    assert_string_equal(p.server.error.message,
                        "the headers of one request or answer are over 16384 bytes");
    pair_close(&p);
}

static void bad_headers_are_not_sent(void **state) {
    (void)state;
    static const lh_h2_header bad[] = {
        {"x-a", "a\r\nb: c"}, {"X-Upper", "a"}, {"", "a"}, {"x a", "b"}};
    pair p;
    pair_open(&p, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lh_h2_stream *stream;
        assert_int_equal(lh_h2_session_submit(p.client.session, "GET", "/x", &bad[i], 1, 0, &events,
                                              NULL, &stream, NULL),
                         LH_ERR_INVALID);
    }
    static const char *const lines[][2] = {{"GE T", "/"}, {"", "/"},       {"GET", "x"},
                                           {"GET", ""},   {"GET", "/a b"}, {"GET", "/a\n"}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        lh_h2_stream *stream;
        assert_int_equal(lh_h2_session_submit(p.client.session, lines[i][0], lines[i][1], NULL, 0,
                                              0, &events, NULL, &stream, NULL),
                         LH_ERR_INVALID);
    }
    assert_int_equal(lh_h2_session_open_streams(p.client.session), 0);
    pair_close(&p);
}

static void a_request_has_64_headers_at_most(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    lh_h2_header headers[61];
    for (int i = 0; i < 61; i++)
        headers[i] = (lh_h2_header){"x-test", "yes"};
    seen *s = &p.client.streams[p.client.count++];
    for (size_t count = 61; count >= 60; count--) /* and four of the protocol's */
        assert_int_equal(lh_h2_session_submit(p.client.session, "GET", "/x", headers, count, 0,
                                              &events, s, &s->stream, NULL),
                         count == 60 ? LH_OK : LH_ERR_INVALID);
    settle(&p);
    assert_int_equal(p.server.count, 1);
    pair_close(&p);
}

static void a_response_has_64_headers_at_most(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    lh_h2_header headers[64];
    for (int i = 0; i < 64; i++)
        headers[i] = (lh_h2_header){"x-test", "yes"};
    seen *s = submit(&p, "/x", 0);
    settle(&p);
    lh_h2_stream *r = server_stream(&p, "/x")->stream;
    assert_int_equal(lh_h2_stream_respond_headers(r, 999, headers, 64, true), LH_ERR_INVALID);
    assert_int_equal(lh_h2_stream_respond_headers(r, 999, headers, 63, true), LH_OK);
    lh_h2_stream_end(s->stream);
    settle(&p);
    assert_int_equal(s->http_status, 999);
    assert_int_equal(s->ends, 1);
    assert_int_equal(s->received, 0);
    assert_int_equal(s->status, LH_OK);
    pair_close(&p);
}

static void too_many_requests_are_busy(void **state) {
    (void)state;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.streams_max = 2;
    pair p;
    pair_open(&p, &limits);
    seen *first = submit(&p, "/1", 0), *third;
    submit(&p, "/2", 0);
    assert_int_equal(submit_to(&p, "/3", 0, &third), LH_ERR_BUSY);
    lh_h2_stream_cancel(first->stream);
    settle(&p);
    assert_int_equal(submit_to(&p, "/3", 0, &third), LH_OK);
    settle(&p);
    assert_int_equal(p.server.count, 2); /* the first never left */
    pair_close(&p);
}

/* ---- Send order ---- */

static void urgent_overtakes_and_bulk_stays_in_order(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    seen *bulk1 = submit(&p, "/bulk1", 1), *bulk2 = submit(&p, "/bulk2", 1);
    write_zeros(bulk1, 1 << 20);
    write_zeros(bulk2, 1 << 20);
    lh_h2_stream_end(bulk1->stream);
    lh_h2_stream_end(bulk2->stream);
    for (int i = 0; i < 10; i++)
        carry(&p.client, &p.server);
    size_t before = p.server.body_bytes;
    seen *urgent1 = submit(&p, "/urgent1", 0), *urgent2 = submit(&p, "/urgent2", 0);
    write_zeros(urgent2, 5000); /* before the first has anything to say: it must wait */
    write_zeros(urgent1, 40000);
    lh_h2_stream_end(urgent2->stream);
    settle(&p);
    seen *u1 = server_stream(&p, "/urgent1"), *u2 = server_stream(&p, "/urgent2");
    seen *b1 = server_stream(&p, "/bulk1"), *b2 = server_stream(&p, "/bulk2");
    assert_true(before >= 100000 && before < 200000);
    assert_int_equal(u1->first_at, before);
    assert_int_equal(u1->last_at, before + 40000);
    assert_int_equal(u2->received, 0);
    assert_int_equal(b1->received, 1 << 20);
    assert_int_equal(b2->received, 1 << 20);
    assert_true(b2->first_at >= b1->last_at);
    assert_int_equal(b1->ends, 1);
    lh_h2_stream_end(urgent1->stream);
    settle(&p);
    assert_int_equal(u1->ends, 1);
    assert_int_equal(u2->received, 5000);
    assert_int_equal(u2->ends, 1);
    pair_close(&p);
}

/* On a slow link frames are small: what is urgent waits for one of them. */
static void frames_may_be_small(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    seen *bulk = submit(&p, "/bulk", 1);
    write_zeros(bulk, 1 << 20);
    lh_h2_stream_end(bulk->stream);
    settle(&p);
    bulk = submit(&p, "/bulk2", 1);
    write_zeros(bulk, 1 << 20);
    lh_h2_session_set_frame_bytes(p.client.session, 2048);
    for (int i = 0; i < 10; i++)
        carry(&p.client, &p.server);
    seen *b = server_stream(&p, "/bulk2");
    assert_in_range(b->received, 8 * 2048,
                    10 * 2048); /* each pull gives a frame, the first the headers too */
    size_t before = p.server.body_bytes;
    seen *urgent = submit(&p, "/urgent", 0);
    write_zeros(urgent, 100);
    lh_h2_stream_end(urgent->stream);
    carry(&p.client, &p.server);
    carry(&p.client, &p.server);
    seen *u = server_stream(&p, "/urgent");
    assert_true(u->first_at <= before + 2048);
    assert_int_equal(u->ends, 1);
    lh_h2_session_set_frame_bytes(p.client.session, LH_H2_FRAME_BYTES_MAX);
    lh_h2_stream_end(bulk->stream);
    settle(&p);
    assert_int_equal(b->received, 1 << 20);
    pair_close(&p);
}

static void a_cancelled_head_passes_its_turn_on(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    seen *first = submit(&p, "/1", 1), *second = submit(&p, "/2", 1);
    write_zeros(first, 10);
    write_zeros(second, 10);
    settle(&p);
    assert_int_equal(server_stream(&p, "/1")->received, 10);
    assert_int_equal(server_stream(&p, "/2")->received, 0);
    lh_h2_stream_cancel(first->stream);
    settle(&p);
    assert_int_equal(server_stream(&p, "/2")->received, 10);
    lh_h2_stream *third = submit(&p, "/3", 1)->stream;
    lh_h2_stream_write(third, "x", 1);
    lh_h2_stream_cancel(server_stream(&p, "/2")->stream); /* and so does one that the peer resets */
    settle(&p);
    assert_int_equal(second->status, LH_ERR_CANCELLED);
    assert_int_equal(server_stream(&p, "/3")->received, 1);
    pair_close(&p);
}

static void a_full_window_holds_up_only_its_class(void **state) {
    (void)state;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.window_bytes = 65535;
    pair p;
    pair_open(&p, &limits);
    p.server.hold = true;
    seen *urgent = submit(&p, "/urgent", 0), *later = submit(&p, "/later", 0),
         *bulk = submit(&p, "/bulk", 1);
    write_zeros(urgent, 100000);
    write_zeros(later, 10);
    write_zeros(bulk, 10);
    settle(&p);
    seen *u = server_stream(&p, "/urgent");
    assert_int_equal(u->received, 65535);
    assert_int_equal(server_stream(&p, "/later")->received, 0);
    assert_int_equal(server_stream(&p, "/bulk")->received, 10);
    assert_int_equal(lh_h2_stream_queued_bytes(urgent->stream), 100000 - 65535);
    lh_h2_stream_consume(u->stream, 65535);
    lh_h2_stream_end(urgent->stream);
    settle(&p);
    assert_int_equal(u->received, 100000);
    assert_int_equal(server_stream(&p, "/later")->received, 10);
    pair_close(&p);
}

static void responses_share_the_connection(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    seen *slow = submit(&p, "/slow", 0), *quick = submit(&p, "/quick", 0);
    lh_h2_stream_end(slow->stream);
    lh_h2_stream_end(quick->stream);
    settle(&p);
    seen *s = server_stream(&p, "/slow"), *q = server_stream(&p, "/quick");
    lh_h2_stream_respond_headers(s->stream, 200, NULL, 0, false); /* and has nothing to say yet */
    assert_int_equal(lh_h2_stream_respond(q->stream, 200, "done"), LH_OK);
    settle(&p);
    assert_int_equal(quick->closes, 1);
    assert_int_equal(slow->closes, 0);
    pair_close(&p);
}

/* Whether this end has asked to be pulled since the last time. */
static bool has_woken(end *e) {
    bool has = e->wakes > 0;
    e->wakes = 0;
    return has;
}

/* Also outside _receive and _pull, after which the owner looks anyway. */
static void whatever_is_to_be_sent_wakes_the_owner(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    p.server.hold = true;
    p.client.wakes = 0;
    seen *s = submit(&p, "/x", 0), *next = submit(&p, "/y", 0);
    assert_true(has_woken(&p.client));
    lh_h2_stream_write(s->stream, "ab", 2);
    assert_true(has_woken(&p.client));
    lh_h2_stream_write_owned(s->stream, strdup("c"), 1);
    assert_true(has_woken(&p.client));
    lh_h2_stream_end(s->stream);
    assert_true(has_woken(&p.client));
    lh_h2_session_ping(p.client.session, 1);
    assert_true(has_woken(&p.client));
    settle(&p);
    p.client.wakes = p.server.wakes = 0;
    seen *r = server_stream(&p, "/x");
    lh_h2_stream_consume(r->stream, 3);
    assert_true(has_woken(&p.server));
    lh_h2_stream_respond_headers(r->stream, 200, NULL, 0, false);
    assert_true(has_woken(&p.server));
    lh_h2_stream_end(r->stream);
    assert_true(has_woken(&p.server));
    settle(&p);
    assert_true(has_woken(&p.client)); /* the turn to send has passed on */
    lh_h2_stream_cancel(next->stream);
    assert_true(has_woken(&p.client));
    p.server.wakes = 0;
    lh_h2_session_shut_down(p.server.session);
    assert_true(has_woken(&p.server));
    lh_h2_session_shut_down(p.server.session);
    assert_false(has_woken(&p.server)); /* it is said once */
    settle(&p);
    pair_close(&p);
}

/* ---- Windows ---- */

static void unconsumed_bytes_stop_the_sender(void **state) {
    (void)state;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.window_bytes = 65536;
    pair p;
    pair_open(&p, &limits);
    p.server.hold = true;
    seen *s = submit(&p, "/x", 0);
    write_zeros(s, 1 << 20);
    settle(&p);
    seen *r = server_stream(&p, "/x");
    assert_int_equal(r->received, 65536);
    for (size_t taken = 0; taken < 1 << 20; taken += 32768) {
        lh_h2_stream_consume(r->stream, 32768);
        settle(&p);
        assert_true(r->received <= taken + 32768 + 65536);
    }
    assert_int_equal(r->received, 1 << 20);
    pair_close(&p);
}

static const lh_h2_stream_events events_without_body = {.on_response = on_response,
                                                        .on_closed = on_closed};

/* A body that nobody wants to see is taken all the same, or it would hold up the others. */
static void an_unwanted_body_goes_by(void **state) {
    (void)state;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.window_bytes = 65536;
    pair p;
    pair_open(&p, &limits);
    seen *s = &p.client.streams[p.client.count++];
    assert_int_equal(lh_h2_session_submit(p.client.session, "GET", "/x", NULL, 0, 0,
                                          &events_without_body, s, &s->stream, NULL),
                     LH_OK);
    lh_h2_stream_end(s->stream);
    settle(&p);
    seen *r = server_stream(&p, "/x");
    lh_h2_stream_respond_headers(r->stream, 200, NULL, 0, false);
    write_zeros(r, 1 << 20);
    lh_h2_stream_end(r->stream);
    settle(&p);
    assert_int_equal(s->http_status, 200);
    assert_int_equal(s->status, LH_OK);
    assert_int_equal(s->closes, 1);
    assert_int_equal(s->received, 0);
    pair_close(&p);
}

/* The connection's window is four streams': closed streams must give back what they held. */
static void a_closed_stream_gives_its_window_back(void **state) {
    (void)state;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.window_bytes = 65536;
    pair p;
    pair_open(&p, &limits);
    p.server.hold = true;
    for (int i = 0; i < 12; i++) {
        char path[8];
        snprintf(path, sizeof path, "/%d", i);
        seen *s = submit(&p, path, 0);
        write_zeros(s, 65536);
        settle(&p);
        assert_int_equal(server_stream(&p, path)->received, 65536);
        lh_h2_stream_cancel(i & 1 ? s->stream : server_stream(&p, path)->stream);
        settle(&p);
        assert_int_equal(s->closes, 1);
        assert_int_equal(server_stream(&p, path)->closes, 1);
    }
    pair_close(&p);
}

/* ---- Ends ---- */

static void cancelled_before_it_left(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    seen *s = submit(&p, "/x", 0);
    lh_h2_stream_write(s->stream, "abc", 3);
    lh_h2_stream_cancel(s->stream);
    assert_int_equal(s->closes, 0);
    assert_int_equal(lh_h2_stream_write(s->stream, "d", 1), LH_ERR_CANCELLED);
    settle(&p);
    assert_int_equal(s->closes, 1);
    assert_int_equal(s->status, LH_ERR_CANCELLED);
    assert_int_equal(p.server.count, 0);
    pair_close(&p);
}

static void a_reset_reaches_the_other_side(void **state) {
    (void)state;
    for (int by_server = 0; by_server < 2; by_server++) {
        pair p;
        pair_open(&p, NULL);
        seen *s = submit(&p, "/x", 0);
        write_zeros(s, 1000);
        settle(&p);
        seen *r = server_stream(&p, "/x");
        lh_h2_stream_cancel(by_server ? r->stream : s->stream);
        settle(&p);
        assert_int_equal(s->closes, 1);
        assert_int_equal(r->closes, 1);
        assert_int_equal(s->status, LH_ERR_CANCELLED);
        assert_int_equal(r->status, LH_ERR_CANCELLED);
        assert_int_equal(s->ends + r->ends, 0);
        pair_close(&p);
    }
}

static void what_was_cancelled_takes_nothing_more(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    seen *s = submit(&p, "/x", 0);
    settle(&p);
    lh_h2_stream *r = server_stream(&p, "/x")->stream;
    lh_h2_stream_write(r, "never", 5);
    lh_h2_stream_cancel(r);
    lh_h2_stream_cancel(r);
    lh_h2_stream_end(r);
    assert_int_equal(lh_h2_stream_queued_bytes(r), 0);
    assert_int_equal(lh_h2_stream_respond(r, 200, "x"), LH_ERR_CANCELLED);
    assert_int_equal(lh_h2_stream_respond_headers(r, 200, NULL, 0, true), LH_ERR_CANCELLED);
    assert_int_equal(lh_h2_stream_write_owned(r, strdup("x"), 1), LH_ERR_CANCELLED);
    settle(&p);
    assert_int_equal(s->responses, 0);
    assert_int_equal(s->status, LH_ERR_CANCELLED);
    pair_close(&p);
}

static void failing_closes_all_once(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    for (int i = 0; i < 5; i++)
        write_zeros(submit(&p, "/x", i & 1), 1000);
    settle(&p);
    lh_h2_session_fail(p.server.session, LH_ERR_TIMEOUT);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(p.server.streams[i].closes, 1);
        assert_int_equal(p.server.streams[i].status, LH_ERR_TIMEOUT);
    }
    pair_close(&p);
}

static void late_requests_are_refused(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    seen *early = submit(&p, "/early", 0);
    settle(&p);
    lh_h2_session_shut_down(p.server.session);
    seen *late = submit(&p, "/late", 0);
    carry(&p.client, &p.server); /* it arrives before our GOAWAY leaves */
    settle(&p);
    assert_int_equal(late->closes, 1);
    assert_int_equal(late->status, LH_ERR_UNAVAILABLE);
    assert_int_equal(p.server.count, 1);
    seen *never;
    assert_int_equal(submit_to(&p, "/never", 0, &never), LH_ERR_UNAVAILABLE);
    lh_h2_stream_end(early->stream); /* what was accepted runs to its end */
    settle(&p);
    assert_int_equal(lh_h2_stream_respond(server_stream(&p, "/early")->stream, 200, "ok"), LH_OK);
    settle(&p);
    assert_int_equal(early->status, LH_OK);
    assert_int_equal(early->closes, 1);
    assert_true(lh_h2_session_is_done(p.client.session, NULL));
    pair_close(&p);
}

static void pings_are_answered(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    assert_int_equal(lh_h2_session_ping(p.client.session, 0x0123456789abcdef), LH_OK);
    settle(&p);
    assert_true(p.client.pong == 0x0123456789abcdef);
    assert_true(p.server.pong == 0); /* it was asked, not answered */
    assert_false(lh_h2_session_is_shutting_down(p.client.session));
    assert_false(lh_h2_session_is_shutting_down(p.server.session));
    pair_close(&p);
}

/* ---- A session alone ---- */

static void feed(end *e, const void *bytes, size_t length) {
    owner = e;
    if (e->status == LH_OK)
        e->status = lh_h2_session_receive(e->session, bytes, length, &e->error);
}

static size_t pull(end *e) {
    size_t length = 0;
    owner = e;
    lh_h2_session_pull(e->session, e->out, BUFFER_BYTES, &length, &e->error);
    return length;
}

static void lone_open(end *e, lh_h2_role role, lh_h2_limits *limits) {
    memset(e, 0, sizeof *e);
    *limits = lh_h2_default_limits();
    end_open(e, role, limits);
}

static uint32_t big_endian(const uint8_t *bytes, size_t length) {
    uint32_t value = 0;
    for (size_t i = 0; i < length; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* The value of a setting in the SETTINGS frame at `frame`; -1: it is not there. */
static int64_t setting(const uint8_t *frame, uint32_t name) {
    assert_int_equal(frame[3], 4);
    for (size_t at = 9; at < 9 + big_endian(frame, 3); at += 6)
        if (big_endian(frame + at, 2) == name)
            return big_endian(frame + at + 2, 4);
    return -1;
}

enum { HEADER_TABLE = 1, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW, MAX_HEADER_LIST = 6 };

/* What a session says first: SETTINGS, and the window of the connection. */
static void expect_greeting(lh_h2_role role, const lh_h2_limits *limits, int64_t window,
                            int64_t connection_window, int64_t header_bytes) {
    static end e;
    memset(&e, 0, sizeof e);
    end_open(&e, role, limits);
    size_t length = pull(&e);
    const uint8_t *settings = e.out + (role == LH_H2_CLIENT ? 24 : 0);
    const uint8_t *update = settings + 9 + big_endian(settings, 3);
    assert_int_equal(setting(settings, INITIAL_WINDOW), window);
    assert_int_equal(setting(settings, MAX_HEADER_LIST), header_bytes);
    assert_int_equal(setting(settings, HEADER_TABLE), 0);
    assert_int_equal(setting(settings, ENABLE_PUSH), role == LH_H2_CLIENT ? 0 : -1);
    assert_int_equal(setting(settings, MAX_CONCURRENT_STREAMS),
                     role == LH_H2_CLIENT ? 0 : limits->streams_max);
    assert_int_equal(update + 9 + 4 - e.out, length);
    assert_int_equal(big_endian(update, 9), 0);
    assert_int_equal(update[3], 8); /* WINDOW_UPDATE, of the connection */
    assert_int_equal(65535 + big_endian(update + 9, 4), connection_window);
    end_close(&e);
}

/* The header block of the HEADERS frame among the bytes, as "name: value\n" each. */
static void read_headers(const uint8_t *bytes, size_t length, char *text, size_t capacity) {
    size_t at = 0;
    while (at + 9 <= length && bytes[at + 3] != NGHTTP2_HEADERS)
        at += 9 + big_endian(bytes + at, 3);
    assert_true(at + 9 <= length);
    const uint8_t *block = bytes + at + 9;
    size_t left = big_endian(bytes + at, 3);
    nghttp2_hd_inflater *inflater;
    assert_int_equal(nghttp2_hd_inflate_new(&inflater), 0);
    text[0] = '\0';
    for (int flags = 0; !(flags & NGHTTP2_HD_INFLATE_FINAL);) {
        nghttp2_nv nv;
        ssize_t used = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, block, left, 1);
        assert_true(used >= 0);
        block += used;
        left -= (size_t)used;
        size_t written = strlen(text);
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            snprintf(text + written, capacity - written, "%.*s: %.*s\n", (int)nv.namelen,
                     (char *)nv.name, (int)nv.valuelen, (char *)nv.value);
    }
    nghttp2_hd_inflate_del(inflater);
}

static const char *reply;

static void give_reply(end *server, seen *s, const lh_h2_stream_events **stream_events) {
    (void)server;
    *stream_events = &events;
    assert_int_equal(lh_h2_stream_respond(s->stream, 404, reply), LH_OK);
}

/* Problems are JSON; what is said in words is text. */
static void a_reply_says_what_it_is(void **state) {
    (void)state;
    static const struct {
        const char *body, *headers;
    } cases[] = {{"{}", ":status: 404\ncontent-type: application/json\n"},
                 {"no {", ":status: 404\ncontent-type: text/plain; charset=utf-8\n"},
                 {"x{}", ":status: 404\ncontent-type: text/plain; charset=utf-8\n"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pair p;
        char headers[200];
        pair_open(&p, NULL);
        p.server.on_request = give_reply;
        reply = cases[i].body;
        lh_h2_stream_end(submit(&p, "/x", 0)->stream);
        feed(&p.server, p.client.out, pull(&p.client));
        size_t length = pull(&p.server);
        read_headers(p.server.out, length, headers, sizeof headers);
        assert_string_equal(headers, cases[i].headers);
        feed(&p.client, p.server.out, length);
        settle(&p);
        pair_close(&p);
    }
}

static void limits_are_told_first(void **state) {
    (void)state;
    static const lh_h2_role roles[] = {LH_H2_SERVER, LH_H2_CLIENT};
    for (int i = 0; i < 2; i++) {
        lh_h2_limits limits = lh_h2_default_limits();
        expect_greeting(roles[i], &limits, 16 << 20, 64 << 20, 16 << 10);
        limits.window_bytes = UINT32_MAX; /* more than the protocol can say */
        limits.header_bytes_max = SIZE_MAX;
        expect_greeting(roles[i], &limits, INT32_MAX, INT32_MAX, UINT32_MAX);
    }
}

/* A client whose request has left, and which is told so much of the answer. */
static seen *lone_client_open(end *client, lh_h2_limits *limits) {
    lone_open(client, LH_H2_CLIENT, limits);
    feed(client, raw_server_greeting, sizeof raw_server_greeting);
    seen *s = &client->streams[client->count++];
    assert_int_equal(
        lh_h2_session_submit(client->session, "GET", "/", NULL, 0, 0, &events, s, &s->stream, NULL),
        LH_OK);
    lh_h2_stream_end(s->stream);
    while (pull(client))
        ;
    return s;
}

static void a_reset_tells_its_status_by_the_code(void **state) {
    (void)state;
    static const struct {
        uint8_t code;
        lh_status status;
    } cases[] = {
        {0, LH_ERR_CANCELLED},                          /* NO_ERROR, without an answer */
        {1, LH_ERR_PROTOCOL},  {2, LH_ERR_CANCELLED},   /* INTERNAL_ERROR */
        {3, LH_ERR_PROTOCOL},  {7, LH_ERR_UNAVAILABLE}, /* REFUSED_STREAM */
        {8, LH_ERR_CANCELLED}, {10, LH_ERR_CANCELLED},  /* CONNECT_ERROR */
        {11, LH_ERR_PROTOCOL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static end client;
        lh_h2_limits limits;
        uint8_t frame[32], code[4] = {0, 0, 0, cases[i].code};
        seen *s = lone_client_open(&client, &limits);
        feed(&client, frame, raw_frame(frame, 3, 0, 1, code, sizeof code));
        assert_int_equal(s->closes, 1);
        assert_int_equal(s->status, cases[i].status);
        end_close(&client);
    }
}

/* 100 comes before the response, trailers behind it: neither is one. */
static void a_response_is_reported_once(void **state) {
    (void)state;
    static end client;
    lh_h2_limits limits;
    uint8_t frame[64];
    seen *s = lone_client_open(&client, &limits);
    feed(&client, frame,
         raw_frame(frame, 1, 4, 1,
                   "\x48\x03"
                   "100",
                   5));
    assert_int_equal(s->responses, 0);
    feed(&client, frame, raw_frame(frame, 1, 4, 1, "\x88", 1)); /* :status 200 */
    assert_int_equal(s->responses, 1);
    assert_int_equal(s->http_status, 200);
    feed(&client, frame,
         raw_frame(frame, 1, 5, 1,
                   "\x40\x01"
                   "a"
                   "\x01"
                   "b",
                   5));
    assert_int_equal(s->responses, 1);
    assert_int_equal(s->ends, 1);
    assert_int_equal(s->status, LH_OK);
    end_close(&client);
}

static void what_the_peer_complains_of_is_passed_on(void **state) {
    (void)state;
    static const char *const words[] = {"the connection is closed",
                                        "the peer closed the connection: ENHANCE_YOUR_CALM"};
    for (int i = 0; i < 2; i++) {
        static end client;
        lh_h2_limits limits;
        uint8_t frame[32];
        lone_open(&client, LH_H2_CLIENT, &limits);
        feed(&client, raw_server_greeting, sizeof raw_server_greeting);
        while (pull(&client))
            ;
        assert_false(lh_h2_session_is_done(client.session, &client.error));
        assert_false(lh_h2_session_is_shutting_down(client.session));
        feed(&client, frame,
             raw_frame(frame, 7, 0, 0, i ? "\0\0\0\0\0\0\0\13" : "\0\0\0\0\0\0\0\0", 8));
        assert_true(lh_h2_session_is_shutting_down(client.session));
        assert_true(lh_h2_session_is_done(client.session, &client.error));
        assert_int_equal(client.error.status, LH_ERR_CLOSED);
        assert_string_equal(client.error.message, words[i]);
        end_close(&client);
    }
}

/* A body may begin like another protocol: that is looked for where a connection begins. */
static void bodies_may_be_of_any_protocol(void **state) {
    (void)state;
    static const char *const bodies[] = {"HTTP/1.1 200 OK", "\x16\x03\x01\x02\x01"};
    for (int i = 0; i < 2; i++) {
        static end client;
        lh_h2_limits limits;
        uint8_t frame[64];
        size_t length = strlen(bodies[i]);
        seen *s = lone_client_open(&client, &limits);
        feed(&client, frame, raw_frame(frame, 1, 4, 1, "\x88", 1));
        raw_frame(frame, 0, 1, 1, bodies[i], length);
        feed(&client, frame, 9);
        feed(&client, frame + 9, length);
        assert_int_equal(s->received, length);
        assert_int_equal(s->status, LH_OK);
        assert_int_equal(s->closes, 1);
        end_close(&client);
    }
}

/* ---- Hostile peers ---- */

/* Everything the server has to say; true when GOAWAY with an error is in it. */
static bool says_goaway(end *server) {
    bool said = false;
    size_t length = 0;
    do {
        lh_h2_session_pull(server->session, server->out, BUFFER_BYTES, &length, &server->error);
        said |= raw_find_goaway(server->out, length) > 0;
    } while (length);
    return said;
}

static void lone_server_open(end *server, lh_h2_limits *limits) {
    lone_open(server, LH_H2_SERVER, limits);
}

/* GET / with the static table: :method GET, :scheme http, :path /, :authority x */
static const uint8_t get_root[] = {0x82, 0x86, 0x84, 0x41, 0x01, 'x'};

static void wrong_protocols_are_named(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *words;
    } cases[] = {
        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "speaks TLS"},
        {"\x14\x03\x01\x02\x01\x01\x01\x01\xfc\x03\x03", "speaks TLS"},
        {"\x17\x03\x01\x02\x01\x01\x01\x01\xfc\x03\x03", "speaks TLS"},
        {"\x13\x03\x01\x02\x01\x01\x01\x01\xfc\x03\x03", "does not speak HTTP/2"},
        {"\x18\x03\x01\x02\x01\x01\x01\x01\xfc\x03\x03", "does not speak HTTP/2"},
        {"\x16\x02\x01\x02\x01\x01\x01\x01\xfc\x03\x03", "does not speak HTTP/2"},
        {"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP/1"},
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "begins with 'GET / HTTP/1.1..Host: x.'"},
        {"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "does not speak HTTP/2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        end server;
        lh_h2_limits limits;
        lone_server_open(&server, &limits);
        feed(&server, cases[i].bytes, strlen(cases[i].bytes) > 8 ? strlen(cases[i].bytes) : 11);
        assert_int_equal(server.status, LH_ERR_PROTOCOL);
        if (!strstr(server.error.message, cases[i].words))
            fail_msg("case %zu: %s", i, server.error.message);
        end_close(&server);
    }
}

static void rapid_resets_close_the_connection(void **state) {
    (void)state;
    end server;
    lh_h2_limits limits;
    lone_server_open(&server, &limits);
    server.on_request = neglect;
    feed(&server, raw_client_greeting, sizeof raw_client_greeting);
    bool goaway = false;
    int i;
    for (i = 0; i < 5000 && !goaway; i++) {
        uint8_t bytes[64];
        uint32_t id = (uint32_t)i * 2 + 1;
        server.count = 0;
        size_t length = raw_frame(bytes, 1, 5, id, get_root, sizeof get_root);
        length += raw_frame(bytes + length, 3, 0, id, "\0\0\0\10", 4);
        feed(&server, bytes, length);
        if (i % 50 == 0)
            goaway = says_goaway(&server);
    }
    assert_true(goaway);
    assert_true(i < 2000);
    assert_true(lh_h2_session_is_done(server.session, NULL));
    assert_int_equal(server.status, LH_ERR_LIMIT);
    end_close(&server);
}

/* A client that has its answer resets the stream rather than send the rest: that is no abuse,
 * however often. */
static void resets_of_answered_streams_are_free(void **state) {
    (void)state;
    pair p;
    pair_open(&p, NULL);
    for (int i = 0; i < 2000; i++) {
        p.client.count = p.server.count = 0;
        p.client.streams[0] = p.server.streams[0] = (seen){0};
        seen *s = submit(&p, "/x", 0);
        lh_h2_stream_write(s->stream, "x", 1);
        settle(&p);
        assert_int_equal(lh_h2_stream_respond(p.server.streams[0].stream, 429, "busy"), LH_OK);
        settle(&p);
        assert_int_equal(s->ends, 1);
        lh_h2_stream_cancel(s->stream);
        settle(&p);
        assert_int_equal(s->closes, 1);
        lh_h2_session_note_time(p.server.session, 1);
    }
    pair_close(&p);
}

/* A stream that has ended on both sides may be reset as well: libcurl does it after each request.
 */
static void resets_of_streams_that_ended_are_free(void **state) {
    (void)state;
    end server;
    lh_h2_limits limits;
    lone_server_open(&server, &limits);
    server.on_request = answer_at_once;
    feed(&server, raw_client_greeting, sizeof raw_client_greeting);
    for (uint32_t i = 0; i < 2000; i++) {
        uint8_t bytes[64];
        server.count = 0;
        feed(&server, bytes, raw_frame(bytes, 1, 5, i * 2 + 1, get_root, sizeof get_root));
        assert_false(says_goaway(&server));
        feed(&server, bytes, raw_frame(bytes, 3, 0, i * 2 + 1, "\0\0\0\0", 4));
        assert_int_equal(server.status, LH_OK);
        lh_h2_session_note_time(server.session, 1);
    }
    end_close(&server);
}

/* What this side wants of a stream is no fault of the peer's: whether it cancels the stream, or has
 * answered and wants no more of the body. */
static void our_own_resets_are_no_faults(void **state) {
    (void)state;
    for (int answers = 0; answers < 2; answers++) {
        static pair p;
        pair_open(&p, NULL);
        p.server.on_request = answers ? answer_at_once : neglect;
        for (int i = 0; i < 200; i++) {
            p.client.count = p.server.count = 0;
            p.client.streams[0] = p.server.streams[0] = (seen){0};
            seen *s = submit(&p, "/x", 0);
            settle(&p);
            assert_int_equal(s->closes, 1);
        }
        assert_int_equal(p.server.status, LH_OK);
        pair_close(&p);
    }
}

/* MadeYouReset: the peer makes us reset its streams, here by a WINDOW_UPDATE of zero. */
static void faults_close_the_connection(void **state) {
    (void)state;
    end server;
    lh_h2_limits limits;
    lone_server_open(&server, &limits);
    feed(&server, raw_client_greeting, sizeof raw_client_greeting);
    bool goaway = false;
    int i;
    for (i = 0; i < 1000 && !goaway; i++) {
        uint8_t bytes[64];
        uint32_t id = (uint32_t)i * 2 + 1;
        server.count = 0;
        size_t length = raw_frame(bytes, 1, 4, id, get_root, sizeof get_root);
        length += raw_frame(bytes + length, 8, 0, id, "\0\0\0\0", 4);
        feed(&server, bytes, length);
        goaway = says_goaway(&server);
        if (goaway)
            break;
        assert_int_equal(server.streams[0].closes, 1);
        server.streams[0] = (seen){0};
    }
    assert_true(goaway);
    assert_true(i <= 100);
    end_close(&server);
}

static void floods_close_the_connection(void **state) {
    (void)state;
    static const struct {
        uint8_t type, length;
    } floods[] = {{6, 8}, {4, 0}};
    for (size_t k = 0; k < 2; k++) {
        end server;
        lh_h2_limits limits;
        lone_server_open(&server, &limits);
        feed(&server, raw_client_greeting, sizeof raw_client_greeting);
        int i;
        /* and it never reads our answers */
        for (i = 0; i < 100000 && server.status == LH_OK; i++) {
            uint8_t bytes[32];
            feed(&server, bytes,
                 raw_frame(bytes, floods[k].type, 0, 0, "\0\0\0\0\0\0\0\0", floods[k].length));
        }
        assert_in_range(i, 200, 300); /* 256 answers wait at most */
        assert_int_equal(server.status, LH_ERR_LIMIT);
        assert_non_null(strstr(server.error.message, "floods"));
        end_close(&server);
    }
}

/* The last words are a GOAWAY alone, and are said once: which request was the last that anybody has
 * seen, and what was wrong. */
static void expect_last_words(end *server, uint32_t last_id, int code) {
    assert_int_not_equal(server->status, LH_OK);
    assert_true(server->wakes > 0); /* there is something to say */
    assert_int_equal(pull(server), 9 + 8);
    assert_int_equal(big_endian(server->out, 3), 8);
    assert_int_equal(big_endian(server->out + 5, 4), 0);
    assert_int_equal(big_endian(server->out + 9, 4), last_id);
    assert_int_equal(raw_find_goaway(server->out, 17), code);
    assert_int_equal(pull(server), 0);
    end_close(server);
}

static void last_words_name_the_last_request_and_the_fault(void **state) {
    (void)state;
    static end server;
    lh_h2_limits limits;
    uint8_t bytes[64];
    lone_server_open(&server, &limits);
    server.wakes = 0;
    feed(&server, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
    expect_last_words(&server, 0, 1); /* PROTOCOL_ERROR */
    lone_server_open(&server, &limits);
    feed(&server, raw_client_greeting, sizeof raw_client_greeting);
    feed(&server, bytes, raw_frame(bytes, 1, 4, 1, get_root, sizeof get_root));
    feed(&server, bytes, raw_frame(bytes, 1, 4, 0x123, get_root, sizeof get_root));
    assert_int_equal(server.count, 2);
    server.wakes = 0;
    for (int i = 0; i < 300; i++)
        feed(&server, bytes, raw_frame(bytes, 6, 0, 0, "\0\0\0\0\0\0\0\0", 8));
    expect_last_words(&server, 0x123, 11); /* ENHANCE_YOUR_CALM */
}

/* What nghttp2 has to say of a fault is quoted. */
static void a_fault_is_explained(void **state) {
    (void)state;
    static end server;
    lh_h2_limits limits;
    uint8_t bytes[64];
    lone_server_open(&server, &limits);
    feed(&server, raw_client_greeting, 24);
    feed(&server, bytes, raw_frame(bytes, 6, 0, 0, "\0\0\0\0\0\0\0\0", 8));
    says_goaway(&server);
    assert_true(lh_h2_session_is_done(server.session, &server.error));
    assert_non_null(
        strstr(server.error.message, "the peer broke HTTP/2's rules: PROTOCOL_ERROR: "));
    assert_non_null(strstr(server.error.message, "SETTINGS"));
    end_close(&server);
}

/* A peer with a large budget of faults, earned by many good requests, opens streams over the limit
 * and does not read that they are refused. */
static void refusals_that_nobody_reads_are_bounded(void **state) {
    (void)state;
    enum { GOOD = 9000 };
    end server;
    memset(&server, 0, sizeof server);
    lh_h2_limits limits = lh_h2_default_limits();
    limits.streams_max = 1;
    end_open(&server, LH_H2_SERVER, &limits);
    server.on_request = answer_at_once;
    uint8_t bytes[64];
    uint32_t id = 1;
    feed(&server, raw_client_greeting, sizeof raw_client_greeting);
    feed(&server, bytes, raw_frame(bytes, 8, 0, 0, "\x10\0\0\0", 4)); /* room for the answers */
    for (int i = 0; i < GOOD; i++, id += 2) {
        server.count = 0;
        feed(&server, bytes, raw_frame(bytes, 1, 5, id, get_root, sizeof get_root));
        assert_false(says_goaway(&server));
        lh_h2_session_note_time(server.session, 1);
    }
    server.count = 0;
    server.on_request = NULL;
    feed(&server, bytes, raw_frame(bytes, 1, 4, id, get_root, sizeof get_root));
    int i;
    for (i = 0; i < GOOD && server.status == LH_OK; i++) {
        id += 2;
        feed(&server, bytes, raw_frame(bytes, 1, 5, id, get_root, sizeof get_root));
    }
    assert_int_equal(server.status, LH_ERR_LIMIT);
    assert_non_null(strstr(server.error.message, "floods"));
    assert_in_range(i, 1024, 1024 + 4 + 1); /* 1024 frames, and four for each stream */
    end_close(&server);
}

static void malformed_frames_end_the_session(void **state) {
    (void)state;
    static const struct {
        uint8_t type, flags;
        uint32_t stream;
        size_t length;
    } cases[] = {
        {0, 0, 0, 1},     /* DATA on stream 0 */
        {1, 4, 2, 6},     /* HEADERS on an even stream */
        {9, 4, 1, 6},     /* CONTINUATION out of nowhere */
        {6, 0, 0, 7},     /* PING of 7 bytes */
        {4, 0, 0, 5},     /* SETTINGS of 5 bytes */
        {4, 1, 0, 6},     /* SETTINGS ACK with a payload */
        {8, 0, 0, 4},     /* WINDOW_UPDATE of 0 on the connection */
        {3, 0, 1, 4},     /* RST_STREAM on an idle stream */
        {5, 4, 1, 10},    /* PUSH_PROMISE from a client */
        {0, 0, 1, 20000}, /* over SETTINGS_MAX_FRAME_SIZE */
    };
    static uint8_t bytes[32768], zeros[20000];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        end server;
        lh_h2_limits limits;
        lone_server_open(&server, &limits);
        feed(&server, raw_client_greeting, sizeof raw_client_greeting);
        feed(&server, bytes,
             raw_frame(bytes, cases[i].type, cases[i].flags, cases[i].stream, zeros,
                       cases[i].length));
        if (!says_goaway(&server))
            fail_msg("case %zu goes unpunished", i);
        assert_true(lh_h2_session_is_done(server.session, &server.error));
        assert_int_equal(server.error.status, LH_ERR_PROTOCOL);
        assert_true(server.error.message[0] != '\0');
        end_close(&server);
    }
}

/* A header block that never ends (CVE-2024-28182): eight continuations are taken. */
static void endless_headers_close_the_connection(void **state) {
    (void)state;
    end server;
    lh_h2_limits limits;
    uint8_t bytes[64];
    int i;
    lone_server_open(&server, &limits);
    feed(&server, raw_client_greeting, sizeof raw_client_greeting);
    feed(&server, bytes, raw_frame(bytes, 1, 1, 1, get_root, sizeof get_root));
    for (i = 0; i < 20 && server.status == LH_OK; i++)
        feed(&server, bytes, raw_frame(bytes, 9, 0, 1, NULL, 0));
    assert_int_equal(i, 9);
    assert_int_equal(server.status, LH_ERR_PROTOCOL);
    assert_int_equal(server.count, 0);
    assert_true(says_goaway(&server));
    end_close(&server);
}

/* Header blocks that HPACK must refuse, or that mean an absurd request. */
static void bad_requests_reach_no_user(void **state) {
    (void)state;
    static const struct {
        const char *block;
        size_t length;
    } cases[] = {
        {"\x82\x86\x84\x84", 4},  /* two paths */
        {"\x82\x86", 2},          /* no path */
        {"\x86\x84", 2},          /* no method */
        {"\x82\x86\x44\x01*", 5}, /* GET * */
        {"\x82\x86\x44\x05"
         "a/b/c",
         9},                                         /* no slash */
        {"\x82\x86\x44\x00", 4},                     /* an empty path */
        {"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 9}, /* an index out of this world */
        {"\x82\x86\x84\x40\x0a"
         "connection\x05"
         "close",
         20}, /* a header of HTTP/1 */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        end server;
        lh_h2_limits limits;
        uint8_t bytes[128];
        lone_server_open(&server, &limits);
        feed(&server, raw_client_greeting, sizeof raw_client_greeting);
        feed(&server, bytes, raw_frame(bytes, 1, 5, 1, cases[i].block, cases[i].length));
        if (server.count)
            fail_msg("case %zu reached the user", i);
        says_goaway(&server);
        end_close(&server);
    }
}

/* OPTIONS * is sound HTTP, and no path of ours. */
static void a_request_for_no_path_gets_400(void **state) {
    (void)state;
    static const char block[] = "\x42\x07OPTIONS\x86\x44\x01*\x41\x01x";
    end server;
    lh_h2_limits limits;
    uint8_t bytes[64];
    lone_server_open(&server, &limits);
    feed(&server, raw_client_greeting, sizeof raw_client_greeting);
    while (pull(&server))
        ;
    feed(&server, bytes, raw_frame(bytes, 1, 5, 1, block, sizeof block - 1));
    assert_int_equal(server.status, LH_OK);
    assert_int_equal(server.count, 0);
    assert_true(pull(&server) > 10);
    assert_int_equal(server.out[3], 1);     /* HEADERS */
    assert_int_equal(server.out[9], 0x20);  /* no table, though the peer allows one */
    assert_int_equal(server.out[10], 0x8c); /* :status 400 (RFC 7541, appendix A) */
    end_close(&server);
}

static void unfinished_headers_show(void **state) {
    (void)state;
    end server;
    lh_h2_limits limits;
    uint8_t bytes[64];
    lone_server_open(&server, &limits);
    feed(&server, raw_client_greeting, sizeof raw_client_greeting);
    assert_false(lh_h2_session_is_mid_headers(server.session));
    feed(&server, bytes, raw_frame(bytes, 1, 1, 1, get_root, 2)); /* no END_HEADERS */
    assert_true(lh_h2_session_is_mid_headers(server.session));
    feed(&server, bytes, raw_frame(bytes, 9, 4, 1, get_root + 2, 4));
    assert_false(lh_h2_session_is_mid_headers(server.session));
    assert_int_equal(server.count, 1);
    end_close(&server);
}

/* ---- Amplified headers (RFC 7541) ---- */

enum { LONG_VALUE = 3900, LONG_FIELD_BYTES = 6 + LONG_VALUE };

/* A field with a long value, which enters the dynamic table as entry 62. */
static void long_field(uint8_t bytes[LONG_FIELD_BYTES]) {
    static const uint8_t head[] = {0x40, 1, 'a', 0x7f, 0xbd, 0x1d}; /* 127 + 0x3d + 0x1d * 128 */
    memcpy(bytes, head, sizeof head);
    memset(bytes + sizeof head, 'b', LONG_VALUE);
}

/* A request that fills the table, and one that names the entry again and again: it is number 63 by
 * then, since :authority enters the table, too. The second frame
 * never ends: so it is refused before that. */
static void amplify(end *server) {
    static uint8_t bytes[9 + 16384], block[16384];
    lh_h2_limits limits;
    lone_server_open(server, &limits);
    feed(server, raw_client_greeting, sizeof raw_client_greeting);
    memcpy(block, get_root, sizeof get_root);
    long_field(block + sizeof get_root);
    feed(server, bytes, raw_frame(bytes, 1, 4, 1, block, sizeof get_root + LONG_FIELD_BYTES));
    assert_int_equal(server->status, LH_OK);
    memcpy(block, get_root, sizeof get_root);
    memset(block + sizeof get_root, 0xbf, sizeof block - sizeof get_root);
    raw_frame(bytes, 1, 4, 3, block, sizeof block);
    server->wakes = 0;
    feed(server, bytes, 9 + sizeof get_root + 5);
}

static void a_table_does_not_amplify(void **state) {
    (void)state;
    static end server;
    amplify(&server);
    assert_int_equal(server.status, LH_ERR_LIMIT);
    assert_int_equal(server.count, 1);
    expect_last_words(&server, 1, 11); /* ENHANCE_YOUR_CALM */
}

/* Trailers and answers are blocks, too. */
static void trailers_have_the_same_bound(void **state) {
    (void)state;
    static uint8_t bytes[9 + 16384], block[16384];
    static end server;
    lh_h2_limits limits;
    lone_server_open(&server, &limits);
    feed(&server, raw_client_greeting, sizeof raw_client_greeting);
    feed(&server, bytes, raw_frame(bytes, 1, 4, 1, get_root, sizeof get_root));
    long_field(block);
    memset(block + LONG_FIELD_BYTES, 0xbe, 5);
    feed(&server, bytes, raw_frame(bytes, 1, 5, 1, block, LONG_FIELD_BYTES + 5));
    assert_int_equal(server.status, LH_ERR_LIMIT);
    end_close(&server);
}

static void answers_have_the_same_bound(void **state) {
    (void)state;
    static uint8_t bytes[9 + 16384], block[16384];
    static end client;
    lh_h2_limits limits;
    lone_open(&client, LH_H2_CLIENT, &limits);
    feed(&client, raw_server_greeting, sizeof raw_server_greeting);
    seen *s = &client.streams[client.count++];
    assert_int_equal(
        lh_h2_session_submit(client.session, "GET", "/x", NULL, 0, 0, &events, s, &s->stream, NULL),
        LH_OK);
    pull(&client);
    block[0] = 0x88; /* :status 200 */
    long_field(block + 1);
    memset(block + 1 + LONG_FIELD_BYTES, 0xbe, 5);
    feed(&client, bytes, raw_frame(bytes, 1, 4, 1, block, 1 + LONG_FIELD_BYTES + 5));
    assert_int_equal(client.status, LH_ERR_LIMIT);
    end_close(&client);
}

/* Once it has acknowledged our SETTINGS, a peer that still uses a table breaks RFC 7541, 4.2. */
static void there_is_no_table_after_the_acknowledgement(void **state) {
    (void)state;
    static uint8_t bytes[64];
    for (int obeys = 0; obeys < 2; obeys++) {
        static end server;
        lh_h2_limits limits;
        lone_server_open(&server, &limits);
        feed(&server, raw_client_greeting, sizeof raw_client_greeting);
        while (pull(&server))
            ;
        feed(&server, bytes, raw_frame(bytes, 4, 1, 0, NULL, 0));
        uint8_t block[1 + sizeof get_root] = {0x20}; /* the table has no bytes now */
        memcpy(block + 1, get_root, sizeof get_root);
        feed(&server, bytes,
             raw_frame(bytes, 1, 4, 1, obeys ? block : get_root,
                       obeys ? sizeof block : sizeof get_root));
        assert_int_equal(server.status, LH_OK);
        assert_int_equal(server.count, obeys);
        assert_int_equal(says_goaway(&server), !obeys);
        end_close(&server);
    }
}

/* The fields behind a forbidden one are decoded, and given to nobody. */
static void ignored_headers_may_not_come_for_ever(void **state) {
    (void)state;
    static uint8_t bytes[9 + 16384], block[16384];
    static end server;
    lh_h2_limits limits;
    uint32_t requests = 0;
    lone_server_open(&server, &limits);
    feed(&server, raw_client_greeting, sizeof raw_client_greeting);
    memset(block, 0x82, sizeof block); /* two methods, and on */
    while (server.status == LH_OK && requests < 100) {
        feed(&server, bytes, raw_frame(bytes, 1, 5, requests++ * 2 + 1, block, sizeof block));
        says_goaway(&server);
    }
    assert_int_equal(requests, 2);
    assert_int_equal(server.status, LH_ERR_LIMIT);
    assert_int_equal(server.count, 0);
    end_close(&server);
}

static void headers_may_not_come_for_ever(void **state) {
    (void)state;
    static end server;
    lh_h2_limits limits;
    uint8_t bytes[64];
    uint32_t requests = 0;
    lone_server_open(&server, &limits);
    server.on_request = answer_at_once;
    feed(&server, raw_client_greeting, sizeof raw_client_greeting);
    feed(&server, bytes, raw_frame(bytes, 8, 0, 0, "\x10\0\0\0", 4)); /* room for the answers */
    while (server.status == LH_OK && requests < 20000) {
        server.count = 0;
        feed(&server, bytes, raw_frame(bytes, 1, 5, requests++ * 2 + 1, get_root, sizeof get_root));
        says_goaway(&server);
    }
    assert_int_equal(server.status, LH_ERR_LIMIT);
    assert_int_equal(requests,
                     ((256 << 10) - 8 * sizeof get_root) / (4 * 32 + 10 + 11 + 6 + 11) + 1);
    end_close(&server);
}

/* ---- Memory ---- */

static void quiet_answer(end *server, seen *s, const lh_h2_stream_events **stream_events) {
    (void)server;
    lh_h2_header header = {"x-answer", "of some length, so that it is stored"};
    *stream_events = &events;
    if (lh_h2_stream_respond_headers(s->stream, 200, &header, 1, false) != LH_OK ||
        lh_h2_stream_write(s->stream, "answer", 6) != LH_OK)
        lh_h2_stream_cancel(s->stream);
    else
        lh_h2_stream_end(s->stream);
}

/* A request with a body and its response, a reset and a PING; every step may fail. */
static void converse(pair *p) {
    for (int i = 0; i < 3; i++) {
        seen *s;
        if (submit_to(p, "/x", i & 1, &s) != LH_OK) {
            s->stream = NULL;
            continue;
        }
        if (lh_h2_stream_write(s->stream, "question", 8) != LH_OK || i == 2)
            lh_h2_stream_cancel(s->stream);
        else
            lh_h2_stream_end(s->stream);
        settle(p);
    }
    lh_h2_session_ping(p->client.session, 1);
    lh_h2_session_shut_down(p->server.session);
    settle(p);
}

static void any_allocation_may_fail(void **state) {
    (void)state;
    size_t n = 1;
    for (bool failed = true; failed; n++) {
        static pair p;
        memset(&p, 0, sizeof p);
        p.limits = lh_h2_default_limits();
        p.server.on_request = quiet_answer;
        failing_malloc_arm(n);
        bool client = end_try_open(&p.client, LH_H2_CLIENT, &p.limits),
             server = end_try_open(&p.server, LH_H2_SERVER, &p.limits);
        if (client && server)
            converse(&p);
        failed = failing_malloc_disarm();
        for (int i = 0; client && server && i < p.client.count; i++) /* nobody waits for ever */
            if (p.client.status == LH_OK && p.server.status == LH_OK && p.client.streams[i].stream)
                assert_int_equal(p.client.streams[i].closes, 1);
        if (p.server.status != LH_OK && p.server.status != LH_ERR_NO_MEMORY)
            assert_non_null(strstr(p.server.error.message, "INTERNAL_ERROR")); /* nghttp2's word */
        if (client)
            end_close(&p.client);
        else
            assert_int_equal(p.client.error.status, LH_ERR_NO_MEMORY);
        if (server)
            end_close(&p.server);
        else
            assert_int_equal(p.server.error.status, LH_ERR_NO_MEMORY);
        if (!failed)
            assert_int_equal(p.client.streams[0].http_status, 200);
    }
    print_message("%zu allocations failed one by one\n", n - 2);
    assert_true(n > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_gets_its_response),
        cmocka_unit_test(bytes_may_come_singly),
        cmocka_unit_test(a_pulled_body_is_asked_for_as_it_can_leave),
        cmocka_unit_test(a_pulled_body_that_fails_resets_its_stream_alone),
        cmocka_unit_test(a_cancelled_body_is_not_pulled_any_more),
        cmocka_unit_test(an_early_answer_stops_the_body),
        cmocka_unit_test(a_neglected_request_is_reset),
        cmocka_unit_test(headers_may_be_16_kib_by_default),
        cmocka_unit_test(bad_headers_are_not_sent),
        cmocka_unit_test(a_request_has_64_headers_at_most),
        cmocka_unit_test(a_response_has_64_headers_at_most),
        cmocka_unit_test(too_many_requests_are_busy),
        cmocka_unit_test(urgent_overtakes_and_bulk_stays_in_order),
        cmocka_unit_test(frames_may_be_small),
        cmocka_unit_test(a_cancelled_head_passes_its_turn_on),
        cmocka_unit_test(a_full_window_holds_up_only_its_class),
        cmocka_unit_test(responses_share_the_connection),
        cmocka_unit_test(whatever_is_to_be_sent_wakes_the_owner),
        cmocka_unit_test(unconsumed_bytes_stop_the_sender),
        cmocka_unit_test(an_unwanted_body_goes_by),
        cmocka_unit_test(a_closed_stream_gives_its_window_back),
        cmocka_unit_test(cancelled_before_it_left),
        cmocka_unit_test(a_reset_reaches_the_other_side),
        cmocka_unit_test(what_was_cancelled_takes_nothing_more),
        cmocka_unit_test(failing_closes_all_once),
        cmocka_unit_test(late_requests_are_refused),
        cmocka_unit_test(pings_are_answered),
        cmocka_unit_test(a_reply_says_what_it_is),
        cmocka_unit_test(limits_are_told_first),
        cmocka_unit_test(a_reset_tells_its_status_by_the_code),
        cmocka_unit_test(a_response_is_reported_once),
        cmocka_unit_test(what_the_peer_complains_of_is_passed_on),
        cmocka_unit_test(bodies_may_be_of_any_protocol),
        cmocka_unit_test(wrong_protocols_are_named),
        cmocka_unit_test(rapid_resets_close_the_connection),
        cmocka_unit_test(resets_of_answered_streams_are_free),
        cmocka_unit_test(resets_of_streams_that_ended_are_free),
        cmocka_unit_test(our_own_resets_are_no_faults),
        cmocka_unit_test(faults_close_the_connection),
        cmocka_unit_test(floods_close_the_connection),
        cmocka_unit_test(last_words_name_the_last_request_and_the_fault),
        cmocka_unit_test(a_fault_is_explained),
        cmocka_unit_test(refusals_that_nobody_reads_are_bounded),
        cmocka_unit_test(malformed_frames_end_the_session),
        cmocka_unit_test(endless_headers_close_the_connection),
        cmocka_unit_test(bad_requests_reach_no_user),
        cmocka_unit_test(a_request_for_no_path_gets_400),
        cmocka_unit_test(unfinished_headers_show),
        cmocka_unit_test(a_table_does_not_amplify),
        cmocka_unit_test(trailers_have_the_same_bound),
        cmocka_unit_test(answers_have_the_same_bound),
        cmocka_unit_test(there_is_no_table_after_the_acknowledgement),
        cmocka_unit_test(headers_may_not_come_for_ever),
        cmocka_unit_test(ignored_headers_may_not_come_for_ever),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
