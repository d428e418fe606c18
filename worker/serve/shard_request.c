/* A list of requests, and one bound on what waits in all of them. */
#include "worker/serve/shard_request.h"

#include <assert.h>
#include <stdlib.h>

/* As much as of shards that wait for the compute side (PROTOCOL.md). */
#define WAITING_BYTES_MAX ((size_t)64 << 20)

void lh_shard_requests_init(lh_shard_requests *all) {
    *all = (lh_shard_requests){0};
    TAILQ_INIT(&all->list);
}

lh_shard_request *lh_shard_request_create(lh_shard_requests *all, lh_h2_stream *stream,
                                          uint32_t epoch, uint64_t number) {
    lh_shard_request *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->all = all;
    made->stream = stream;
    made->epoch = epoch;
    made->number = number;
    TAILQ_INSERT_TAIL(&all->list, made, links);
    return made;
}

static void note_gone(lh_shard_request *request, size_t length) {
    assert(request->all->waiting_bytes >= length);
    request->all->waiting_bytes -= length;
}

static void drop_waiting(lh_shard_request *request) {
    note_gone(request, request->waiting.bytes);
    lh_byte_queue_reset(&request->waiting);
}

void lh_shard_request_destroy(lh_shard_request *request) {
    assert(!request->step);
    TAILQ_REMOVE(&request->all->list, request, links);
    drop_waiting(request);
    free(request);
}

lh_shard_request *lh_shard_requests_find(const lh_shard_requests *all, uint32_t epoch,
                                         uint64_t number) {
    lh_shard_request *request;
    TAILQ_FOREACH(request, &all->list, links) {
        if (!request->step && !request->is_unwanted && request->number == number &&
            request->epoch == epoch)
            return request;
    }
    return NULL;
}

/* ---- Without a step ---- */

void lh_shard_request_keep(lh_shard_request *request, const uint8_t *bytes, size_t length) {
    assert(!request->step);
    if (request->is_unwanted) {
        lh_h2_stream_consume(request->stream, length);
        return;
    }
    size_t *waiting = &request->all->waiting_bytes;
    if (*waiting + length > WAITING_BYTES_MAX ||
        lh_byte_queue_push(&request->waiting, bytes, length) != LH_OK) {
        drop_waiting(request);
        lh_h2_stream_cancel(request->stream);
        return;
    }
    *waiting += length;
}

void lh_shard_request_answer(lh_shard_request *request) {
    assert(request->ended && !request->answered);
    request->answered = true;
    if (lh_h2_stream_respond(request->stream, 200, "{}") != LH_OK)
        lh_h2_stream_cancel(request->stream);
}

void lh_shard_request_end(lh_shard_request *request) {
    assert(!request->ended);
    request->ended = true;
    if (request->step || request->is_unwanted)
        lh_shard_request_answer(request);
}

/* ---- With a step ---- */

void lh_shard_request_attach(lh_shard_request *request, void *step) {
    assert(!request->step && !request->is_unwanted && !request->answered);
    request->step = step;
}

size_t lh_shard_request_pop(lh_shard_request *request, uint8_t *piece, size_t capacity) {
    size_t length = request->waiting.bytes < capacity ? request->waiting.bytes : capacity;
    lh_byte_queue_pop(&request->waiting, piece, length);
    note_gone(request, length);
    return length;
}

void lh_shard_request_detach(lh_shard_request *request) {
    assert(request->step);
    request->step = NULL;
}

void lh_shard_request_leave(lh_shard_request *request, size_t held_bytes) {
    lh_shard_request_detach(request);
    request->is_unwanted = true;
    lh_h2_stream_consume(request->stream, held_bytes + request->waiting.bytes);
    drop_waiting(request);
    if (request->ended && !request->answered)
        lh_shard_request_answer(request);
}
