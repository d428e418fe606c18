/* The submitting side: what becomes of a step for every way in which a peer can answer it, or not.
 */
#include "common/http2/probe.h"
#include "common/http2/server.h"
#include "common/protocol/client/worker_client.h"
#include "common/protocol/step_answer.h"
#include "tests/support/failing_malloc.h"
#include "tests/support/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the peer does with a request. */
typedef enum peer_habit {
    PEER_TAKES,         /* 200 at the end */
    PEER_ANSWERS_EARLY, /* 200 at once, before the end */
    PEER_REFUSES_EARLY, /* 429 with a problem, before the end */
    PEER_IS_A_PROXY,    /* 503 with a page of HTML */
    PEER_TALKS_ON,      /* 400 with far more text than a problem has */
    PEER_RESETS,        /* RST_STREAM */
    PEER_IS_SILENT
} peer_habit;

typedef struct bench {
    uv_loop_t loop;
    lh_h2_server *server;
    lh_worker_client *client;
    peer_habit habit;
    char path[128], query[32], shards_path[128], content_type[64];
    lh_h2_stream *shards_stream; /* by another connection; NULL: closed, or there was none */
    uint8_t received[4096];
    size_t received_bytes;
    bool connected, done, client_closed, server_closed;
    lh_status status;
    char worker[64], message[320];
} bench;

static void respond(lh_h2_stream *stream, peer_habit habit) {
    static char long_text[20000];
    switch (habit) {
    case PEER_REFUSES_EARLY:
        lh_h2_stream_respond(
            stream, 429,
            "{\"error\":{\"worker\":\"far\",\"status\":\"LH_ERR_BUSY\",\"message\":\"no page\"}}");
        break;
    case PEER_IS_A_PROXY:
        lh_h2_stream_respond(stream, 503, "<html>Service Unavailable</html>");
        break;
    case PEER_TALKS_ON:
        memset(long_text, '{', sizeof(long_text) - 1);
        lh_h2_stream_respond(stream, 400, long_text);
        break;
    case PEER_RESETS:
        lh_h2_stream_cancel(stream);
        break;
    case PEER_IS_SILENT:
        break;
    default:
        lh_h2_stream_respond(stream, 200, "{}");
    }
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    bench *b = context;
    assert_true(b->received_bytes + length <= sizeof(b->received));
    memcpy(b->received + b->received_bytes, bytes, length);
    b->received_bytes += length;
    lh_h2_stream_consume(stream, length);
    if (b->habit == PEER_ANSWERS_EARLY || b->habit == PEER_REFUSES_EARLY)
        respond(stream, b->habit);
}

static void on_end(lh_h2_stream *stream, void *context) {
    bench *b = context;
    if (b->habit != PEER_ANSWERS_EARLY && b->habit != PEER_REFUSES_EARLY)
        respond(stream, b->habit);
}

static void on_stream_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)context;
    (void)status;
}

/* The shards, where they come apart. */
static void on_shards_end(lh_h2_stream *stream, void *context) {
    (void)context;
    lh_h2_stream_respond(stream, 200, "{}");
}

static void on_shards_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)status;
    ((bench *)context)->shards_stream = NULL;
}

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    static const lh_h2_stream_events stream_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_stream_closed};
    static const lh_h2_stream_events shards_events = {
        .on_body = on_body, .on_end = on_shards_end, .on_closed = on_shards_closed};
    bench *b = context;
    if (strcmp(request->path, LH_H2_PROBE_PATH) == 0) {
        lh_h2_probe_take(stream, events, stream_context);
        return;
    }
    if (strstr(request->path, "/shards/")) {
        snprintf(b->shards_path, sizeof(b->shards_path), "%s %s", request->method, request->path);
        b->shards_stream = stream;
        *events = &shards_events;
        *stream_context = b;
        return;
    }
    snprintf(b->query, sizeof(b->query), "%s", request->query);
    const char *type = lh_h2_request_header(request, "content-type");
    snprintf(b->path, sizeof(b->path), "%s %s", request->method, request->path);
    snprintf(b->content_type, sizeof(b->content_type), "%s", type ? type : "");
    *events = &stream_events;
    *stream_context = b;
}

