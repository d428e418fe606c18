/* A step's manifest and its shards by two requests, as they come over several connections: in
 * either order, late, lost, for nobody. */
#include "tests/support/log_capture.h"
#include "tests/worker/support/raw_client.h"
#include "tests/worker/support/ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A ring of two, and two connections to the second worker. */
typedef struct bench {
    ring ring;
    raw_client front, back;
    uint8_t manifest[1024], shards[4096];
    size_t manifest_length, shards_length;
    uint64_t step;
    char step_path[64], shards_path[64];
} bench;

/* Each attempt is a step of its own. */
static void next_step(bench *b) {
    b->step++;
    snprintf(b->step_path, sizeof(b->step_path), "/chains/ring/steps/%llu?shards=apart",
             (unsigned long long)b->step);
    snprintf(b->shards_path, sizeof(b->shards_path), "/chains/ring/shards/1/%llu",
             (unsigned long long)b->step);
    lh_step_segment segment = ring_segment(9, 0, 2);
    lh_step_manifest manifest = ring_manifest(&b->ring, b->step, &segment, NULL);
    assert_int_equal(lh_step_encode_manifest(&manifest, b->manifest, sizeof(b->manifest),
                                             &b->manifest_length, NULL),
                     LH_OK);
}

static void open_bench(bench *b) {
    float values[2 * 160];
    ring_open_workers(&b->ring, 2);
    raw_client_open(&b->front, &b->ring.loop, b->ring.workers[1].address);
    raw_client_open(&b->back, &b->ring.loop, b->ring.workers[1].address);
    b->step = 6;
    next_step(b);
    for (int i = 0; i < 2 * 160; i++)
        values[i] = (float)(i % 17) - 8;
    assert_int_equal(lh_step_encode_shard(LH_WIRE_F32, 0, 2, 0, 160, values, b->shards,
                                          sizeof(b->shards), &b->shards_length, NULL),
                     LH_OK);
}

static void close_bench(bench *b) {
    raw_client_close(&b->front);
    raw_client_close(&b->back);
    ring_close(&b->ring);
}

static lh_h2_stream *begin(raw_client *client, const char *path, const uint8_t *bytes,
                           size_t length, bool end) {
    lh_h2_stream *stream = raw_client_begin(client, "POST", path);
    lh_h2_stream_write(stream, bytes, length);
    if (end)
        lh_h2_stream_end(stream);
    return stream;
}

static lh_h2_stream *begin_step(bench *b) {
    return begin(&b->front, b->step_path, b->manifest, b->manifest_length, true);
}

static lh_h2_stream *begin_shards(bench *b, const char *path) {
    return begin(&b->back, path, b->shards, b->shards_length, true);
}

static void expect(bench *b, raw_client *client, int http_status) {
    ring_run_until(&b->ring, &client->closed);
    assert_int_equal(client->http_status, http_status);
}

static void wait_for_free_pages(bench *b) {
    size_t total = lh_kv_cache_pages_total(lh_stage_kv(b->ring.workers[1].stage));
    for (int i = 0; i < 400 && ring_pages_free(&b->ring, 1) != total; i++)
        ring_run_for(&b->ring, 5);
    assert_int_equal(ring_pages_free(&b->ring, 1), total);
}

static void test_the_step_comes_first(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    begin_step(&b);
    ring_run_for(&b.ring, 50);
    assert_false(b.front.closed);
    begin_shards(&b, b.shards_path);
    expect(&b, &b.back, 200);
    expect(&b, &b.front, 200);
    assert_int_equal(b.ring.result_count, 1);
    close_bench(&b);
}

static void test_the_shards_come_first(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    begin_shards(&b, b.shards_path);
    ring_run_for(&b.ring, 50);
    begin_step(&b);
    expect(&b, &b.front, 200);
    expect(&b, &b.back, 200);
    assert_int_equal(b.ring.result_count, 1);
    close_bench(&b);
}

