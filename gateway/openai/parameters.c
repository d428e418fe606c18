/* One small parser for each group of fields. */
#include "gateway/openai/parameters.h"

#include "common/base/digest.h"
#include "common/base/utf8.h"
#include "gateway/openai/json_field.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX INT32_MAX

static bool parse_model(const json_t *body, const lh_openai_limits *limits,
                        lh_openai_error *error) {
    const char *model = NULL;
    if (!lh_json_field_text(body, "model", SIZE_MAX, &model, error))
        return false;
    if (!model || strcmp(model, limits->model) == 0)
        return true;
    lh_openai_error_set(error, 404, "model_not_found",
                        "The model '%.200s' does not exist here; this server has '%s'.", model,
                        limits->model);
    snprintf(error->param, sizeof error->param, "model");
    return false;
}

static bool parse_float(const json_t *body, const char *key, double low, bool low_included,
                        double high, float *value, lh_openai_error *error) {
    double number = (double)*value;
    if (!lh_json_field_number(body, key, low, low_included, high, &number, error))
        return false;
    *value = (float)number;
    return true;
}

/* llama.cpp's name and vLLM's for the same thing. */
static bool parse_repetition(const json_t *body, lh_sampling *sampling, lh_openai_error *error) {
    return parse_float(body, "repeat_penalty", 0.1, true, 10, &sampling->repetition_penalty,
                       error) &&
           parse_float(body, "repetition_penalty", 0.1, true, 10, &sampling->repetition_penalty,
                       error);
}

/* 0 and vLLM's -1 switch it off. */
static bool parse_top_k(const json_t *body, lh_sampling *sampling, lh_openai_error *error) {
    int64_t top_k = 0;
    if (!lh_json_field_integer(body, "top_k", -1, INT32_MAX, &top_k, NULL, error))
        return false;
    sampling->top_k = top_k < 0 ? 0 : (uint32_t)top_k;
    return true;
}

static bool parse_seed(const json_t *body, lh_openai_parameters *parameters,
                       lh_openai_error *error) {
    int64_t seed = 0;
    if (!lh_json_field_integer(body, "seed", INT64_MIN, INT64_MAX, &seed, &parameters->seed_given,
                               error))
        return false;
    parameters->sampling.seed = (uint64_t)seed;
    return true;
}