static void on_state(void *context, bool connected, const char *reason) {
    (void)reason;
    ((bench *)context)->connected = connected;
}

static void on_done(void *context, void *step_context, lh_status status, const char *worker,
                    const char *message) {
    bench *b = context;
    assert_ptr_equal(step_context, &b->done);
    assert_false(b->done);
    b->done = true;
    b->status = status;
    snprintf(b->worker, sizeof(b->worker), "%s", worker);
    snprintf(b->message, sizeof(b->message), "%s", message);
}

static void run_until(bench *b, const bool *flag) {
    loop_run_until_set(&b->loop, flag);
}

static void open_with(bench *b, peer_habit habit, uint32_t lanes, const lh_h2_limits *limits) {
    static const lh_worker_client_events events = {.on_state = on_state, .on_done = on_done};
    memset(b, 0, sizeof *b);
    b->habit = habit;
    uv_loop_init(&b->loop);
    assert_int_equal(
        lh_h2_server_create(&b->loop, "127.0.0.1:0", NULL, limits, on_request, b, &b->server, NULL),
        LH_OK);
    char address[32];
    snprintf(address, sizeof(address), "127.0.0.1:%d", lh_h2_server_port(b->server));
    assert_int_equal(lh_worker_client_create(&b->loop, address, "main", NULL, limits, &events, b,
                                             &b->client, NULL),
                     LH_OK);
    assert_int_equal(lh_worker_client_add_lanes(b->client, &b->loop, NULL, limits, lanes, NULL),
                     LH_OK);
    run_until(b, &b->connected);
    assert_true(lh_worker_client_is_connected(b->client));
}

static void open_lanes(bench *b, peer_habit habit, uint32_t lanes) {
    const lh_h2_limits limits = lh_h2_default_limits();
    open_with(b, habit, lanes, &limits);
}

static void open_bench(bench *b, peer_habit habit) {
    open_lanes(b, habit, 0);
}

static void close_server(bench *b) {
    lh_h2_server_close(b->server, loop_set_flag, &b->server_closed);
    run_until(b, &b->server_closed);
}

static void close_bench(bench *b) {
    lh_worker_client_close(b->client, loop_set_flag, &b->client_closed);
    run_until(b, &b->client_closed);
    if (!b->server_closed)
        close_server(b);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&b->loop), 0);
}

static const lh_step_manifest manifest = {.epoch = 3, .step = 42};

static lh_step_submission *submit(bench *b) {
    lh_step_submission *submission = NULL;
    assert_int_equal(lh_worker_client_submit(b->client, &manifest, &b->done, &submission, NULL),
                     LH_OK);
    return submission;
}

static void expect(bench *b, lh_status status, const char *worker) {
    run_until(b, &b->done);
    assert_int_equal(b->status, status);
    assert_string_equal(b->worker, worker);
    assert_true(status == LH_OK || b->message[0] != '\0');
}

/* ---- Tests ---- */

static void test_a_step_is_a_request(void **state) {
    (void)state;
    bench b;
    open_bench(&b, PEER_TAKES);
    lh_step_submission *submission = submit(&b);
    lh_step_submission_write(submission, strdup("frame"), 5);
    lh_step_submission_end(submission);
    expect(&b, LH_OK, "");
    assert_string_equal(b.path, "POST /chains/main/steps/42");
    assert_string_equal(b.content_type, "application/x-longhaul-step");
    uint8_t expected[256];
    size_t length = 0;
    assert_int_equal(lh_step_encode_manifest(&manifest, expected, sizeof(expected), &length, NULL),
                     LH_OK);
    assert_int_equal(b.received_bytes, length + 5);
    assert_memory_equal(b.received, expected, length);
    assert_memory_equal(b.received + length, "frame", 5);
    lh_hop_profile hop;
    lh_worker_client_read_profile(b.client, &hop);
    assert_true(lh_worker_client_is_connected(b.client) && hop.present && hop.connected);
    assert_true(hop.bytes_sent > length);
    close_bench(&b);
}

