/* What a client learns of loopback, where nothing is ever on its way for long; and a link whose far
 * end does not read. */
#include "tests/common/support/h2_fixture.h"
#include "tests/common/support/raw_peer.h"
#include "tests/support/loop.h"

#include "common/base/clock.h"
#include "common/http2/link.h"
#include "tests/support/failing_malloc.h"

#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void send_bulk(fixture *f, size_t bytes) {
    record r;
    lh_h2_stream *stream = fixture_submit(f, "/bulk", 1, &r);
    assert_int_equal(lh_h2_stream_write_owned(stream, calloc(1, bytes), bytes), LH_OK);
    lh_h2_stream_end(stream);
    fixture_run_until(f, &r.closes, 1, 20000);
    assert_int_equal(r.received, bytes);
}

static void a_client_knows_its_link(void **state) {
    (void)state;
    fixture f;
    lh_h2_client_link link;
    fixture_open(&f, NULL, NULL, NULL);
    send_bulk(&f, 8 << 20);
    lh_h2_client_read_link(f.client, &link);
    assert_true(link.ready_bytes >= 10 * 1000);
    assert_in_range(link.bytes_sent, 8 << 20, 9 << 20);
    assert_in_range(link.estimate.round_trip_us, 1, 1000000);
    assert_true(link.estimate.age_us >= 0);
    fixture_close(&f);
}

/* The next connection goes on from what this one knew. */
static void estimates_survive_the_connection(void **state) {
    (void)state;
    fixture f;
    lh_h2_client_link before, down, after;
    char listen[32];
    lh_h2_limits limits = lh_h2_default_limits();
    limits.ping_interval_ms = 0; /* but the first one of each connection */
    fixture_open(&f, &limits, NULL, NULL);
    send_bulk(&f, 1 << 20);
    lh_h2_client_read_link(f.client, &before);
    snprintf(listen, sizeof listen, "127.0.0.1:%d", lh_h2_server_port(f.server));
    int changes = f.state_changes;
    lh_h2_server_close(f.server, NULL, NULL);
    fixture_run_until(&f, &f.state_changes, changes + 1, 5000);
    lh_h2_client_read_link(f.client, &down);
    assert_int_equal(down.ready_bytes, 0);
    assert_int_equal(down.estimate.round_trip_us, before.estimate.round_trip_us);
    fixture_listen(&f, listen, NULL);
    while (!f.connected)
        uv_run(&f.loop, UV_RUN_ONCE);
    send_bulk(&f, 1 << 20);
    lh_h2_client_read_link(f.client, &after);
    assert_true(after.ready_bytes > 0);
    assert_true(after.bytes_sent > before.bytes_sent);
    fixture_close(&f);
}

/* ---- A link of its own ---- */

/* A connection to a peer that says no more than its SETTINGS, and does not read. */
typedef struct clogged {
    uv_loop_t loop;
    raw_peer peer;
    lh_h2_transport *transport, *list;
    lh_h2_link link;
    lh_h2_limits limits;
    bool is_ready, is_down;
    int64_t sampled_us;
    int samples;
} clogged;

static void on_ready(void *owner, lh_h2_transport *transport) {
    clogged *c = owner;
    c->is_ready = true;
    lh_h2_link_attach(&c->link, transport);
}

static void on_change(void *owner, lh_h2_transport *transport) {
    clogged *c = owner;
    if (transport->ready)
        lh_h2_link_on_pumped(&c->link, false);
    if (c->link.sampled_us != 0)
        uv_stop(&c->loop); /* the turn would wait for the next sample */
}

static void on_down(void *owner, lh_h2_transport *transport, lh_status status, const char *reason) {
    (void)transport;
    (void)status;
    (void)reason;
    clogged *c = owner;
    c->is_down = true;
    lh_h2_link_attach(&c->link, NULL);
}

static void on_released(void *owner, lh_h2_transport *transport) {
    (void)owner;
    (void)transport;
}

