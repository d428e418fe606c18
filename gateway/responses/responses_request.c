/* What the API calls otherwise than chat does, and what it repeats. */
#include "gateway/responses/responses_request.h"

#include "common/json/json_text.h"
#include "gateway/responses/input_items.h"

#include <stdio.h>
#include <string.h>

/* ---- Options ---- */

static void read_text(const lh_body_reader *body, lh_openai_request *request) {
    const lh_body_reader text = lh_body_inside(body, "text", "text.");
    lh_openai_output_format_parse_flat(&text, "text.format", &request->format);
    lh_body_choice(&text, "verbosity", "low|medium|high");
}

/* A thought is told as it is: it needs no summary. */
static void read_reasoning(const lh_body_reader *body, lh_openai_request *request) {
    const lh_body_reader reasoning = lh_body_inside(body, "reasoning", "reasoning.");
    if (lh_body_choice(&reasoning, "effort", "none|minimal|low|medium|high|xhigh|max"))
        request->reasoning_effort = lh_body_field(&reasoning, "effort");
    lh_body_choice(&reasoning, "summary", "auto|concise|detailed");
    lh_body_choice(&reasoning, "generate_summary", "auto|concise|detailed");
}

static void read_truncation(const lh_body_reader *body) {
    const char *truncation = lh_body_choice(body, "truncation", "auto|disabled");
    if (truncation && strcmp(truncation, "auto") == 0)
        lh_body_refuse(body, "truncation", "unsupported_value",
                       "\"auto\" is not supported by this server, which leaves nothing out.");
}

/* Log probabilities are told where either field asks for them. Reasoning is told in plain text, so
 * its encrypted form may be asked for, and is null. */
static void read_include(const lh_body_reader *body, lh_sampling *sampling) {
    const json_t *list = lh_body_typed(body, "include", "array", "a list of strings");
    sampling->top_logprobs =
        (uint32_t)lh_body_integer(body, "top_logprobs", 0, LH_TOP_LOGPROBS_MAX, 0);
    sampling->want_logprob = sampling->top_logprobs > 0;
    for (size_t i = 0; i < json_array_size(list) && !body->error->status; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        bool asks_logprobs = name && strcmp(name, "message.output_text.logprobs") == 0;
        char key[32];
        snprintf(key, sizeof key, "include[%zu]", i);
        sampling->want_logprob |= asks_logprobs;
        if (!name)
            lh_body_refuse(body, key, "invalid_type", "must be a string.");
        else if (!asks_logprobs && strcmp(name, "reasoning.encrypted_content") != 0)
            lh_body_refuse(body, key, "unsupported_value",
                           "is \"%.60s\"; this server can include message.output_text.logprobs.",
                           name);
    }
}

/* ---- Tools ---- */

static const char choice_words[] = "none, auto, required, or an object of type \"function\"";

static void read_named(const lh_body_reader *body, const json_t *choice, const json_t *list,
                       lh_openai_tools *tools) {
    const lh_body_reader function = {choice, "tool_choice.", body->error, NULL, body->left_out};
    const char *type = lh_body_text(&function, "type", SIZE_MAX);
    if (!type || strcmp(type, "function") != 0)
        lh_body_refuse(body, "tool_choice", type ? "unsupported_value" : "invalid_type",
                       "must be %s.", choice_words);
    lh_openai_tools_choose(body, list, LH_TOOL_CHOICE_NAMED, lh_openai_tool_name(&function), tools);
}

static void read_tools(const lh_body_reader *body, lh_openai_request *request) {
    static const lh_openai_tool_words words = {.parameters = "parameters", .type = "function"};
    const json_t *list = lh_openai_tools_read(body, &words, request->made);
    const json_t *choice = lh_body_typed(body, "tool_choice", "string|object", choice_words);
    if (json_is_object(choice))
        read_named(body, choice, list, &request->tools);
    else
        lh_openai_tools_choose_word(body, list, &request->tools);
    lh_openai_tools_read_parallel(body, &request->tools);
}

/* ---- What the answer repeats ---- */