static void test_answers(void **state) {
    (void)state;
    struct {
        peer_habit habit;
        lh_status status;
        const char *worker;
    } rows[] = {{PEER_IS_A_PROXY, LH_ERR_UNAVAILABLE, ""},
                {PEER_TALKS_ON, LH_ERR_MALFORMED, ""},
                {PEER_RESETS, LH_ERR_UNAVAILABLE, ""}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        bench b;
        open_bench(&b, rows[i].habit);
        lh_step_submission_end(submit(&b));
        expect(&b, rows[i].status, rows[i].worker);
        close_bench(&b);
    }
}

/* The submission is still being written when the answer comes. */
static void test_answers_before_the_end(void **state) {
    (void)state;
    bench b;
    open_bench(&b, PEER_REFUSES_EARLY);
    submit(&b);
    expect(&b, LH_ERR_BUSY, "far");
    assert_string_equal(b.message, "no page");
    close_bench(&b);
    open_bench(&b, PEER_ANSWERS_EARLY);
    submit(&b);
    expect(&b, LH_ERR_PROTOCOL, ""); /* nobody can have taken what was not sent */
    close_bench(&b);
}

static void test_cancel_and_lost_connections(void **state) {
    (void)state;
    bench b;
    open_bench(&b, PEER_IS_SILENT);
    lh_step_submission *submission = submit(&b);
    lh_step_submission_cancel(submission);
    assert_false(b.done); /* it comes from the loop */
    expect(&b, LH_ERR_CANCELLED, "");
    b.done = false;
    lh_step_submission_end(submit(&b));
    uv_run(&b.loop, UV_RUN_NOWAIT);
    close_server(&b);
    expect(&b, LH_ERR_UNAVAILABLE, "");
    for (int i = 0; i < 1000 && b.connected; i++)
        uv_run(&b.loop, UV_RUN_ONCE);
    lh_error error;
    assert_int_equal(lh_worker_client_submit(b.client, &manifest, &b.done, &submission, &error),
                     LH_ERR_UNAVAILABLE);
    assert_true(error.message[0] != '\0');
    close_bench(&b);
}

static void test_closing_ends_what_is_in_progress(void **state) {
    (void)state;
    bench b;
    open_bench(&b, PEER_IS_SILENT);
    lh_step_submission_end(submit(&b));
    uv_run(&b.loop, UV_RUN_NOWAIT);
    close_bench(&b);
    assert_true(b.done);
    assert_int_equal(b.status, LH_ERR_UNAVAILABLE);
}

static const uint32_t prefill_tokens[] = {1, 2};
static const lh_step_segment prefill_segment = {.sequence = 1, .rows = 2};
static const lh_step_manifest prefill = {.epoch = 3,
                                         .step = 43,
                                         .step_class = LH_STEP_PREFILL,
                                         .rows = 2,
                                         .tokens = prefill_tokens,
                                         .segment_count = 1,
                                         .segments = &prefill_segment};

static lh_step_submission *submit_prefill(bench *b) {
    lh_step_submission *submission = NULL;
    b->done = false;
    assert_int_equal(lh_worker_client_submit(b->client, &prefill, &b->done, &submission, NULL),
                     LH_OK);
    return submission;
}

