/* Server-sent events (WHATWG HTML, 9.2) of one line each, on their way to the client. {0} is empty.
 * Thread: its owner's. */
#pragma once

#include "common/base/text_buffer.h"

#include <jansson.h>
#include <stdbool.h>

typedef struct lh_server_events {
    bool done; /* the last one is among them */
    lh_text_buffer out;
    size_t sent; /* of out */
} lh_server_events;

void lh_server_events_reset(lh_server_events *events);
/* Appends an event of this name (NULL: none), whose data is the JSON, which it takes (NULL: no
 * memory). Nothing comes behind `done`. LH_ERR_NO_MEMORY: the stream is of no use any more. */
lh_status lh_server_events_put(lh_server_events *events, const char *name, json_t *data);
/* Appends the JSON, which it takes, as a line: of streams that are lines and no events. Fails as
 * _put. */
lh_status lh_server_events_put_line(lh_server_events *events, json_t *data);
/* Appends the data as they are. */
lh_status lh_server_events_put_text(lh_server_events *events, const char *text);
/* Appends a comment, which clients skip and which keeps proxies from ending a silent stream.
 * waiting: what the stream waits for; "": it goes on. */
lh_status lh_server_events_keep_alive(lh_server_events *events, const char *waiting);

/* Bytes that wait to be sent. */
size_t lh_server_events_pending(const lh_server_events *events);
/* Moves up to `capacity` of them to `buffer`; returns how many. */
size_t lh_server_events_take(lh_server_events *events, char *buffer, size_t capacity);