/* The body's own, or this, which it takes. */
static json_t *given_or(const lh_body_reader *body, const char *key, json_t *otherwise) {
    json_t *value = lh_body_field(body, key);
    if (!value)
        return otherwise;
    json_decref(otherwise);
    return json_incref(value);
}

static json_t *told_text(const lh_body_reader *body) {
    const json_t *text = lh_body_field(body, "text");
    json_t *format = json_object_get(text, "format"),
           *verbosity = json_object_get(text, "verbosity");
    json_t *told = lh_json_set(json_object(), "format",
                               json_is_object(format) ? json_incref(format)
                                                      : json_pack("{s:s}", "type", "text"));
    return json_is_string(verbosity) ? lh_json_set(told, "verbosity", json_incref(verbosity))
                                     : told;
}

static json_t *told_reasoning(const lh_openai_request *request) {
    return json_pack("{s:O?, s:n}", "effort", (json_t *)request->reasoning_effort, "summary");
}

/* NULL: no memory. */
static json_t *told_of(const lh_body_reader *body, const lh_openai_limits *limits,
                       const lh_openai_request *request) {
    static const char *const or_null[] = {"instructions",     "max_output_tokens", "max_tool_calls",
                                          "prompt_cache_key", "safety_identifier", "user"};
    const double *defaults = limits->sampling->values;
    json_t *told = json_pack("{s:b, s:n, s:b, s:s}", "background", 0, "previous_response_id",
                             "store", 0, "truncation", "disabled");
    for (size_t i = 0; i < sizeof or_null / sizeof *or_null; i++)
        told = lh_json_set(told, or_null[i], given_or(body, or_null[i], json_null()));
    told = lh_json_set(told, "metadata", given_or(body, "metadata", json_object()));
    told = lh_json_set(told, "parallel_tool_calls", json_boolean(!request->tools.has_one_call));
    told = lh_json_set(told, "reasoning", told_reasoning(request));
    told = lh_json_set(told, "temperature",
                       given_or(body, "temperature", json_real(defaults[LH_SAMPLING_TEMPERATURE])));
    told = lh_json_set(told, "text", told_text(body));
    told = lh_json_set(told, "tool_choice", given_or(body, "tool_choice", json_string("auto")));
    told = lh_json_set(told, "tools", given_or(body, "tools", json_array()));
    told =
        lh_json_set(told, "top_logprobs",
                    json_integer((json_int_t)request->parameters.sequence.sampling.top_logprobs));
    return lh_json_set(told, "top_p",
                       given_or(body, "top_p", json_real(defaults[LH_SAMPLING_TOP_P])));
}

/* ---- All of it ---- */

static void read_conversation(const lh_body_reader *body, lh_openai_conversation *conversation) {
    const char *instructions = lh_body_text(body, "instructions", SIZE_MAX);
    if (instructions && *instructions)
        lh_openai_conversation_say(conversation, "system", instructions,
                                   json_string_length(lh_body_field(body, "instructions")));
    lh_responses_input_read(body, conversation);
}

bool lh_responses_request_parse(json_t *body, lh_openai_endpoint endpoint,
                                const lh_openai_limits *limits, lh_openai_request *request,
                                lh_openai_error *error) {
    const lh_body_reader reader = {body, "", error, limits->sketch, &request->left_out};
    lh_openai_conversation conversation;
    *request = (lh_openai_request){.endpoint = endpoint,
                                   .body = body,
                                   .has_answer_head = true,
                                   .keeps_thoughts = limits->keeps_thoughts};
    *error = (lh_openai_error){0};
    lh_openai_parameters_parse(&reader, endpoint, limits, &request->parameters);
    read_text(&reader, request);
    read_reasoning(&reader, request);
    read_truncation(&reader);
    read_include(&reader, &request->parameters.sequence.sampling);
    request->template_arguments = lh_body_object(&reader, "chat_template_kwargs");
    lh_openai_conversation_begin(&conversation, request, error);
    read_tools(&reader, request);
    read_conversation(&reader, &conversation);
    lh_openai_request_check_form(&reader, request);
    if (!error->status && !(request->told = told_of(&reader, limits, request)))
        lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
    return !error->status;
}
