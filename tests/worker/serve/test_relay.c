/* Requests through a relay: a real one between a real client and a scripted worker behind it, over
 * loopback. */
#include "common/protocol/client/worker_client.h"
#include "tests/support/loop.h"
#include "worker/serve/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WINDOW (64u << 10)
#define BULK   (16u * WINDOW)

enum { ARRIVALS = 40 };

/* A request as it comes to the worker behind. */
typedef struct arrival {
    lh_h2_stream *stream; /* NULL: closed */
    char path[128], query[32], from[80];
    size_t bytes, consumed;
    uint32_t sum; /* of the bytes, by their places */
    bool ended, closed;
    lh_status status;
} arrival;

/* A step as its sender sees it. */
typedef struct sent {
    bool done;
    lh_status status;
    char worker[64], message[320];
} sent;

typedef struct bench {
    uv_loop_t loop;
    lh_h2_server *behind; /* NULL: closed */
    lh_server *relay;
    lh_worker_client *client;
    bool connected, holds_back; /* the one behind consumes nothing */
    int refuses;                /* it answers with this code at once; 0: with 200 at the end */
    lh_h2_stream *apart;        /* a step that is answered with its shards */
    uint32_t arrival_count;
    arrival arrivals[ARRIVALS];
    int changes;
} bench;

/* ---- The worker behind ---- */

static uint32_t sum_of(uint32_t sum, const uint8_t *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        sum = sum * 31 + bytes[i];
    return sum;
}

typedef struct taken {
    bench *b;
    arrival *at;
} taken;

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    taken *t = context;
    t->at->bytes += length;
    t->at->sum = sum_of(t->at->sum, bytes, length);
    if (!t->b->holds_back) {
        t->at->consumed += length;
        lh_h2_stream_consume(stream, length);
    }
}

static void on_end(lh_h2_stream *stream, void *context) {
    taken *t = context;
    t->at->ended = true;
    if (t->at->query[0] != '\0') { /* its shards come apart */
        t->b->apart = stream;
        return;
    }
    lh_h2_stream_respond(stream, 200, "{}");
    if (t->b->apart)
        lh_h2_stream_respond(t->b->apart, 200, "{}");
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    taken *t = context;
    (void)stream;
    t->at->stream = NULL;
    t->at->closed = true;
    t->at->status = status;
    free(t);
}

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *request,
                       const lh_h2_stream_events **events, void **stream_context) {
    static const lh_h2_stream_events stream_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_closed};
    bench *b = context;
    if (b->refuses) {
        lh_h2_stream_respond(stream, b->refuses,
                             "{\"error\":{\"worker\":\"inner\",\"status\":\"LH_ERR_STALE\","
                             "\"message\":\"old\"}}");
        return;
    }
    assert_in_range(b->arrival_count, 0, ARRIVALS - 1);
    arrival *at = &b->arrivals[b->arrival_count++];
    const char *from = lh_h2_request_header(request, LH_RELAY_FROM_HEADER);
    *at = (arrival){.stream = stream};
    snprintf(at->path, sizeof at->path, "%s %s", request->method, request->path);
    snprintf(at->query, sizeof at->query, "%s", request->query);
    snprintf(at->from, sizeof at->from, "%s", from ? from : "");
    assert_null(lh_h2_request_header(request, LH_RELAY_TO_HEADER));
    taken *t = malloc(sizeof *t);
    assert_non_null(t);
    *t = (taken){b, at};
    *events = &stream_events;
    *stream_context = t;
}

/* ---- The sender ---- */

static void on_state(void *context, bool connected, const char *reason) {
    (void)reason;
    ((bench *)context)->connected = connected;
}

static void on_done(void *context, void *step_context, lh_status status, const char *worker,
                    const char *message) {
    sent *s = step_context;
    (void)context;
    assert_false(s->done);
    s->done = true;
    s->status = status;
    snprintf(s->worker, sizeof s->worker, "%s", worker);
    snprintf(s->message, sizeof s->message, "%s", message);
}

static lh_step_submission *submit(bench *b, uint64_t number, lh_step_class step_class, sent *s) {
    static const uint32_t tokens[1] = {7};
    const lh_step_segment segment = {.sequence = 1, .rows = 1};
    const lh_step_manifest manifest = {.epoch = 3,
                                       .step = number,
                                       .step_class = step_class,
                                       .rows = 1,
                                       .tokens = tokens,
                                       .segment_count = 1,
                                       .segments = &segment};
    lh_step_submission *submission = NULL;
    *s = (sent){.done = false};
    assert_int_equal(lh_worker_client_submit(b->client, &manifest, s, &submission, NULL), LH_OK);
    return submission;
}