/* Its segments and its window are small, so that little is under way. */
static void open_clogged_until(clogged *c, int64_t dead_after_ms) {
    int segment_bytes = 536, buffer_bytes = 2 << 10, listener;
    struct sockaddr_in address;
    memset(c, 0, sizeof *c);
    c->limits = lh_h2_default_limits();
    c->limits.ping_interval_ms = 0;
    c->limits.dead_after_ms = c->limits.connect_timeout_ms = dead_after_ms;
    uv_loop_init(&c->loop);
    c->peer.deaf = true;
    int port = raw_peer_listen(&c->peer, &c->loop, raw_server_greeting, sizeof raw_server_greeting);
    uv_fileno((uv_handle_t *)&c->peer.listener, &listener);
    setsockopt(listener, IPPROTO_TCP, TCP_MAXSEG, &segment_bytes, sizeof segment_bytes);
    setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
    lh_h2_transport_config config = {.loop = &c->loop,
                                     .limits = &c->limits,
                                     .role = LH_H2_CLIENT,
                                     .authority = "test",
                                     .on_ready = on_ready,
                                     .on_change = on_change,
                                     .on_down = on_down,
                                     .on_released = on_released,
                                     .owner = c,
                                     .list = &c->list};
    lh_h2_link_open(&c->link, &c->loop);
    assert_int_equal(lh_h2_transport_create(&config, &c->transport, NULL), LH_OK);
    uv_ip4_addr("127.0.0.1", port, &address);
    lh_h2_transport_connect(c->transport, (struct sockaddr *)&address);
    loop_run_until_set(&c->loop, &c->is_ready);
}

static void open_clogged(clogged *c) {
    open_clogged_until(c, 2000);
}

static void note_closed(uv_handle_t *handle) {
    loop_set_flag(handle->data);
}

static void close_clogged(clogged *c) {
    bool is_closed = false;
    lh_h2_transport_close(c->transport, LH_ERR_TIMEOUT, "enough");
    loop_run_until_set(&c->loop, &c->is_down);
    lh_h2_link_close(&c->link, note_closed, &is_closed);
    raw_peer_close(&c->peer);
    uv_run(&c->loop, UV_RUN_DEFAULT);
    assert_true(is_closed);
    assert_null(c->list);
    assert_int_equal(uv_loop_close(&c->loop), 0);
}

static void write_bytes(clogged *c, record *r, size_t bytes) {
    memset(r, 0, sizeof *r);
    assert_int_equal(lh_h2_session_submit(c->transport->session, "POST", "/", NULL, 0, 1,
                                          &record_events, r, &r->stream, NULL),
                     LH_OK);
    assert_int_equal(lh_h2_stream_write_owned(r->stream, calloc(1, bytes), bytes), LH_OK);
}

static void write_bulk(clogged *c, record *r) {
    write_bytes(c, r, 20000);
}

static bool has_sampled(void *context) {
    const clogged *c = context;
    return c->link.sampled_us != 0;
}

/* What waits in the kernel beyond the window is more than it sends in a round trip. */
static void no_more_than_the_window_waits_in_the_kernel(void **state) {
    (void)state;
    static clogged c;
    record r;
    open_clogged(&c);
    assert_int_equal(c.transport->output.unsent_bytes_max, 32 << 10);
    write_bulk(&c, &r);
    assert_true(loop_run_until(&c.loop, has_sampled, &c, 20000));
    assert_in_range(c.transport->output.unsent_bytes_max, 536, 20 * 536);
    close_clogged(&c);
}

/* The connection has nothing more to say: the link's own timer takes the samples from here. */
static bool has_sampled_more(void *context) {
    clogged *c = context;
    if (c->link.sampled_us != c->sampled_us)
        c->samples++;
    c->sampled_us = c->link.sampled_us;
    return c->samples >= 5;
}

