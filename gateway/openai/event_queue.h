/* Events of the engine on their way to the thread that serves the request: pushed on the engine's
 * thread, which never waits, taken in order by one owner. It grows with what the owner has not
 * taken; a request's token limit bounds it. */
#pragma once

#include "gateway/schedule/sequence_request.h"

#include <pthread.h>

typedef struct lh_queued_event {
    uint32_t choice;
    lh_sequence_event event; /* its lists: until the next call of _next */
    size_t first_top, first_score, first_sum;
    lh_error error; /* FAILED */
} lh_queued_event;

typedef struct lh_event_batch {
    lh_queued_event *events;
    size_t count, capacity, next;
    lh_token_logprob *tops;
    size_t top_count, top_capacity;
    lh_token_score *scores;
    size_t score_count, score_capacity;
    int64_t *sums;
    size_t sum_count, sum_capacity;
} lh_event_batch;

typedef struct lh_event_queue {
    lh_event_batch taken; /* the owner's */
    pthread_mutex_t mutex;
    lh_event_batch incoming; /* under the mutex */
    bool lost;               /* an event found no memory */
} lh_event_queue;

void lh_event_queue_init(lh_event_queue *queue);
void lh_event_queue_reset(lh_event_queue *queue);
/* Copies the event. Any thread. Without memory the queue gives LH_ERR_NO_MEMORY from then on. */
void lh_event_queue_push(lh_event_queue *queue, uint32_t choice, const lh_sequence_event *event);
/* The next event, valid until the next call; LH_AGAIN: none now; LH_ERR_NO_MEMORY: one was lost.
 * The owner. */
lh_status lh_event_queue_next(lh_event_queue *queue, const lh_queued_event **event);
/* Of memory, for what was not taken yet. The owner. */
size_t lh_event_queue_bytes(lh_event_queue *queue);
