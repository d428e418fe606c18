/* A request is checked, and what the sampler needs of it is laid out once. */
#include "gateway/schedule/sequence_spec.h"

#include <stdlib.h>
#include <string.h>

/* Added to a stop token's logit while min_tokens are not reached: the largest bias that a sampler
 * takes. No logit of a model comes back from there, and unlike an infinity it cannot make a NaN. */
#define STOP_TOKEN_BAN (-1e6f)

static bool has_penalty(const lh_sampling *sampling) {
    return sampling->repetition_penalty != 1.0f || sampling->presence_penalty != 0.0f ||
           sampling->frequency_penalty != 0.0f;
}

static lh_status check(const lh_sequence_request *request, uint32_t context, lh_error *error) {
    if (request->prompt_tokens == 0)
        return lh_fail(error, LH_ERR_INVALID, "the prompt is empty");
    if (request->max_tokens == 0)
        return lh_fail(error, LH_ERR_INVALID, "max_tokens must be at least 1");
    if ((uint64_t)request->prompt_tokens + request->max_tokens > context)
        return lh_fail(error, LH_ERR_LIMIT,
                       "%u prompt tokens and %u more are over the context of %u",
                       request->prompt_tokens, request->max_tokens, context);
    if (request->stop_token_count > LH_SEQUENCE_STOP_TOKENS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%u stop tokens: at most %u are possible",
                       request->stop_token_count, LH_SEQUENCE_STOP_TOKENS_MAX);
    if (request->sampling.bias_count > LH_STEP_BIASES_MAX - LH_SEQUENCE_STOP_TOKENS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%u logit biases: at most %u are possible",
                       request->sampling.bias_count,
                       LH_STEP_BIASES_MAX - LH_SEQUENCE_STOP_TOKENS_MAX);
    if (request->sampling.top_logprobs > LH_TOP_LOGPROBS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "top_logprobs %u: at most %u are possible",
                       request->sampling.top_logprobs, LH_TOP_LOGPROBS_MAX);
    if (has_penalty(&request->sampling) &&
        request->prompt_tokens + request->max_tokens > LH_STEP_COUNTS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "penalties are possible up to %u tokens",
                       LH_STEP_COUNTS_MAX);
    return LH_OK;
}

static bool is_stop_token(const lh_sequence_spec *spec, uint32_t token) {
    for (uint32_t i = 0; i < spec->stop_token_count; i++)
        if (spec->stop_tokens[i] == token)
            return true;
    return false;
}

static lh_status copy_biases(lh_sequence_spec *spec, const lh_sampling *sampling) {
    if (sampling->bias_count == 0)
        return LH_OK;
    spec->biases = malloc(sampling->bias_count * sizeof *spec->biases);
    if (!spec->biases)
        return LH_ERR_NO_MEMORY;
    memcpy(spec->biases, sampling->biases, sampling->bias_count * sizeof *spec->biases);
    spec->bias_count = sampling->bias_count;
    return LH_OK;
}

/* The biases while min_tokens are not reached: the user's, with each stop token's replaced by the
 * ban. */
static lh_status ban_stop_tokens(lh_sequence_spec *spec) {
    if (spec->min_tokens == 0 || spec->stop_token_count == 0)
        return LH_OK;
    size_t room = (size_t)spec->bias_count + spec->stop_token_count;
    spec->early_biases = malloc(room * sizeof *spec->early_biases);
    if (!spec->early_biases)
        return LH_ERR_NO_MEMORY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < spec->bias_count; i++)
        if (!is_stop_token(spec, spec->biases[i].token))
            spec->early_biases[count++] = spec->biases[i];
    for (uint32_t i = 0; i < spec->stop_token_count; i++)
        spec->early_biases[count++] = (lh_token_bias){spec->stop_tokens[i], STOP_TOKEN_BAN};
    spec->early_bias_count = count;
    return LH_OK;
}

/* Each stop token once, so that no bias is sent twice. */
static void copy_stop_tokens(lh_sequence_spec *spec, const lh_sequence_request *request) {
    for (uint32_t i = 0; i < request->stop_token_count; i++)
        if (!is_stop_token(spec, request->stop_tokens[i]))
            spec->stop_tokens[spec->stop_token_count++] = request->stop_tokens[i];
}

lh_status lh_sequence_spec_init(lh_sequence_spec *spec, const lh_sequence_request *request,
                                uint32_t context, lh_error *error) {
    lh_status status = check(request, context, error);
    if (status != LH_OK)
        return status;
    const lh_sampling *sampling = &request->sampling;
    *spec = (lh_sequence_spec){.trace = request->trace,
                               .tenant = request->tenant,
                               .cache_salt = request->cache_salt,
                               .priority = request->priority,
                               .deadline_us = request->deadline_us,
                               .prompt_tokens = request->prompt_tokens,
                               .max_tokens = request->max_tokens,
                               .min_tokens = request->min_tokens,
                               .has_penalty = has_penalty(sampling),
                               .has_overlap = request->has_overlap,
                               .overlap = request->overlap};
    spec->sampling = *sampling;
    spec->sampling.biases = NULL;
    spec->sampling.bias_count = 0;
    copy_stop_tokens(spec, request);
    if (copy_biases(spec, sampling) == LH_OK && ban_stop_tokens(spec) == LH_OK)
        return LH_OK;
    lh_sequence_spec_reset(spec);
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the biases of a sequence");
}

void lh_sequence_spec_reset(lh_sequence_spec *spec) {
    free(spec->early_biases);
    free(spec->biases);
    spec->early_biases = spec->biases = NULL;
}

uint32_t lh_sequence_spec_positions(const lh_sequence_spec *spec) {
    return spec->prompt_tokens + spec->max_tokens;
}

bool lh_sequence_spec_stops_at(const lh_sequence_spec *spec, uint32_t generated, uint32_t token) {
    return generated >= spec->min_tokens && is_stop_token(spec, token);
}

lh_sampling lh_sequence_spec_sampling(const lh_sequence_spec *spec, uint32_t generated) {
    lh_sampling sampling = spec->sampling;
    bool is_early = spec->early_bias_count > 0 && generated < spec->min_tokens;
    sampling.biases = is_early ? spec->early_biases : spec->biases;
    sampling.bias_count = is_early ? spec->early_bias_count : spec->bias_count;
    return sampling;
}
