/* A generation's history and sampling state. */
#include "gateway/schedule/sequence.h"

#include "gateway/schedule/token_census.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Added to a stop token's logit while min_tokens are not reached: the largest bias that a sampler takes. No logit
 * of a model comes back from there, and unlike an infinity it cannot make a NaN. */
#define STOP_TOKEN_BAN (-1e6f)

static bool has_penalty(const lh_sequence_sampling_options *sampling) {
    return sampling->repetition_penalty != 1.0f || sampling->presence_penalty != 0.0f ||
           sampling->frequency_penalty != 0.0f;
}

static lh_status check(const lh_sequence_request *request, uint32_t context, lh_error *error) {
    if (request->prompt_tokens == 0)
        return lh_fail(error, LH_ERR_INVALID, "the prompt is empty");
    if (request->max_tokens == 0)
        return lh_fail(error, LH_ERR_INVALID, "max_tokens must be at least 1");
    if ((uint64_t)request->prompt_tokens + request->max_tokens > context)
        return lh_fail(error, LH_ERR_LIMIT, "%u prompt tokens and %u more are over the context of %u",
                       request->prompt_tokens, request->max_tokens, context);
    if (request->stop_token_count > LH_SEQUENCE_STOP_TOKENS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%u stop tokens: at most %u are possible",
                       request->stop_token_count, LH_SEQUENCE_STOP_TOKENS_MAX);
    if (request->sampling.bias_count > LH_STEP_BIASES_MAX - LH_SEQUENCE_STOP_TOKENS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "%u logit biases: at most %u are possible",
                       request->sampling.bias_count, LH_STEP_BIASES_MAX - LH_SEQUENCE_STOP_TOKENS_MAX);
    if (request->sampling.top_logprobs > LH_STEP_TOP_LOGPROBS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "top_logprobs %u: at most %u are possible",
                       request->sampling.top_logprobs, LH_STEP_TOP_LOGPROBS_MAX);
    if (has_penalty(&request->sampling) && request->prompt_tokens + request->max_tokens > LH_STEP_COUNTS_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "penalties are possible up to %u tokens", LH_STEP_COUNTS_MAX);
    return LH_OK;
}

static bool is_stop_token(const lh_sequence *sequence, uint32_t token) {
    for (uint32_t i = 0; i < sequence->stop_token_count; i++)
        if (sequence->stop_tokens[i] == token)
            return true;
    return false;
}

static lh_status copy_biases(lh_sequence *sequence, const lh_sequence_sampling_options *sampling) {
    if (sampling->bias_count == 0)
        return LH_OK;
    sequence->biases = malloc(sampling->bias_count * sizeof *sequence->biases);
    if (!sequence->biases)
        return LH_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < sampling->bias_count; i++)
        sequence->biases[i] = (lh_step_token_bias){sampling->biases[i].token, sampling->biases[i].bias};
    sequence->bias_count = sampling->bias_count;
    return LH_OK;
}

/* The biases while min_tokens are not reached: the user's, with each stop token's replaced by the ban. */
static lh_status ban_stop_tokens(lh_sequence *sequence) {
    if (sequence->min_tokens == 0 || sequence->stop_token_count == 0)
        return LH_OK;
    size_t room = (size_t)sequence->bias_count + sequence->stop_token_count;
    sequence->early_biases = malloc(room * sizeof *sequence->early_biases);
    if (!sequence->early_biases)
        return LH_ERR_NO_MEMORY;
    uint32_t count = 0;
    for (uint32_t i = 0; i < sequence->bias_count; i++)
        if (!is_stop_token(sequence, sequence->biases[i].token))
            sequence->early_biases[count++] = sequence->biases[i];
    for (uint32_t i = 0; i < sequence->stop_token_count; i++)
        sequence->early_biases[count++] = (lh_step_token_bias){sequence->stop_tokens[i], STOP_TOKEN_BAN};
    sequence->early_bias_count = count;
    return LH_OK;
}

/* Each stop token once, so that no bias is sent twice. */
static void copy_stop_tokens(lh_sequence *sequence, const lh_sequence_request *request) {
    for (uint32_t i = 0; i < request->stop_token_count; i++)
        if (!is_stop_token(sequence, request->stop_tokens[i]))
            sequence->stop_tokens[sequence->stop_token_count++] = request->stop_tokens[i];
}

static lh_status count_prompt(lh_sequence *sequence) {
    lh_status status = lh_token_census_create(&sequence->census);
    for (uint32_t i = 0; status == LH_OK && i < sequence->prompt_tokens; i++)
        status = lh_token_census_add(sequence->census, sequence->history[i], false);
    return status;
}

