/* How a token is drawn from a row of logits, and what was drawn: the only definition of both. The
 * gateway fills the parameters in, the step format carries them, the stage's sampler obeys them.
 * Plain data; no ranges are checked here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LH_TOP_LOGPROBS_MAX 20u
#define LH_TOKEN_BIASES_MAX 1024u
/* Distinct tokens of one sequence: a vocabulary's worth. */
#define LH_TOKEN_COUNTS_MAX (1u << 17)

typedef struct lh_token_bias {
    uint32_t token;
    float bias;
} lh_token_bias;

typedef struct lh_token_count {
    uint32_t token;
    uint32_t prompt_count, output_count; /* times in the prompt, times generated */
} lh_token_count;

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

/* What one row of logits drew. */
typedef struct lh_sample_result {
    uint32_t token;
    float logprob; /* 0 unless wanted */
    uint32_t top_count;
    lh_token_logprob top[LH_TOP_LOGPROBS_MAX]; /* best first; equal ones by token id */
    uint64_t digest;                           /* 0 unless wanted */
} lh_sample_result;
