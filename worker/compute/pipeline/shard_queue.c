/* The queue between two threads: a linked list, a lock and a condition. */
#include "worker/compute/pipeline/shard_queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

struct lh_shard_queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    lh_message *head, **tail;
    size_t capacity_bytes, charged_bytes;
    bool nudged, announced; /* announced: `wake` was called since the queue was last empty */
    void (*wake)(void *);
    void *wake_context;
};

lh_status lh_shard_queue_create(size_t capacity_bytes, void (*wake)(void *), void *wake_context,
                                lh_shard_queue **queue, lh_error *error) {
    lh_shard_queue *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "shard queue: out of memory");
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->filled, NULL);
    made->tail = &made->head;
    made->capacity_bytes = capacity_bytes;
    made->wake = wake;
    made->wake_context = wake_context;
    *queue = made;
    return LH_OK;
}

void lh_shard_queue_destroy(lh_shard_queue *queue) {
    if (!queue)
        return;
    assert(!queue->head);
    pthread_cond_destroy(&queue->filled);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static void append(lh_shard_queue *queue, lh_message *message) {
    message->next = NULL;
    *queue->tail = message;
    queue->tail = &message->next;
    queue->charged_bytes += message->charge;
}

static void tell(lh_shard_queue *queue, bool is_news) {
    if (is_news && queue->wake)
        queue->wake(queue->wake_context);
}

void lh_shard_queue_push(lh_shard_queue *queue, lh_message *message) {
    pthread_mutex_lock(&queue->lock);
    append(queue, message);
    bool is_news = !queue->announced;
    queue->announced = true;
    pthread_mutex_unlock(&queue->lock);
    /* after the lock: who wakes up on this core would only wait for it */
    pthread_cond_signal(&queue->filled);
    tell(queue, is_news);
}

void lh_shard_queue_leave(lh_shard_queue *queue, lh_message *message) {
    pthread_mutex_lock(&queue->lock);
    append(queue, message);
    pthread_mutex_unlock(&queue->lock);
}

void lh_shard_queue_announce(lh_shard_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    bool is_news = queue->head && !queue->announced;
    queue->announced |= is_news;
    pthread_mutex_unlock(&queue->lock);
    tell(queue, is_news);
}

lh_message *lh_shard_queue_pop(lh_shard_queue *queue, bool wait) {
    pthread_mutex_lock(&queue->lock);
    while (wait && !queue->head && !queue->nudged)
        pthread_cond_wait(&queue->filled, &queue->lock);
    if (wait)
        queue->nudged = false;
    lh_message *message = queue->head;
    if (message) {
        queue->head = message->next;
        if (!queue->head) {
            queue->tail = &queue->head;
            queue->announced = false;
        }
    }
    pthread_mutex_unlock(&queue->lock);
    return message;
}

void lh_shard_queue_nudge(lh_shard_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->nudged = true;
    pthread_mutex_unlock(&queue->lock);
    pthread_cond_signal(&queue->filled);
}

bool lh_shard_queue_release(lh_shard_queue *queue, size_t bytes) {
    pthread_mutex_lock(&queue->lock);
    assert(bytes <= queue->charged_bytes);
    bool was_full = queue->charged_bytes >= queue->capacity_bytes;
    queue->charged_bytes -= bytes;
    bool has_room = was_full && queue->charged_bytes < queue->capacity_bytes;
    pthread_mutex_unlock(&queue->lock);
    return has_room;
}

bool lh_shard_queue_is_full(lh_shard_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    bool full = queue->charged_bytes >= queue->capacity_bytes;
    pthread_mutex_unlock(&queue->lock);
    return full;
}
