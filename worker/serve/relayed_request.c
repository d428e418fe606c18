/* Two streams, and what is between them. */
#include "worker/serve/relayed_request.h"

#include "common/protocol/step.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Bytes of the body ---- */

static void release(lh_relayed_request *request, size_t bytes) {
    assert(request->held_bytes >= bytes && request->totals->held_bytes >= bytes);
    request->held_bytes -= bytes;
    request->totals->held_bytes -= bytes;
    if (request->outer && bytes > 0)
        lh_h2_stream_consume(request->outer, bytes);
}

void lh_relayed_request_count_sent(lh_relayed_request *request) {
    if (request->inner && request->held_bytes > 0)
        release(request, request->held_bytes - lh_h2_stream_queued_bytes(request->inner));
    if (!request->inner || !request->outer || request->answer_held_bytes == 0)
        return;
    size_t queued = lh_h2_stream_queued_bytes(request->outer);
    lh_h2_stream_consume(request->inner, request->answer_held_bytes - queued);
    request->answer_held_bytes = queued;
}

/* ---- The end ---- */

/* Of the inner end: whatever has come and not left goes nowhere. */
static void leave(lh_relayed_request *request) {
    lh_text_buffer_reset(&request->early);
    release(request, request->held_bytes);
    request->answer_held_bytes = 0;
    if (request->leg)
        request->on_left(request);
    request->leg = NULL;
}

static void finish_if_over(lh_relayed_request *request) {
    if (request->outer || request->inner)
        return;
    free(request->target);
    request->on_over(request);
}

static bool answer(lh_relayed_request *request, lh_status status, const char *message) {
    char *body = lh_step_answer_render(request->relay, status, message);
    bool is_sent = body && lh_h2_stream_respond(request->outer, lh_step_answer_http_status(status),
                                                body) == LH_OK;
    free(body);
    return is_sent;
}

void lh_relayed_request_fail(lh_relayed_request *request, lh_status status, const char *message) {
    bool is_told = request->answer_ended ||
                   (request->outer && !request->is_answered && answer(request, status, message));
    if (request->outer && !is_told)
        lh_h2_stream_cancel(request->outer);
    request->is_answered = request->answer_ended = true;
    if (request->inner)
        lh_h2_stream_cancel(request->inner);
    else
        leave(request);
}

/* ---- From the worker behind ---- */

static void on_answer(lh_h2_stream *stream, void *context, int http_status) {
    lh_relayed_request *request = context;
    if (request->is_answered || !request->outer)
        return;
    request->is_answered = true;
    if (lh_h2_stream_respond_headers(request->outer, http_status, NULL, 0, false) != LH_OK)
        lh_h2_stream_cancel(stream);
}

static void on_answer_body(lh_h2_stream *stream, void *context, const uint8_t *bytes,
                           size_t length) {
    lh_relayed_request *request = context;
    if (request->answer_ended || !request->outer) {
        lh_h2_stream_consume(stream, length);
        return;
    }
    request->answer_held_bytes += length;
    if (lh_h2_stream_write(request->outer, bytes, length) != LH_OK)
        lh_h2_stream_cancel(stream);
}

static void on_answer_end(lh_h2_stream *stream, void *context) {
    (void)stream;
    lh_relayed_request *request = context;
    if (request->answer_ended || !request->is_answered || !request->outer)
        return;
    request->answer_ended = true;
    lh_h2_stream_end(request->outer);
}

static void on_inner_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    lh_relayed_request *request = context;
    char message[LH_ERROR_MESSAGE_BYTES];
    request->inner = NULL;
    leave(request);
    snprintf(message, sizeof message, "the connection of the relay to worker '%s': %s", request->to,
             lh_status_text(status));
    if (request->outer && !request->answer_ended && status == LH_ERR_CANCELLED)
        lh_h2_stream_cancel(request->outer);
    else if (request->outer && !request->answer_ended)
        lh_relayed_request_fail(request, LH_ERR_UNAVAILABLE, message);
    finish_if_over(request);
}

static const lh_h2_stream_events inner_events = {.on_response = on_answer,
                                                 .on_body = on_answer_body,
                                                 .on_end = on_answer_end,
                                                 .on_closed = on_inner_closed};

