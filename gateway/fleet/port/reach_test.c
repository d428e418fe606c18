/* A client that is closed as soon as it is connected, or has said why it is
 * not. */
#include "gateway/fleet/port/reach_test.h"

#include "common/base/clock.h"
#include "common/http2/client.h"
#include "common/protocol/join/join_messages_json.h"
#include "gateway/fleet/port/body_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 5000

/* One of a worker at a time. The stream is there until the client has answered
 * or given up. */
static const lh_stream_quota_limits quota_limits = {
    .peer_max = 1, .all_max = 16, .stall_ms = 8000, .whole_ms = 10000};

typedef struct reach_test {
    lh_body_reader body; /* first: its address is the test's */
    lh_reach_tests *tests;
    char worker[LH_NAME_BYTES];
    lh_h2_client *client; /* NULL: not yet, or it is closing */
    int64_t begun_us;
    bool is_client_open; /* until it has closed */
} reach_test;

static void free_when_all_is_closed(reach_test *test) {
    if (!test->body.stream && !test->is_client_open)
        free(test);
}

static void on_client_closed(void *context) {
    reach_test *test = context;
    test->is_client_open = false;
    free_when_all_is_closed(test);
}

static void close_client(reach_test *test) {
    lh_h2_client *client = test->client;
    test->client = NULL;
    if (client)
        lh_h2_client_close(client, on_client_closed, test);
}

static void answer(reach_test *test, const lh_join_reach *reach) {
    char *text = lh_join_reach_render(reach);
    if (test->body.stream)
        lh_h2_stream_respond(test->body.stream, text ? 200 : 500,
                             text ? text : "the gateway is out of memory\n");
    free(text);
}

/* The first word decides: what the client would try again is the worker's to
 * ask again. */
static void on_state(void *context, bool connected, const char *reason) {
    reach_test *test = context;
    lh_join_reach reach = {.is_reached = connected, .us = lh_clock_us() - test->begun_us};
    if (!test->client)
        return;
    snprintf(reach.error, sizeof reach.error, "%.*s", (int)sizeof reach.error - 1, reason);
    answer(test, &reach);
    close_client(test);
}

static lh_status connect_to(reach_test *test, const char *address, lh_error *error) {
    lh_tls_options tls = lh_tls_options_for(test->tests->tls, test->worker);
    test->begun_us = lh_clock_us();
    lh_status status = lh_h2_client_create(test->tests->loop, address, &tls, &test->tests->limits,
                                           on_state, test, &test->client, error);
    test->is_client_open = status == LH_OK;
    return status;
}

static void on_whole(lh_body_reader *body) {
    reach_test *test = (reach_test *)body;
    char address[LH_JOIN_ADDRESS_BYTES], text[LH_ERROR_MESSAGE_BYTES + 1];
    lh_error error;
    lh_status status = lh_join_reach_request_parse(body->bytes, body->length, address, &error);
    if (status == LH_OK)
        status = connect_to(test, address, &error);
    if (status == LH_OK)
        return;
    snprintf(text, sizeof text, "%.*s\n", LH_ERROR_MESSAGE_BYTES - 2, error.message);
    lh_h2_stream_respond(body->stream, status == LH_ERR_NO_MEMORY ? 500 : 400, text);
}

static void on_body_closed(lh_body_reader *body) {
    reach_test *test = (reach_test *)body;
    close_client(test);
    free_when_all_is_closed(test);
}

void lh_reach_tests_take(lh_reach_tests *tests, lh_h2_stream *stream, const lh_h2_request *request,
                         const lh_h2_stream_events **events, void **context) {
    reach_test *test = calloc(1, sizeof *test);
    if (!test) {
        lh_h2_stream_respond(stream, 503, "the gateway is out of memory\n");
        return;
    }
    test->tests = tests;
    snprintf(test->worker, sizeof test->worker, "%s", request->peer_identity->name);
    test->body.on_whole = on_whole;
    test->body.on_closed = on_body_closed;
    if (lh_body_reader_begin(&test->body, &tests->quota, stream, request, events, context) != LH_OK)
        free(test);
}

void lh_reach_tests_init(lh_reach_tests *tests, uv_loop_t *loop, const lh_tls_options *tls,
                         const lh_h2_limits *limits) {
    *tests = (lh_reach_tests){.loop = loop, .tls = tls, .limits = *limits};
    tests->limits.connect_timeout_ms = WAIT_MS;
    lh_stream_quota_init(&tests->quota, loop, "tests of workers' addresses", &quota_limits);
}

void lh_reach_tests_close(lh_reach_tests *tests, void (*on_closed)(void *), void *context) {
    lh_stream_quota_close(&tests->quota, on_closed, context);
}
