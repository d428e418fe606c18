/* A client that probes, with a server that takes probes and one that does not. */
#include "tests/common/support/h2_fixture.h"

#include "common/http2/probe.h"
#include "common/net/link_warmup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int probes, others;

static void take(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                 const lh_h2_stream_events **events, void **stream_context) {
    (void)context;
    if (strcmp(request->path, LH_H2_PROBE_PATH) == 0) {
        probes++;
        lh_h2_probe_take(stream, events, stream_context);
    } else {
        others++;
        lh_h2_stream_respond(stream, 200, "{}");
    }
}

static void refuse(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                   const lh_h2_stream_events **events, void **stream_context) {
    (void)context;
    (void)request;
    (void)events;
    (void)stream_context;
    probes++;
    lh_h2_stream_respond(stream, 404, "no such path\n");
}

static void open_with(fixture *f, lh_h2_on_request *on_request, uint32_t percent,
                      lh_h2_limits *limits) {
    limits->probe_percent = percent;
    probes = others = 0;
    fixture_open_server(f, limits, NULL);
    f->on_request = on_request;
    fixture_open_client(f, "127.0.0.1", lh_h2_server_port(f->server), NULL);
    while (!f->connected)
        uv_run(&f->loop, UV_RUN_ONCE);
}

static void open_probing(fixture *f, lh_h2_on_request *on_request, uint32_t percent) {
    lh_h2_limits limits = lh_h2_default_limits();
    open_with(f, on_request, percent, &limits);
}

static uint64_t probe_bytes(const fixture *f) {
    lh_h2_client_link link;
    lh_h2_client_read_link(f->client, &link);
    return link.probe_bytes_sent;
}

static void a_new_connection_is_probed_and_then_left_alone(void **state) {
    (void)state;
    fixture f;
    lh_h2_client_link link;
    open_probing(&f, take, 1);
    fixture_run_for(&f, 1000);
    uint64_t bytes = probe_bytes(&f);
    assert_true(probes > 0);
    assert_in_range(bytes, LH_LINK_PROBE_BYTES_MIN, 16 << 20);
    lh_h2_client_read_link(f.client, &link);
    assert_true(link.estimate.bytes_per_us > 1);
    assert_true(link.bytes_sent > bytes);
    int before = probes;
    fixture_run_for(&f, 500);
    assert_int_equal(probes, before);
    assert_true(probe_bytes(&f) == bytes);
    fixture_close(&f);
}

static void a_probe_that_is_done_is_followed_at_once(void **state) {
    (void)state;
    fixture f;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.ping_interval_ms = 0; /* without a round trip nothing is known, and probes go on */
    open_with(&f, take, 1, &limits);
    fixture_run_until(&f, &probes, 8, 5000); /* 16 KiB, doubled up to 2 MiB */
    fixture_close(&f);
}

static void reset(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                  const lh_h2_stream_events **events, void **stream_context) {
    (void)context;
    (void)request;
    (void)events;
    (void)stream_context;
    probes++;
    lh_h2_stream_cancel(stream);
}

static void a_probe_that_is_reset_is_not_followed_at_once(void **state) {
    (void)state;
    fixture f;
    open_probing(&f, reset, 1);
    fixture_run_until(&f, &probes, 1, 2000);
    fixture_run_for(&f, 100);
    assert_int_equal(probes, 1);
    fixture_run_until(&f, &probes, 2, 5000);
    fixture_close(&f);
}

static void without_a_budget_nothing_is_sent(void **state) {
    (void)state;
    fixture f;
    open_probing(&f, take, 0);
    lh_h2_client_expect_bulk(f.client, true);
    fixture_run_for(&f, 300);
    assert_int_equal(probes, 0);
    assert_int_equal(probe_bytes(&f), 0);
    fixture_close(&f);
}

static void a_peer_that_takes_none_is_asked_once(void **state) {
    (void)state;
    fixture f;
    open_probing(&f, refuse, 1);
    fixture_run_for(&f, 1500);
    assert_int_equal(probes, 1);
    fixture_close(&f);
}

