/* Server and client over loopback sockets, without TLS. */
#include "tests/common/support/h2_fixture.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void one_request_is_echoed(void **state) {
    (void)state;
    fixture f;
    record r;
    fixture_open(&f, NULL, NULL, NULL);
    lh_h2_stream *stream = fixture_submit(&f, "/echo?x=1", 0, &r);
    assert_int_equal(lh_h2_stream_write(stream, "hello ", 6), LH_OK);
    assert_int_equal(lh_h2_stream_write_owned(stream, strdup("world"), 5), LH_OK);
    lh_h2_stream_end(stream);
    fixture_run_until(&f, &r.closes, 1, 2000);
    assert_int_equal(r.status, LH_OK);
    assert_int_equal(r.http_status, 200);
    assert_int_equal(r.ends, 1);
    assert_true(r.hash == fnv1a(0, "hello world", 11));
    assert_string_equal(f.records->path, "/echo");
    lh_h2_client_link link;
    lh_h2_client_read_link(f.client, &link);
    assert_true(link.estimate.round_trip_us > 0);
    fixture_close(&f);
}

static void many_requests_in_sequence(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, NULL, NULL, NULL);
    int64_t begin_us = lh_clock_us();
    for (int i = 0; i < 1000; i++) {
        record r;
        lh_h2_stream *stream = fixture_submit(&f, "/echo", i & 1, &r);
        lh_h2_stream_write(stream, &i, sizeof i);
        lh_h2_stream_end(stream);
        fixture_run_until(&f, &r.closes, 1, 2000);
        assert_int_equal(r.status, LH_OK);
        assert_int_equal(r.received, sizeof i);
    }
    print_message("%.0f requests/s in sequence\n", 1e9 / (double)(lh_clock_us() - begin_us));
    fixture_close(&f);
}

static void a_large_body_goes_both_ways(void **state) {
    (void)state;
    enum { PIECE = 1 << 20, PIECES = 100 };
    fixture f;
    record r;
    fixture_open(&f, NULL, NULL, NULL);
    lh_h2_stream *stream = fixture_submit(&f, "/echo", 1, &r);
    uint64_t hash = 0;
    int64_t begin_us = lh_clock_us();
    for (int i = 0; i < PIECES; i++) {
        uint8_t *piece = malloc(PIECE);
        for (int k = 0; k < PIECE; k++)
            piece[k] = (uint8_t)(k * 7 + i);
        hash = fnv1a(hash, piece, PIECE);
        assert_int_equal(lh_h2_stream_write_owned(stream, piece, PIECE), LH_OK);
    }
    lh_h2_stream_end(stream);
    fixture_run_until(&f, &r.closes, 1, 60000);
    assert_int_equal(r.received, (size_t)PIECE * PIECES);
    assert_true(r.hash == hash);
    print_message("%.0f MB/s echoed\n",
                  (double)PIECE * PIECES / (double)(lh_clock_us() - begin_us));
    fixture_close(&f);
}

/* Any of our allocations fails in the middle of it all: the request comes to an end, and the next
 * one works. */
static void any_allocation_may_fail(void **state) {
    (void)state;
    fixture f;
    lh_log_set_level(LH_LOG_ERROR);
    fixture_open(&f, NULL, NULL, NULL);
    f.may_fail = true;
    size_t n = 1;
    for (bool failed = true; failed; n++) {
        record r = {.owner = &f};
        failing_malloc_arm(n);
        bool submitted = lh_h2_client_submit(f.client, "POST", "/echo", NULL, 0, 0, &record_events,
                                             &r, &r.stream, NULL) == LH_OK;
        if (submitted && lh_h2_stream_write(r.stream, "hello", 5) != LH_OK)
            lh_h2_stream_cancel(r.stream);
        else if (submitted)
            lh_h2_stream_end(r.stream);
        if (submitted)
            fixture_run_until(&f, &r.closes, 1, 5000);
        failed = failing_malloc_disarm();
        while (!f.connected)
            uv_run(&f.loop, UV_RUN_ONCE);
        if (!failed)
            assert_int_equal(r.status, LH_OK);
    }
    print_message("%zu allocations failed one by one\n", n - 2);
    assert_true(n > 20);
    lh_log_set_level(LH_LOG_INFO);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_request_is_echoed),
        cmocka_unit_test(many_requests_in_sequence),
        cmocka_unit_test(a_large_body_goes_both_ways),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
