/* What is asked of a sequence, and what its owner is told about it: a prompt of token ids, how to
 * sample and when to stop; then one event for each token and one at the end. Plain data. Thread:
 * its owner's. */
#pragma once

#include "common/base/status.h"
#include "common/protocol/row_answer.h"
#include "gateway/constrain/constraint.h"
#include "gateway/cost/overlap_spec.h"

#include <stdbool.h>
#include <stdint.h>

#define LH_SEQUENCE_STOP_TOKENS_MAX 64u

typedef enum lh_finish_reason { LH_FINISH_STOP, LH_FINISH_LENGTH } lh_finish_reason;

typedef enum lh_sequence_event_kind {
    /* one generated token, drawn or forced by the grammar (then its logprob is 0: nothing else
     * could come); a stop token is not reported, only the finish */
    LH_SEQUENCE_TOKEN,
    /* what was asked of the prompt's rows, or a part of it: scores in the order of the tokens, each
     * once, or the whole sum of hidden states. All of it comes before the first LH_SEQUENCE_TOKEN,
     * or the end */
    LH_SEQUENCE_PROMPT,
    LH_SEQUENCE_FINISHED, /* the last event of the sequence */
    LH_SEQUENCE_FAILED    /* the last event of the sequence: status and message */
} lh_sequence_event_kind;

typedef struct lh_sequence_event {
    lh_sequence_event_kind kind;
    /* The chain that it comes from, and the epoch under which that was formed last (0: never yet).
     * The name outlives the sequence; NULL: it was refused before it came to a chain. */
    const char *chain;
    uint32_t epoch;
    uint32_t token; /* TOKEN; FINISHED by a stop token: that */
    /* of the token in the sequence, the prompt included; PROMPT: of the first one that is scored */
    uint32_t position;
    /* TOKEN, PROMPT: the answer of the last worker; valid during the call. Else NULL */
    const lh_row_answer *answer;
    lh_finish_reason reason;
    /* so far, for following the form of its answer (lh_constraint_state_work) */
    uint64_t guide_work;
    /* TOKEN, FINISHED: how many of the prompt's tokens came from the prefix cache */
    uint32_t cached_tokens;
    /* FAILED: LH_ERR_UNAVAILABLE (no chain: 503), LH_ERR_TIMEOUT (504), else 500 */
    lh_status status;
    const char *message;
} lh_sequence_event;

/* Nothing more comes of its sequence. */
static inline bool lh_sequence_event_is_last(const lh_sequence_event *event) {
    return event->kind == LH_SEQUENCE_FINISHED || event->kind == LH_SEQUENCE_FAILED;
}

typedef void lh_sequence_on_event(void *context, const lh_sequence_event *event);

/* Of which rows of a prompt the hidden state is wanted, after the final norm. */
typedef enum lh_pooling {
    LH_POOLING_NONE,
    LH_POOLING_MEAN, /* of all, added up: they are computed, not taken from the prefix cache */
    LH_POOLING_FIRST,
    LH_POOLING_LAST
} lh_pooling;

/* One sequence: a request with n choices submits n of them. */
typedef struct lh_sequence_request {
    const uint32_t *prompt; /* [prompt_tokens], > 0; copied */
    uint32_t prompt_tokens;
    /* >= 1, or 0 where the prompt alone matters; prompt_tokens + max_tokens <= the context */
    uint32_t max_tokens;
    const uint32_t *stop_tokens; /* [stop_token_count]: each ends the generation; copied */
    uint32_t stop_token_count;
    uint32_t min_tokens;  /* stop tokens are banned until so many have been generated */
    lh_sampling sampling; /* without counter, counts and mask; biases are copied */
    /* What the model gave each token of the prompt but the first one is wanted, by its raw logits,
     * with so many of the best. The rows for it are computed, not taken from the prefix cache. */
    bool scores_prompt;
    uint32_t prompt_tops;
    lh_pooling pooling; /* nothing is generated then, and max_tokens is 0 */
    /* What the tokens have to make up; the sequence holds a reference of its own. The tokens that
     * end the grammar are to be among the stop tokens. NULL: anything. */
    lh_constraint *constraint;
    bool has_overlap; /* false: the server's setting holds */
    lh_overlap_spec overlap;
    uint64_t trace; /* its number in the trace store; 0: it is not traced */
    /* The client that the work is counted for: shares are fair between tenants, and cached pages
     * are shared within one alone. 0: the gateway asks for no keys. */
    uint64_t tenant;
    /* Within the tenant, sequences share cached pages only where their salts are equal. */
    uint64_t cache_salt;
    int32_t priority;    /* among the tenant's own: the lower, the sooner */
    int64_t deadline_us; /* on the engine's clock: the sequence fails then; 0: none */
    lh_sequence_on_event *on_event;
    void *context;
} lh_sequence_request;

/* Whether something is asked of the prompt's rows, beside what comes after them. */
static inline bool lh_sequence_request_asks_of_prompt(const lh_sequence_request *request) {
    return request->scores_prompt || request->pooling != LH_POOLING_NONE;
}

/* LH_ERR_INVALID: empty prompt, max_tokens 0 where nothing is told of the prompt, or not 0 where it
 * is pooled. LH_ERR_LIMIT: too many stop tokens, biases or candidates, or more tokens than
 * `context`, penalties or pooling allow. */
lh_status lh_sequence_request_check(const lh_sequence_request *request, uint32_t context,
                                    lh_error *error);
/* Whether the sampler has to be told how often each token has occurred. */
bool lh_sequence_request_has_penalty(const lh_sequence_request *request);
