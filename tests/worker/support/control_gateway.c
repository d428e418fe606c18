#include "tests/worker/support/control_gateway.h"

#include "common/protocol/control_seal.h"
#include "common/protocol/trial/trial_request.h"
#include "tests/support/loop.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_MS 20000

typedef struct request {
    control_gateway *gateway;
    bool is_put;
    char body[4096];
    size_t length;
} request;

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    request *q = context;
    assert_true(q->length + length < sizeof q->body);
    memcpy(q->body + q->length, bytes, length);
    q->length += length;
    lh_h2_stream_consume(stream, length);
}

static void answer(control_gateway *g, lh_h2_stream *stream) {
    if (g->raw) {
        lh_h2_stream_respond(stream, g->answer_status, g->raw);
        return;
    }
    char *sealed = lh_control_seal("w", strdup(g->answer));
    assert_non_null(sealed);
    if (g->answer_damage > 0)
        sealed[g->answer_damage] = (char)(sealed[g->answer_damage] ^ 1);
    lh_h2_stream_respond(stream, g->answer_status, sealed);
    free(sealed);
}

static void on_end(lh_h2_stream *stream, void *context) {
    request *q = context;
    control_gateway *g = q->gateway;
    if (!q->is_put) {
        g->results++;
        lh_h2_stream_respond(stream, 200, "{}");
        return;
    }
    size_t length;
    assert_int_equal(lh_control_unseal("w", q->body, q->length, &length, NULL), LH_OK);
    memcpy(g->report, q->body, length);
    g->report[length] = '\0';
    g->puts++;
    if (g->holds)
        g->held = stream;
    else
        answer(g, stream);
}

static void on_request_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)status;
    request *q = context;
    if (q->gateway->held == stream)
        q->gateway->held = NULL;
    free(q);
}

static void on_request(void *context, lh_h2_stream *stream, const lh_h2_request *headers,
                       const lh_h2_stream_events **events, void **stream_context) {
    static const lh_h2_stream_events request_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_request_closed};
    control_gateway *g = context;
    if (strcmp(headers->path, "/chains/c/trials/0") == 0) {
        g->trials++;
        snprintf(g->trial_peer, sizeof g->trial_peer, "%s", headers->peer);
        lh_trial_take(NULL, stream, headers, "", 0, events, stream_context);
        return;
    }
    request *q = calloc(1, sizeof *q);
    assert_non_null(q);
    q->gateway = g;
    q->is_put = strcmp(headers->method, "PUT") == 0;
    if (q->is_put)
        assert_string_equal(headers->path, "/fleet/workers/w");
    else
        assert_int_equal(strncmp(headers->path, "/chains/c/steps/", 16), 0);
    snprintf(q->is_put ? g->put_peer : g->result_peer, sizeof g->put_peer, "%s", headers->peer);
    *events = &request_events;
    *stream_context = q;
}

void control_gateway_open(control_gateway *g, uv_loop_t *loop, const lh_tls_options *tls) {
    lh_h2_limits limits = lh_h2_default_limits();
    char listen[32];
    lh_error error;
    signal(SIGPIPE, SIG_IGN); /* as the worker does: a kept connection may have been closed */
    snprintf(listen, sizeof listen, "127.0.0.1:%d", g->port);
    if (lh_h2_server_create(loop, listen, tls, &limits, on_request, g, &g->server, &error) != LH_OK)
        fail_msg("%s", error.message);
    g->loop = loop;
    g->port = lh_h2_server_port(g->server);
    snprintf(g->url, sizeof g->url, "%s://127.0.0.1:%d", tls ? "https" : "http", g->port);
    if (g->answer_status == 0)
        g->answer_status = 200;
}

void control_gateway_close(control_gateway *g) {
    g->closed = false;
    lh_h2_server_close(g->server, loop_set_flag, &g->closed);
    loop_run_until_set(g->loop, &g->closed);
}

typedef struct awaited {
    const control_gateway *gateway;
    int puts;
} awaited;

static bool reports_have_come(void *context) {
    const awaited *a = context;
    return a->gateway->puts >= a->puts;
}

void control_gateway_await(control_gateway *g, int count) {
    awaited a = {g, g->puts + count};
    assert_true(loop_run_until(g->loop, reports_have_come, &a, PATIENCE_MS));
}

void control_gateway_answer_held(control_gateway *g) {
    assert_non_null(g->held);
    g->holds = false;
    answer(g, g->held);
    g->held = NULL;
}
