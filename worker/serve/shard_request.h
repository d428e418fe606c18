/* Requests that bring a step's shards by a connection of their own (PROTOCOL.md, "Several
 * connections"). They may come before the step does, then their bytes wait, within the stream's
 * window; and they may come for a step that has failed, then they are thrown away. Thread: the
 * loop's. */
#pragma once

#include "common/base/byte_queue.h"
#include "common/http2/stream_quota.h"

#include <sys/queue.h>

typedef struct lh_shard_requests lh_shard_requests;

typedef struct lh_shard_request {
    lh_shard_requests *all;
    TAILQ_ENTRY(lh_shard_request) links;
    lh_h2_stream *stream;
    uint64_t number; /* of the step */
    uint32_t epoch;
    void *step;            /* that takes them; NULL: it has not come, or wants them no more */
    bool is_unwanted;      /* the latter */
    bool ended, answered;  /* its body is here; its answer is on the way */
    lh_byte_queue waiting; /* for the step */
    lh_stream_place place; /* the owner's */
} lh_shard_request;

/* Those that are open. Zeroed but for lh_shard_requests_init. */
struct lh_shard_requests {
    TAILQ_HEAD(, lh_shard_request) list;
    size_t waiting_bytes; /* of all that wait for their step */
};

void lh_shard_requests_init(lh_shard_requests *all);
/* NULL: out of memory. */
lh_shard_request *lh_shard_request_create(lh_shard_requests *all, lh_h2_stream *stream,
                                          uint32_t epoch, uint64_t number);
/* Its stream has closed, and no step takes it. */
void lh_shard_request_destroy(lh_shard_request *request);

/* The request that waits for this step; NULL: none. */
lh_shard_request *lh_shard_requests_find(const lh_shard_requests *all, uint32_t epoch,
                                         uint64_t number);

/* The next bytes of the body, where no step takes them: they wait, or are thrown away. Where too
 * much waits the request is cancelled; its sender learns from the reset that the step has
 * failed. */
void lh_shard_request_keep(lh_shard_request *request, const uint8_t *bytes, size_t length);
/* The body is here to its end; it is answered where its step takes it, or wants no more of it. */
void lh_shard_request_end(lh_shard_request *request);

/* From now on the step takes what comes; it begins with what has waited (lh_shard_request_pop). */
void lh_shard_request_attach(lh_shard_request *request, void *step);
/* Moves some of what has waited to `piece`; returns how much: 0: nothing is left. */
size_t lh_shard_request_pop(lh_shard_request *request, uint8_t *piece, size_t capacity);
/* All has been read: the stream closes then. */
void lh_shard_request_answer(lh_shard_request *request);
/* The step wants no more of it; held_bytes: how much of what it took is still in the window. */
void lh_shard_request_leave(lh_shard_request *request, size_t held_bytes);
/* The stream has closed under the step. */
void lh_shard_request_detach(lh_shard_request *request);
