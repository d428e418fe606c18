/* Events that wait until the next steps are on their way. A sampled token makes the next step, for
 * which the workers wait, and it wakes a thread that writes it to its client, which could take this
 * thread's core first. So events are kept while the engine acts on what it has heard, and sent when
 * its connections have written.
 *
 * Thread: the engine's. */
#pragma once

#include "gateway/schedule/sequence_request.h"

typedef struct lh_deferred_events lh_deferred_events;

/* deliver is called by _push and _send, in the order in which the events were pushed; it must not
 * push or send. LH_ERR_NO_MEMORY. */
lh_status lh_deferred_events_create(void (*deliver)(void *context, uint64_t handle,
                                                    const lh_sequence_event *event),
                                    void *context, lh_deferred_events **deferred, lh_error *error);
/* What has not been sent is dropped. NULL is allowed. */
void lh_deferred_events_destroy(lh_deferred_events *deferred);

/* Copies the event until the next _send. A failure, scores, which are large, or an event for which
 * there is no memory, are delivered at once, after all that wait. */
void lh_deferred_events_push(lh_deferred_events *deferred, uint64_t handle,
                             const lh_sequence_event *event);
/* Delivers what waits. */
void lh_deferred_events_send(lh_deferred_events *deferred);