static void write_bulk(lh_step_submission *submission, size_t length, uint32_t *sum) {
    uint8_t *bytes = malloc(length);
    assert_non_null(bytes);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (uint8_t)(i * 7 + (i >> 9));
    *sum = sum_of(*sum, bytes, length);
    assert_int_equal(lh_step_submission_write(submission, bytes, length), LH_OK);
}

/* ---- All three ---- */

static void count(void *context) {
    ++((bench *)context)->changes;
}

static lh_server_status status_of(const bench *b) {
    lh_server_status status;
    lh_server_read_status(b->relay, &status);
    return status;
}

static bool is_reached(const bench *b) {
    lh_server_status status = status_of(b);
    return status.reach_count == 1 && status.reaches[0].hop.connected;
}

static bool has_come(void *context) {
    return ((bench *)context)->arrival_count > 0 && ((bench *)context)->arrivals[0].bytes > 0;
}

static bool have_two_come(void *context) {
    return ((bench *)context)->arrival_count > 1;
}

static bool is_reached_now(void *context) {
    return is_reached(context);
}

static bool is_lost_now(void *context) {
    return !is_reached(context);
}

static bool is_half_full(void *context) {
    return status_of(context).relayed.held_bytes >= WINDOW / 2;
}

static bool is_empty(void *context) {
    return status_of(context).relayed.held_bytes == 0;
}

static void run_until(bench *b, bool (*holds)(void *context)) {
    assert_true(loop_run_until(&b->loop, holds, b, 20000));
}

static void run_until_closed(bench *b, const arrival *at) {
    loop_run_until_set(&b->loop, &at->closed);
}

static void open_bench(bench *b, uint32_t lanes, bool relays) {
    static const lh_worker_client_events events = {.on_state = on_state, .on_done = on_done};
    lh_h2_limits limits = lh_h2_default_limits();
    char address[32];
    limits.window_bytes = WINDOW;
    *b = (bench){.connected = false};
    uv_loop_init(&b->loop);
    assert_int_equal(lh_h2_server_create(&b->loop, "127.0.0.1:0", NULL, &limits, on_request, b,
                                         &b->behind, NULL),
                     LH_OK);
    const lh_server_options options = {
        .loop = &b->loop, .name = "r", .listen = "127.0.0.1:0", .limits = limits, .relays = relays};
    assert_int_equal(lh_server_create(&options, &b->relay, NULL), LH_OK);
    lh_server_watch(b->relay, count, NULL, b);
    lh_way inner = {.worker = "inner"};
    snprintf(inner.address, sizeof inner.address, "127.0.0.1:%d", lh_h2_server_port(b->behind));
    lh_server_relay(b->relay, &inner, 1);
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_server_port(b->relay, false));
    assert_int_equal(lh_worker_client_create(&b->loop, address, "main", NULL, &limits, &events, b,
                                             &b->client, NULL),
                     LH_OK);
    lh_worker_client_set_relayed_to(b->client, "inner");
    assert_int_equal(lh_worker_client_add_lanes(b->client, &b->loop, NULL, &limits, lanes, NULL),
                     LH_OK);
    loop_run_until_set(&b->loop, &b->connected);
}

static void close_behind(bench *b) {
    bool is_closed = false;
    lh_h2_server_close(b->behind, loop_set_flag, &is_closed);
    b->behind = NULL;
    loop_run_until_set(&b->loop, &is_closed);
}

static void close_relay(bench *b) {
    bool is_closed = false;
    lh_server_close(b->relay, loop_set_flag, &is_closed);
    b->relay = NULL;
    loop_run_until_set(&b->loop, &is_closed);
}

static void close_bench(bench *b) {
    bool is_closed = false;
    lh_worker_client_close(b->client, loop_set_flag, &is_closed);
    loop_run_until_set(&b->loop, &is_closed);
    if (b->relay)
        close_relay(b);
    if (b->behind)
        close_behind(b);
    uv_run(&b->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&b->loop), 0);
}

/* ---- Tests ---- */

