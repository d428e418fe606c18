/* A client that probes, with a server that takes probes and one that does not. */
#include "tests/common/support/h2_fixture.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/loop.h"

#include "common/base/clock.h"
#include "common/http2/probe.h"
#include "common/http2/prober.h"
#include "common/net/link_warmup.h"

#include <netinet/tcp.h>
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

/* ---- A prober of its own ---- */

typedef struct lone {
    fixture f;
    lh_h2_transport *transport, *list;
    lh_h2_prober prober;
    bool is_ready, is_down;
    int closed;
} lone;

static void on_ready(void *owner, lh_h2_transport *transport) {
    lone *l = owner;
    (void)transport;
    l->is_ready = true;
}

static void on_down(void *owner, lh_h2_transport *transport, lh_status status, const char *reason) {
    lone *l = owner;
    (void)transport;
    (void)status;
    (void)reason;
    lh_h2_prober_attach(&l->prober, NULL);
    l->is_down = true;
}

static void on_change(void *owner, lh_h2_transport *transport) {
    lone *l = owner;
    if (l->prober.link.transport == transport)
        lh_h2_prober_on_pumped(&l->prober);
}

static void on_released(void *owner, lh_h2_transport *transport) {
    (void)owner;
    (void)transport;
}

static void lone_open(lone *l) {
    struct sockaddr_in address;
    lh_h2_limits limits = lh_h2_default_limits();
    limits.probe_percent = 1;
    memset(l, 0, sizeof *l);
    probes = others = 0;
    fixture_open_server(&l->f, &limits, NULL);
    l->f.on_request = take;
    lh_h2_transport_config config = {.loop = &l->f.loop,
                                     .limits = &l->f.limits,
                                     .role = LH_H2_CLIENT,
                                     .authority = "test",
                                     .on_ready = on_ready,
                                     .on_change = on_change,
                                     .on_down = on_down,
                                     .on_released = on_released,
                                     .owner = l,
                                     .list = &l->list};
    assert_int_equal(lh_h2_transport_create(&config, &l->transport, NULL), LH_OK);
    uv_ip4_addr("127.0.0.1", lh_h2_server_port(l->f.server), &address);
    lh_h2_transport_connect(l->transport, (struct sockaddr *)&address);
    loop_run_until_set(&l->f.loop, &l->is_ready);
    lh_h2_prober_open(&l->prober, &l->f.loop, &l->f.limits);
}

static void count_closed(uv_handle_t *handle) {
    ((lone *)handle->data)->closed++;
}

static void lone_close(lone *l) {
    if (l->list)
        lh_h2_transport_close(l->transport, LH_ERR_CLOSED, "enough");
    loop_run_until_set(&l->f.loop, &l->is_down);
    lh_h2_prober_close(&l->prober, count_closed, l);
    fixture_close(&l->f);
    assert_int_equal(l->closed, 2);
}

/* 80 Mbit/s. */
static void teach(lh_h2_prober *prober, int64_t round_trip_us) {
    prober->link.meter =
        (lh_link_meter){.slots = {{1e7, 1000000, lh_clock_us()}}, .slot_count = 1, .slot_next = 1};
    lh_h2_link_on_round_trip(&prober->link, round_trip_us);
}

/* A PING that was answered late, by a peer that was busy, does not make the way long: the kernel
 * knows better, and for so short a way the first window is enough. */
static void a_late_answer_is_no_long_way(void **state) {
    (void)state;
    static lone l;
    lone_open(&l);
    teach(&l.prober, 1000000);
    lh_h2_prober_attach(&l.prober, l.transport);
    fixture_run_for(&l.f, 50);
    assert_int_equal(probes, 0);
    assert_false(lh_link_warmup_is_waiting(&l.prober.warmup));
    assert_false(uv_is_active((uv_handle_t *)&l.prober.timer));
    lone_close(&l);
}

/* While the connection is in use the prober looks again after a moment; without a budget it waits
 * longer; and without a connection it rests. */
