/* The answer to one request that generates, in progress: from what was read of its body over a
 * generation to an HTTP reply, whole or as a stream of events, in the words of its dialect.
 *
 * A stream's 200 goes out with its first text, so that what fails before is a proper HTTP error;
 * should the silence last, it goes out with the first keep-alive comment. What fails after it is an
 * event with the error: a stream never just ends.
 *
 * Thread: the exchange's server thread, but for lh_openai_answer_abandon. */
#pragma once

#include "gateway/openai/dialect.h"

typedef struct lh_openai_answer lh_openai_answer;

/* NULL: no memory. Wakes the exchange when there is something to do. What it uses is charged to the
 * ticket; ticket and request_id, the name of its trace besides the answer's own id, outlive it. */
lh_openai_answer *lh_openai_answer_create(const lh_openai_service *service,
                                          const lh_openai_dialect *dialect,
                                          lh_http_exchange *exchange, lh_ticket *ticket,
                                          const char *request_id, int64_t received_us);
/* Stops what still runs. NULL is allowed. */
void lh_openai_answer_destroy(lh_openai_answer *answer);
/* The client has gone. Any thread; does not block. */
void lh_openai_answer_abandon(lh_openai_answer *answer);

/* Submits what was read, once, and takes the echoes out of it; it may be reset afterwards. False:
 * *error says why not. */
bool lh_openai_answer_begin(lh_openai_answer *answer, lh_openai_reading *reading,
                            lh_openai_error *error);

/* READY: *reply is the answer's beginning or the whole of it, or else *error is set (its status is
 * not 0); or WAIT. */
lh_http_progress lh_openai_answer_proceed(lh_openai_answer *answer, lh_http_reply *reply,
                                          lh_openai_error *error);
/* The stream's body, as the handler's on_read. */
lh_http_progress lh_openai_answer_read(lh_openai_answer *answer, char *buffer, size_t capacity,
                                       size_t *length);

/* Of a stream: its last event has been made. */
bool lh_openai_answer_is_over(const lh_openai_answer *answer);

/* What the log tells of it. */
typedef struct lh_openai_answer_facts {
    const char *id; /* "chatcmpl-..."; NULL: it has not begun, and the rest is zeros */
    lh_generation_progress progress;
} lh_openai_answer_facts;
lh_openai_answer_facts lh_openai_answer_tell(const lh_openai_answer *answer);

lh_token_usage lh_openai_answer_usage(const lh_openai_answer *answer);
/* As lh_generation_guided_us. */
uint64_t lh_openai_answer_guided_us(const lh_openai_answer *answer);
