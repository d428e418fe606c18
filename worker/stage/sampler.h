/* Draws one token from one row of logits. Pure: the same request and logits give the same token, so that a
 * replay after a lost worker goes on with the same text. Thread: any, scratch is the caller's.
 *
 * Order of the steps: logit bias, penalties, temperature, top-k, top-p, min-p, draw. temperature 0 is greedy:
 * the greatest logit after bias and penalties, the lowest token id among equals.
 * Top-p counts the probability that top-k left, top-k and top-p keep at least one token, and all three are
 * cuts of one order: the more probable first, the lower token id among equals. The draw is by
 * lh_philox_uniform(seed, counter). Logprobs are of the distribution before temperature and truncation, after
 * bias and penalties. */
#pragma once

#include "common/status.h"
#include "kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

#define LH_SAMPLE_TOP_LOGPROBS_MAX 20u

typedef struct lh_token_count {
    uint32_t token;
    uint32_t prompt_count, output_count; /* times in the prompt, times generated */
} lh_token_count;

typedef struct lh_token_bias {
    uint32_t token;
    float bias;
} lh_token_bias;

typedef struct lh_sample_request {
    float temperature;                         /* 0: greedy */
    uint32_t top_k;                            /* 0: off */
    float top_p, min_p;                        /* 1 and 0: off */
    float repetition_penalty;                  /* 1: off; > 0; over prompt and output (arXiv:1909.05858) */
    float presence_penalty, frequency_penalty; /* 0: off; over the output alone */
    uint64_t seed;
    uint64_t counter; /* the position of the drawn token: with seed the key of the generator */
    bool want_logprob;
    uint32_t top_logprobs; /* 0 .. LH_SAMPLE_TOP_LOGPROBS_MAX */
    bool want_digest;      /* XXH3 of the raw logits' bytes */
    uint32_t bias_count, count_count;
    const lh_token_bias *biases;  /* [bias_count], distinct tokens */
    const lh_token_count *counts; /* [count_count], distinct tokens; only with a penalty on */
} lh_sample_request;

typedef struct lh_token_logprob {
    uint32_t token;
    float logprob;
} lh_token_logprob;

typedef struct lh_sample_result {
    uint32_t token;
    float logprob; /* 0 unless wanted */
    uint32_t top_count;
    lh_token_logprob top[LH_SAMPLE_TOP_LOGPROBS_MAX]; /* best first; equal ones by token id */
    uint64_t digest;                                  /* 0 unless wanted */
} lh_sample_result;

/* Whether the request can be honoured. LH_ERR_INVALID: a parameter is not finite or out of its range;
 * LH_ERR_LIMIT: a token of biases or counts is not in the vocabulary, or too many logprobs. */
lh_status lh_sample_request_check(const lh_sample_request *request, uint32_t vocabulary, lh_error *error);

/* Bytes of scratch for a vocabulary of this size; 64-byte aligned. */
size_t lh_sampler_scratch_bytes(uint32_t vocabulary);

/* logits[vocabulary] may be changed; 64-byte aligned. The request has passed the check. LH_ERR_INVALID: a
 * logit is NaN or +inf, or all are -inf (the message says so). */
lh_status lh_sample(const lh_kernels *kernels, float *logits, uint32_t vocabulary,
                    const lh_sample_request *request, void *scratch, lh_sample_result *result,
                    lh_error *error);
