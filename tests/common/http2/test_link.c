/* What a client learns of loopback, where nothing is ever on its way for long. */
#include "tests/common/support/h2_fixture.h"

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
    assert_true(link.bytes_sent > 8 << 20);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_knows_its_link),
        cmocka_unit_test(estimates_survive_the_connection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
