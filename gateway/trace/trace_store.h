/* The traces of the last requests: what became of each and of its steps, for GET /trace/{id} and
 * for the figures in an answer. Bounded: the last `requests_max` requests, of each the first
 * LH_TRACE_STEPS_FIRST and the last LH_TRACE_STEPS_LAST steps, and no more than `bytes_max` of the
 * workers' times; the oldest go first.
 *
 * A request is known by a number, which is never 0 and never comes again; news of one that is gone
 * are ignored. Thread: any. */
#pragma once

#include "common/base/random_id.h"
#include "common/base/status.h"
#include "gateway/trace/trace_step.h"

#define LH_TRACE_STEPS_FIRST 256u
#define LH_TRACE_STEPS_LAST  64u
#define LH_TRACE_NAME_BYTES  129u /* of a request's id that the client chose, with its end */

typedef struct lh_trace_store lh_trace_store;

typedef struct lh_trace_entry {
    lh_trace_step *step;
    uint32_t first_position, rows;
    uint32_t draws, shared;
} lh_trace_entry;

/* One request, as it was when it was asked for. Times are the gateway's clock; 0: not yet. */
typedef struct lh_trace {
    char id[LH_RANDOM_ID_BYTES];          /* of the answer: "chatcmpl-..." */
    char request_id[LH_TRACE_NAME_BYTES]; /* x-request-id */
    int64_t received_us, tokenized_us, admitted_us, ended_us;
    uint32_t prompt_tokens;
    char plan[LH_TRACE_PLAN_BYTES]; /* of its first step */
    int64_t predicted_us;           /* from there to the first token; 0: not known */
    int64_t first_token_us, last_token_us;
    uint32_t token_count; /* sampled, of all its choices */
    uint32_t open_steps;  /* on their way */
    uint32_t entry_count;
    uint32_t dropped_count;  /* steps behind the first LH_TRACE_STEPS_FIRST that are not kept */
    lh_trace_entry *entries; /* in the order in which they ended */
} lh_trace;

lh_status lh_trace_store_create(uint32_t requests_max, size_t bytes_max, lh_trace_store **store,
                                lh_error *error);
/* NULL is allowed. */
void lh_trace_store_destroy(lh_trace_store *store);

/* A new request. 0: no memory, and it has no trace. */
uint64_t lh_trace_store_open(lh_trace_store *store, const char *id, const char *request_id,
                             int64_t received_us);

/* Its prompts are so many tokens, and it is on its way to the engine; its answer has ended. */
void lh_trace_store_note_tokens(lh_trace_store *store, uint64_t trace, uint32_t prompt_tokens,
                                int64_t now_us);
void lh_trace_store_note_end(lh_trace_store *store, uint64_t trace, int64_t now_us);

/* A step with rows of these requests sets out; its first one admits a request. */
void lh_trace_store_begin_step(lh_trace_store *store, const lh_trace_part *parts, uint32_t count,
                               int64_t now_us);
/* It has ended: each of the requests holds `step` from then on, besides the caller. NULL: there was
 * no memory for it. */
void lh_trace_store_end_step(lh_trace_store *store, const lh_trace_part *parts, uint32_t count,
                             lh_trace_step *step);

/* Whether nothing more is to come of the request's steps. True also where it is not known. */
bool lh_trace_store_is_settled(lh_trace_store *store, uint64_t trace);
/* A copy that stays as it is, for lh_trace_destroy. NULL: not known, or no memory. By number, or by
 * either id. */
lh_trace *lh_trace_store_get(lh_trace_store *store, uint64_t trace);
lh_trace *lh_trace_store_find(lh_trace_store *store, const char *id);
void lh_trace_destroy(lh_trace *trace);
