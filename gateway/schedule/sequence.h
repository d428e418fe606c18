/* One generation in progress, as the gateway knows it: what was asked, the tokens so far, where it
 * stands in the schedule, and what it has on the chain. The history is the truth: a sequence can be
 * computed again from it on any chain, and goes on with the same tokens. Thread: one at a time. */
#pragma once

#include "gateway/cost/overlap_plan.h"
#include "gateway/kv/sequence_kv.h"
#include "gateway/schedule/answer_record.h"
#include "gateway/schedule/guide.h"
#include "gateway/schedule/pairing_heap.h"
#include "gateway/schedule/sequence_request.h"
#include "gateway/schedule/token_counts.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

typedef struct lh_sequence lh_sequence;

typedef enum lh_sequence_state {
    LH_SEQUENCE_WAITING,  /* in the queue: nothing of it is under way */
    LH_SEQUENCE_PREFILL,  /* rows of its history are still to be sent */
    LH_SEQUENCE_READY,    /* what was generated last is still to be sent: as a rule one row */
    LH_SEQUENCE_SAMPLING, /* all is sent; a token is being sampled */
    LH_SEQUENCE_GUIDED,   /* as READY, but its grammar has not taken the last token yet */
    LH_SEQUENCE_STALLED,  /* as READY, but the rows need a page and none is free */
} lh_sequence_state;

/* Where it stands. */
typedef struct lh_sequence_schedule {
    uint64_t id;             /* in the order of arrival */
    lh_sequence_state state; /* changed by wait_queue.c and running_set.c */
    int64_t submitted_us;    /* when it came, to whichever chain */
    int64_t admitted_us;     /* when it last got its place; 0: it never has */
    int64_t moved_us;        /* when it last came from another chain; 0: never */

    /* wait_queue.c: its tenant's share, from its coming to its end */
    struct lh_share *share;
    lh_heap_node by_rank, by_age;
    /* its prompt has been counted: what is computed again costs the tenant nothing */
    bool is_charged;

    /* sequence_index.c */
    LIST_ENTRY(lh_sequence) in_bucket;
    lh_heap_node due;

    /* batcher.c: the plan of what is left of its prefill */
    bool has_plan;
    lh_overlap_plan plan;
    lh_step_class sampling_class; /* of the step that samples */

    uint32_t preemptions;
    /* recovery.c: refusals by a worker at this length, replays without a token in between */
    uint32_t failure_count, failure_length;
    uint32_t replays, replay_length;
} lh_sequence_schedule;

struct lh_sequence {
    uint64_t handle; /* the owner's name for it */
    /* What was asked. The stop tokens, each once, and the biases are the sequence's own; the prompt
     * is where the history begins. */
    lh_sequence_request request;
    uint32_t stop_tokens[LH_SEQUENCE_STOP_TOKENS_MAX];
    /* the user's, then those that count while min_tokens are not reached */
    lh_token_bias *biases;
    uint32_t early_bias_count;
    uint32_t *history; /* [length], room for prompt_tokens + max_tokens */
    uint32_t length;
    lh_token_counts *token_counts; /* NULL: no penalty is on */
    lh_guide guide;
    /* sequence_ask.c: rows of the prompt that have been answered, of those that were asked for */
    uint32_t scored;
    int64_t *pooled; /* [pooled_count]: the sum so far; NULL: none */
    uint32_t pooled_count;
    uint32_t told; /* tokens of the history that its owner knows: the prompt, and by events */
    lh_answer_record *record; /* of its draws; NULL: none is kept */
    lh_sequence_schedule schedule;
    lh_sequence_kv kv;
    lh_sequence *previous, *next; /* in the one list that it is in */
};

/* Copies the request. What the answer must begin with is in the history at once: one token at least
 * is left to be drawn. LH_ERR_INVALID (empty prompt, max_tokens 0 ...), LH_ERR_LIMIT (too many stop
 * tokens or biases, over `context`; the grammar's), LH_ERR_NO_MEMORY. */
lh_status lh_sequence_create(const lh_sequence_request *asked, uint64_t handle, uint32_t context,
                             lh_sequence **sequence, lh_error *error);
/* The same beside a twin, which was created for as many tokens of the same constraint and has not
 * moved yet: the grammar, whose beginning may take long, is begun once for both. NULL: there is
 * none. */
lh_status lh_sequence_create_beside(const lh_sequence_request *asked, const lh_sequence *twin,
                                    uint32_t context, lh_sequence **sequence, lh_error *error);
/* NULL is allowed. */
void lh_sequence_destroy(lh_sequence *sequence);

/* Whether its answer could be computed again from its tokens alone, with all that was drawn. */
bool lh_sequence_is_repeatable(const lh_sequence *sequence);
/* From now on a record is kept of what is drawn, where there is memory for it. */
void lh_sequence_keep_record(lh_sequence *sequence);
/* The record of a sequence that has ended and is about to be destroyed: it takes over the history
 * and the biases, and is the caller's. NULL: none is kept, or nothing was drawn. */
lh_answer_record *lh_sequence_take_record(lh_sequence *sequence);

/* All positions that it may come to. */
uint32_t lh_sequence_positions(const lh_sequence *sequence);
/* Tokens of the history that the chain has not been sent. */
uint32_t lh_sequence_pending(const lh_sequence *sequence);
/* Appends a sampled token; fewer than max_tokens have been. The grammar allows it. */
void lh_sequence_append(lh_sequence *sequence, uint32_t token);
/* The grammar takes the token that was appended last, and what must come after it is appended, as
 * far as there is room. The errors of the grammar (constraint.h). */
lh_status lh_sequence_follow(lh_sequence *sequence, lh_error *error);
uint32_t lh_sequence_generated(const lh_sequence *sequence);
/* Whether the grammar leaves nothing to come. */
bool lh_sequence_is_whole(const lh_sequence *sequence);
/* Whether sampling this token now ends the generation. */
bool lh_sequence_stops_at(const lh_sequence *sequence, uint32_t token);

/* With whom it shares pages. */
lh_prefix_scope lh_sequence_scope(const lh_sequence *sequence);
/* A worker refused a step with its rows. */
void lh_sequence_note_refusal(lh_sequence *sequence);
/* Refused at this length: it travels alone, so that the next refusal tells which one it was. */
bool lh_sequence_is_quarantined(const lh_sequence *sequence);

/* Lists of sequences: a sequence is in one at a time. */
typedef struct lh_sequence_list {
    lh_sequence *first, *last;
    uint32_t count;
} lh_sequence_list;
void lh_sequence_list_push(lh_sequence_list *list, lh_sequence *sequence);
void lh_sequence_list_remove(lh_sequence_list *list, lh_sequence *sequence);
