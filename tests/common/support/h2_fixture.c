#include "tests/common/support/h2_fixture.h"

#include "common/base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

uint64_t fnv1a(uint64_t hash, const void *bytes, size_t length) {
    const uint8_t *p = bytes;
    if (hash == 0)
        hash = 14695981039346656037u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ p[i]) * 1099511628211u;
    return hash;
}

/* ---- Records ---- */

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    record *r = context;
    assert_ptr_equal(r->stream, stream);
    assert_int_equal(r->http_status, 0);
    r->http_status = http_status;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    record *r = context;
    assert_int_equal(r->closes, 0);
    if (r->received == 0)
        r->first_us = lh_clock_us();
    r->last_us = lh_clock_us();
    r->received += length;
    r->hash = fnv1a(r->hash, bytes, length);
    if (r->echo && lh_h2_stream_write(stream, bytes, length) != LH_OK) {
        assert_true(r->owner->may_fail);
        lh_h2_stream_cancel(stream);
    }
    if (r->hold)
        r->held += length;
    else
        lh_h2_stream_consume(stream, length);
}

static void on_end(lh_h2_stream *stream, void *context) {
    record *r = context;
    assert_int_equal(r->closes, 0);
    r->ends++;
    if (r->echo)
        lh_h2_stream_end(stream);
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    record *r = context;
    assert_ptr_equal(r->stream, stream);
    r->stream = NULL;
    r->closes++;
    r->status = status;
}

const lh_h2_stream_events record_events = {on_response, on_body, on_end, on_closed};

record *record_accept(fixture *f, lh_h2_stream *stream, const char *path,
                      const lh_h2_stream_events **events, void **context) {
    record *r = calloc(1, sizeof *r);
    if (!r) { /* once, where the test lets allocations fail */
        assert_true(f->may_fail);
        r = calloc(1, sizeof *r);
    }
    assert_non_null(r);
    r->owner = f;
    r->stream = stream;
    snprintf(r->path, sizeof r->path, "%s", path);
    r->next = f->records;
    f->records = r;
    *events = &record_events;
    *context = r;
    return r;
}

/* ---- The server ---- */

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    fixture *f = context;
    f->requests++;
    if (f->on_request) {
        f->on_request(f, stream, request, events, stream_context);
        return;
    }
    if (lh_h2_stream_respond_headers(stream, 200, NULL, 0, false) != LH_OK) {
        assert_true(f->may_fail);
        return;
    }
    record_accept(f, stream, request->path, events, stream_context)->echo = true;
}

static void on_state(void *context, bool connected, const char *reason) {
    fixture *f = context;
    f->connected = connected;
    f->state_changes++;
    snprintf(f->reason, sizeof f->reason, "%s", reason);
}

void fixture_listen(fixture *f, const char *listen, const lh_tls_options *tls) {
    lh_error error;
    if (lh_h2_server_create(&f->loop, listen, tls, &f->limits, on_request, f, &f->server, &error) !=
        LH_OK)
        fail_msg("%s", error.message);
}

void fixture_open_server(fixture *f, const lh_h2_limits *limits, const lh_tls_options *tls) {
    memset(f, 0, sizeof *f);
    signal(SIGPIPE, SIG_IGN); /* as the programs do */
    f->limits = limits ? *limits : lh_h2_default_limits();
    assert_int_equal(uv_loop_init(&f->loop), 0);
    fixture_listen(f, "127.0.0.1:0", tls);
}

void fixture_open_client(fixture *f, const char *host, int port, const lh_tls_options *tls) {
    char address[300];
    lh_error error;
    snprintf(address, sizeof address, "%s:%d", host, port);
    if (lh_h2_client_create(&f->loop, address, tls, &f->limits, on_state, f, &f->client, &error) !=
        LH_OK)
        fail_msg("%s", error.message);
}

void fixture_open(fixture *f, const lh_h2_limits *limits, const lh_tls_options *tls_server,
                  const lh_tls_options *tls_client) {
    fixture_open_server(f, limits, tls_server);
    fixture_open_client(f, "127.0.0.1", lh_h2_server_port(f->server), tls_client);
    fixture_run_until(f, &f->state_changes, 1, 5000);
    if (!f->connected)
        fail_msg("not connected: %s", f->reason);
}

static void count_closed(void *context) {
    fixture *f = context;
    f->closed++;
}

void fixture_close(fixture *f) {
    int open = (f->server != NULL) + (f->client != NULL);
    if (f->client)
        lh_h2_client_close(f->client, count_closed, f);
    if (f->server)
        lh_h2_server_close(f->server, count_closed, f);
    assert_int_equal(uv_run(&f->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(f->closed, open);
    assert_int_equal(uv_loop_close(&f->loop), 0);
    while (f->records) {
        record *r = f->records;
        assert_int_equal(r->closes, 1);
        f->records = r->next;
        free(r);
    }
}

/* ---- Time ---- */

/* A turn of the loop may run its timers first and then wait for anything else that happens: uv_stop
 * keeps it from that. */
static void on_timer(uv_timer_t *timer) {
    *(bool *)timer->data = true;
    uv_stop(timer->loop);
}

static bool run(fixture *f, const int *flag, int value, int timeout_ms) {
    uv_timer_t timer;
    bool over = false;
    uv_timer_init(&f->loop, &timer);
    timer.data = &over;
    uv_update_time(&f->loop);
    uv_timer_start(&timer, on_timer, (uint64_t)timeout_ms, 0);
    while (!over && !(flag && *flag >= value))
        uv_run(&f->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&f->loop, UV_RUN_NOWAIT);
    return !over;
}

void fixture_run_until(fixture *f, const int *flag, int value, int timeout_ms) {
    if (!run(f, flag, value, timeout_ms))
        fail_msg("nothing happened within %d ms (%d of %d)", timeout_ms, *flag, value);
}

void fixture_run_for(fixture *f, int duration_ms) {
    run(f, NULL, 0, duration_ms);
}

lh_h2_stream *fixture_submit(fixture *f, const char *path, int send_class, record *r) {
    lh_error error;
    memset(r, 0, sizeof *r);
    r->owner = f;
    if (lh_h2_client_submit(f->client, "POST", path, NULL, 0, send_class, &record_events, r,
                            &r->stream, &error) != LH_OK)
        fail_msg("%s", error.message);
    return r->stream;
}
