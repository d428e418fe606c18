/* Two batches that swap places. */
#include "gateway/openai/event_queue.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void lh_event_queue_init(lh_event_queue *queue) {
    *queue = (lh_event_queue){0};
    pthread_mutex_init(&queue->mutex, NULL);
}

static void free_batch(lh_event_batch *batch) {
    free(batch->events);
    free(batch->tops);
    free(batch->scores);
    free(batch->sums);
}

void lh_event_queue_reset(lh_event_queue *queue) {
    free_batch(&queue->taken);
    free_batch(&queue->incoming);
    pthread_mutex_destroy(&queue->mutex);
}

static bool push(lh_event_batch *batch, uint32_t choice, const lh_sequence_event *event) {
    if (!lh_growing_array_reserve(&batch->events, &batch->capacity, batch->count + 1,
                                  sizeof *batch->events) ||
        !lh_growing_array_reserve(&batch->tops, &batch->top_capacity,
                                  batch->top_count + event->top_count, sizeof *batch->tops) ||
        !lh_growing_array_reserve(&batch->scores, &batch->score_capacity,
                                  batch->score_count + event->score_count, sizeof *batch->scores) ||
        !lh_growing_array_reserve(&batch->sums, &batch->sum_capacity,
                                  batch->sum_count + event->pooled_count, sizeof *batch->sums))
        return false;
    lh_queued_event *item = &batch->events[batch->count++];
    *item = (lh_queued_event){.choice = choice,
                              .event = *event,
                              .first_top = batch->top_count,
                              .first_score = batch->score_count,
                              .first_sum = batch->sum_count};
    if (event->top_count)
        memcpy(batch->tops + batch->top_count, event->top, event->top_count * sizeof *event->top);
    batch->top_count += event->top_count;
    if (event->score_count)
        memcpy(batch->scores + batch->score_count, event->scores,
               event->score_count * sizeof *event->scores);
    batch->score_count += event->score_count;
    if (event->pooled_count)
        memcpy(batch->sums + batch->sum_count, event->pooled,
               event->pooled_count * sizeof *event->pooled);
    batch->sum_count += event->pooled_count;
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
        taken->next = taken->count = taken->top_count = taken->score_count = 0;
        taken->sum_count = 0;
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
    item->event.top = taken->tops ? taken->tops + item->first_top : NULL;
    item->event.scores = taken->scores ? taken->scores + item->first_score : NULL;
    item->event.pooled = taken->sums ? taken->sums + item->first_sum : NULL;
    *event = item;
    return LH_OK;
}

static size_t bytes_of(const lh_event_batch *batch) {
    return batch->capacity * sizeof *batch->events + batch->top_capacity * sizeof *batch->tops +
           batch->score_capacity * sizeof *batch->scores +
           batch->sum_capacity * sizeof *batch->sums;
}

size_t lh_event_queue_bytes(lh_event_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    size_t incoming = queue->incoming.count > 0 ? bytes_of(&queue->incoming) : 0;
    pthread_mutex_unlock(&queue->mutex);
    return incoming + (queue->taken.next < queue->taken.count ? bytes_of(&queue->taken) : 0);
}