static void a_step_goes_through_as_it_is(void **state) {
    (void)state;
    bench b;
    sent s;
    uint32_t sum = 0;
    open_bench(&b, 0, true);
    lh_step_submission *submission = submit(&b, 42, LH_STEP_PREFILL, &s);
    run_until(&b, has_come);
    /* Its manifest is there while the rest is not even written. */
    assert_int_equal(b.arrival_count, 1);
    arrival *at = &b.arrivals[0];
    assert_true(at->bytes > 0 && !at->ended);
    at->bytes = 0;
    at->sum = 0;
    write_bulk(submission, BULK, &sum);
    lh_step_submission_end(submission);
    loop_run_until_set(&b.loop, &s.done);
    assert_int_equal(s.status, LH_OK);
    assert_string_equal(at->path, "POST /chains/main/steps/42");
    assert_string_equal(at->query, "");
    assert_string_equal(at->from, "unknown"); /* without TLS */
    assert_int_equal(at->bytes, BULK);
    assert_int_equal(at->sum, sum);
    lh_server_status status = status_of(&b);
    assert_int_equal(status.relayed.requests, 1);
    assert_true(status.relayed.bytes > BULK);
    assert_int_equal(status.relayed.held_bytes, 0);
    close_bench(&b);
}

static void shards_may_go_apart(void **state) {
    (void)state;
    bench b;
    sent s;
    uint32_t sum = 0;
    open_bench(&b, 1, true);
    lh_step_submission *submission = submit(&b, 42, LH_STEP_PREFILL, &s);
    write_bulk(submission, BULK, &sum);
    lh_step_submission_end(submission);
    loop_run_until_set(&b.loop, &s.done);
    assert_int_equal(s.status, LH_OK);
    assert_int_equal(b.arrival_count, 2);
    const arrival *shards = &b.arrivals[strstr(b.arrivals[0].path, "/shards/") ? 0 : 1],
                  *step = &b.arrivals[shards == b.arrivals ? 1 : 0];
    assert_string_equal(shards->path, "POST /chains/main/shards/3/42");
    assert_string_equal(step->query, "shards=apart");
    assert_int_equal(shards->bytes, BULK);
    assert_int_equal(shards->sum, sum);
    close_bench(&b);
}

/* What it cannot take stays with the sender, but for a window on either side of the relay. */
static void a_slow_worker_behind_slows_the_sender(void **state) {
    (void)state;
    bench b;
    sent s;
    uint32_t sum = 0;
    open_bench(&b, 0, true);
    b.holds_back = true;
    lh_step_submission *submission = submit(&b, 42, LH_STEP_PREFILL, &s);
    write_bulk(submission, BULK, &sum);
    lh_step_submission_end(submission);
    run_until(&b, is_half_full);
    loop_run_for(&b.loop, 100);
    arrival *at = &b.arrivals[0];
    assert_in_range(at->bytes, 1, WINDOW);
    assert_in_range(status_of(&b).relayed.held_bytes, WINDOW / 2, WINDOW);
    assert_true(lh_step_submission_queued_bytes(submission) >= BULK - 3 * WINDOW);
    /* Another one's decode step does not wait behind it. */
    sent quick;
    b.holds_back = false;
    lh_step_submission *decode = submit(&b, 43, LH_STEP_DECODE, &quick);
    lh_step_submission_end(decode);
    loop_run_until_set(&b.loop, &quick.done);
    assert_int_equal(quick.status, LH_OK);
    assert_false(s.done);
    assert_in_range(at->bytes, 1, WINDOW);
    at->consumed = at->bytes;
    lh_h2_stream_consume(at->stream, at->bytes);
    loop_run_until_set(&b.loop, &s.done);
    assert_int_equal(s.status, LH_OK);
    assert_true(at->bytes > BULK);
    run_until(&b, is_empty);
    close_bench(&b);
}

static void cancelling_goes_both_ways(void **state) {
    (void)state;
    bench b;
    sent s;
    uint32_t sum = 0;
    open_bench(&b, 0, true);
    b.holds_back = true;
    lh_step_submission *submission = submit(&b, 42, LH_STEP_PREFILL, &s);
    write_bulk(submission, BULK, &sum);
    run_until(&b, has_come);
    lh_step_submission_cancel(submission);
    run_until_closed(&b, &b.arrivals[0]);
    assert_int_equal(b.arrivals[0].status, LH_ERR_CANCELLED);
    assert_int_equal(s.status, LH_ERR_CANCELLED);
    submission = submit(&b, 43, LH_STEP_PREFILL, &s);
    write_bulk(submission, BULK, &sum);
    run_until(&b, have_two_come);
    lh_h2_stream_cancel(b.arrivals[1].stream);
    loop_run_until_set(&b.loop, &s.done);
    assert_int_equal(s.status, LH_ERR_UNAVAILABLE);
    run_until(&b, is_empty);
    close_bench(&b);
}

