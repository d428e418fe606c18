/* The sequences that wait for a place on the chain, and which of them is next. The queue owns no sequence: who pushes one takes
 * it off again before it is moved or destroyed. Thread: one at a time. */
#pragma once

#include "gateway/schedule/sequence.h"

typedef struct lh_wait_queue lh_wait_queue;

lh_status lh_wait_queue_create(lh_wait_queue **queue, lh_error *error);
/* NULL is allowed. Sequences that still wait are destroyed. */
void lh_wait_queue_destroy(lh_wait_queue *queue);

/* A sequence that has come: its id is the greatest so far. */
void lh_wait_queue_push(lh_wait_queue *queue, lh_sequence *sequence);
/* One that ran comes back, into the place that it had: before all that came after it. Cannot fail. */
void lh_wait_queue_put_back(lh_wait_queue *queue, lh_sequence *sequence);
/* The one that is to run next, which stays in the queue; NULL: none waits. */
lh_sequence *lh_wait_queue_next(const lh_wait_queue *queue);
void lh_wait_queue_remove(lh_wait_queue *queue, lh_sequence *sequence);

uint32_t lh_wait_queue_count(const lh_wait_queue *queue);
/* Walks all that wait: NULL starts, NULL ends. What is removed must not be the one that the walk goes on from. */
lh_sequence *lh_wait_queue_walk(const lh_wait_queue *queue, const lh_sequence *sequence);
