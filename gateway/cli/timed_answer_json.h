/* A completion that a running gateway is asked for, so that it says how long it took (docs/API.md,
 * "Timing"). Thread: any, also several at once. */
#pragma once

#include "common/base/text_buffer.h"

#include <stdint.h>

typedef struct lh_timed_request {
    const char *url, *key;  /* of the API; "": no key is shown */
    uint32_t prompt_tokens; /* of tokens at random, so that nothing of it is cached */
    uint32_t answer_tokens; /* 2 or more */
} lh_timed_request;

typedef struct lh_timed_answer {
    double prefill_ms; /* from the first step's forming to the first token */
    double token_ms;   /* between two tokens after it */
} lh_timed_answer;

/* LH_ERR_INVALID: the gateway refuses it, in its own words, or the URL is none; LH_ERR_UNAVAILABLE,
 * LH_ERR_TIMEOUT, LH_ERR_MALFORMED, LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_timed_answer_ask(const lh_timed_request *request, lh_timed_answer *answer,
                              lh_error *error);