static lh_status submit(lh_relayed_request *request, lh_h2_client *client, lh_error *error) {
    const lh_h2_header headers[] = {{.name = "content-type", .value = LH_STEP_CONTENT_TYPE},
                                    {.name = LH_RELAY_FROM_HEADER, .value = request->from}};
    return lh_h2_client_submit(client, "POST", request->target, headers, 2, request->send_class,
                               &inner_events, request, &request->inner, error);
}

void lh_relayed_request_open(lh_relayed_request *request, lh_h2_client *client) {
    lh_error error;
    assert(!request->inner && request->leg);
    lh_status status = submit(request, client, &error);
    if (status != LH_OK) {
        lh_relayed_request_fail(request, status, error.message);
        return;
    }
    if (request->early.length > 0 &&
        lh_h2_stream_write(request->inner, request->early.bytes, request->early.length) != LH_OK)
        lh_h2_stream_cancel(request->inner);
    lh_text_buffer_reset(&request->early);
    if (request->body_ended)
        lh_h2_stream_end(request->inner);
}

/* ---- From the sender ---- */

static lh_status pass_on(lh_relayed_request *request, const uint8_t *bytes, size_t length) {
    return request->inner
               ? lh_h2_stream_write(request->inner, bytes, length)
               : lh_text_buffer_append(&request->early, (const char *)bytes, length, NULL);
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    lh_relayed_request *request = context;
    if (!request->leg) { /* nobody wants it any more */
        lh_h2_stream_consume(stream, length);
        return;
    }
    request->held_bytes += length;
    request->totals->held_bytes += length;
    request->totals->bytes += length;
    if (request->totals->held_bytes > request->held_bytes_max)
        lh_relayed_request_fail(request, LH_ERR_BUSY, "the relay holds too much for others");
    else if (pass_on(request, bytes, length) != LH_OK)
        lh_relayed_request_fail(request, LH_ERR_NO_MEMORY, "the relay is out of memory");
}

static void on_end(lh_h2_stream *stream, void *context) {
    (void)stream;
    lh_relayed_request *request = context;
    request->body_ended = true;
    if (request->inner)
        lh_h2_stream_end(request->inner);
}

static void on_outer_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)status;
    lh_relayed_request *request = context;
    request->outer = NULL;
    if (!request->inner)
        leave(request);
    else if (!request->answer_ended || !request->body_ended)
        lh_h2_stream_cancel(request->inner);
    finish_if_over(request);
}

/* ---- Its beginning ---- */

static lh_status read_class(const lh_h2_request *http, int *send_class, lh_error *error) {
    const char *text = lh_h2_request_header(http, LH_RELAY_CLASS_HEADER);
    *send_class = text && strcmp(text, "0") == 0 ? LH_STEP_DECODE : LH_STEP_PREFILL;
    return !text || strcmp(text, "0") == 0 || strcmp(text, "1") == 0
               ? LH_OK
               : lh_fail(error, LH_ERR_INVALID, LH_RELAY_CLASS_HEADER " is neither 0 nor 1");
}

static char *join_target(const lh_h2_request *http) {
    size_t bytes = strlen(http->path) + strlen(http->query) + 2;
    char *target = malloc(bytes);
    if (target)
        snprintf(target, bytes, "%s%s%s", http->path, http->query[0] != '\0' ? "?" : "",
                 http->query);
    return target;
}

lh_status lh_relayed_request_begin(lh_relayed_request *request, lh_h2_stream *stream,
                                   const lh_h2_request *http, const lh_h2_stream_events **events,
                                   void **context, lh_error *error) {
    static const lh_h2_stream_events outer_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_outer_closed};
    lh_status status = read_class(http, &request->send_class, error);
    if (status != LH_OK)
        return status;
    request->target = join_target(http);
    if (!request->target)
        return lh_fail(error, LH_ERR_NO_MEMORY, "the relay is out of memory");
    lh_relay_sender_render(http->peer_identity, request->from);
    request->outer = stream;
    request->totals->requests++;
    *events = &outer_events;
    *context = request;
    return LH_OK;
}
