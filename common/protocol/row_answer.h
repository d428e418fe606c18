/* What the last stage answers to the rows of one segment (row_ask.h). The stage's head fills it in,
 * the step format carries it, and whoever wrote the request reads it. Carriers copy it as a whole:
 * packed, an answer and its lists are one block of bytes without pointers.
 *
 * Plain data. Thread: any. */
#pragma once

#include "common/protocol/row_ask.h"

typedef struct lh_token_logprob {
    uint32_t token;
    float logprob;
} lh_token_logprob;

/* What the model gave one token of a prompt, by the raw logits of the row before it. */
typedef struct lh_token_score {
    float logprob;
    uint32_t rank; /* 1: no other token is likelier */
    uint32_t top_count;
    lh_token_logprob top[LH_TOP_LOGPROBS_MAX]; /* best first; equal ones by token id */
} lh_token_score;

typedef struct lh_row_answer {
    /* The draw. LH_STEP_NO_TOKEN: nothing was drawn, because nothing was to be or the last worker
     * does not have the mask; logprob, digest and top_count are 0 then. */
    uint32_t token;
    float logprob;   /* 0 unless wanted */
    uint64_t digest; /* 0 unless wanted */
    uint32_t top_count, score_count, pooled_count;
    lh_token_logprob *top;  /* [top_count]: best first; equal ones by token id */
    lh_token_score *scores; /* [score_count]: of the tokens after the scored rows, in order */
    int64_t *pooled;        /* [pooled_count]: the sum of the pooled rows, column by column */
} lh_row_answer;

/* ---- Put together from parts ---- */

/* Bytes that the lists of an answer take, a multiple of 8; width: columns of a hidden state. */
size_t lh_row_answer_room(const lh_row_ask *ask, uint32_t width);
/* An answer with nothing in it yet, and with room for its lists in memory[lh_row_answer_room],
 * which is 8-byte aligned and outlives it. */
lh_row_answer lh_row_answer_begin(const lh_row_ask *ask, uint32_t width, void *memory);
/* Adds what one row has drawn or scored, or what the pooled rows add up to. Scores come in the
 * order of their rows. There is room. */
void lh_row_answer_add(lh_row_answer *answer, const lh_row_answer *part);

/* ---- Packed ---- */

/* A multiple of 8. */
size_t lh_row_answer_packed_bytes(const lh_row_answer *answer);
/* packed[lh_row_answer_packed_bytes], 8-byte aligned; it may be moved. */
void lh_row_answer_pack(const lh_row_answer *answer, void *packed);
/* The answer, whose lists lie in `packed`. */
lh_row_answer lh_row_answer_unpack(void *packed);