static bool parse_sampling(const json_t *body, lh_openai_parameters *parameters,
                           lh_openai_error *error) {
    lh_sampling *sampling = &parameters->sampling;
    *sampling = (lh_sampling){.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    return parse_float(body, "temperature", 0, true, 2, &sampling->temperature, error) &&
           parse_float(body, "top_p", 0, false, 1, &sampling->top_p, error) &&
           parse_float(body, "min_p", 0, true, 1, &sampling->min_p, error) &&
           parse_float(body, "presence_penalty", -2, true, 2, &sampling->presence_penalty, error) &&
           parse_float(body, "frequency_penalty", -2, true, 2, &sampling->frequency_penalty,
                       error) &&
           parse_repetition(body, sampling, error) && parse_top_k(body, sampling, error) &&
           parse_seed(body, parameters, error);
}

/* ---- Stop strings and tokens. ---- */

static bool parse_stop_string(const json_t *value, const char *param,
                              lh_openai_parameters *parameters, lh_openai_error *error) {
    if (!json_is_string(value))
        return lh_openai_refuse(error, param, "invalid_type", "'%s' must be a string.", param);
    size_t length = json_string_length(value);
    if (length == 0 || length > LH_OPENAI_STOP_BYTES_MAX)
        return lh_openai_refuse(error, param, "invalid_value", "'%s' must have 1 to %u bytes.",
                                param, LH_OPENAI_STOP_BYTES_MAX);
    parameters->stops[parameters->stop_count++] =
        (lh_stop_string){json_string_value(value), length};
    return true;
}

static bool parse_stop(const json_t *body, lh_openai_parameters *parameters,
                       lh_openai_error *error) {
    json_t *stop = lh_json_field(body, "stop");
    if (!stop)
        return true;
    if (json_is_string(stop))
        return parse_stop_string(stop, "stop", parameters, error);
    if (!json_is_array(stop))
        return lh_openai_refuse(error, "stop", "invalid_type",
                                "'stop' must be a string or a list of strings.");
    if (json_array_size(stop) > LH_STOP_STRINGS_MAX)
        return lh_openai_refuse(error, "stop", "array_above_max_length",
                                "'stop' may hold at most %d strings.", LH_STOP_STRINGS_MAX);
    for (size_t i = 0; i < json_array_size(stop); i++) {
        char param[32];
        snprintf(param, sizeof param, "stop[%zu]", i);
        if (!parse_stop_string(json_array_get(stop, i), param, parameters, error))
            return false;
    }
    return true;
}

bool lh_openai_token_parse(const json_t *value, uint32_t vocabulary, const char *param,
                           uint32_t *token, lh_openai_error *error) {
    int64_t integer;
    if (!lh_json_integer(value, &integer))
        return lh_openai_refuse(error, param, "invalid_type", "'%s' must be a token id.", param);
    if (integer < 0 || integer >= vocabulary)
        return lh_openai_refuse(error, param, "invalid_value",
                                "'%s' is not a token id of this model (0 to %u).", param,
                                vocabulary - 1);
    *token = (uint32_t)integer;
    return true;
}

static bool parse_stop_tokens(const json_t *body, const lh_openai_limits *limits,
                              lh_openai_parameters *parameters, lh_openai_error *error) {
    json_t *list = lh_json_field(body, "stop_token_ids");
    if (list && !json_is_array(list))
        return lh_openai_refuse(error, "stop_token_ids", "invalid_type",
                                "'stop_token_ids' must be a list of token ids.");
    if (json_array_size(list) > LH_OPENAI_STOP_TOKENS_MAX)
        return lh_openai_refuse(error, "stop_token_ids", "array_above_max_length",
                                "'stop_token_ids' may hold at most %u ids.",
                                LH_OPENAI_STOP_TOKENS_MAX);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!lh_openai_token_parse(json_array_get(list, i), limits->vocabulary, "stop_token_ids",
                                   &parameters->stop_tokens[parameters->stop_token_count++], error))
            return false;
    return lh_json_field_bool(body, "ignore_eos", NULL, &parameters->ignore_eos, error);
}

/* ---- Biases. ---- */

/* A decimal number without sign or leading zeros, so that no two names mean one token. */
static bool parse_bias_key(const char *key, uint32_t vocabulary, uint32_t *token) {
    size_t length = strlen(key);
    if (length == 0 || length > 10 || strspn(key, "0123456789") != length ||
        (key[0] == '0' && length > 1))
        return false;
    unsigned long long id = strtoull(key, NULL, 10);
    *token = (uint32_t)id;
    return id < vocabulary;
}

static bool parse_bias(const char *key, const json_t *value, const lh_openai_limits *limits,
                       lh_token_bias *bias, lh_openai_error *error) {
    if (!parse_bias_key(key, limits->vocabulary, &bias->token))
        return lh_openai_refuse(
            error, "logit_bias", "invalid_value",
            "'logit_bias': \"%.40s\" is not a token id of this model (0 to %u).", key,
            limits->vocabulary - 1);
    double number = json_is_number(value) ? json_number_value(value) : 1000;
    if (number < -100 || number > 100)
        return lh_openai_refuse(
            error, "logit_bias", "invalid_value",
            "'logit_bias': the bias of token %s must be a number from -100 to 100.", key);
    bias->bias = (float)number;
    return true;
}