/* What is to be sent goes before the rest of a probe, and ends it. */
static void bulk_ends_a_probe(void **state) {
    (void)state;
    fixture f;
    record r;
    open_probing(&f, take, 1);
    lh_h2_stream *stream = fixture_submit(&f, "/bulk", 1, &r);
    lh_h2_client_expect_bulk(f.client, true);
    while (probe_bytes(&f) == 0)
        uv_run(&f.loop, UV_RUN_ONCE);
    lh_h2_client_expect_bulk(f.client, false);
    lh_h2_stream_end(stream);
    fixture_run_until(&f, &r.closes, 1, 2000);
    assert_int_equal(r.status, LH_OK);
    assert_int_equal(others, 1);
    fixture_close(&f);
}

/* The third probe gets no window: it hangs in the middle. */
static void hold_the_third(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                           const lh_h2_stream_events **events, void **stream_context) {
    if (++probes < 3)
        lh_h2_probe_take(stream, events, stream_context);
    else
        record_accept(context, stream, request->path, events, stream_context)->hold = true;
}

static void bulk_ends_a_probe_in_its_middle(void **state) {
    (void)state;
    enum { WINDOW = 1 << 14, QUEUED = 32 << 10 }; /* of a probe of 64 KiB */
    fixture f;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.window_bytes = WINDOW;
    limits.ping_interval_ms = 0;
    open_with(&f, hold_the_third, 1, &limits);
    fixture_run_until(&f, &probes, 3, 5000);
    record *third = f.records;
    while (third->received < WINDOW)
        uv_run(&f.loop, UV_RUN_ONCE);
    fixture_run_for(&f, 1); /* and the connection is fed once more */
    lh_h2_client_expect_bulk(f.client, false);
    while (third->ends == 0) {
        lh_h2_stream_consume(third->stream, third->held);
        third->held = 0;
        uv_run(&f.loop, UV_RUN_ONCE);
    }
    assert_in_range(third->received, WINDOW + 1, WINDOW + QUEUED);
    assert_int_equal(third->received, probe_bytes(&f) - (48 << 10));
    lh_h2_stream_respond(third->stream, 200, "{}");
    fixture_close(&f);
}

/* The client may go in the midst of a probe, and so may the server. */
static void either_side_may_close_meanwhile(void **state) {
    (void)state;
    fixture f;
    open_probing(&f, take, 1);
    while (probe_bytes(&f) == 0)
        uv_run(&f.loop, UV_RUN_ONCE);
    fixture_close(&f);
    open_probing(&f, take, 1);
    while (probe_bytes(&f) == 0)
        uv_run(&f.loop, UV_RUN_ONCE);
    int changes = f.state_changes;
    lh_h2_server_close(f.server, NULL, NULL);
    f.server = NULL;
    fixture_run_until(&f, &f.state_changes, changes + 1, 5000);
    fixture_close(&f);
}

static void a_probe_beyond_the_limit_is_refused(void **state) {
    (void)state;
    fixture f;
    record r;
    size_t bytes = LH_LINK_PROBE_BYTES_MAX + 1;
    open_probing(&f, take, 0);
    lh_h2_stream *stream = fixture_submit(&f, LH_H2_PROBE_PATH, 1, &r);
    assert_int_equal(lh_h2_stream_write_owned(stream, calloc(1, bytes), bytes), LH_OK);
    lh_h2_stream_end(stream);
    fixture_run_until(&f, &r.closes, 1, 5000);
    assert_int_equal(r.http_status, 413);
    stream = fixture_submit(&f, LH_H2_PROBE_PATH, 1, &r);
    assert_int_equal(lh_h2_stream_write(stream, "0123456789", 10), LH_OK);
    lh_h2_stream_end(stream);
    fixture_run_until(&f, &r.closes, 1, 5000);
    assert_int_equal(r.http_status, 200);
    assert_true(r.hash == fnv1a(0, "{\"bytes\": 10}", 13));
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_connection_is_probed_and_then_left_alone),
        cmocka_unit_test(a_probe_that_is_done_is_followed_at_once),
        cmocka_unit_test(a_probe_that_is_reset_is_not_followed_at_once),
        cmocka_unit_test(without_a_budget_nothing_is_sent),
        cmocka_unit_test(a_peer_that_takes_none_is_asked_once),
        cmocka_unit_test(bulk_ends_a_probe),
        cmocka_unit_test(bulk_ends_a_probe_in_its_middle),
        cmocka_unit_test(either_side_may_close_meanwhile),
        cmocka_unit_test(a_probe_beyond_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
