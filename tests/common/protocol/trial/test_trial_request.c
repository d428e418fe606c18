/* The taking side: what is answered to a body that is sound, and to each that is not. */
#include "common/http2/client.h"
#include "common/http2/server.h"
#include "common/protocol/step_answer.h"
#include "common/protocol/step_frame.h"
#include "common/protocol/trial/trial_request.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/loop.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BODY_BYTES_MAX (1u << 20)
#define AT_ONCE        8u
#define PATIENCE_MS    20000u

typedef struct bench {
    uv_loop_t loop;
    lh_h2_server *server;
    lh_stream_quota quota;
    lh_h2_client *client;
    const char *name; /* of who takes the trial */
    uint64_t width;
    size_t fail_nth; /* of the allocations of the taking; 0: none */
    bool connected, over, client_closed, server_closed, quota_closed;
    int http_status;
    char answer[1024];
    size_t answer_length;
} bench;

static bench b;

/* ---- The taking side ---- */

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    (void)context;
    if (b.fail_nth > 0)
        failing_malloc_arm(b.fail_nth);
    lh_trial_take(&b.quota, stream, request, b.name, b.width, events, stream_context);
    if (b.fail_nth > 0)
        assert_true(failing_malloc_disarm());
}

/* ---- The sending side ---- */

static void on_state(void *context, bool connected, const char *reason) {
    (void)context;
    (void)reason;
    b.connected = connected;
}

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    (void)stream;
    (void)context;
    b.http_status = http_status;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    (void)context;
    assert_true(b.answer_length + length < sizeof b.answer);
    memcpy(b.answer + b.answer_length, bytes, length);
    b.answer_length += length;
    b.answer[b.answer_length] = '\0';
    lh_h2_stream_consume(stream, length);
}

/* Before all is sent, too: the rest is of no use. */
static void on_end(lh_h2_stream *stream, void *context) {
    (void)context;
    lh_h2_stream_cancel(stream);
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)context;
    (void)status;
    b.over = true;
}

static int set_up(void **state) {
    (void)state;
    memset(&b, 0, sizeof b);
    uv_loop_init(&b.loop);
    b.name = "attic";
    const lh_stream_quota_limits limits = lh_trial_limits();
    lh_stream_quota_init(&b.quota, &b.loop, "trials of hops", &limits);
    assert_int_equal(
        lh_h2_server_create(&b.loop, "127.0.0.1:0", NULL, NULL, on_request, NULL, &b.server, NULL),
        LH_OK);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_h2_server_port(b.server));
    assert_int_equal(
        lh_h2_client_create(&b.loop, address, NULL, NULL, on_state, NULL, &b.client, NULL), LH_OK);
    loop_run_until_set(&b.loop, &b.connected);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_h2_client_close(b.client, loop_set_flag, &b.client_closed);
    lh_h2_server_close(b.server, loop_set_flag, &b.server_closed);
    uv_run(&b.loop, UV_RUN_DEFAULT);
    lh_stream_quota_close(&b.quota, loop_set_flag, &b.quota_closed);
    uv_run(&b.loop, UV_RUN_DEFAULT);
    assert_true(b.client_closed && b.server_closed && b.quota_closed);
    assert_int_equal(uv_loop_close(&b.loop), 0);
    return 0;
}

/* ---- Bodies ---- */

typedef struct body {
    uint8_t *bytes; /* [BODY_BYTES_MAX] */
    size_t length, manifest_length;
} body;

static body begin_body(const lh_step_manifest *manifest) {
    body made = {.bytes = malloc(BODY_BYTES_MAX)};
    assert_non_null(made.bytes);
    assert_int_equal(
        lh_step_encode_manifest(manifest, made.bytes, BODY_BYTES_MAX, &made.length, NULL), LH_OK);
    made.manifest_length = made.length;
    return made;
}

static body body_without_rows(uint32_t epoch, uint64_t step) {
    const lh_step_manifest manifest = {.epoch = epoch, .step = step};
    return begin_body(&manifest);
}

