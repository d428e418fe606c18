/* What was asked of a sequence, checked and kept: it does not change any more. Thread: any. */
#pragma once

#include "common/protocol/step.h"
#include "gateway/schedule/sequence_request.h"

#define LH_SEQUENCE_STOP_TOKENS_MAX 64u

typedef struct lh_sequence_spec {
    uint64_t trace; /* 0: not traced */
    uint64_t tenant, cache_salt;
    int32_t priority;
    int64_t deadline_us; /* 0: none */
    uint32_t prompt_tokens, max_tokens, min_tokens;
    uint32_t stop_tokens[LH_SEQUENCE_STOP_TOKENS_MAX]; /* each once */
    uint32_t stop_token_count;
    lh_sampling sampling; /* all but counter, biases and counts */
    bool has_penalty;     /* the sampler needs the counts of tokens */
    lh_token_bias *biases;
    /* while min_tokens are not reached: stop tokens are banned */
    lh_token_bias *early_biases;
    uint32_t bias_count, early_bias_count;
    bool has_overlap; /* else the server's */
    lh_overlap_spec overlap;
} lh_sequence_spec;

/* Copies what it keeps of the request; the prompt is not. LH_ERR_INVALID (empty prompt, max_tokens
 * 0), LH_ERR_LIMIT (too many stop tokens or biases, over `context`), LH_ERR_NO_MEMORY: nothing is
 * kept then. */
lh_status lh_sequence_spec_init(lh_sequence_spec *spec, const lh_sequence_request *request,
                                uint32_t context, lh_error *error);
void lh_sequence_spec_reset(lh_sequence_spec *spec);

/* All positions that the sequence may come to. */
uint32_t lh_sequence_spec_positions(const lh_sequence_spec *spec);
/* Whether the token ends a generation that has `generated` tokens already. */
bool lh_sequence_spec_stops_at(const lh_sequence_spec *spec, uint32_t generated, uint32_t token);
/* The sampler's parameters for the next token, but for its counter and counts: pointers into the
 * spec. */
lh_sampling lh_sequence_spec_sampling(const lh_sequence_spec *spec, uint32_t generated);
