/* One small parser for each group of fields. */
#include "gateway/openai/parameters.h"

#include "common/base/digest.h"
#include "common/base/utf8.h"
#include "gateway/text/model_aliases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX INT32_MAX

static bool has_name(const lh_openai_limits *limits, const char *name) {
    return strcmp(name, limits->model) == 0 || lh_model_aliases_have(limits->aliases, name);
}

bool lh_openai_limits_have_model(const lh_openai_limits *limits, const char *name) {
    static const char tag[] = ":latest";
    char bare[512];
    size_t length = strlen(name), tag_length = sizeof tag - 1;
    if (has_name(limits, name))
        return true;
    if (length <= tag_length || length - tag_length >= sizeof bare ||
        strcmp(name + length - tag_length, tag) != 0)
        return false;
    snprintf(bare, sizeof bare, "%.*s", (int)(length - tag_length), name);
    return has_name(limits, bare);
}

void lh_openai_check_model(const lh_body_reader *body, const lh_openai_limits *limits) {
    const char *model = lh_body_text(body, "model", SIZE_MAX);
    if (model && !lh_openai_limits_have_model(limits, model))
        lh_openai_refuse(body->error, 404, "model", "model_not_found",
                         "The model '%.200s' does not exist here; this server has '%s'.", model,
                         limits->model);
}

static float parse_penalty(const lh_body_reader *body, const char *key) {
    return (float)lh_body_number(body, key, -2, true, 2, 0);
}

/* A field that has a default of the server's. */
static double parse_drawing(const lh_body_reader *body, const char *key, lh_sampling_field field,
                            double otherwise) {
    const lh_sampling_range *range = lh_sampling_range_of(field);
    return lh_body_number(body, key, range->low, range->low_included, range->high, otherwise);
}

static void parse_sampling(const lh_body_reader *body, const lh_openai_limits *limits,
                           lh_openai_parameters *parameters) {
    const double *defaults = limits->sampling->values;
    lh_sampling *sampling = &parameters->sequence.sampling;
    sampling->temperature = (float)parse_drawing(body, "temperature", LH_SAMPLING_TEMPERATURE,
                                                 defaults[LH_SAMPLING_TEMPERATURE]);
    sampling->top_p =
        (float)parse_drawing(body, "top_p", LH_SAMPLING_TOP_P, defaults[LH_SAMPLING_TOP_P]);
    sampling->min_p =
        (float)parse_drawing(body, "min_p", LH_SAMPLING_MIN_P, defaults[LH_SAMPLING_MIN_P]);
    sampling->presence_penalty = parse_penalty(body, "presence_penalty");
    sampling->frequency_penalty = parse_penalty(body, "frequency_penalty");
    /* llama.cpp's name and vLLM's for the same thing */
    double repetition = parse_drawing(body, "repeat_penalty", LH_SAMPLING_REPETITION_PENALTY,
                                      defaults[LH_SAMPLING_REPETITION_PENALTY]);
    sampling->repetition_penalty = (float)parse_drawing(body, "repetition_penalty",
                                                        LH_SAMPLING_REPETITION_PENALTY, repetition);
    const lh_sampling_range *tops = lh_sampling_range_of(LH_SAMPLING_TOP_K);
    int64_t top_k = lh_body_integer(body, "top_k", (int64_t)tops->low, (int64_t)tops->high,
                                    (int64_t)defaults[LH_SAMPLING_TOP_K]);
    sampling->top_k = top_k < 0 ? 0 : (uint32_t)top_k;
    parameters->seed_given = lh_body_field(body, "seed");
    sampling->seed = (uint64_t)lh_body_integer(body, "seed", INT64_MIN, INT64_MAX, 0);
}

/* ---- Stop strings and tokens. ---- */

static void parse_stop_string(const lh_body_reader *body, const char *key, const json_t *value,
                              lh_openai_parameters *parameters) {
    size_t length = json_string_length(value);
    if (!json_is_string(value))
        lh_body_refuse(body, key, "invalid_type", "must be a string.");
    else if (length == 0 || length > LH_OPENAI_STOP_BYTES_MAX)
        lh_body_refuse(body, key, "invalid_value", "must have 1 to %u bytes.",
                       LH_OPENAI_STOP_BYTES_MAX);
    else
        parameters->stops[parameters->stop_count++] =
            (lh_stop_string){json_string_value(value), length};
}

