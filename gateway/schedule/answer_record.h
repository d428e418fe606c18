/* What is kept of an answer that may be computed again: what was asked, the tokens, and a digest of
 * all that was told with each token that was drawn. Two chains that compute with the same
 * arithmetic give the same digests. Plain data. Thread: one at a time. */
#pragma once

#include "gateway/schedule/sequence_request.h"

/* An answer is compared as far as its first so many drawn tokens. */
#define LH_ANSWER_DRAWS_MAX 4096u

typedef struct lh_answer_record lh_answer_record;

struct lh_answer_record {
    lh_answer_record *next; /* for its owner */
    /* What was asked. The stop tokens and biases are the record's own; the prompt is where `tokens`
     * begins. */
    lh_sequence_request request;
    uint32_t stop_tokens[LH_SEQUENCE_STOP_TOKENS_MAX];
    lh_token_bias *biases;
    uint32_t *tokens; /* [token_count]: the prompt, then the answer; NULL: it has not ended */
    uint32_t token_count;
    /* The chain and the epoch under which its first rows were sent; epoch 0: none were. */
    const char *chain;
    uint32_t epoch;
    bool is_of_several; /* tokens of it were drawn on more than one chain */
    bool used_cache;    /* rows of its prompt were taken from the prefix cache */
    uint32_t draw_count, draw_max;
    uint64_t draws[]; /* [draw_count]: a digest of each drawn token and what was told with it */
};

/* max_tokens: that may be drawn. NULL: no memory. */
lh_answer_record *lh_answer_record_create(uint32_t max_tokens);
/* NULL is allowed. */
void lh_answer_record_destroy(lh_answer_record *record);
/* Rows of the sequence leave for this chain, whose name outlives the record. */
void lh_answer_record_note_sent(lh_answer_record *record, const char *chain, uint32_t epoch);
/* A token of it was drawn on this chain. What is beyond LH_ANSWER_DRAWS_MAX is not kept. */
void lh_answer_record_note_draw(lh_answer_record *record, const char *chain,
                                const lh_row_answer *answer);
/* Bytes that it takes. */
size_t lh_answer_record_bytes(const lh_answer_record *record);
/* Of the token, and of log probabilities and the logits' digest as far as they were asked for. */
uint64_t lh_answer_draw_digest(const lh_row_answer *answer);