/* Nothing else is: a decode step has rows and no shards, truncations alone have neither. */
static void test_only_shards_go_apart(void **state) {
    (void)state;
    static const uint32_t token = 1;
    static const lh_step_segment segment = {.sequence = 1, .rows = 1};
    static const lh_step_manifest others[] = {
        {.epoch = 3,
         .step = 44,
         .rows = 1,
         .tokens = &token,
         .segment_count = 1,
         .segments = &segment},
        {.epoch = 3, .step = 45, .step_class = LH_STEP_PREFILL}};
    bench b;
    open_lanes(&b, PEER_TAKES, 2);
    for (int i = 0; i < 2; i++) {
        lh_step_submission *submission;
        b.done = false;
        assert_int_equal(lh_worker_client_submit(b.client, &others[i], &b.done, &submission, NULL),
                         LH_OK);
        lh_step_submission_end(submission);
        expect(&b, LH_OK, "");
        assert_string_equal(b.query, "");
    }
    assert_string_equal(b.shards_path, "");
    close_bench(&b);
}

static void test_shards_go_apart(void **state) {
    (void)state;
    bench b;
    open_lanes(&b, PEER_IS_SILENT, 2);
    lh_step_submission *submission = submit_prefill(&b);
    while (!b.shards_stream || b.path[0] == '\0')
        uv_run(&b.loop, UV_RUN_ONCE);
    assert_string_equal(b.path, "POST /chains/main/steps/43");
    assert_string_equal(b.query, "shards=apart");
    assert_string_equal(b.shards_path, "POST /chains/main/shards/3/43");
    lh_step_submission_cancel(submission);
    expect(&b, LH_ERR_CANCELLED, "");
    b.habit = PEER_TAKES;
    submission = submit_prefill(&b);
    while (lh_step_submission_queued_bytes(submission) > 0) /* the manifest, on the first one */
        uv_run(&b.loop, UV_RUN_ONCE);
    lh_step_submission_write(submission, strdup("frame"), 5);
    assert_int_equal(lh_step_submission_queued_bytes(submission), 5);
    lh_step_submission_end(submission);
    expect(&b, LH_OK, "");
    b.done = false;
    lh_step_submission_end(submit(&b)); /* without rows: all of it on the first connection */
    expect(&b, LH_OK, "");
    assert_string_equal(b.query, "");
    close_bench(&b);
}

/* Preface, SETTINGS, WINDOW_UPDATE and the acknowledgement of the peer's SETTINGS. */
enum { GREETING_BYTES = 24 + (9 + 5 * 6) + (9 + 4) + 9 };

typedef struct awaited_bytes {
    const lh_worker_client *client;
    uint64_t bytes;
} awaited_bytes;

static bool have_left(void *context) {
    const awaited_bytes *a = context;
    lh_hop_profile hop;
    lh_worker_client_read_profile(a->client, &hop);
    return hop.bytes_sent == a->bytes;
}

/* Without PINGs nothing is said after the greetings. */
static awaited_bytes open_greeted(bench *b, uint32_t lanes) {
    lh_h2_limits limits = lh_h2_default_limits();
    limits.ping_interval_ms = 0;
    open_with(b, PEER_IS_SILENT, lanes, &limits);
    awaited_bytes all = {b->client, (1 + lanes) * GREETING_BYTES};
    assert_true(loop_run_until(&b->loop, have_left, &all, 20000));
    return all;
}

static void test_the_bytes_of_all_connections_count(void **state) {
    (void)state;
    for (uint32_t lanes = 0; lanes < 4; lanes++) {
        bench b;
        awaited_bytes all = open_greeted(&b, lanes);
        loop_run_for(&b.loop, 10);
        assert_true(have_left(&all));
        close_bench(&b);
    }
}

/* Of connections that have said all that they say. */
static lh_hop_profile profile_with(uint32_t lanes) {
    bench b;
    lh_hop_profile hop;
    open_greeted(&b, lanes);
    lh_worker_client_read_profile(b.client, &hop);
    close_bench(&b);
    return hop;
}

static void test_what_is_ready_are_the_windows_of_the_connections_that_carry_shards(void **state) {
    (void)state;
    const lh_hop_profile first = profile_with(0), one = profile_with(1), two = profile_with(2);
    assert_true(first.ready_bytes > 0);
    assert_true(one.ready_bytes < 1.5 * first.ready_bytes); /* not that of the first one, too */
    assert_true(two.ready_bytes > 1.5 * one.ready_bytes);
    assert_true(two.bytes_sent > one.bytes_sent && one.bytes_sent > first.bytes_sent);
}