static void parse_stop(const lh_body_reader *body, lh_openai_endpoint endpoint,
                       lh_openai_parameters *parameters) {
    const char *name = endpoint == LH_OPENAI_MESSAGES ? "stop_sequences" : "stop";
    const json_t *stop = lh_body_typed(body, name, "string|array", "a string or a list of strings");
    parameters->stop_list = stop;
    if (json_is_string(stop))
        parse_stop_string(body, name, stop, parameters);
    else if (json_array_size(stop) > LH_STOP_STRINGS_MAX)
        lh_body_refuse(body, name, "array_above_max_length", "may hold at most %d strings.",
                       LH_STOP_STRINGS_MAX);
    for (size_t i = 0; i < json_array_size(stop) && !body->error->status; i++) {
        char key[48];
        snprintf(key, sizeof key, "%s[%zu]", name, i);
        parse_stop_string(body, key, json_array_get(stop, i), parameters);
    }
}

static void parse_stop_tokens(const lh_body_reader *body, const lh_openai_limits *limits,
                              lh_openai_parameters *parameters) {
    static const char key[] = "stop_token_ids";
    const json_t *list = lh_body_typed(body, key, "array", "a list of token ids");
    if (json_array_size(list) > LH_OPENAI_STOP_TOKENS_MAX)
        lh_body_refuse(body, key, "array_above_max_length", "may hold at most %u ids.",
                       LH_OPENAI_STOP_TOKENS_MAX);
    for (size_t i = 0; i < json_array_size(list) && !body->error->status; i++)
        parameters->stop_tokens[parameters->stop_token_count++] =
            lh_body_token(body, key, list, i, limits->vocabulary);
    parameters->ignore_eos = lh_body_bool(body, "ignore_eos");
}

/* Of chat or of text: only these have several choices, and token ids. */
static bool is_completion(lh_openai_endpoint endpoint) {
    return endpoint == LH_OPENAI_CHAT || endpoint == LH_OPENAI_COMPLETIONS;
}