static void test_shards_in_two_halves_around_the_step(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    lh_h2_stream *stream = begin(&b.back, b.shards_path, b.shards, b.shards_length / 2, false);
    ring_run_for(&b.ring, 50);
    begin_step(&b);
    ring_run_for(&b.ring, 50);
    lh_h2_stream_write(stream, b.shards + b.shards_length / 2,
                       b.shards_length - b.shards_length / 2);
    lh_h2_stream_end(stream);
    expect(&b, &b.front, 200);
    close_bench(&b);
}

/* Shards of another epoch or step wait for what never comes; those that are right are taken once.
 */
static void test_what_does_not_fit_is_not_taken(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    begin_shards(&b, "/chains/ring/shards/2/7");
    begin_shards(&b, "/chains/ring/shards/1/8");
    begin_step(&b);
    ring_run_for(&b.ring, 100);
    assert_false(b.front.closed);
    begin_shards(&b, b.shards_path);
    begin_shards(&b, b.shards_path);
    expect(&b, &b.front, 200);
    assert_int_equal(b.ring.result_count, 1);
    close_bench(&b);
}

/* What waits for nobody has a bound. */
static void test_waiting_shards_are_bounded(void **state) {
    (void)state;
    enum { BYTES = 15 << 20, REQUESTS = 6 };
    static raw_client clients[REQUESTS];
    bench b;
    char path[64];
    int reset = 0;
    open_bench(&b);
    for (int i = 0; i < REQUESTS; i++) {
        snprintf(path, sizeof(path), "/chains/ring/shards/1/%d", 100 + i);
        raw_client_open(&clients[i], &b.ring.loop, b.ring.workers[1].address);
        lh_h2_stream *stream = raw_client_begin(&clients[i], "POST", path);
        assert_int_equal(lh_h2_stream_write_owned(stream, calloc(1, BYTES), BYTES), LH_OK);
        ring_run_for(&b.ring, 50);
    }
    for (int i = 0; i < 100 && reset < 1; i++) {
        ring_run_for(&b.ring, 20);
        reset = 0;
        for (int k = 0; k < REQUESTS; k++)
            reset += clients[k].closed;
    }
    assert_in_range(reset, 1, 2);
    for (int i = 0; i < REQUESTS; i++)
        raw_client_close(&clients[i]);
    begin_shards(&b, b.shards_path);
    begin_step(&b);
    expect(&b, &b.front, 200);
    close_bench(&b);
}

static void test_a_lost_connection_fails_the_step(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    begin_step(&b);
    begin(&b.back, b.shards_path, b.shards, b.shards_length / 2, false);
    ring_run_for(&b.ring, 50);
    raw_client_close(&b.back);
    expect(&b, &b.front, 503);
    assert_non_null(strstr(b.front.body, "\"worker\":\"w2\",\"status\":\"LH_ERR_UNAVAILABLE\""));
    wait_for_free_pages(&b);
    raw_client_open(&b.back, &b.ring.loop, b.ring.workers[1].address);
    close_bench(&b);
}

/* The step's own request is cancelled: what still comes of its shards is thrown away, and hurts
 * nobody. */
static void test_a_cancelled_step_leaves_its_shards(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    lh_h2_stream *stream = begin(&b.back, b.shards_path, b.shards, b.shards_length / 2, false);
    lh_h2_stream *step = begin_step(&b);
    ring_run_for(&b.ring, 50);
    lh_h2_stream_cancel(step);
    ring_run_until(&b.ring, &b.front.closed);
    ring_run_for(&b.ring, 50);
    lh_h2_stream_write(stream, b.shards + b.shards_length / 2,
                       b.shards_length - b.shards_length / 2);
    lh_h2_stream_end(stream);
    expect(&b, &b.back, 200);
    wait_for_free_pages(&b);
    next_step(&b);
    begin_shards(&b, b.shards_path);
    begin_step(&b);
    expect(&b, &b.front, 200);
    close_bench(&b);
}

