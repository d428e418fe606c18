/* Two arrays that grow to the most events of one turn. */
#include "gateway/engine/deferred_events.h"

#include "common/base/growing_array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct deferred_event {
    uint64_t handle;
    lh_sequence_event event;
    size_t first_top;
} deferred_event;

struct lh_deferred_events {
    void (*deliver)(void *context, uint64_t handle, const lh_sequence_event *event);
    void *context;
    bool is_sending;
    deferred_event *events;
    size_t count, capacity;
    lh_token_logprob *tops;
    size_t top_count, top_capacity;
};

lh_status lh_deferred_events_create(void (*deliver)(void *context, uint64_t handle,
                                                    const lh_sequence_event *event),
                                    void *context, lh_deferred_events **deferred, lh_error *error) {
    lh_deferred_events *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for events");
    made->deliver = deliver;
    made->context = context;
    *deferred = made;
    return LH_OK;
}

void lh_deferred_events_destroy(lh_deferred_events *deferred) {
    if (!deferred)
        return;
    free(deferred->events);
    free(deferred->tops);
    free(deferred);
}

static bool has_room(lh_deferred_events *deferred, const lh_sequence_event *event) {
    return lh_growing_array_reserve(&deferred->events, &deferred->capacity, deferred->count + 1,
                                    sizeof *deferred->events) &&
           lh_growing_array_reserve(&deferred->tops, &deferred->top_capacity,
                                    deferred->top_count + event->top_count, sizeof *deferred->tops);
}

void lh_deferred_events_push(lh_deferred_events *deferred, uint64_t handle,
                             const lh_sequence_event *event) {
    assert(!deferred->is_sending);
    bool waits = event->kind == LH_SEQUENCE_TOKEN || event->kind == LH_SEQUENCE_FINISHED;
    if (!waits || !has_room(deferred, event)) {
        lh_deferred_events_send(deferred);
        deferred->deliver(deferred->context, handle, event);
        return;
    }
    deferred->events[deferred->count++] = (deferred_event){handle, *event, deferred->top_count};
    if (event->top_count)
        memcpy(deferred->tops + deferred->top_count, event->top,
               event->top_count * sizeof *event->top);
    deferred->top_count += event->top_count;
}

void lh_deferred_events_send(lh_deferred_events *deferred) {
    assert(!deferred->is_sending);
    deferred->is_sending = true;
    for (size_t i = 0; i < deferred->count; i++) {
        deferred_event *item = &deferred->events[i];
        item->event.top = item->event.top_count ? deferred->tops + item->first_top : NULL;
        deferred->deliver(deferred->context, item->handle, &item->event);
    }
    deferred->count = deferred->top_count = 0;
    deferred->is_sending = false;
}
