/* The parameters that chat and completions share, parsed and checked. Plain data that points into
 * the parsed body, which must outlive it. Thread: any. */
#pragma once

#include "gateway/openai/error.h"
#include "gateway/openai/fields.h"
#include "gateway/schedule/sequence_request.h"
#include "gateway/text/stop_matcher.h"

#include <jansson.h>

#define LH_OPENAI_BIASES_MAX                                                                       \
    960u /* a step carries 1,024 for a sequence, 64 of them for stop tokens */
#define LH_OPENAI_STOP_TOKENS_MAX  48u /* and 16 of the model */
#define LH_OPENAI_STOP_BYTES_MAX   4096u
#define LH_OPENAI_TOP_LOGPROBS_MAX 20
#define LH_OPENAI_TIMEOUT_S_MAX    86400

/* What a request is held against. */
typedef struct lh_openai_limits {
    const char *model;
    uint32_t vocabulary, choices_max, prompts_max;
    uint32_t sequences_max; /* choices of all prompts: more could never be admitted */
    bool strict;
    bool is_traced; /* so that an answer can tell its timing */
} lh_openai_limits;

typedef struct lh_openai_parameters {
    uint32_t choices;
    bool stream, include_usage, continuous_usage;
    bool max_tokens_given, ignore_eos, service_tier_given, seed_given;
    uint32_t max_tokens, min_tokens;
    /* its biases are `biases`; its seed is to be drawn where none was given */
    lh_sampling sampling;
    lh_token_bias *biases; /* malloc'd */
    lh_stop_string stops[LH_STOP_STRINGS_MAX];
    size_t stop_count;
    uint32_t stop_tokens[LH_OPENAI_STOP_TOKENS_MAX];
    uint32_t stop_token_count;
    bool has_overlap;
    lh_overlap_spec overlap;
    bool wants_timing;
    int32_t priority;    /* 0 where none was given */
    uint64_t cache_salt; /* stands for the text; 0: none was given */
    int64_t timeout_us;  /* 0: none was given */
    size_t unknown_fields;
} lh_openai_parameters;

/* False: *error says which field is wrong. Either way lh_openai_parameters_reset frees what it
 * holds. */
bool lh_openai_parameters_parse(const json_t *body, lh_openai_endpoint endpoint,
                                const lh_openai_limits *limits, lh_openai_parameters *parameters,
                                lh_openai_error *error);
void lh_openai_parameters_reset(lh_openai_parameters *parameters);

/* An id of the vocabulary; *param names the place for the error. */
bool lh_openai_token_parse(const json_t *value, uint32_t vocabulary, const char *param,
                           uint32_t *token, lh_openai_error *error);
