/* A binary heap. */
#include "tests/fleet/support/event_queue.h"

#include <assert.h>
#include <stdlib.h>

typedef struct event {
    int64_t time_us;
    uint64_t order;
    event_function *run;
    void *context, *argument;
} event;

struct event_queue {
    event *heap;
    size_t count, capacity;
    uint64_t order;
};

event_queue *event_queue_create(void) {
    event_queue *queue = calloc(1, sizeof *queue);
    assert(queue);
    return queue;
}

void event_queue_destroy(event_queue *queue) {
    for (size_t i = 0; i < queue->count; i++)
        free(queue->heap[i].argument);
    free(queue->heap);
    free(queue);
}

static int is_before(const event *a, const event *b) {
    return a->time_us != b->time_us ? a->time_us < b->time_us : a->order < b->order;
}

void event_queue_push(event_queue *queue, int64_t time_us, event_function *run, void *context,
                      void *argument) {
    if (queue->count == queue->capacity) {
        queue->capacity = queue->capacity ? 2 * queue->capacity : 64;
        queue->heap = realloc(queue->heap, queue->capacity * sizeof *queue->heap);
        assert(queue->heap);
    }
    event added = {time_us, queue->order++, run, context, argument};
    size_t at = queue->count++;
    for (; at > 0 && is_before(&added, &queue->heap[(at - 1) / 2]); at = (at - 1) / 2)
        queue->heap[at] = queue->heap[(at - 1) / 2];
    queue->heap[at] = added;
}

int64_t event_queue_next_us(const event_queue *queue) {
    return queue->count ? queue->heap[0].time_us : INT64_MAX;
}

static event pop(event_queue *queue) {
    event first = queue->heap[0], last = queue->heap[--queue->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= queue->count)
            break;
        if (child + 1 < queue->count && is_before(&queue->heap[child + 1], &queue->heap[child]))
            child++;
        if (!is_before(&queue->heap[child], &last))
            break;
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    queue->heap[at] = last;
    return first;
}

void event_queue_run_next(event_queue *queue) {
    assert(queue->count > 0);
    event next = pop(queue);
    next.run(next.context, next.argument);
    free(next.argument);
}