lh_status lh_sequence_create(const lh_sequence_request *request, uint64_t handle, uint32_t context,
                             lh_sequence **sequence, lh_error *error) {
    lh_status status = check(request, context, error);
    if (status != LH_OK)
        return status;
    lh_sequence *s = calloc(1, sizeof *s);
    if (!s)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a sequence");
    const lh_sequence_sampling_options *sampling = &request->sampling;
    s->handle = handle;
    s->trace = request->trace;
    s->tenant = request->tenant;
    s->cache_salt = request->cache_salt;
    s->priority = request->priority;
    s->deadline_us = request->deadline_us;
    s->prompt_tokens = s->length = request->prompt_tokens;
    s->max_tokens = request->max_tokens;
    s->has_overlap = request->has_overlap;
    s->overlap = request->overlap;
    s->min_tokens = request->min_tokens;
    copy_stop_tokens(s, request);
    s->sampling = (lh_step_sampling){.temperature = sampling->temperature,
                                     .top_k = sampling->top_k,
                                     .top_p = sampling->top_p,
                                     .min_p = sampling->min_p,
                                     .repetition_penalty = sampling->repetition_penalty,
                                     .presence_penalty = sampling->presence_penalty,
                                     .frequency_penalty = sampling->frequency_penalty,
                                     .seed = sampling->seed,
                                     .want_logprob = sampling->want_logprob,
                                     .want_digest = sampling->want_digest,
                                     .top_logprobs = sampling->top_logprobs};
    s->history = malloc(((size_t)s->prompt_tokens + s->max_tokens) * sizeof *s->history);
    if (!s->history)
        goto fail;
    memcpy(s->history, request->prompt, s->prompt_tokens * sizeof *s->history);
    if (copy_biases(s, sampling) != LH_OK || ban_stop_tokens(s) != LH_OK)
        goto fail;
    if (has_penalty(sampling) && count_prompt(s) != LH_OK)
        goto fail;
    *sequence = s;
    return LH_OK;
fail:
    lh_sequence_destroy(s);
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a sequence of %u tokens",
                   request->prompt_tokens + request->max_tokens);
}

void lh_sequence_destroy(lh_sequence *sequence) {
    if (!sequence)
        return;
    lh_token_census_destroy(sequence->census);
    free(sequence->early_biases);
    free(sequence->biases);
    free(sequence->history);
    free(sequence);
}

uint32_t lh_sequence_positions(const lh_sequence *sequence) {
    return sequence->prompt_tokens + sequence->max_tokens;
}

uint32_t lh_sequence_pending(const lh_sequence *sequence) {
    return sequence->length - sequence->fed;
}

uint32_t lh_sequence_generated(const lh_sequence *sequence) {
    return sequence->length - sequence->prompt_tokens;
}

lh_step_sampling lh_sequence_sampling(const lh_sequence *sequence) {
    lh_step_sampling sampling = sequence->sampling;
    bool early = sequence->early_bias_count > 0 && lh_sequence_generated(sequence) < sequence->min_tokens;
    sampling.counter = sequence->length;
    sampling.biases = early ? sequence->early_biases : sequence->biases;
    sampling.bias_count = early ? sequence->early_bias_count : sequence->bias_count;
    if (sequence->census)
        sampling.counts = lh_token_census_entries(sequence->census, &sampling.count_count);
    return sampling;
}

lh_status lh_sequence_append(lh_sequence *sequence, uint32_t token) {
    assert(lh_sequence_generated(sequence) < sequence->max_tokens);
    if (sequence->census && lh_token_census_add(sequence->census, token, true) != LH_OK)
        return LH_ERR_NO_MEMORY;
    sequence->history[sequence->length++] = token;
    return LH_OK;
}

bool lh_sequence_stops_at(const lh_sequence *sequence, uint32_t token) {
    return lh_sequence_generated(sequence) >= sequence->min_tokens && is_stop_token(sequence, token);
}

void lh_sequence_list_push(lh_sequence_list *list, lh_sequence *sequence) {
    sequence->previous = list->last;
    sequence->next = NULL;
    if (list->last)
        list->last->next = sequence;
    else
        list->first = sequence;
    list->last = sequence;
    list->count++;
}

void lh_sequence_list_remove(lh_sequence_list *list, lh_sequence *sequence) {
    if (sequence->previous)
        sequence->previous->next = sequence->next;
    else
        list->first = sequence->next;
    if (sequence->next)
        sequence->next->previous = sequence->previous;
    else
        list->last = sequence->previous;
    sequence->previous = sequence->next = NULL;
    list->count--;
}