/* A row for each of the tokens. */
static body body_of(lh_wire_type wire, uint32_t rows, uint32_t width) {
    static const uint32_t tokens[LH_STEP_ROWS_MAX];
    static float values[1 << 18];
    const lh_step_segment segment = {.rows = rows};
    const lh_step_manifest manifest = {.step_class = LH_STEP_PREFILL,
                                       .rows = rows,
                                       .tokens = tokens,
                                       .segment_count = 1,
                                       .segments = &segment};
    body made = begin_body(&manifest);
    size_t length;
    assert_true((size_t)rows * width <= sizeof values / sizeof values[0]);
    for (size_t i = 0; i < (size_t)rows * width; i++)
        values[i] = (float)i * 0.375f - 70;
    assert_int_equal(lh_step_encode_shard(wire, 0, rows, 0, width, values, made.bytes + made.length,
                                          BODY_BYTES_MAX - made.length, &length, NULL),
                     LH_OK);
    made.length += length;
    return made;
}

/* In pieces of so many bytes. */
static void post_pieces(const body *sent, size_t piece) {
    static const lh_h2_stream_events events = {
        .on_response = on_response, .on_body = on_body, .on_end = on_end, .on_closed = on_closed};
    lh_h2_stream *stream;
    b.over = false;
    b.http_status = 0;
    b.answer_length = 0;
    b.answer[0] = '\0';
    assert_int_equal(lh_h2_client_submit(b.client, "POST", "/chains/c/trials/1", NULL, 0, 1,
                                         &events, NULL, &stream, NULL),
                     LH_OK);
    for (size_t at = 0; at < sent->length; at += piece) {
        size_t length = sent->length - at < piece ? sent->length - at : piece;
        assert_int_equal(lh_h2_stream_write(stream, sent->bytes + at, length), LH_OK);
    }
    lh_h2_stream_end(stream);
    loop_run_until_set(&b.loop, &b.over);
}

static void post(body sent) {
    post_pieces(&sent, sent.length + 1);
    free(sent.bytes);
}

static void expect_refusal(int http_status, const char *status, const char *message) {
    assert_int_equal(b.http_status, http_status);
    if (!strstr(b.answer, status) || !strstr(b.answer, message) ||
        !strstr(b.answer, "\"worker\":\"attic\""))
        fail_msg("'%s' does not say %s: %s", b.answer, status, message);
}

/* ---- Tests ---- */

static void a_sound_step_is_answered_with_a_name(void **state) {
    (void)state;
    static const size_t pieces[] = {1, 17, 5000, 1 << 20};
    b.width = 96;
    for (lh_wire_type wire = LH_WIRE_F32; wire <= LH_WIRE_Q8; wire++) {
        body sent = body_of(wire, 9, 96);
        for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
            post_pieces(&sent, pieces[i]);
            assert_int_equal(b.http_status, 200);
            assert_string_equal(b.answer, "{\"worker\": \"attic\"}");
        }
        free(sent.bytes);
    }
}

static void the_widest_row_is_taken(void **state) {
    (void)state;
    b.width = LH_STEP_WIDTH_MAX;
    post(body_of(LH_WIRE_F32, 1, LH_STEP_WIDTH_MAX));
    assert_int_equal(b.http_status, 200);
}

static void without_columns_a_step_has_no_rows(void **state) {
    (void)state;
    b.name = "";
    post(body_without_rows(0, 0));
    assert_int_equal(b.http_status, 200);
    assert_string_equal(b.answer, "{\"worker\": \"\"}");
    b.name = "attic";
    post(body_of(LH_WIRE_F32, 2, 32));
    expect_refusal(400, "LH_ERR_MALFORMED", "width 0 has 2 rows");
}

static void a_step_that_is_cut_is_refused(void **state) {
    (void)state;
    b.width = 64;
    body whole = body_of(LH_WIRE_F16, 3, 64);
    const size_t lengths[] = {
        0, 1, 15, 16, 40, whole.manifest_length, whole.manifest_length + 1, whole.length - 1};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const body cut = {.bytes = whole.bytes, .length = lengths[i]};
        post_pieces(&cut, 1000);
        expect_refusal(400, "LH_ERR_MALFORMED", "the step ends");
    }
    free(whole.bytes);
}

static void a_flipped_bit_is_found(void **state) {
    (void)state;
    b.width = 64;
    body sound = body_of(LH_WIRE_F32, 3, 64);
    for (size_t at = 0; at < sound.length; at += 7) {
        sound.bytes[at] ^= 4;
        post_pieces(&sound, 1 << 20);
        expect_refusal(400, "LH_ERR_CORRUPT", "CRC32C");
        sound.bytes[at] ^= 4;
    }
    post(sound);
    assert_int_equal(b.http_status, 200);
}

