/* Simulated time: events in the order of their times, then of their pushing. */
#pragma once

#include <stdint.h>

typedef struct event_queue event_queue;
typedef void event_function(void *context, void *argument);

event_queue *event_queue_create(void);
/* Frees the arguments of events that never ran. */
void event_queue_destroy(event_queue *queue);
/* argument: malloc'd or NULL, freed after the event has run. */
void event_queue_push(event_queue *queue, int64_t time_us, event_function *run, void *context,
                      void *argument);
/* INT64_MAX: empty. */
int64_t event_queue_next_us(const event_queue *queue);
/* Runs the first event. */
void event_queue_run_next(event_queue *queue);