static void a_refusal_comes_back_with_its_name(void **state) {
    (void)state;
    bench b;
    sent s;
    uint32_t sum = 0;
    open_bench(&b, 0, true);
    b.refuses = 409;
    lh_step_submission *submission = submit(&b, 42, LH_STEP_PREFILL, &s);
    write_bulk(submission, BULK, &sum);
    loop_run_until_set(&b.loop, &s.done);
    assert_int_equal(s.status, LH_ERR_STALE);
    assert_string_equal(s.worker, "inner");
    assert_string_equal(s.message, "old");
    run_until(&b, is_empty);
    close_bench(&b);
}

static void a_worker_behind_that_goes_is_told(void **state) {
    (void)state;
    bench b;
    sent s;
    uint32_t sum = 0;
    open_bench(&b, 0, true);
    run_until(&b, is_reached_now);
    assert_int_equal(b.changes, 1);
    lh_step_submission *submission = submit(&b, 42, LH_STEP_PREFILL, &s);
    write_bulk(submission, BULK, &sum);
    run_until(&b, has_come);
    close_behind(&b);
    loop_run_until_set(&b.loop, &s.done);
    assert_int_equal(s.status, LH_ERR_UNAVAILABLE);
    assert_string_equal(s.worker, "r");
    assert_non_null(strstr(s.message, "the connection of the relay to worker 'inner'"));
    run_until(&b, is_lost_now);
    assert_true(b.changes > 1);
    assert_true(status_of(&b).reaches[0].error[0] != '\0');
    submission = submit(&b, 43, LH_STEP_PREFILL, &s);
    lh_step_submission_end(submission);
    loop_run_until_set(&b.loop, &s.done);
    assert_int_equal(s.status, LH_ERR_UNAVAILABLE);
    assert_non_null(strstr(s.message, "the relay does not reach worker 'inner' at 127.0.0.1:"));
    close_bench(&b);
}

static void expect_refusal(bench *b, const char *message) {
    sent s;
    lh_step_submission_end(submit(b, 42, LH_STEP_DECODE, &s));
    loop_run_until_set(&b->loop, &s.done);
    assert_int_equal(s.status, LH_ERR_NOT_FOUND);
    assert_string_equal(s.worker, "r");
    assert_string_equal(s.message, message);
}

static void it_relays_for_whom_it_is_told_to(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 0, true);
    lh_worker_client_set_relayed_to(b.client, "else");
    expect_refusal(&b, "this worker relays for no 'else'");
    lh_worker_client_set_relayed_to(b.client, "inner");
    lh_server_relay(b.relay, NULL, 0);
    assert_int_equal(status_of(&b).reach_count, 0);
    expect_refusal(&b, "this worker relays for no 'inner'");
    close_bench(&b);
    open_bench(&b, 0, false);
    expect_refusal(&b, "this worker does not relay (--relay)");
    close_bench(&b);
}

/* A connection of a sender's with a trial that never ends. */
typedef struct holder {
    lh_h2_client *client;
    lh_h2_stream *stream;
    bool connected, closed;
    int http_status;
} holder;

static void on_holder_state(void *context, bool connected, const char *reason) {
    (void)reason;
    ((holder *)context)->connected = connected;
}

static void on_holder_response(lh_h2_stream *stream, void *context, int http_status) {
    (void)stream;
    ((holder *)context)->http_status = http_status;
}

static void on_holder_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream, (void)status;
    ((holder *)context)->closed = true;
}

static void hold(bench *b, holder *h) {
    static const lh_h2_stream_events events = {.on_response = on_holder_response,
                                               .on_closed = on_holder_closed};
    const lh_h2_header to = {.name = LH_RELAY_TO_HEADER, .value = "inner"};
    const lh_h2_limits limits = lh_h2_default_limits();
    char address[32];
    *h = (holder){.connected = false};
    snprintf(address, sizeof address, "127.0.0.1:%d", lh_server_port(b->relay, false));
    assert_int_equal(
        lh_h2_client_create(&b->loop, address, NULL, &limits, on_holder_state, h, &h->client, NULL),
        LH_OK);
    loop_run_until_set(&b->loop, &h->connected);
    assert_int_equal(lh_h2_client_submit(h->client, "POST", "/chains/main/trials/64", &to, 1, 1,
                                         &events, h, &h->stream, NULL),
                     LH_OK);
}

static bool have_sixteen_come(void *context) {
    return ((bench *)context)->arrival_count == 16;
}