static bool parse_biases(const json_t *body, const lh_openai_limits *limits,
                         lh_openai_parameters *parameters, lh_openai_error *error) {
    json_t *map = lh_json_field(body, "logit_bias");
    if (map && !json_is_object(map))
        return lh_openai_refuse(error, "logit_bias", "invalid_type",
                                "'logit_bias' must be an object.");
    size_t count = json_object_size(map);
    if (count == 0)
        return true;
    if (count > LH_OPENAI_BIASES_MAX)
        return lh_openai_refuse(error, "logit_bias", "object_above_max_properties",
                                "'logit_bias' may hold at most %u tokens.", LH_OPENAI_BIASES_MAX);
    parameters->biases = calloc(count, sizeof *parameters->biases);
    if (!parameters->biases) {
        lh_openai_error_from(error, &(lh_error){.status = LH_ERR_NO_MEMORY});
        return false;
    }
    uint32_t index = 0;
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value) {
        if (!parse_bias(key, value, limits, &parameters->biases[index++], error))
            return false;
    }
    parameters->sampling.biases = parameters->biases;
    parameters->sampling.bias_count = index;
    return true;
}

/* ---- Length, choices, stream. ---- */

static bool parse_lengths(const json_t *body, lh_openai_endpoint endpoint,
                          lh_openai_parameters *parameters, lh_openai_error *error) {
    bool echo = false, older, newer = false;
    if (endpoint == LH_OPENAI_COMPLETIONS && !lh_json_field_bool(body, "echo", NULL, &echo, error))
        return false;
    int64_t low = echo ? 0 : 1, older_value = INT64_MAX, newer_value = INT64_MAX, min_tokens = 0;
    if (!lh_json_field_integer(body, "max_tokens", low, TOKENS_MAX, &older_value, &older, error))
        return false;
    if (endpoint == LH_OPENAI_CHAT &&
        !lh_json_field_integer(body, "max_completion_tokens", low, TOKENS_MAX, &newer_value, &newer,
                               error))
        return false;
    parameters->max_tokens_given = older || newer;
    if (parameters->max_tokens_given)
        parameters->max_tokens = (uint32_t)(older_value < newer_value ? older_value : newer_value);
    if (!lh_json_field_integer(body, "min_tokens", 0, TOKENS_MAX, &min_tokens, NULL, error))
        return false;
    parameters->min_tokens = (uint32_t)min_tokens;
    if (parameters->max_tokens_given && parameters->min_tokens > parameters->max_tokens)
        return lh_openai_refuse(error, "min_tokens", "invalid_value",
                                "'min_tokens' is larger than 'max_tokens'.");
    return true;
}

static bool parse_choices(const json_t *body, const lh_openai_limits *limits,
                          lh_openai_parameters *parameters, lh_openai_error *error) {
    int64_t choices = 1;
    uint32_t high =
        limits->choices_max < limits->sequences_max ? limits->choices_max : limits->sequences_max;
    if (!lh_json_field_integer(body, "n", 1, high, &choices, NULL, error))
        return false;
    parameters->choices = (uint32_t)choices;
    return true;
}

static bool parse_stream(const json_t *body, lh_openai_parameters *parameters,
                         lh_openai_error *error) {
    bool obfuscation; /* of the chunks' lengths: may be asked for, need not be done */
    if (!lh_json_field_bool(body, "stream", NULL, &parameters->stream, error))
        return false;
    json_t *options = lh_json_field(body, "stream_options");
    if (!options)
        return true;
    if (!json_is_object(options))
        return lh_openai_refuse(error, "stream_options", "invalid_type",
                                "'stream_options' must be an object.");
    if (!parameters->stream)
        return lh_openai_refuse(error, "stream_options", "invalid_value",
                                "'stream_options' may be given only where 'stream' is true.");
    return lh_json_field_bool(options, "include_usage", "stream_options.include_usage",
                              &parameters->include_usage, error) &&
           lh_json_field_bool(options, "include_obfuscation", "stream_options.include_obfuscation",
                              &obfuscation, error) &&
           lh_json_field_bool(options, "continuous_usage_stats",
                              "stream_options.continuous_usage_stats",
                              &parameters->continuous_usage, error);
}

