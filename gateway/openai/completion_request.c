/* Prompts in their four shapes, and the fields that only completions have. */
#include "gateway/openai/completion_request.h"

#include "gateway/openai/json_field.h"

#include <stdio.h>
#include <stdlib.h>

#define BEST_OF_MAX 20

static bool out_of_memory(lh_openai_error *error) {
    lh_openai_error_from(error, &(lh_error){.status = LH_ERR_NO_MEMORY});
    return false;
}

static bool refuse_shape(lh_openai_error *error) {
    return lh_openai_refuse(error, "prompt", "invalid_type",
                            "'prompt' must be a string, a list of strings, a list of token ids or "
                            "a list of such lists; none of them empty.");
}

static bool parse_text(const json_t *value, lh_openai_prompt *prompt, lh_openai_error *error) {
    if (!json_is_string(value) || json_string_length(value) == 0)
        return refuse_shape(error);
    prompt->text = json_string_value(value);
    prompt->length = json_string_length(value);
    return true;
}

static bool parse_tokens(const json_t *list, const lh_openai_limits *limits,
                         lh_openai_prompt *prompt, lh_openai_error *error) {
    size_t count = json_array_size(list);
    if (!json_is_array(list) || count == 0)
        return refuse_shape(error);
    prompt->tokens = calloc(count, sizeof *prompt->tokens);
    if (!prompt->tokens)
        return out_of_memory(error);
    prompt->token_count = count;
    for (size_t i = 0; i < count; i++)
        if (!lh_openai_token_parse(json_array_get(list, i), limits->vocabulary, "prompt",
                                   &prompt->tokens[i], error))
            return false;
    return true;
}

static bool parse_prompts(const json_t *body, const lh_openai_limits *limits,
                          lh_openai_completion_request *request, lh_openai_error *error) {
    json_t *value = lh_json_field(body, "prompt"), *first = json_array_get(value, 0);
    if (!value)
        return lh_openai_refuse(error, "prompt", "missing_required_parameter",
                                "'prompt' is missing.");
    bool several = json_is_string(first) || json_is_array(first);
    size_t count = several ? json_array_size(value) : 1;
    if (count > limits->prompts_max)
        return lh_openai_refuse(error, "prompt", "array_above_max_length",
                                "'prompt' may hold at most %u prompts.", limits->prompts_max);
    if ((uint64_t)count * request->parameters.choices > limits->sequences_max)
        return lh_openai_refuse(error, "prompt", "array_above_max_length",
                                "%zu prompts of %u choices each are more than the %u sequences "
                                "that may run and wait here.",
                                count, request->parameters.choices, limits->sequences_max);
    request->prompts = calloc(count, sizeof *request->prompts);
    if (!request->prompts)
        return out_of_memory(error);
    request->prompt_count = count;
    if (!several)
        return json_is_string(value) ? parse_text(value, &request->prompts[0], error)
                                     : parse_tokens(value, limits, &request->prompts[0], error);
    for (size_t i = 0; i < count; i++) {
        json_t *item = json_array_get(value, i);
        if (!(json_is_string(first) ? parse_text(item, &request->prompts[i], error)
                                    : parse_tokens(item, limits, &request->prompts[i], error)))
            return false;
    }
    return true;
}

static bool check_best_of(const json_t *body, const lh_openai_parameters *parameters,
                          lh_openai_error *error) {
    int64_t best_of = parameters->choices;
    if (!lh_json_field_integer(body, "best_of", 1, BEST_OF_MAX, &best_of, NULL, error))
        return false;
    if (best_of < parameters->choices)
        return lh_openai_refuse(error, "best_of", "invalid_value",
                                "'best_of' is smaller than 'n'.");
    if (best_of > parameters->choices)
        return lh_openai_refuse(error, "best_of", "unsupported_value",
                                "'best_of' larger than 'n' is not supported by this server.");
    return true;
}

static bool parse_echo(const json_t *body, lh_openai_completion_request *request,
                       lh_openai_error *error) {
    if (!lh_json_field_bool(body, "echo", NULL, &request->echo, error))
        return false;
    if (request->echo && request->parameters.sampling.want_logprob)
        return lh_openai_refuse(error, "echo", "unsupported_value",
                                "'echo' together with 'logprobs' is not supported by this server.");
    return true;
}

bool lh_openai_completion_request_parse(json_t *body, const lh_openai_limits *limits,
                                        lh_openai_completion_request *request,
                                        lh_openai_error *error) {
    *request = (lh_openai_completion_request){.body = body};
    return lh_openai_parameters_parse(body, LH_OPENAI_COMPLETIONS, limits, &request->parameters,
                                      error) &&
           check_best_of(body, &request->parameters, error) && parse_echo(body, request, error) &&
           parse_prompts(body, limits, request, error);
}

void lh_openai_completion_request_reset(lh_openai_completion_request *request) {
    for (size_t i = 0; i < request->prompt_count; i++)
        free(request->prompts[i].tokens);
    free(request->prompts);
    lh_openai_parameters_reset(&request->parameters);
    json_decref(request->body);
    *request = (lh_openai_completion_request){0};
}