static void let_go(bench *b, holder *h) {
    bool is_closed = false;
    lh_h2_client_close(h->client, loop_set_flag, &is_closed);
    loop_run_until_set(&b->loop, &is_closed);
}

/* Sixteen connections to a worker, which is what a hop has at most; not all that it takes. */
static void a_sender_has_a_share_of_connections(void **state) {
    (void)state;
    enum { HOLDERS = 17 };
    bench b;
    holder holders[HOLDERS];
    open_bench(&b, 0, true);
    for (uint32_t i = 0; i < HOLDERS; i++)
        hold(&b, &holders[i]);
    loop_run_until_set(&b.loop, &holders[HOLDERS - 1].closed);
    assert_int_equal(holders[HOLDERS - 1].http_status, 429);
    run_until(&b, have_sixteen_come);
    for (uint32_t i = 0; i + 1 < HOLDERS; i++)
        assert_false(holders[i].closed);
    let_go(&b, &holders[0]); /* and one that carries nothing makes room */
    run_until_closed(&b, &b.arrivals[0]);
    let_go(&b, &holders[HOLDERS - 1]);
    hold(&b, &holders[0]);
    while (b.arrival_count < 17 && !holders[0].closed)
        uv_run(&b.loop, UV_RUN_ONCE);
    assert_false(holders[0].closed);
    for (uint32_t i = 0; i + 1 < HOLDERS; i++)
        let_go(&b, &holders[i]);
    close_bench(&b);
}

static void it_ends_with_what_it_carries(void **state) {
    (void)state;
    bench b;
    sent s;
    uint32_t sum = 0;
    open_bench(&b, 0, true);
    b.holds_back = true;
    lh_step_submission *submission = submit(&b, 42, LH_STEP_PREFILL, &s);
    write_bulk(submission, BULK, &sum);
    run_until(&b, has_come);
    close_relay(&b);
    loop_run_until_set(&b.loop, &s.done);
    assert_int_equal(s.status, LH_ERR_UNAVAILABLE);
    run_until_closed(&b, &b.arrivals[0]);
    close_bench(&b);
}

/* A hop through a relay is tried as any other one. */
static void a_hop_through_it_is_proven(void **state) {
    (void)state;
    uv_loop_t loop;
    lh_server *servers[3];
    static const char *const names[] = {"w", "r", "inner"};
    uv_loop_init(&loop);
    for (int i = 0; i < 3; i++) {
        const lh_server_options options = {.loop = &loop,
                                           .name = names[i],
                                           .listen = "127.0.0.1:0",
                                           .limits = lh_h2_default_limits(),
                                           .relays = i == 1};
        assert_int_equal(lh_server_create(&options, &servers[i], NULL), LH_OK);
    }
    lh_way inner = {.worker = "inner"};
    snprintf(inner.address, sizeof inner.address, "127.0.0.1:%d",
             lh_server_port(servers[2], false));
    lh_server_relay(servers[1], &inner, 1);
    lh_chain_route route = {
        .chain = "main", .next = {.worker = "inner", .via = "r"}, .width = 64, .wire = LH_WIRE_Q8};
    snprintf(route.next.address, sizeof route.next.address, "127.0.0.1:%d",
             lh_server_port(servers[1], false));
    lh_server_try(servers[0], &route);
    lh_server_status status = {.trial.state = LH_HOP_TRIAL_RUNNING};
    for (int i = 0; i < 500 && status.trial.state == LH_HOP_TRIAL_RUNNING; i++) {
        loop_run_for(&loop, 10);
        lh_server_read_status(servers[0], &status);
    }
    assert_string_equal(status.trial.error, "");
    assert_int_equal(status.trial.state, LH_HOP_TRIAL_PROVEN);
    for (int i = 0; i < 3; i++)
        lh_server_close(servers[i], NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_goes_through_as_it_is),
        cmocka_unit_test(shards_may_go_apart),
        cmocka_unit_test(a_slow_worker_behind_slows_the_sender),
        cmocka_unit_test(cancelling_goes_both_ways),
        cmocka_unit_test(a_refusal_comes_back_with_its_name),
        cmocka_unit_test(a_worker_behind_that_goes_is_told),
        cmocka_unit_test(it_relays_for_whom_it_is_told_to),
        cmocka_unit_test(a_sender_has_a_share_of_connections),
        cmocka_unit_test(it_ends_with_what_it_carries),
        cmocka_unit_test(a_hop_through_it_is_proven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
