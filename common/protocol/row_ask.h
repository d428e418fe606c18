/* What the rows of one segment of a step ask of the last stage: to draw a token, to score tokens
 * that are known, to add up hidden states. The request that asks fills it in, the step format
 * carries it, and the stage's head obeys it. Whoever is in between copies it as a whole and reads
 * none of its fields; what a carrier has to know of it, the functions below say.
 *
 * Plain data; no ranges are checked here. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_TOP_LOGPROBS_MAX 20u
#define LH_TOKEN_BIASES_MAX 1024u
/* Distinct tokens of one sequence: a vocabulary's worth. */
#define LH_TOKEN_COUNTS_MAX (1u << 17)

/* In place of a token: there is none. */
#define LH_STEP_NO_TOKEN 0xffffffffu

typedef struct lh_token_bias {
    uint32_t token;
    float bias;
} lh_token_bias;

typedef struct lh_token_count {
    uint32_t token;
    uint32_t prompt_count, output_count; /* times in the prompt, times generated */
} lh_token_count;

/* How a token is drawn from a row of logits, and what is to be reported with it. */
typedef struct lh_sampling {
    float temperature;  /* 0: greedy */
    uint32_t top_k;     /* 0: off */
    float top_p, min_p; /* 1 and 0: off */
    /* 1: off; > 0; over prompt and output (arXiv:1909.05858) */
    float repetition_penalty;
    float presence_penalty, frequency_penalty; /* 0: off; over the output alone */
    uint64_t seed;
    uint64_t counter; /* the position of the drawn token: with the seed, what its noise is */
    bool want_logprob;
    bool want_digest;      /* XXH3 of the raw logits' bytes */
    uint32_t top_logprobs; /* 0 .. LH_TOP_LOGPROBS_MAX */
    /* the number of the mask whose tokens alone may be drawn (lh_step_mask); 0: all may */
    uint64_t mask;
    uint32_t bias_count, count_count;
    const lh_token_bias *biases;  /* [bias_count], distinct tokens */
    const lh_token_count *counts; /* [count_count], distinct tokens; only with a penalty on */
} lh_sampling;

/* Rows whose logits score the tokens after them. */
typedef struct lh_row_scoring {
    uint32_t first_row, rows; /* of the segment's; rows 0: none */
    uint32_t top;             /* the best tokens reported beside: 0 .. LH_TOP_LOGPROBS_MAX */
    /* the token after the segment's last row, where that row scores; else LH_STEP_NO_TOKEN */
    uint32_t next_token;
} lh_row_scoring;

/* Rows whose hidden states, after the final norm, are added up. */
typedef struct lh_row_pooling {
    uint32_t first_row, rows; /* of the segment's; rows 0: none */
} lh_row_pooling;

/* A sum of hidden states counts in units of 2^-24, so that it is exact whatever the order: each
 * value is rounded once, by itself. No row has one beyond 2^18; so a million rows fit. */
#define LH_POOLED_UNIT_BITS 24
#define LH_POOLED_VALUE_MAX 262144.0f
#define LH_POOLED_ROWS_MAX  (1u << 20)

typedef struct lh_row_ask {
    lh_sampling sampling;   /* where it draws */
    lh_row_scoring scoring; /* not of a row that draws */
    lh_row_pooling pooling; /* of a segment that neither draws nor scores */
    bool draws;             /* a token, from the logits of the segment's last row */
} lh_row_ask;

/* What is kept of an ask while its step is under way: what its answer has to consist of. */
typedef struct lh_row_due {
    lh_row_scoring scoring;
    lh_row_pooling pooling;
    uint32_t top_logprobs; /* the draw is reported with at most this many */
    bool draws;
} lh_row_due;

/* ---- What carriers have to know of an ask ---- */

/* Whether the last stage answers it at all. */
static inline bool lh_row_ask_is_any(const lh_row_ask *ask) {
    return ask->draws || ask->scoring.rows > 0 || ask->pooling.rows > 0;
}

/* Whether the answer holds a sum for each column of a hidden state: only so many segments of a step
 * may ask for that (LH_STEP_POOLED_MAX). */
static inline bool lh_row_ask_is_wide(const lh_row_ask *ask) {
    return ask->pooling.rows > 0;
}

/* Whether anything is to be reported with a drawn token. */
static inline bool lh_sampling_wants_report(const lh_sampling *sampling) {
    return sampling->want_logprob || sampling->want_digest || sampling->top_logprobs > 0;
}

/* Rows of which the head computes logits, which is what an ask costs. */
static inline uint32_t lh_row_ask_logit_rows(const lh_row_ask *ask) {
    return ask->draws + ask->scoring.rows;
}

/* Entries of its lists, each of at most sizeof(lh_token_count) bytes. */
static inline size_t lh_row_ask_entries(const lh_row_ask *ask) {
    return ask->draws ? (size_t)ask->sampling.bias_count + ask->sampling.count_count : 0;
}

/* Bytes of its lists, a multiple of 8. */
size_t lh_row_ask_list_bytes(const lh_row_ask *ask);
/* Copies its lists to memory[lh_row_ask_list_bytes], 8-byte aligned, and points to them there. */
void lh_row_ask_move_lists(lh_row_ask *ask, void *memory);

lh_row_due lh_row_ask_due(const lh_row_ask *ask);

static inline bool lh_row_due_is_any(const lh_row_due *due) {
    return due->draws || due->scoring.rows > 0 || due->pooling.rows > 0;
}

/* Whether rows of the prompt are answered, beside a draw. */
static inline bool lh_row_due_is_of_prompt(const lh_row_due *due) {
    return due->scoring.rows > 0 || due->pooling.rows > 0;
}
