/* An answer as it streams (server-sent events of /v1/chat/completions and /v1/completions), or the
 * error in its place. Plain data; one thread at a time. */
#pragma once

#include "common/base/text_buffer.h"

#include <stdbool.h>
#include <stddef.h>

#define LH_ANSWER_FAULT_BYTES 300

/* Begun with zeros but for the first two. */
typedef struct lh_answer_events {
    /* A piece of the answer, or of what the model thinks before it. */
    void (*on_text)(void *context, const char *bytes, size_t length, bool is_thought);
    void *context;
    lh_text_buffer line;               /* that has not ended yet */
    bool is_whole;                     /* its last event has come */
    bool has_no_template;              /* the fault: the model knows no conversations */
    char fault[LH_ANSWER_FAULT_BYTES]; /* what the gateway says is wrong; "": nothing */
} lh_answer_events;

/* LH_ERR_LIMIT: a line is over 1 MiB; LH_ERR_MALFORMED: an event is no JSON; LH_ERR_NO_MEMORY. */
lh_status lh_answer_events_feed(lh_answer_events *events, const char *bytes, size_t length,
                                lh_error *error);
/* No more comes. The same. */
lh_status lh_answer_events_end(lh_answer_events *events, lh_error *error);
void lh_answer_events_reset(lh_answer_events *events);