static bool is_refused(void *context) {
    const bench *b = context;
    lh_hop_profile hop;
    lh_worker_client_read_profile(b->client, &hop);
    return hop.refused;
}

static void test_a_hop_to_nobody_is_refused(void **state) {
    (void)state;
    bench b;
    lh_hop_profile hop;
    open_lanes(&b, PEER_IS_SILENT, 1);
    close_server(&b);
    assert_true(loop_run_until(&b.loop, is_refused, &b, 20000));
    lh_worker_client_read_profile(b.client, &hop);
    assert_true(hop.present && !hop.connected && hop.ready_bytes == 0);
    close_bench(&b);
}

static bool is_measured(void *context) {
    const bench *b = context;
    lh_hop_profile hop;
    lh_worker_client_read_profile(b->client, &hop);
    return hop.bytes_per_us > 0 && hop.round_trip_us > 0;
}

/* The rate is that of the best connection, whichever it is. */
static void test_what_one_connection_measures_is_told(void **state) {
    (void)state;
    for (uint32_t lanes = 0; lanes < 3; lanes++) {
        bench b;
        lh_hop_profile hop;
        lh_h2_limits limits = lh_h2_default_limits();
        limits.probe_percent = 1;
        open_with(&b, PEER_TAKES, lanes, &limits);
        assert_true(loop_run_until(&b.loop, is_measured, &b, 20000));
        lh_worker_client_read_profile(b.client, &hop);
        assert_true(hop.probe_bytes_sent > 0 && hop.bytes_sent > 0);
        assert_in_range(hop.age_us, 0, 20000000);
        close_bench(&b);
    }
}

