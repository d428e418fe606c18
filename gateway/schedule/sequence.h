/* One generation in progress, as the gateway knows it: the tokens so far, how many of them its chain has been
 * sent, and what the sampler needs. The history is the truth: a sequence can be computed again from it on any
 * chain, and goes on with the same tokens. Thread: one at a time. */
#pragma once

#include "common/status.h"
#include "gateway/schedule/overlap_plan.h"
#include "gateway/schedule/pairing_heap.h"
#include "gateway/schedule/sequence_request.h"
#include "worker/api/step.h"

#include <stdbool.h>
#include <stdint.h>

#define LH_SEQUENCE_STOP_TOKENS_MAX 64u

typedef enum lh_sequence_state {
    LH_SEQUENCE_WAITING,  /* in the queue: no pages, nothing sent */
    LH_SEQUENCE_PREFILL,  /* rows of its history are still to be sent */
    LH_SEQUENCE_READY,    /* its last token is still to be sent: one row */
    LH_SEQUENCE_SAMPLING, /* all is sent; a token is being drawn */
    LH_SEQUENCE_STALLED,  /* as READY, but the row needs a page and none is free */
} lh_sequence_state;

typedef struct lh_sequence lh_sequence;
struct lh_sequence {
    uint64_t id;     /* in the order of arrival; set by the scheduler */
    uint64_t handle; /* the owner's name for it */
    uint64_t trace;  /* 0: not traced */
    uint64_t tenant, cache_salt;
    int32_t priority;
    int64_t deadline_us; /* 0: none */
    lh_sequence_state state;
    lh_sequence *previous, *next; /* in the one list that it is in */

    struct lh_share *share;       /* its tenant's, from its coming to its end (fair_share.h) */
    lh_heap_node by_rank, by_age; /* in the waiting queue */
    bool is_charged;              /* its prompt is: what is computed again costs the tenant nothing */
    lh_sequence *next_in_bucket;  /* in the book (sequence_book.h) */
    lh_heap_node due;
    bool is_booked;

    uint32_t *history; /* [length], room for prompt_tokens + max_tokens */
    uint32_t length, prompt_tokens, max_tokens, min_tokens;
    struct lh_kv_holding
        *kv; /* its pages (kv_store.h). While it waits NULL, but for what it keeps of a chain that broke */
    uint32_t holdings; /* that it has had: each has a number of its own on the wire */
    uint32_t
        fed; /* positions that are on the chain, or on their way: shared ones, then those that were sent */
    uint32_t restored; /* positions that the last stages have, and the first ones are to get again; 0: none */
    uint32_t reached;  /* the most that was ever sent */
    bool is_begun;     /* rows of it have been sent since it got its pages */
    bool is_cache_known;    /* its first rows have been sent: */
    uint32_t cached_tokens; /* of the prompt, that did not have to be computed then */
    uint32_t stop_tokens[LH_SEQUENCE_STOP_TOKENS_MAX];
    uint32_t stop_token_count;

    lh_step_sampling sampling; /* all but counter, biases and counts */
    lh_step_token_bias *biases,
        *early_biases; /* early: while min_tokens are not reached, stop tokens are banned */
    uint32_t bias_count, early_bias_count;
    struct lh_token_census *census; /* NULL: no penalty is on */

    lh_overlap_spec overlap;
    bool has_overlap; /* else the server's */
    bool has_plan;    /* of what is left of its prefill: the scheduler's */
    lh_overlap_plan plan;
    double predicted_us,
        bound_us; /* of its first plan: from the first step to the first token; 0: not known then */

    uint32_t strikes, strike_length; /* refusals by a worker at this length: see scheduler.c */
    lh_step_class sampling_class;    /* of the step that draws */
    uint32_t preemptions;
    int64_t admitted_us;             /* when it last got its place */
    uint32_t replays, replay_length; /* replays without a token in between */
    int64_t submitted_us;
    int64_t moved_us; /* when it last came from another chain; 0: never */
};

/* Copies the request. LH_ERR_INVALID (empty prompt, max_tokens 0 ...), LH_ERR_LIMIT (too many stop tokens or
 * biases, over `context`), LH_ERR_NO_MEMORY. */
lh_status lh_sequence_create(const lh_sequence_request *request, uint64_t handle, uint32_t context,
                             lh_sequence **sequence, lh_error *error);
/* NULL is allowed. */
void lh_sequence_destroy(lh_sequence *sequence);

/* All positions that it may come to. */
uint32_t lh_sequence_positions(const lh_sequence *sequence);
/* Tokens of the history that the chain has not been sent. */
uint32_t lh_sequence_pending(const lh_sequence *sequence);
/* The sampler's parameters for drawing the token at position `length`: pointers into the sequence. */
lh_step_sampling lh_sequence_sampling(const lh_sequence *sequence);
/* Appends a drawn token. LH_ERR_NO_MEMORY (the census could not grow). */
lh_status lh_sequence_append(lh_sequence *sequence, uint32_t token);
uint32_t lh_sequence_generated(const lh_sequence *sequence);
/* Whether drawing this token now ends the generation. */
bool lh_sequence_stops_at(const lh_sequence *sequence, uint32_t token);

/* Lists of sequences: a sequence is in one at a time. */
typedef struct lh_sequence_list {
    lh_sequence *first, *last;
    uint32_t count;
} lh_sequence_list;
void lh_sequence_list_push(lh_sequence_list *list, lh_sequence *sequence);
void lh_sequence_list_remove(lh_sequence_list *list, lh_sequence *sequence);
