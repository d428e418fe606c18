/* What is asked of a sequence, and what its owner is told of it: a prompt of token ids, how to draw
 * and when to stop; then one event for each token and one at the end. Plain data; thread: its
 * owner's. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/sampling.h"
#include "gateway/cost/overlap_spec.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum lh_finish_reason { LH_FINISH_STOP, LH_FINISH_LENGTH } lh_finish_reason;

typedef enum lh_sequence_event_kind {
    LH_SEQUENCE_TOKEN,    /* one sampled token; a stop token is not reported, only the finish */
    LH_SEQUENCE_FINISHED, /* the last event of the sequence */
    LH_SEQUENCE_FAILED    /* the last event of the sequence: status and message */
} lh_sequence_event_kind;

typedef struct lh_sequence_event {
    lh_sequence_event_kind kind;
    uint32_t token;
    uint32_t position; /* of the token in the sequence, the prompt included */
    float logprob;
    uint32_t top_count;
    const lh_token_logprob *top; /* during the call */
    uint64_t digest;
    lh_finish_reason reason;
    uint32_t cached_tokens; /* of the prompt, that did not have to be computed; TOKEN, FINISHED */
    /* FAILED: LH_ERR_UNAVAILABLE (no chain: 503), LH_ERR_TIMEOUT (504), else 500 */
    lh_status status;
    const char *message;
} lh_sequence_event;

typedef void lh_sequence_on_event(void *context, const lh_sequence_event *event);

/* One sequence: a request with n choices submits n of them. */
typedef struct lh_sequence_request {
    const uint32_t *prompt; /* [prompt_tokens], > 0; copied */
    uint32_t prompt_tokens;
    uint32_t max_tokens;         /* >= 1; prompt_tokens + max_tokens <= the context */
    const uint32_t *stop_tokens; /* [stop_token_count]: end of generation; copied */
    uint32_t stop_token_count;
    uint32_t min_tokens;  /* stop tokens do not end it earlier */
    lh_sampling sampling; /* without counter and counts; biases are copied */
    bool has_overlap;     /* else the server's */
    lh_overlap_spec overlap;
    uint64_t trace; /* its number in the trace store; 0: it is not traced */
    /* whose it is: shares are fair between tenants, pages are shared within one; 0: nobody's */
    uint64_t tenant;
    /* of the tenant's, those that share pages with it; 0: all that have none */
    uint64_t cache_salt;
    int32_t priority;    /* the lower, the sooner */
    int64_t deadline_us; /* of the engine's clock: nothing is computed for it after that; 0: none */
    lh_sequence_on_event *on_event;
    void *context;
} lh_sequence_request;
