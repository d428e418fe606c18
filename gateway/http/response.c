/* Responses and their content reader. */
#include "gateway/http/response.h"

#include "gateway/http/connection_table.h"
#include "gateway/http/gzip.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* What there is of the answer waits for the client alone. */
static void note_takes(lh_http_exchange *exchange) {
    lh_http_connection_note_takes(exchange);
    lh_connection_table_wait(exchange->around->table, exchange, LH_HTTP_WAITS_TO_TAKE);
}

/* There is nothing to take. False: it was woken meanwhile. */
static bool wait_for_more(lh_http_exchange *exchange) {
    lh_connection_table_wait(exchange->around->table, exchange, LH_HTTP_WAITS_NOT);
    return lh_http_connection_wait(exchange);
}

static ssize_t on_read(void *context, uint64_t position, char *buffer, size_t capacity) {
    (void)position;
    lh_http_exchange *exchange = context;
    for (;;) {
        if (lh_http_connection_is_gone(exchange))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        size_t length = 0;
        switch (exchange->around->handler.on_read(exchange->state, buffer, capacity, &length)) {
        case LH_HTTP_READY:
            assert(length > 0 && length <= capacity);
            note_takes(exchange);
            exchange->streamed_bytes += length;
            return (ssize_t)length;
        case LH_HTTP_END:
            note_takes(exchange);
            return MHD_CONTENT_READER_END_OF_STREAM;
        case LH_HTTP_BREAK:
            lh_http_connection_break(exchange);
            return MHD_CONTENT_READER_END_WITH_ERROR;
        case LH_HTTP_WAIT:
            if (wait_for_more(exchange))
                return 0;
        }
    }
}

/* Of chunks the library makes in the connection's memory; this is for clients of HTTP/1.0 alone,
 * and each stream that is open has it. */
#define STREAM_BLOCK_BYTES 4096

/* Less is not worth a thread's time; more would hold it too long from other clients. */
#define COMPRESSED_FROM_BYTES 4096u
#define COMPRESSED_MAX_BYTES  (384u << 10)

/* A long answer, for a client that takes it so. Events are not compressed: each is sent at once. */
static void compress(const lh_http_exchange *exchange, lh_http_reply *reply) {
    char *packed;
    size_t length;
    if (reply->streamed || reply->body_bytes < COMPRESSED_FROM_BYTES ||
        reply->body_bytes > COMPRESSED_MAX_BYTES)
        return;
    lh_http_reply_add(reply, "Vary", "Accept-Encoding");
    if (!lh_gzip_is_accepted(lh_http_request_header(&exchange->request, "Accept-Encoding")) ||
        lh_gzip_compress(reply->body, reply->body_bytes, &packed, &length) != LH_OK)
        return; /* as it is */
    free(reply->body);
    reply->body = packed;
    reply->body_bytes = length;
    lh_http_reply_add(reply, "Content-Encoding", "gzip");
}

/* ---- Whole answers. ---- */

/* The library asks for so many bytes of a long answer at once, so that it shows how much the client
 * has taken. A shorter one is the library's at once. */
#define WHOLE_BLOCK_BYTES 32768u

typedef struct whole_body {
    lh_http_exchange *exchange;
    char *bytes;
} whole_body;

static ssize_t read_whole(void *context, uint64_t position, char *buffer, size_t capacity) {
    const whole_body *body = context;
    memcpy(buffer, body->bytes + position, capacity);
    lh_http_connection_note_sent(body->exchange, position);
    return (ssize_t)capacity;
}

static void free_whole(void *context) {
    whole_body *body = context;
    free(body->bytes);
    free(body);
}

/* Takes the reply's body. NULL: no memory. */
static struct MHD_Response *long_response(lh_http_exchange *exchange, lh_http_reply *reply) {
    whole_body *body = malloc(sizeof *body);
    if (!body)
        return NULL;
    *body = (whole_body){exchange, reply->body};
    struct MHD_Response *response = MHD_create_response_from_callback(
        reply->body_bytes, WHOLE_BLOCK_BYTES, read_whole, body, free_whole);
    if (response)
        reply->body = NULL;
    else
        free(body);
    return response;
}

static struct MHD_Response *short_response(lh_http_reply *reply) {
    struct MHD_Response *response =
        MHD_create_response_from_buffer(reply->body_bytes, reply->body, MHD_RESPMEM_MUST_FREE);
    if (response)
        reply->body = NULL;
    return response;
}

/* Where answers that nobody reads have all the memory there is for answers, it becomes a refusal,
 * which is short. */
static void take_room(lh_http_exchange *exchange, lh_http_reply *reply) {
    if (!reply->body_bytes || lh_http_connection_take_answer_room(exchange, reply->body_bytes))
        return;
    free(reply->body);
    *reply = (lh_http_reply){.status = 503, .close = reply->close};
    exchange->around->handler.on_refusal(
        exchange->state, 503, "The server has too many answers that were not read yet.", reply);
}

static struct MHD_Response *response_for(lh_http_exchange *exchange, lh_http_reply *reply) {
    struct MHD_Response *response;
    assert(reply->status && !(reply->streamed && reply->body));
    if (reply->streamed)
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, on_read,
                                                     exchange, NULL);
    else
        response = reply->body_bytes > WHOLE_BLOCK_BYTES ? long_response(exchange, reply)
                                                         : short_response(reply);
    for (size_t i = 0; response && i < reply->header_count; i++)
        MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
    if (response && reply->close)
        MHD_add_response_header(response, "Connection", "close");
    return response;
}

enum MHD_Result lh_http_response_queue(lh_http_exchange *exchange, lh_http_reply *reply) {
    /* A proxy in front may have read the chunks of a body in another way: no second request on such
     * a connection. */
    if (exchange->request.chunked)
        reply->close = true;
    compress(exchange, reply);
    take_room(exchange, reply);
    struct MHD_Response *response = response_for(exchange, reply);
    free(reply->body);
    reply->body = NULL;
    if (!response)
        return MHD_NO;
    pthread_mutex_lock(&exchange->mutex);
    exchange->status = reply->status;
    pthread_mutex_unlock(&exchange->mutex);
    MHD_set_connection_option(exchange->mhd, MHD_CONNECTION_OPTION_TIMEOUT,
                              (exchange->around->config.stall_deadline_ms + 999) / 1000);
    enum MHD_Result result = MHD_queue_response(exchange->mhd, reply->status, response);
    MHD_destroy_response(response);
    if (!reply->streamed)
        note_takes(exchange);
    return result;
}

enum MHD_Result lh_http_response_proceed(lh_http_exchange *exchange, lh_http_progress progress,
                                         lh_http_reply *reply) {
    while (progress == LH_HTTP_WAIT) {
        if (lh_http_connection_wait(exchange))
            return MHD_YES;
        if (lh_http_connection_is_gone(exchange))
            return MHD_NO;
        progress = exchange->around->handler.on_wake(exchange->state, reply);
    }
    if (progress == LH_HTTP_READY)
        return lh_http_response_queue(exchange, reply);
    assert(progress == LH_HTTP_BREAK);
    free(reply->body);
    lh_http_connection_break(exchange);
    return MHD_NO;
}
