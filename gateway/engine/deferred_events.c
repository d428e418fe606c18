/* An array and a store of answers that grow to the most events of one turn. */
#include "gateway/engine/deferred_events.h"

#include "common/base/growing_array.h"
#include "gateway/schedule/answer_store.h"

#include <assert.h>
#include <stdlib.h>

typedef struct deferred_event {
    uint64_t handle;
    lh_sequence_event event;
    size_t answer; /* where it lies in the store, if the event has one */
} deferred_event;

struct lh_deferred_events {
    void (*deliver)(void *context, uint64_t handle, const lh_sequence_event *event);
    void *context;
    bool is_sending;
    deferred_event *events;
    size_t count, capacity;
    lh_answer_store answers;
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
    lh_answer_store_reset(&deferred->answers);
    free(deferred);
}

static bool keep(lh_deferred_events *deferred, uint64_t handle, const lh_sequence_event *event) {
    size_t answer = 0;
    if (!lh_growing_array_reserve(&deferred->events, &deferred->capacity, deferred->count + 1,
                                  sizeof *deferred->events) ||
        (event->answer && !lh_answer_store_push(&deferred->answers, event->answer, &answer)))
        return false;
    deferred->events[deferred->count++] = (deferred_event){handle, *event, answer};
    return true;
}

void lh_deferred_events_push(lh_deferred_events *deferred, uint64_t handle,
                             const lh_sequence_event *event) {
    assert(!deferred->is_sending);
    bool waits = event->kind == LH_SEQUENCE_TOKEN || event->kind == LH_SEQUENCE_FINISHED;
    if (waits && keep(deferred, handle, event))
        return;
    lh_deferred_events_send(deferred);
    deferred->deliver(deferred->context, handle, event);
}

void lh_deferred_events_send(lh_deferred_events *deferred) {
    assert(!deferred->is_sending);
    deferred->is_sending = true;
    for (size_t i = 0; i < deferred->count; i++) {
        deferred_event *item = &deferred->events[i];
        lh_row_answer answer;
        if (item->event.answer) {
            answer = lh_answer_store_get(&deferred->answers, item->answer);
            item->event.answer = &answer;
        }
        deferred->deliver(deferred->context, item->handle, &item->event);
    }
    deferred->count = 0;
    lh_answer_store_clear(&deferred->answers);
    deferred->is_sending = false;
}
