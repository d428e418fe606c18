/* One answer's side of its trace: opens it, says when the request ended, and waits for the figures
 * that the answer is to tell. Thread: the exchange's server thread. */
#pragma once

#include "gateway/trace/trace_store.h"

#include <jansson.h>

/* All zeros: nothing is traced. */
typedef struct lh_openai_timing {
    lh_trace_store *store;
    uint64_t trace;   /* 0: not traced */
    bool is_wanted;   /* the answer tells it */
    int64_t until_us; /* for how long it is waited for; 0: it has not been */
} lh_openai_timing;

/* The request is tokens, and about to be submitted. store: NULL: nothing is traced. request_id: how
 * the trace is called besides the answer's own id. */
void lh_openai_timing_open(lh_openai_timing *timing, lh_trace_store *store, const char *id,
                           const char *request_id, int64_t received_us, uint32_t prompt_tokens,
                           bool is_wanted);
void lh_openai_timing_end(lh_openai_timing *timing);

/* All choices have ended. True: *figures is to be told (NULL: nothing is), and is the caller's.
 * False: the last step's times are on their way; look again at *again_us. */
bool lh_openai_timing_ready(lh_openai_timing *timing, json_t **figures, int64_t *again_us);
/* Whether it is being looked for, so that the exchange will be woken. */
bool lh_openai_timing_waits(const lh_openai_timing *timing);