/* As vLLM has them: a chat's template has put its special tokens itself. */
static void parse_tokens(const lh_body_reader *body, lh_openai_endpoint endpoint,
                         lh_openai_parameters *parameters) {
    parameters->adds_special =
        lh_body_bool_or(body, "add_special_tokens", !lh_openai_is_chat(endpoint));
    parameters->shows_special = !lh_body_bool_or(body, "skip_special_tokens", true);
    parameters->returns_ids = is_completion(endpoint) && lh_body_bool(body, "return_token_ids");
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

static bool parse_bias(const char *key, const json_t *value, uint32_t vocabulary,
                       lh_token_bias *bias, lh_openai_error *error) {
    if (!parse_bias_key(key, vocabulary, &bias->token))
        return lh_openai_refuse(
            error, 400, "logit_bias", "invalid_value",
            "'logit_bias': \"%.40s\" is not a token id of this model (0 to %u).", key,
            vocabulary - 1);
    double number = json_is_number(value) ? json_number_value(value) : 1000;
    if (number < -100 || number > 100)
        return lh_openai_refuse(
            error, 400, "logit_bias", "invalid_value",
            "'logit_bias': the bias of token %s must be a number from -100 to 100.", key);
    bias->bias = (float)number;
    return true;
}

static void parse_biases(const lh_body_reader *body, const lh_openai_limits *limits,
                         lh_sampling *sampling) {
    json_t *map = lh_body_object(body, "logit_bias"), *value;
    size_t count = json_object_size(map);
    if (count > LH_OPENAI_BIASES_MAX)
        lh_body_refuse(body, "logit_bias", "object_above_max_properties",
                       "may hold at most %u tokens.", LH_OPENAI_BIASES_MAX);
    if (count == 0 || body->error->status)
        return;
    lh_token_bias *biases = calloc(count, sizeof *biases);
    sampling->biases = biases;
    if (!biases) {
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
        return;
    }
    const char *key;
    json_object_foreach(map, key, value) {
        if (!parse_bias(key, value, limits->vocabulary, &biases[sampling->bias_count++],
                        body->error))
            return;
    }
}

/* ---- Length, choices, stream. ---- */

/* Peers' word for what has no bound. */
static bool is_unbounded(const json_t *value) {
    return (json_is_integer(value) && json_integer_value(value) == -1) ||
           (json_is_real(value) && json_real_value(value) <= -1 && json_real_value(value) >= -1);
}

/* Ollama's only has a bound where it is above zero. */
static int64_t parse_num_predict(const lh_body_reader *options) {
    int64_t most = lh_body_integer(options, "num_predict", INT32_MIN, TOKENS_MAX, 0);
    return most > 0 ? most : INT64_MAX;
}

/* INT64_MAX: none is named. */
static int64_t parse_most(const lh_body_reader *body, const char *name, int64_t low) {
    if (body->sketch)
        lh_body_draw(body, name,
                     json_pack("{s:[{s:s}, {s:i}, {s:s, s:I, s:i}]}", "anyOf", "type", "null",
                               "const", -1, "type", "integer", "minimum", (json_int_t)low,
                               "maximum", TOKENS_MAX));
    return is_unbounded(lh_body_field(body, name))
               ? INT64_MAX
               : lh_body_integer(body, name, low, TOKENS_MAX, INT64_MAX);
}

static int64_t least_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void parse_lengths(const lh_body_reader *body, lh_openai_endpoint endpoint,
                          lh_openai_parameters *parameters) {
    int64_t low = endpoint == LH_OPENAI_COMPLETIONS && lh_body_bool(body, "echo") ? 0 : 1;
    const char *name = endpoint == LH_OPENAI_RESPONSES ? "max_output_tokens" : "max_tokens";
    if (endpoint == LH_OPENAI_OLLAMA_OPTIONS)
        name = "num_predict";
    int64_t most = endpoint == LH_OPENAI_OLLAMA_OPTIONS ? parse_num_predict(body)
                                                        : parse_most(body, name, low);
    if (endpoint == LH_OPENAI_CHAT)
        most = least_of(most, parse_most(body, "max_completion_tokens", low));
    if (is_completion(endpoint)) /* llama.cpp's name for it */
        most = least_of(most, parse_most(body, "n_predict", low));
    int64_t least = lh_body_integer(body, "min_tokens", 0, TOKENS_MAX, 0);
    parameters->sequence.min_tokens = (uint32_t)least;
    parameters->max_tokens_given = most != INT64_MAX;
    if (parameters->max_tokens_given)
        parameters->max_tokens = (uint32_t)most;
    if (least > most)
        lh_body_refuse(body, "min_tokens", "invalid_value", "is larger than '%s'.", name);
}

static uint32_t parse_choices(const lh_body_reader *body, lh_openai_endpoint endpoint,
                              const lh_openai_limits *limits) {
    if (!is_completion(endpoint))
        return 1;
    uint32_t high =
        limits->choices_max < limits->sequences_max ? limits->choices_max : limits->sequences_max;
    return (uint32_t)lh_body_integer(body, "n", 1, high, 1);
}

static void parse_stream(const lh_body_reader *body, lh_openai_endpoint endpoint,
                         lh_openai_parameters *parameters) {
    parameters->stream = lh_body_bool(body, "stream");
    if (endpoint == LH_OPENAI_MESSAGES)
        return;
    const lh_body_reader options = lh_body_inside(body, "stream_options", "stream_options.");
    if (options.object && !parameters->stream)
        lh_body_refuse(body, "stream_options", "invalid_value",
                       "may be given only where 'stream' is true.");
    parameters->include_usage = lh_body_bool(&options, "include_usage");
    lh_body_bool(&options, "include_obfuscation"); /* may be asked for, need not be done */
    parameters->continuous_usage = lh_body_bool(&options, "continuous_usage_stats");
}

/* In both dialects of completions; Ollama's are asked for as chat's. */
static void parse_logprobs(const lh_body_reader *body, lh_openai_endpoint endpoint,
                           lh_sampling *sampling) {
    bool is_ollama = endpoint & (LH_OPENAI_OLLAMA_CHAT | LH_OPENAI_OLLAMA_GENERATE);
    if (!is_completion(endpoint) && !is_ollama)
        return;
    bool is_chat = endpoint == LH_OPENAI_CHAT || is_ollama;
    const char *key = is_chat ? "top_logprobs" : "logprobs";
    sampling->want_logprob =
        is_chat ? lh_body_bool(body, "logprobs") : lh_body_field(body, "logprobs") != NULL;
    sampling->top_logprobs = (uint32_t)lh_body_integer(body, key, 0, LH_TOP_LOGPROBS_MAX, 0);
    if (sampling->top_logprobs > 0 && !sampling->want_logprob)
        lh_body_refuse(body, key, "invalid_value", "may be given only where 'logprobs' is true.");
}

/* vLLM's field; a stream has no place for them there either. */
static void parse_prompt_logprobs(const lh_body_reader *body, lh_openai_parameters *parameters) {
    static const char key[] = "prompt_logprobs";
    lh_sequence_request *sequence = &parameters->sequence;
    parameters->wants_prompt_logprobs = lh_body_field(body, key);
    parameters->prompt_logprobs = (uint32_t)lh_body_integer(body, key, 0, LH_TOP_LOGPROBS_MAX, 0);
    if (parameters->wants_prompt_logprobs && parameters->stream)
        lh_body_refuse(body, key, "invalid_value", "are not available where 'stream' is true.");
    sequence->scores_prompt = parameters->wants_prompt_logprobs;
    sequence->prompt_tops = parameters->prompt_logprobs;
}

/* ---- Our own. ---- */

static void parse_longhaul(const lh_body_reader *body, const lh_openai_limits *limits,
                           lh_openai_parameters *parameters) {
    lh_sequence_request *sequence = &parameters->sequence;
    const lh_body_reader longhaul = lh_body_inside(body, "longhaul", "longhaul.");
    const char *overlap = lh_body_text(&longhaul, "overlap", SIZE_MAX);
    lh_error cause;
    sequence->has_overlap = overlap;
    if (overlap && lh_overlap_spec_parse(overlap, &sequence->overlap, &cause) != LH_OK)
        lh_openai_refuse(body->error, 400, "longhaul.overlap", "invalid_value",
                         "'longhaul.overlap': %s.", cause.message);
    parameters->wants_timing = lh_body_bool(&longhaul, "timing");
    if (parameters->wants_timing && !limits->is_traced)
        lh_openai_refuse(body->error, 400, "longhaul.timing", "unsupported_value",
                         "'longhaul.timing': this server keeps no traces (--traces 0).");
}

static void parse_urgency(const lh_body_reader *body, lh_openai_parameters *parameters) {
    parameters->sequence.priority =
        (int32_t)lh_body_integer(body, "priority", INT32_MIN, INT32_MAX, 0);
    double timeout_s = lh_body_number(body, "timeout", 0, false, LH_OPENAI_TIMEOUT_S_MAX, 0);
    parameters->timeout_us = (int64_t)ceil(timeout_s * 1e6);
}

/* By a digest, so that nobody finds a text that stands for the same; 0: none was given. */
static uint64_t parse_cache_salt(const lh_body_reader *body) {
    const char *salt = lh_body_text(body, "cache_salt", SIZE_MAX);
    uint8_t digest[LH_SHA256_BYTES];
    uint64_t value;
    if (!salt)
        return 0;
    if (!*salt)
        lh_body_refuse(body, "cache_salt", "invalid_value", "must not be empty.");
    else if (lh_sha256_digest(salt, strlen(salt), digest))
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
    if (body->error->status)
        return 0;
    memcpy(&value, digest, sizeof value);
    return value | 1;
}

/* ---- What is checked and changes nothing. ---- */

/* Anthropic's has a user_id, which may be null. */
static void check_metadata(const lh_body_reader *body, lh_openai_endpoint endpoint) {
    if (endpoint == LH_OPENAI_MESSAGES) {
        const lh_body_reader user = lh_body_inside(body, "metadata", "metadata.");
        lh_body_text(&user, "user_id", SIZE_MAX);
        return;
    }
    json_t *metadata = lh_body_object(body, "metadata"), *value;
    const char *key;
    if (json_object_size(metadata) > 16)
        lh_body_refuse(body, "metadata", "object_above_max_properties",
                       "may hold at most 16 pairs.");
    json_object_foreach(metadata, key, value) {
        if (body->error->status)
            return;
        if (lh_utf8_count(key, strlen(key)) > 64)
            lh_openai_refuse(body->error, 400, "metadata", "invalid_value",
                             "A key of 'metadata' is longer than 64 characters.");
        else if (!json_is_string(value))
            lh_openai_refuse(body->error, 400, "metadata", "invalid_type",
                             "The values of 'metadata' must be strings.");
        else if (lh_utf8_count(json_string_value(value), json_string_length(value)) > 512)
            lh_openai_refuse(body->error, 400, "metadata", "string_above_max_length",
                             "A value of 'metadata' is longer than 512 characters.");
    }
}

void lh_openai_parameters_parse(const lh_body_reader *body, lh_openai_endpoint endpoint,
                                const lh_openai_limits *limits, lh_openai_parameters *parameters) {
    *parameters = (lh_openai_parameters){0};
    lh_openai_check_model(body, limits);
    parameters->unknown_fields = lh_openai_fields_check(body, endpoint, limits->strict);
    parse_sampling(body, limits, parameters);
    parse_stop(body, endpoint, parameters);
    parse_stop_tokens(body, limits, parameters);
    parse_tokens(body, endpoint, parameters);
    parse_biases(body, limits, &parameters->sequence.sampling);
    parse_lengths(body, endpoint, parameters);
    parameters->choices = parse_choices(body, endpoint, limits);
    parse_stream(body, endpoint, parameters);
    parse_logprobs(body, endpoint, &parameters->sequence.sampling);
    parse_prompt_logprobs(body, parameters);
    parse_longhaul(body, limits, parameters);
    parse_urgency(body, parameters);
    parameters->sequence.cache_salt = parse_cache_salt(body);
    parameters->service_tier_given = lh_body_choice(
        body, "service_tier",
        endpoint == LH_OPENAI_MESSAGES ? "auto|standard_only" : "auto|default|flex|scale|priority");
    if (endpoint != LH_OPENAI_MESSAGES) {
        lh_body_text(body, "user", SIZE_MAX);
        lh_body_text(body, "safety_identifier", 128);
        lh_body_text(body, "prompt_cache_key", SIZE_MAX);
    }
    check_metadata(body, endpoint);
}

void lh_openai_parameters_parse_ollama(const lh_body_reader *body, lh_openai_endpoint endpoint,
                                       const lh_openai_limits *limits,
                                       lh_openai_parameters *parameters) {
    const lh_body_reader options = lh_body_inside(body, "options", "options.");
    *parameters = (lh_openai_parameters){.choices = 1};
    lh_openai_check_model(body, limits);
    parameters->unknown_fields =
        lh_openai_fields_check(body, endpoint, limits->strict) +
        lh_openai_fields_check(&options, LH_OPENAI_OLLAMA_OPTIONS, limits->strict);
    parse_sampling(&options, limits, parameters);
    parse_stop(&options, LH_OPENAI_OLLAMA_OPTIONS, parameters);
    parse_stop_tokens(&options, limits, parameters);
    parse_biases(&options, limits, &parameters->sequence.sampling);
    parse_lengths(&options, LH_OPENAI_OLLAMA_OPTIONS, parameters);
    parameters->stream = lh_body_bool_or(body, "stream", true);
    parse_logprobs(body, endpoint, &parameters->sequence.sampling);
    parse_longhaul(body, limits, parameters);
    parse_urgency(body, parameters);
    parameters->sequence.cache_salt = parse_cache_salt(body);
}

void lh_openai_parameters_parse_pooled(const lh_body_reader *body, lh_openai_endpoint endpoint,
                                       const lh_openai_limits *limits,
                                       lh_openai_parameters *parameters) {
    *parameters = (lh_openai_parameters){
        .choices = 1,
        .max_tokens_given = true, /* none */
        .sequence = {.sampling = {.top_p = 1, .repetition_penalty = 1}},
    };
    lh_openai_check_model(body, limits);
    parameters->unknown_fields = lh_openai_fields_check(body, endpoint, limits->strict);
    parameters->adds_special = lh_body_bool_or(body, "add_special_tokens", true);
    parse_urgency(body, parameters);
    parameters->sequence.cache_salt = parse_cache_salt(body);
    lh_body_text(body, "user", SIZE_MAX);
}

void lh_openai_parameters_reset(lh_openai_parameters *parameters) {
    free((void *)parameters->sequence.sampling.biases);
    parameters->sequence.sampling.biases = NULL;
}
