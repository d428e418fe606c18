/* A loop that runs until the one stream on it is over. */
#include "worker/membership/exchange.h"

#include "common/base/text_buffer.h"
#include "common/http2/client.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct exchange {
    uv_loop_t loop;
    uv_timer_t timer;
    lh_h2_client *client;
    const lh_exchange_request *request;
    lh_h2_stream *stream;
    int http_status;
    lh_text_buffer body;
    bool is_over;
    lh_status status;
    lh_error *error;
} exchange;

static void on_client_closed(void *context) {
    exchange *e = context;
    uv_close((uv_handle_t *)&e->timer, NULL);
}

/* The first outcome stays. */
static void finish(exchange *e, lh_status status, const char *reason) {
    if (e->is_over)
        return;
    e->is_over = true;
    e->status = status == LH_OK ? LH_OK : lh_fail(e->error, status, "%s", reason);
    lh_h2_client_close(e->client, on_client_closed, e);
}

/* ---- The stream ---- */

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    exchange *e = context;
    (void)stream;
    e->http_status = http_status;
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    exchange *e = context;
    lh_h2_stream_consume(stream, length);
    if (length > e->request->answer_bytes_max - e->body.length)
        finish(e, LH_ERR_LIMIT, "the gateway's answer is too long");
    else if (lh_text_buffer_append(&e->body, (const char *)bytes, length, NULL) != LH_OK)
        finish(e, LH_ERR_NO_MEMORY, "out of memory");
}

static void on_end(lh_h2_stream *stream, void *context) {
    exchange *e = context;
    (void)stream;
    finish(e, LH_OK, NULL);
}

static void on_stream_closed(lh_h2_stream *stream, void *context, lh_status status) {
    exchange *e = context;
    (void)stream;
    e->stream = NULL;
    finish(e, LH_ERR_CLOSED,
           status == LH_ERR_CANCELLED ? "the gateway has broken off the request"
                                      : "the connection went before the answer came");
}

static const lh_h2_stream_events events = {.on_response = on_response,
                                           .on_body = on_body,
                                           .on_end = on_end,
                                           .on_closed = on_stream_closed};

static void submit(exchange *e) {
    const lh_exchange_request *request = e->request;
    const lh_h2_header type = {"content-type", "application/json"};
    lh_error error;
    lh_status status =
        lh_h2_client_submit(e->client, request->method, request->path, &type, request->body ? 1 : 0,
                            0, &events, e, &e->stream, &error);
    if (status == LH_OK && request->body)
        status = lh_h2_stream_write(e->stream, request->body, strlen(request->body));
    if (status != LH_OK) {
        finish(e, status, status == LH_ERR_NO_MEMORY ? "out of memory" : error.message);
        return;
    }
    lh_h2_stream_end(e->stream);
}

/* ---- The connection ---- */

static void on_state(void *context, bool connected, const char *reason) {
    exchange *e = context;
    if (e->is_over)
        return;
    if (connected)
        submit(e);
    else
        finish(e, e->stream ? LH_ERR_CLOSED : LH_ERR_UNAVAILABLE, reason);
}

static void on_timeout(uv_timer_t *timer) {
    exchange *e = timer->data;
    finish(e, LH_ERR_TIMEOUT, "no answer in time");
}

static lh_status run(exchange *e, const char *address, const lh_tls_options *tls, lh_error *error) {
    uv_timer_init(&e->loop, &e->timer);
    e->timer.data = e;
    uv_timer_start(&e->timer, on_timeout, (uint64_t)e->request->timeout_ms, 0);
    lh_status status =
        lh_h2_client_create(&e->loop, address, tls, NULL, on_state, e, &e->client, error);
    if (status != LH_OK)
        uv_close((uv_handle_t *)&e->timer, NULL);
    uv_run(&e->loop, UV_RUN_DEFAULT);
    return status == LH_OK ? e->status : status;
}

/* Takes the body over, and puts an end to it. */
static lh_status take_answer(exchange *e, lh_exchange_answer *answer, lh_error *error) {
    if (lh_text_buffer_append(&e->body, "", 1, error) != LH_OK)
        return LH_ERR_NO_MEMORY;
    *answer = (lh_exchange_answer){
        .http_status = e->http_status, .body = e->body.bytes, .length = e->body.length - 1};
    e->body = (lh_text_buffer){0};
    return LH_OK;
}

lh_status lh_exchange(const char *address, const lh_tls_options *tls,
                      const lh_exchange_request *request, lh_exchange_answer *answer,
                      lh_error *error) {
    exchange e = {.request = request, .error = error};
    if (uv_loop_init(&e.loop) != 0)
        return lh_fail(error, LH_ERR_IO, "the event loop cannot be opened");
    lh_status status = run(&e, address, tls, error);
    int code = uv_loop_close(&e.loop);
    assert(code == 0);
    (void)code;
    if (status == LH_OK)
        status = take_answer(&e, answer, error);
    lh_text_buffer_reset(&e.body);
    return status;
}