/* ---- Logprobs, in both dialects. ---- */

static bool parse_chat_logprobs(const json_t *body, lh_sampling *sampling, lh_openai_error *error) {
    int64_t top = 0;
    bool top_given;
    if (!lh_json_field_bool(body, "logprobs", NULL, &sampling->want_logprob, error) ||
        !lh_json_field_integer(body, "top_logprobs", 0, LH_OPENAI_TOP_LOGPROBS_MAX, &top,
                               &top_given, error))
        return false;
    if (top_given && !sampling->want_logprob)
        return lh_openai_refuse(error, "top_logprobs", "invalid_value",
                                "'top_logprobs' may be given only where 'logprobs' is true.");
    sampling->top_logprobs = (uint32_t)top;
    return true;
}

static bool parse_completion_logprobs(const json_t *body, lh_sampling *sampling,
                                      lh_openai_error *error) {
    int64_t top = 0;
    if (!lh_json_field_integer(body, "logprobs", 0, LH_OPENAI_TOP_LOGPROBS_MAX, &top,
                               &sampling->want_logprob, error))
        return false;
    sampling->top_logprobs = (uint32_t)top;
    return true;
}

/* ---- Our own. ---- */

static bool parse_overlap(const json_t *longhaul, lh_openai_parameters *parameters,
                          lh_openai_error *error) {
    const char *text = NULL;
    lh_error cause;
    if (!lh_json_field_text(longhaul, "overlap", SIZE_MAX, &text, error)) {
        snprintf(error->param, sizeof error->param, "longhaul.overlap");
        return false;
    }
    if (!text)
        return true;
    parameters->has_overlap = true;
    return lh_overlap_spec_parse(text, &parameters->overlap, &cause) == LH_OK ||
           lh_openai_refuse(error, "longhaul.overlap", "invalid_value", "'longhaul.overlap': %s.",
                            cause.message);
}

static bool parse_timing(const json_t *longhaul, const lh_openai_limits *limits,
                         lh_openai_parameters *parameters, lh_openai_error *error) {
    if (!lh_json_field_bool(longhaul, "timing", "longhaul.timing", &parameters->wants_timing,
                            error))
        return false;
    return !parameters->wants_timing || limits->is_traced ||
           lh_openai_refuse(error, "longhaul.timing", "unsupported_value",
                            "'longhaul.timing': this server keeps no traces (--traces 0).");
}

static bool parse_longhaul(const json_t *body, const lh_openai_limits *limits,
                           lh_openai_parameters *parameters, lh_openai_error *error) {
    json_t *longhaul = lh_json_field(body, "longhaul");
    if (longhaul && !json_is_object(longhaul))
        return lh_openai_refuse(error, "longhaul", "invalid_type", "'longhaul' must be an object.");
    return parse_overlap(longhaul, parameters, error) &&
           parse_timing(longhaul, limits, parameters, error);
}

/* ---- When. ---- */

static bool parse_urgency(const json_t *body, lh_openai_parameters *parameters,
                          lh_openai_error *error) {
    int64_t priority = 0;
    double timeout_s = 0;
    if (!lh_json_field_integer(body, "priority", INT32_MIN, INT32_MAX, &priority, NULL, error) ||
        !lh_json_field_number(body, "timeout", 0, false, LH_OPENAI_TIMEOUT_S_MAX, &timeout_s,
                              error))
        return false;
    parameters->priority = (int32_t)priority;
    parameters->timeout_us = (int64_t)ceil(timeout_s * 1e6);
    return true;
}

/* ---- What is shared. ---- */

