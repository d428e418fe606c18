/* The parameters that all endpoints share, by the names that each has for them, parsed and checked.
 * Plain data that points into the parsed body, which must outlive it. Thread: any. */
#pragma once

#include "gateway/openai/fields.h"
#include "gateway/schedule/sequence_request.h"
#include "gateway/text/model_pooling.h"
#include "gateway/text/sampling_defaults.h"
#include "gateway/text/stop_matcher.h"

/* A step carries 1,024 for a sequence, 64 of them for stop tokens. */
#define LH_OPENAI_BIASES_MAX      960u
#define LH_OPENAI_STOP_TOKENS_MAX 48u /* and 16 of the model */
#define LH_OPENAI_STOP_BYTES_MAX  4096u
#define LH_OPENAI_TIMEOUT_S_MAX   86400
/* Of all prompts of a request: tokens x choices x (alternatives + 2). With some 160 bytes of JSON
 * each an answer's are 80 MiB at most. */
#define LH_OPENAI_SCORES_MAX (1u << 19)

/* What a request is held against. */
typedef struct lh_openai_limits {
    const char *model;
    uint32_t vocabulary;
    uint32_t width;           /* of an embedding, */
    lh_model_pooling pooling; /* as the model's file wants it */
    uint32_t choices_max;     /* n */
    uint32_t prompts_max;     /* prompts of one completions request */
    uint32_t sequences_max;   /* choices of all its prompts: more could never be admitted */
    bool strict;              /* --strict-params: an unknown field is an error */
    bool keeps_thoughts;      /* where a request does not say: --reasoning-format none */
    bool is_traced;           /* so that an answer can tell its timing */
    const lh_sampling_defaults *sampling; /* of what it does not say */
    json_t *sketch;                       /* body_reader.h; NULL: bodies are read */
    const char *aliases; /* further names of the model, as model_aliases.h has them; NULL: none */
} lh_openai_limits;

typedef struct lh_openai_parameters {
    uint32_t choices;
    bool stream, include_usage, continuous_usage;
    bool max_tokens_given, ignore_eos, service_tier_given, seed_given, wants_timing;
    bool adds_special;          /* the tokenizer's begin-of-sequence goes before the prompt */
    bool shows_special;         /* control tokens are in the text by their names */
    bool returns_ids;           /* of prompts and answers */
    bool wants_prompt_logprobs; /* as vLLM tells them, */
    uint32_t prompt_logprobs;   /* with so many of the best */
    uint32_t max_tokens;
    /* What is asked of each sequence: sampling (its seed is to be drawn where none was given; the
     * biases are malloc'd), min_tokens, overlap, priority, and the cache salt as a digest. */
    lh_sequence_request sequence;
    lh_stop_string stops[LH_STOP_STRINGS_MAX];
    size_t stop_count;
    const json_t *stop_list; /* what `stops` point into; NULL: nothing */
    uint32_t stop_tokens[LH_OPENAI_STOP_TOKENS_MAX];
    uint32_t stop_token_count;
    int64_t timeout_us; /* 0: none was given */
    size_t unknown_fields;
} lh_openai_parameters;

/* 404 where the body names a model that is not served. Any of its names may have ":latest" behind
 * it, Ollama's word for a model's only version. */
bool lh_openai_limits_have_model(const lh_openai_limits *limits, const char *name);
void lh_openai_check_model(const lh_body_reader *body, const lh_openai_limits *limits);
/* The first field that is wrong fills the body's error. Either way lh_openai_parameters_reset frees
 * what it holds. */
void lh_openai_parameters_parse(const lh_body_reader *body, lh_openai_endpoint endpoint,
                                const lh_openai_limits *limits, lh_openai_parameters *parameters);
/* The same of a request that generates nothing: those that concern its prompts alone. */
void lh_openai_parameters_parse_pooled(const lh_body_reader *body, lh_openai_endpoint endpoint,
                                       const lh_openai_limits *limits,
                                       lh_openai_parameters *parameters);
/* The same of Ollama's: those of `options`, those that are this server's own beside it, and
 * `stream`, which is true where it is not said. */
void lh_openai_parameters_parse_ollama(const lh_body_reader *body, lh_openai_endpoint endpoint,
                                       const lh_openai_limits *limits,
                                       lh_openai_parameters *parameters);
void lh_openai_parameters_reset(lh_openai_parameters *parameters);