static void expect_no_client(const char *address, const char *chain, lh_status status,
                             const char *message) {
    static const lh_worker_client_events events = {.on_done = on_done};
    uv_loop_t loop;
    lh_worker_client *client;
    lh_error error;
    lh_h2_limits limits = lh_h2_default_limits();
    uv_loop_init(&loop);
    assert_int_equal(lh_worker_client_create(&loop, address, chain, NULL, &limits, &events, NULL,
                                             &client, &error),
                     status);
    assert_non_null(strstr(error.message, message));
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_no_client_for_an_address_or_a_chain_that_none_has(void **state) {
    (void)state;
    char chain[LH_WORKER_NAME_BYTES + 1] = "";
    memset(chain, 'c', LH_WORKER_NAME_BYTES);
    expect_no_client("127.0.0.1:1", chain, LH_ERR_LIMIT, "is too long");
    expect_no_client("no port", "main", LH_ERR_INVALID, "no port");
}

static bool have_shards_gone(void *context) {
    return !((const bench *)context)->shards_stream;
}

/* The answer to the shards may come before that to the step. */
static void test_shards_that_were_taken_are_no_answer(void **state) {
    (void)state;
    bench b;
    open_lanes(&b, PEER_IS_SILENT, 1);
    lh_step_submission *submission = submit_prefill(&b);
    while (!b.shards_stream)
        uv_run(&b.loop, UV_RUN_ONCE);
    lh_step_submission_end(submission);
    assert_true(loop_run_until(&b.loop, have_shards_gone, &b, 20000));
    loop_run_for(&b.loop, 50);
    assert_false(b.done);
    lh_step_submission_cancel(submission);
    expect(&b, LH_ERR_CANCELLED, "");
    close_bench(&b);
}

/* Whether the n-th allocation was one that a step needs: then nothing is left of it. */
static bool is_refused_without(size_t n) {
    bench b;
    lh_step_submission *submission = NULL;
    open_lanes(&b, PEER_IS_SILENT, 1);
    failing_malloc_arm(n);
    lh_status status = lh_worker_client_submit(b.client, &prefill, &b.done, &submission, NULL);
    bool has_failed = failing_malloc_disarm();
    assert_true(status == LH_OK || (has_failed && status == LH_ERR_NO_MEMORY));
    loop_run_for(&b.loop, 5);
    assert_false(b.done && status != LH_OK); /* where the connection lacks it, that fails */
    close_bench(&b);
    return has_failed;
}

static void test_without_memory_there_is_no_step(void **state) {
    (void)state;
    size_t n = 1;
    while (is_refused_without(n))
        n++;
    assert_in_range(n, 5, 200);
}

/* An answer that names nobody may be anybody's. */
static void test_a_step_of_a_trial_is_taken_by_one_with_a_name(void **state) {
    (void)state;
    bench b;
    open_bench(&b, PEER_TAKES);
    lh_step_submission *submission = NULL;
    static const lh_step_manifest trial = {.epoch = 0};
    assert_int_equal(
        lh_worker_client_submit_trial(b.client, 64, &trial, &b.done, &submission, NULL), LH_OK);
    lh_step_submission_end(submission);
    expect(&b, LH_ERR_PROTOCOL, "");
    assert_string_equal(b.path, "POST /chains/main/trials/64");
    assert_non_null(strstr(b.message, "did not say who it is"));
    close_bench(&b);
}

static void on_done_of_another(void *context, void *step_context, lh_status status,
                               const char *worker, const char *message) {
    (void)step_context;
    (void)worker;
    (void)message;
    assert_int_equal(status, LH_OK);
    *(bool *)context = true;
}

static void test_a_new_owner_is_told(void **state) {
    (void)state;
    static const lh_worker_client_events others = {.on_done = on_done_of_another};
    bench b;
    bool is_told = false;
    open_bench(&b, PEER_TAKES);
    lh_worker_client_watch(b.client, &others, &is_told);
    lh_step_submission_end(submit(&b));
    run_until(&b, &is_told);
    assert_false(b.done);
    close_bench(&b);
}

/* Without its shards a step is nothing. */
static void test_a_broken_connection_with_shards_fails_the_step(void **state) {
    (void)state;
    bench b;
    open_lanes(&b, PEER_IS_SILENT, 1);
    submit_prefill(&b);
    while (!b.shards_stream)
        uv_run(&b.loop, UV_RUN_ONCE);
    lh_h2_stream_cancel(b.shards_stream);
    expect(&b, LH_ERR_UNAVAILABLE, "");
    assert_non_null(strstr(b.message, "shards"));
    lh_step_submission_end(submit_prefill(&b));
    uv_run(&b.loop, UV_RUN_NOWAIT);
    close_bench(&b);
    assert_true(b.done);
    assert_int_equal(b.status, LH_ERR_UNAVAILABLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_step_is_a_request),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_answers_before_the_end),
        cmocka_unit_test(test_cancel_and_lost_connections),
        cmocka_unit_test(test_closing_ends_what_is_in_progress),
        cmocka_unit_test(test_shards_go_apart),
        cmocka_unit_test(test_only_shards_go_apart),
        cmocka_unit_test(test_no_client_for_an_address_or_a_chain_that_none_has),
        cmocka_unit_test(test_what_is_ready_are_the_windows_of_the_connections_that_carry_shards),
        cmocka_unit_test(test_the_bytes_of_all_connections_count),
        cmocka_unit_test(test_a_hop_to_nobody_is_refused),
        cmocka_unit_test(test_what_one_connection_measures_is_told),
        cmocka_unit_test(test_shards_that_were_taken_are_no_answer),
        cmocka_unit_test(test_a_step_of_a_trial_is_taken_by_one_with_a_name),
        cmocka_unit_test(test_a_new_owner_is_told),
        cmocka_unit_test(test_without_memory_there_is_no_step),
        cmocka_unit_test(test_a_broken_connection_with_shards_fails_the_step),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
