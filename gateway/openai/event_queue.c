/* Two batches that swap places. */
#include "gateway/openai/event_queue.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <stdlib.h>

void lh_event_queue_init(lh_event_queue *queue) {
    *queue = (lh_event_queue){0};
    pthread_mutex_init(&queue->mutex, NULL);
}

static void free_batch(lh_event_batch *batch) {
    free(batch->events);
    lh_answer_store_reset(&batch->answers);
}

void lh_event_queue_reset(lh_event_queue *queue) {
    free_batch(&queue->taken);
    free_batch(&queue->incoming);
    pthread_mutex_destroy(&queue->mutex);
}

static bool push(lh_event_batch *batch, uint32_t choice, const lh_sequence_event *event) {
    size_t answer = 0;
    if (!lh_growing_array_reserve(&batch->events, &batch->capacity, batch->count + 1,
                                  sizeof *batch->events) ||
        (event->answer && !lh_answer_store_push(&batch->answers, event->answer, &answer)))
        return false;
    lh_queued_event *item = &batch->events[batch->count++];
    *item = (lh_queued_event){.choice = choice, .event = *event, .answer = answer};
    if (event->kind == LH_SEQUENCE_FAILED)
        lh_fail(&item->error, event->status, "%s", event->message ? event->message : "");
    return true;
}

void lh_event_queue_push(lh_event_queue *queue, uint32_t choice, const lh_sequence_event *event) {
    pthread_mutex_lock(&queue->mutex);
    if (!push(&queue->incoming, choice, event))
        queue->lost = true;
    pthread_mutex_unlock(&queue->mutex);
}

lh_status lh_event_queue_next(lh_event_queue *queue, const lh_queued_event **event) {
    lh_event_batch *taken = &queue->taken;
    assert(taken->next <= taken->count);
    if (taken->next == taken->count) {
        taken->next = taken->count = 0;
        lh_answer_store_clear(&taken->answers);
        pthread_mutex_lock(&queue->mutex);
        lh_event_batch swapped = queue->incoming;
        queue->incoming = *taken;
        *taken = swapped;
        bool lost = queue->lost;
        pthread_mutex_unlock(&queue->mutex);
        if (lost)
            return LH_ERR_NO_MEMORY;
    }
    if (taken->next == taken->count)
        return LH_AGAIN;
    lh_queued_event *item = &taken->events[taken->next++];
    if (item->event.answer) {
        queue->answer = lh_answer_store_get(&taken->answers, item->answer);
        item->event.answer = &queue->answer;
    }
    *event = item;
    return LH_OK;
}

static size_t bytes_of(const lh_event_batch *batch) {
    return batch->capacity * sizeof *batch->events + batch->answers.capacity;
}

size_t lh_event_queue_bytes(lh_event_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    size_t incoming = queue->incoming.count > 0 ? bytes_of(&queue->incoming) : 0;
    pthread_mutex_unlock(&queue->mutex);
    return incoming + (queue->taken.next < queue->taken.count ? bytes_of(&queue->taken) : 0);
}