/* By a digest, so that nobody finds a text that stands for the same. */
static bool parse_cache_salt(const json_t *body, lh_openai_parameters *parameters,
                             lh_openai_error *error) {
    const char *salt = NULL;
    uint8_t digest[LH_SHA256_BYTES];
    if (!lh_json_field_text(body, "cache_salt", SIZE_MAX, &salt, error))
        return false;
    if (!salt)
        return true;
    if (!*salt)
        return lh_openai_refuse(error, "cache_salt", "invalid_value",
                                "'cache_salt' must not be empty.");
    lh_status status = lh_sha256_digest(salt, strlen(salt), digest);
    if (status != LH_OK) {
        lh_openai_error_from(error, &(lh_error){.status = status});
        return false;
    }
    memcpy(&parameters->cache_salt, digest, sizeof parameters->cache_salt);
    parameters->cache_salt |= 1; /* 0 is none */
    return true;
}

/* ---- What is checked and changes nothing. ---- */

static bool check_metadata(const json_t *body, lh_openai_error *error) {
    json_t *metadata = lh_json_field(body, "metadata");
    if (!metadata)
        return true;
    if (!json_is_object(metadata))
        return lh_openai_refuse(error, "metadata", "invalid_type", "'metadata' must be an object.");
    if (json_object_size(metadata) > 16)
        return lh_openai_refuse(error, "metadata", "object_above_max_properties",
                                "'metadata' may hold at most 16 pairs.");
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) {
        const char *text;
        if (lh_utf8_count(key, strlen(key)) > 64)
            return lh_openai_refuse(error, "metadata", "invalid_value",
                                    "A key of 'metadata' is longer than 64 characters.");
        if (!json_is_string(value))
            return lh_openai_refuse(error, "metadata", "invalid_type",
                                    "The values of 'metadata' must be strings.");
        if (!lh_json_field_text(metadata, key, 512, &text, error))
            return lh_openai_refuse(error, "metadata", "string_above_max_length",
                                    "A value of 'metadata' is longer than 512 characters.");
    }
    return true;
}

static bool check_unused(const json_t *body, lh_openai_parameters *parameters,
                         lh_openai_error *error) {
    const char *text = NULL, *tier = NULL;
    if (!lh_json_field_choice(body, "service_tier", "auto|default|flex|scale|priority", &tier,
                              error))
        return false;
    parameters->service_tier_given = tier;
    return lh_json_field_text(body, "user", SIZE_MAX, &text, error) &&
           lh_json_field_text(body, "safety_identifier", 128, &text, error) &&
           lh_json_field_text(body, "prompt_cache_key", SIZE_MAX, &text, error) &&
           check_metadata(body, error);
}

bool lh_openai_parameters_parse(const json_t *body, lh_openai_endpoint endpoint,
                                const lh_openai_limits *limits, lh_openai_parameters *parameters,
                                lh_openai_error *error) {
    *parameters = (lh_openai_parameters){0};
    return parse_model(body, limits, error) &&
           lh_openai_fields_check(body, endpoint, limits->strict, &parameters->unknown_fields,
                                  error) &&
           parse_sampling(body, parameters, error) && parse_stop(body, parameters, error) &&
           parse_stop_tokens(body, limits, parameters, error) &&
           parse_biases(body, limits, parameters, error) &&
           parse_lengths(body, endpoint, parameters, error) &&
           parse_choices(body, limits, parameters, error) &&
           parse_stream(body, parameters, error) &&
           (endpoint == LH_OPENAI_CHAT
                ? parse_chat_logprobs(body, &parameters->sampling, error)
                : parse_completion_logprobs(body, &parameters->sampling, error)) &&
           parse_longhaul(body, limits, parameters, error) &&
           parse_urgency(body, parameters, error) && parse_cache_salt(body, parameters, error) &&
           check_unused(body, parameters, error);
}

void lh_openai_parameters_reset(lh_openai_parameters *parameters) {
    free(parameters->biases);
    parameters->biases = NULL;
}