/* The peer reads what has come, after all. */
static void read_all(const clogged *c) {
    char bytes[4096];
    int descriptor;
    uv_fileno((uv_handle_t *)c->peer.tcp, &descriptor);
    while (recv(descriptor, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
}

static bool is_at_rest(void *context) {
    const clogged *c = context;
    read_all(c);
    return !c->link.is_busy;
}

static void bulk_is_watched_until_it_has_gone(void **state) {
    (void)state;
    static clogged c;
    record r;
    open_clogged(&c);
    assert_false(uv_is_active((uv_handle_t *)&c.link.timer));
    write_bulk(&c, &r);
    assert_true(loop_run_until(&c.loop, has_sampled_more, &c, 20000));
    assert_true(c.transport->dry && c.link.is_busy);
    assert_int_equal(c.link.meter.mark_count, 1); /* where the connection ran dry */
    assert_true(loop_run_until(&c.loop, is_at_rest, &c, 20000));
    assert_false(uv_is_active((uv_handle_t *)&c.link.timer));
    close_clogged(&c);
}

static bool has_ticked(void *context) {
    const clogged *c = context;
    return c->transport->liveness.age_ms > 0;
}

/* Neither headers nor bytes are under way: nothing counts against it. */
static void a_connection_that_rests_has_no_deadline(void **state) {
    (void)state;
    static clogged c;
    open_clogged(&c);
    assert_true(loop_run_until(&c.loop, has_ticked, &c, 20000));
    assert_int_equal(c.transport->liveness.headers_ms, 0);
    assert_int_equal(c.transport->liveness.stalled_ms, 0);
    close_clogged(&c);
}

static bool counts_anew(void *context) {
    const clogged *c = context;
    read_all(c);
    return c->transport->liveness.stalled_ms == 0;
}

/* Its peer reads now and then. (No tick comes meanwhile, which might count anew, too.) */
static void a_slow_reader_is_not_given_up(void **state) {
    (void)state;
    static clogged c;
    record r;
    open_clogged_until(&c, 3600000);
    write_bytes(&c, &r, 60000);
    assert_true(loop_run_until(&c.loop, has_sampled, &c, 20000));
    c.transport->liveness.stalled_ms = 29999;
    assert_true(loop_run_until(&c.loop, counts_anew, &c, 20000));
    close_clogged(&c);
}

/* Of few bytes a sample tells nothing, and of one that was just taken the next tells the same. */
static void samples_are_of_much_and_apart(void **state) {
    (void)state;
    static clogged c;
    open_clogged(&c);
    c.link.acked_bytes = c.transport->output.bytes_sent + 1;
    c.link.sampled_us = 5;
    lh_h2_link_on_pumped(&c.link, false);
    assert_int_equal(c.link.sampled_us, 5);
    int64_t later_us = c.link.sampled_us = lh_clock_us() + 60000000;
    c.transport->output.bytes_sent += 1 << 30;
    lh_h2_link_on_pumped(&c.link, false);
    assert_true(c.link.sampled_us == later_us);
    c.link.sampled_us = 5;
    lh_h2_link_on_pumped(&c.link, false);
    assert_true(c.link.sampled_us > 5);
    close_clogged(&c);
}

static void without_memory_there_is_no_connection(void **state) {
    (void)state;
    static clogged c;
    lh_h2_transport *transport, *list = NULL;
    lh_error error;
    const lh_h2_transport_config config = {
        .loop = &c.loop, .limits = &c.limits, .role = LH_H2_CLIENT, .list = &list};
    failing_malloc_arm(1);
    assert_int_equal(lh_h2_transport_create(&config, &transport, &error), LH_ERR_NO_MEMORY);
    assert_true(failing_malloc_disarm());
    assert_null(list);
}

static bool is_watched(void *context) {
    const clogged *c = context;
    return c->link.is_busy && uv_is_active((const uv_handle_t *)&c->link.timer);
}

/* The estimates stay; all else is the connection's. */
static void nothing_of_a_connection_outlives_it(void **state) {
    (void)state;
    static clogged c;
    record r;
    open_clogged(&c);
    lh_h2_link_on_round_trip(&c.link, 1234);
    write_bulk(&c, &r);
    assert_true(loop_run_until(&c.loop, is_watched, &c, 20000));
    int64_t least_us;
    assert_true(lh_h2_link_read_window(&c.link, &least_us) > 0);
    assert_true(least_us > 0);
    lh_h2_link_attach(&c.link, NULL);
    assert_false(c.link.is_busy || uv_is_active((uv_handle_t *)&c.link.timer));
    assert_int_equal(lh_h2_link_read_window(&c.link, &least_us), 0);
    assert_int_equal(least_us, 0);
    lh_h2_link_attach(&c.link, c.transport);
    assert_int_equal(c.link.sampled_us, 0);
    assert_int_equal(c.link.acked_bytes, 0);
    assert_int_equal(c.link.meter.mark_count, 0);
    assert_int_equal(c.link.unsent_bytes, 32 << 10);
    assert_int_equal(c.link.frame_bytes, 16 << 10);
    assert_int_equal(lh_link_meter_read(&c.link.meter, 0).round_trip_us, 1234);
    close_clogged(&c);
}

/* A meter that learned so much of this link so long ago; no rate: nothing. */
static void teach(lh_link_meter *meter, double bytes_per_us, int64_t round_trip_us,
                  int64_t age_us) {
    *meter = (lh_link_meter){.slots = {{bytes_per_us * 1e6, 1000000, lh_clock_us() - age_us}},
                             .slot_count = bytes_per_us > 0,
                             .slot_next = 1};
    lh_link_meter_round_trip(meter, lh_clock_us(), round_trip_us, false);
}

/* Until the second sample, where the first one finds bulk that has just left. */
static uint64_t second_sample_ms(double bytes_per_us, int64_t round_trip_us, int64_t age_us) {
    static clogged c;
    record r;
    open_clogged(&c);
    teach(&c.link.meter, bytes_per_us, round_trip_us, age_us);
    write_bulk(&c, &r);
    assert_true(loop_run_until(&c.loop, has_sampled, &c, 20000));
    assert_true(c.link.is_busy);
    uint64_t due_ms = uv_timer_get_due_in(&c.link.timer);
    close_clogged(&c);
    return due_ms;
}

/* Nothing can be acknowledged before a round trip, and it may have got shorter; then every
 * millisecond counts, unless the rate is known. */
static void samples_are_taken_when_they_tell_something(void **state) {
    (void)state;
    assert_in_range(second_sample_ms(1, 100000, 0), 50, 99);
    assert_in_range(second_sample_ms(1, 1000000, 0), 150, 200);
    assert_in_range(second_sample_ms(0, 0, 0), 0, 1);
    assert_in_range(second_sample_ms(1, 10, 2000000), 0, 1);
    assert_in_range(second_sample_ms(1, 10, 0), 1, 2); /* in slow start pauses must be seen */
}

/* Of the first DATA frame that the session would send. */
static uint32_t next_frame_bytes(clogged *c) {
    uint8_t bytes[32 << 10];
    size_t length, at = 0;
    assert_int_equal(lh_h2_session_pull(c->transport->session, bytes, sizeof bytes, &length, NULL),
                     LH_OK);
    while (at + 9 <= length) {
        uint32_t payload = (uint32_t)bytes[at] << 16 | (uint32_t)bytes[at + 1] << 8 | bytes[at + 2];
        if (bytes[at + 3] == 0)
            return payload;
        at += 9 + payload;
    }
    return 0;
}

/* What is on its way for 8 ms may wait in the kernel, and a frame is of 4 ms, within bounds. */
static void the_pace_is_the_rates(void **state) {
    (void)state;
    static const struct {
        double bytes_per_us;
        uint32_t unsent_bytes, frame_bytes;
    } cases[] = {{0.1, 4 << 10, 2 << 10}, /* at least */
                 {1, 8000, 4000},
                 {2, 16000, 8000},
                 {1000, 32 << 10, 16 << 10}}; /* at most; and what a new window lets through */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static clogged c;
        record r;
        open_clogged(&c);
        teach(&c.link.meter, cases[i].bytes_per_us, 10, 0);
        lh_h2_link_attach(&c.link, c.transport);
        assert_int_equal(c.link.unsent_bytes, cases[i].unsent_bytes);
        assert_int_equal(c.link.frame_bytes, cases[i].frame_bytes);
        assert_int_equal(c.transport->output.unsent_bytes_max, cases[i].unsent_bytes);
        write_bulk(&c, &r);
        assert_int_equal(next_frame_bytes(&c), cases[i].frame_bytes);
        close_clogged(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_knows_its_link),
        cmocka_unit_test(estimates_survive_the_connection),
        cmocka_unit_test(no_more_than_the_window_waits_in_the_kernel),
        cmocka_unit_test(bulk_is_watched_until_it_has_gone),
        cmocka_unit_test(a_connection_that_rests_has_no_deadline),
        cmocka_unit_test(a_slow_reader_is_not_given_up),
        cmocka_unit_test(samples_are_of_much_and_apart),
        cmocka_unit_test(without_memory_there_is_no_connection),
        cmocka_unit_test(nothing_of_a_connection_outlives_it),
        cmocka_unit_test(samples_are_taken_when_they_tell_something),
        cmocka_unit_test(the_pace_is_the_rates),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
