/* Events that wait until the next steps are on their way: a token that is drawn makes the next step, which the workers wait for,
 * and wakes a thread that writes it to its client, which would take this thread's core first. So events are kept while
 * the engine acts on what it has heard, and sent when its connections have written.
 *
 * Thread: the engine's. */
#pragma once

#include "gateway/schedule/sequence_request.h"

typedef struct lh_event_mail lh_event_mail;

/* deliver is called by _keep and _send, in the order in which the events were kept. LH_ERR_NO_MEMORY. */
lh_status lh_event_mail_create(void (*deliver)(void *context, uint64_t handle,
                                               const lh_sequence_event *event),
                               void *context, lh_event_mail **mail, lh_error *error);
/* What has not been sent is dropped. NULL is allowed. */
void lh_event_mail_destroy(lh_event_mail *mail);

/* Copies the event until the next _send. One that ends its sequence badly, or for which there is no memory, is delivered at once,
 * after all that wait. */
void lh_event_mail_keep(lh_event_mail *mail, uint64_t handle, const lh_sequence_event *event);
/* Delivers what waits. */
void lh_event_mail_send(lh_event_mail *mail);
