/* A bounded queue of messages between the I/O thread and the compute thread; a pipeline has two of
 * them, one in each direction, and the two threads meet nowhere else.
 *
 * A push never blocks and never fails: a message is an allocated link. The bound is on bytes: a
 * message is charged on its push, and the charge stays until the receiving side says that the bytes
 * are gone for good (lh_shard_queue_release), which may be long after the pop. A producer looks at
 * lh_shard_queue_is_full before it makes more: the I/O thread stops opening windows, the compute
 * thread starts no further prefill step.
 *
 * Thread: any; one consumer. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct lh_shard_queue lh_shard_queue;

/* The head of every message; the rest of the struct is its kind's. */
typedef struct lh_message {
    struct lh_message *next; /* the queue's */
    int kind;
    size_t charge; /* bytes counted against the bound */
} lh_message;

/* wake (may be NULL) is called by the producer, on its thread, when a message comes into a queue in
 * which there was none that it had been called for. */
lh_status lh_shard_queue_create(size_t capacity_bytes, void (*wake)(void *), void *wake_context,
                                lh_shard_queue **queue, lh_error *error);
/* The queue must be empty. NULL is allowed. */
void lh_shard_queue_destroy(lh_shard_queue *queue);

/* Takes over the message. */
void lh_shard_queue_push(lh_shard_queue *queue, lh_message *message);
/* The same for one that can wait: it wakes nobody, neither a consumer that sleeps in
 * lh_shard_queue_pop nor one that `wake` tells, and is found with the next message, or after
 * lh_shard_queue_announce. Threads that share a core cost each other a switch for each wake-up. */
void lh_shard_queue_leave(lh_shard_queue *queue, lh_message *message);
/* Calls wake where messages were left that it has not been called for. */
void lh_shard_queue_announce(lh_shard_queue *queue);
/* The oldest message, the caller's from now on; NULL when there is none. With `wait` it sleeps
 * until there is one or until lh_shard_queue_nudge (then NULL). */
lh_message *lh_shard_queue_pop(lh_shard_queue *queue, bool wait);
/* Lets the consumer's present or next wait return. */
void lh_shard_queue_nudge(lh_shard_queue *queue);

/* Gives back `bytes` of charge. True: the queue was full, and no longer is. */
bool lh_shard_queue_release(lh_shard_queue *queue, size_t bytes);
bool lh_shard_queue_is_full(lh_shard_queue *queue);