static void another_version_is_refused(void **state) {
    (void)state;
    body sent = body_without_rows(0, 0);
    sent.bytes[LH_STEP_FRAME_HEAD_BYTES] = LH_STEP_PROTOCOL_VERSION + 1;
    lh_step_frame_seal(sent.bytes, LH_STEP_FRAME_MANIFEST, sent.length - LH_STEP_FRAME_HEAD_BYTES);
    post(sent);
    expect_refusal(400, "LH_ERR_UNSUPPORTED", "step protocol 9; this side speaks 8");
}

static void shards_of_another_width_are_refused(void **state) {
    (void)state;
    b.width = 64;
    post(body_of(LH_WIRE_F32, 2, 96));
    expect_refusal(400, "LH_ERR_MALFORMED", "column");
    post(body_of(LH_WIRE_F32, 2, 32));
    expect_refusal(400, "LH_ERR_MALFORMED", "the step ends with 0 of 2 rows of column 32");
}

static void a_step_of_a_chain_is_no_trial(void **state) {
    (void)state;
    post(body_without_rows(7, 0));
    expect_refusal(400, "LH_ERR_MALFORMED", "not 7 and 0");
    post(body_without_rows(0, 9));
    expect_refusal(400, "LH_ERR_MALFORMED", "not 0 and 9");
}

static void too_much_is_refused(void **state) {
    (void)state;
    b.width = 64;
    post(body_of(LH_WIRE_F32, 3000, 64)); /* 750 KiB */
    expect_refusal(400, "LH_ERR_LIMIT", "512 KiB at most");
    b.width = LH_STEP_WIDTH_MAX + 1;
    post(body_without_rows(0, 0));
    expect_refusal(400, "LH_ERR_LIMIT", "so wide");
}

static bool one_is_over(void *over) {
    const bool *closed = over;
    for (size_t i = 0; i < AT_ONCE + 1; i++)
        if (closed[i])
            return true;
    return false;
}

static void on_open_closed(lh_h2_stream *stream, void *over, lh_status status) {
    (void)stream;
    (void)status;
    *(bool *)over = true;
}

/* So many may wait for their bodies; one more takes the place of the first. */
static void a_member_has_so_many_at_once(void **state) {
    (void)state;
    static const lh_h2_stream_events events = {.on_closed = on_open_closed};
    static bool over[AT_ONCE + 1];
    lh_h2_stream *streams[AT_ONCE + 1];
    memset(over, 0, sizeof over);
    for (size_t i = 0; i < AT_ONCE + 1; i++)
        assert_int_equal(lh_h2_client_submit(b.client, "POST", "/chains/c/trials/1", NULL, 0, 2,
                                             &events, &over[i], &streams[i], NULL),
                         LH_OK);
    assert_true(loop_run_until(&b.loop, one_is_over, over, PATIENCE_MS));
    assert_int_equal(b.quota.count, AT_ONCE);
    post(body_without_rows(0, 0));
    assert_int_equal(b.http_status, 200);
    for (size_t i = 0; i < AT_ONCE + 1; i++)
        if (!over[i])
            lh_h2_stream_cancel(streams[i]);
}

static void without_memory_it_says_so(void **state) {
    (void)state;
    for (b.fail_nth = 1; b.fail_nth <= 2; b.fail_nth++) {
        post(body_without_rows(0, 0));
        expect_refusal(500, "LH_ERR_NO_MEMORY", "no memory");
    }
    b.fail_nth = 0;
    post(body_without_rows(0, 0));
    assert_int_equal(b.http_status, 200);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_sound_step_is_answered_with_a_name),
        TEST(the_widest_row_is_taken),
        TEST(without_columns_a_step_has_no_rows),
        TEST(a_step_that_is_cut_is_refused),
        TEST(a_flipped_bit_is_found),
        TEST(another_version_is_refused),
        TEST(shards_of_another_width_are_refused),
        TEST(a_step_of_a_chain_is_no_trial),
        TEST(too_much_is_refused),
        TEST(a_member_has_so_many_at_once),
        TEST(without_memory_it_says_so),
    };
    json_set_alloc_funcs(malloc, free); /* the counted ones */
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