/* The reset of its shards overtakes the one of its own request: that is no failure either. */
static void test_shards_that_are_cancelled_cancel_their_step(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    begin_step(&b);
    lh_h2_stream *stream = begin(&b.back, b.shards_path, b.shards, b.shards_length / 2, false);
    ring_run_for(&b.ring, 50);
    log_capture_begin();
    lh_h2_stream_cancel(stream);
    ring_run_until(&b.ring, &b.front.closed);
    wait_for_free_pages(&b);
    char *log = log_capture_end();
    assert_non_null(strstr(log, "step cancelled step=7"));
    assert_null(strstr(log, " warn "));
    free(log);
    lh_server_status status;
    lh_server_read_status(b.ring.workers[1].server, &status);
    assert_int_equal(status.steps_failed, 0);
    assert_int_equal(status.steps_cancelled, 1);
    next_step(&b);
    begin_shards(&b, b.shards_path);
    begin_step(&b);
    expect(&b, &b.front, 200);
    close_bench(&b);
}

static void test_bytes_that_are_wrong(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    b.shards[b.shards_length - 5] ^= 16;
    begin_step(&b);
    begin_shards(&b, b.shards_path);
    expect(&b, &b.front, 400);
    assert_non_null(strstr(b.front.body, "LH_ERR_CORRUPT"));
    b.shards[b.shards_length - 5] ^= 16;
    next_step(&b);
    begin(&b.back, b.shards_path, b.shards, b.shards_length - 1, true); /* cut */
    begin_step(&b);
    expect(&b, &b.front, 400);
    begin(&b.front, b.step_path, b.manifest, 0, true); /* no manifest */
    expect(&b, &b.front, 400);
    begin(&b.front, b.step_path, b.manifest, b.manifest_length - 1, true);
    expect(&b, &b.front, 400);
    const char *bad[] = {"/chains/ring/shards/1", "/chains/ring/shards/x/7",
                         "/chains/ring/shards/1/07", "/chains/ring/shards/4294967296/7",
                         "/chains/ring/shards/00000000000000000001/7"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(raw_client_request(&b.front, "POST", bad[i], NULL, 0), 400);
    assert_int_equal(raw_client_request(&b.front, "POST", "/chains/other/shards/1/7", NULL, 0),
                     404);
    assert_int_equal(raw_client_request(&b.front, "GET", b.shards_path, NULL, 0), 404);
    wait_for_free_pages(&b);
    close_bench(&b);
}

/* It goes on where the one before it ended, and has a row more than the step. */
static void test_a_shard_beyond_its_step(void **state) {
    (void)state;
    bench b;
    open_bench(&b);
    static const float values[2 * 160];
    uint8_t body[4096];
    size_t first, second;
    assert_int_equal(
        lh_step_encode_shard(LH_WIRE_F32, 0, 1, 0, 160, values, body, sizeof body, &first, NULL),
        LH_OK);
    assert_int_equal(lh_step_encode_shard(LH_WIRE_F32, 1, 2, 0, 160, values, body + first,
                                          sizeof body - first, &second, NULL),
                     LH_OK);
    begin_step(&b);
    begin(&b.back, b.shards_path, body, first + second, true);
    expect(&b, &b.front, 400);
    assert_non_null(strstr(b.front.body, "LH_ERR_MALFORMED"));
    assert_non_null(strstr(b.front.body, "shard: 2 rows from 1 of a step of 2"));
    wait_for_free_pages(&b);
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_step_comes_first),
        cmocka_unit_test(test_the_shards_come_first),
        cmocka_unit_test(test_shards_in_two_halves_around_the_step),
        cmocka_unit_test(test_what_does_not_fit_is_not_taken),
        cmocka_unit_test(test_waiting_shards_are_bounded),
        cmocka_unit_test(test_a_lost_connection_fails_the_step),
        cmocka_unit_test(test_a_cancelled_step_leaves_its_shards),
        cmocka_unit_test(test_shards_that_are_cancelled_cancel_their_step),
        cmocka_unit_test(test_bytes_that_are_wrong),
        cmocka_unit_test(test_a_shard_beyond_its_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