static void a_probe_waits_for_its_moment(void **state) {
    (void)state;
    static lone l;
    lone_open(&l);
    lh_h2_prober_attach(&l.prober, l.transport);
    l.prober.link.is_busy = true;
    fixture_run_for(&l.f, 1);
    assert_int_equal(probes, 0);
    assert_true(uv_is_active((uv_handle_t *)&l.prober.timer));
    assert_in_range(uv_timer_get_due_in(&l.prober.timer), 0, 10);
    l.prober.link.is_busy = false;
    l.prober.link.meter = (lh_link_meter){.bound = 10};
    l.prober.warmup.spent_us = 1e12;
    l.prober.warmup.counted_us = lh_clock_us();
    fixture_run_for(&l.f, 50);
    assert_int_equal(probes, 0);
    assert_in_range(uv_timer_get_due_in(&l.prober.timer), 100, 1000);
    lh_h2_prober_attach(&l.prober, NULL);
    assert_false(uv_is_active((uv_handle_t *)&l.prober.timer));
    lone_close(&l);
}

static bool has_left_its_stream(void *context) {
    return !((const lone *)context)->prober.stream;
}

/* Whether the n-th allocation from a probe's beginning on was that of its first bytes: then its
 * stream is reset, since it will not end. If it was one before, there is no stream. */
static bool is_given_up_without(size_t n) {
    static lone l;
    lone_open(&l);
    lh_h2_prober_attach(&l.prober, l.transport);
    failing_malloc_arm(n);
    uv_run(&l.f.loop, UV_RUN_NOWAIT);
    bool has_failed = failing_malloc_disarm();
    bool is_given_up = has_failed && l.prober.is_ended && l.prober.sent_bytes == 0;
    if (has_failed && !l.prober.stream && !l.transport->closing) /* another one comes later */
        assert_in_range(uv_timer_get_due_in(&l.prober.timer), 100, 1000);
    if (is_given_up)
        assert_true(loop_run_until(&l.f.loop, has_left_its_stream, &l, 20000));
    lone_close(&l);
    return is_given_up;
}

static void a_probe_without_memory_is_given_up(void **state) {
    (void)state;
    bool is_given_up = false;
    for (size_t n = 1; n < 100 && !is_given_up; n++)
        is_given_up = is_given_up_without(n);
    assert_true(is_given_up);
}

static void read_congestion_control(const lone *l, char name[16]) {
    socklen_t length = 16;
    assert_int_equal(getsockopt(lh_h2_output_descriptor(&l->transport->output), IPPROTO_TCP,
                                TCP_CONGESTION, name, &length),
                     0);
}

static bool has_ended_a_probe(void *context) {
    const lone *l = context;
    return probes > 0 && !l->prober.stream;
}

/* It is another one while a probe opens the window, where the kernel allows that. */
static void a_probe_leaves_the_congestion_control_as_it_was(void **state) {
    (void)state;
    static lone l;
    char before[16], after[16];
    lone_open(&l);
    read_congestion_control(&l, before);
    lh_h2_prober_attach(&l.prober, l.transport);
    assert_true(loop_run_until(&l.f.loop, has_ended_a_probe, &l, 20000));
    assert_true(l.prober.link.sampled_us > 0); /* what it sent was looked at */
    read_congestion_control(&l, after);
    assert_string_equal(after, before);
    lone_close(&l);
}

/* ---- Bulk ---- */

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
    assert_int_equal(lh_h2_stream_write_owned(stream, calloc(1, bytes - 1), bytes - 1), LH_OK);
    lh_h2_stream_end(stream);
    fixture_run_until(&f, &r.closes, 1, 5000);
    assert_int_equal(r.http_status, 200);
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
        cmocka_unit_test(a_late_answer_is_no_long_way),
        cmocka_unit_test(a_probe_waits_for_its_moment),
        cmocka_unit_test(a_probe_without_memory_is_given_up),
        cmocka_unit_test(a_probe_leaves_the_congestion_control_as_it_was),
        cmocka_unit_test(bulk_ends_a_probe),
        cmocka_unit_test(bulk_ends_a_probe_in_its_middle),
        cmocka_unit_test(either_side_may_close_meanwhile),
        cmocka_unit_test(a_probe_beyond_the_limit_is_refused),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
