/* Events of the engine on their way to the thread that serves the request: pushed on the engine's
 * thread, which never waits, taken in order by one owner. It grows with what the owner has not
 * taken; a request's token limit bounds it. */
#pragma once

#include "gateway/schedule/answer_store.h"
#include "gateway/schedule/sequence_request.h"

#include <pthread.h>

typedef struct lh_queued_event {
    uint32_t choice;
    lh_sequence_event event; /* its answer: until the next call of _next */
    size_t answer;           /* where that lies in the store, if the event has one */
    lh_error error;          /* FAILED */
} lh_queued_event;

typedef struct lh_event_batch {
    lh_queued_event *events;
    size_t count, capacity, next;
    lh_answer_store answers;
} lh_event_batch;

typedef struct lh_event_queue {
    lh_event_batch taken; /* the owner's */
    lh_row_answer answer; /* of the event that it was given last */
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
