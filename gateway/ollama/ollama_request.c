/* What both have, and then what each has of its own. */
#include "gateway/ollama/ollama_request.h"

#include "common/json/json_text.h"
#include "gateway/ollama/ollama_json.h"
#include "gateway/ollama/ollama_messages.h"
#include "gateway/openai/reasoning.h"

#include <string.h>

/* ---- Penalties ---- */

static bool has_penalty(const lh_sampling *sampling) {
    return sampling->presence_penalty < 0 || sampling->presence_penalty > 0 ||
           sampling->frequency_penalty < 0 || sampling->frequency_penalty > 0 ||
           sampling->repetition_penalty < 1 || sampling->repetition_penalty > 1;
}

/* Over how many of the last tokens penalties go: here over all of them, -1, or over none, 0. */
static void read_window(const lh_body_reader *body, lh_sampling *sampling) {
    const lh_body_reader options = lh_body_inside(body, "options", "options.");
    int64_t window = lh_body_integer(&options, "repeat_last_n", -1, INT32_MAX, -1);
    if (window == 0) {
        sampling->presence_penalty = sampling->frequency_penalty = 0;
        sampling->repetition_penalty = 1;
    } else if (window > 0 && has_penalty(sampling)) {
        lh_body_refuse(&options, "repeat_last_n", "unsupported_value",
                       "can only be -1 or 0 where there is a penalty: it goes over all tokens.");
    } else if (window > 0) {
        lh_body_leave_out(&options, "repeat_last_n", NULL);
    }
}

/* ---- What both have ---- */

static void begin(const lh_body_reader *reader, lh_openai_endpoint endpoint,
                  const lh_openai_limits *limits, lh_openai_request *request,
                  lh_openai_conversation *conversation) {
    lh_openai_parameters *parameters = &request->parameters;
    *request = (lh_openai_request){.endpoint = endpoint,
                                   .body = (json_t *)reader->object,
                                   .has_answer_head = true,
                                   .keeps_thoughts = limits->keeps_thoughts};
    *reader->error = (lh_openai_error){0};
    lh_openai_parameters_parse_ollama(reader, endpoint, limits, parameters);
    read_window(reader, &parameters->sequence.sampling);
    if (parameters->seed_given && (int64_t)parameters->sequence.sampling.seed == -1)
        parameters->seed_given = false; /* any */
    request->template_arguments = lh_body_object(reader, "chat_template_kwargs");
    lh_openai_output_format_parse_bare(reader, &request->format);
    lh_openai_conversation_begin(conversation, request, reader->error);
    lh_openai_reasoning_read_think(reader, request);
}

/* The model is loaded, and stays so. */
static void reply_loaded(const lh_body_reader *reader, const lh_openai_limits *limits,
                         lh_openai_request *request) {
    json_t *answer = lh_ollama_object(limits->model);
    if (reader->error->status || reader->sketch) {
        json_decref(answer);
        return;
    }
    answer = request->endpoint == LH_OPENAI_OLLAMA_CHAT
                 ? lh_json_set(answer, "message",
                               json_pack("{s:s, s:s}", "role", "assistant", "content", ""))
                 : lh_json_set(answer, "response", json_string(""));
    request->reply = lh_ollama_end(answer, "load", NULL, NULL);
    if (!request->reply)
        lh_openai_refuse_status(reader->error, LH_ERR_NO_MEMORY);
}

/* ---- Chat ---- */

static void read_tools(const lh_body_reader *body, lh_openai_request *request) {
    static const lh_openai_tool_words words = {
        .inside = "function", .parameters = "parameters", .type = "function"};
    lh_openai_tools_choose(body, lh_openai_tools_read(body, &words, request->made, NULL),
                           LH_TOOL_CHOICE_AUTO, NULL, &request->tools);
}

/* Where the assistant has spoken last, its text goes on. */
static void decide_beginning(lh_openai_request *request) {
    const lh_chat_message *last = &request->messages[request->message_count - 1];
    request->continues_last_message =
        strcmp(last->role, "assistant") == 0 && last->content_length > 0 && !last->tool_calls;
    request->has_answer_head = !request->continues_last_message;
}

bool lh_ollama_chat_parse(json_t *body, lh_openai_endpoint endpoint, const lh_openai_limits *limits,
                          lh_openai_request *request, lh_openai_error *error) {
    const lh_body_reader reader = {body, "", error, limits->sketch, &request->left_out};
    lh_openai_conversation conversation;
    begin(&reader, endpoint, limits, request, &conversation);
    read_tools(&reader, request);
    lh_body_typed(&reader, "messages", "array", "a list of messages");
    lh_ollama_messages_read(&reader, &conversation);
    lh_openai_request_check_form(&reader, request);
    if (!error->status && request->message_count > 0)
        decide_beginning(request);
    else
        reply_loaded(&reader, limits, request);
    return !error->status;
}

/* ---- Generate ---- */

static bool is_filled(const char *text) {
    return text && *text;
}

/* The text as it is, with the marks of a template in it, or what stands before a gap. */
static void read_raw(const lh_body_reader *body, const lh_openai_limits *limits,
                     lh_openai_request *request) {
    request->endpoint = LH_OPENAI_OLLAMA_RAW;
    request->parses_special = true;
    request->parameters.adds_special = true;
    lh_openai_prompts_parse(body, "prompt", limits, request);
}

static void read_prompt(const char *system, const lh_body_reader *body,
                        lh_openai_conversation *conversation) {
    const json_t *prompt = lh_body_field(body, "prompt");
    if (is_filled(system))
        lh_openai_conversation_say(conversation, "system", system,
                                   json_string_length(lh_body_field(body, "system")));
    lh_openai_conversation_say(conversation, "user", json_string_value(prompt),
                               json_string_length(prompt));
}

bool lh_ollama_generate_parse(json_t *body, lh_openai_endpoint endpoint,
                              const lh_openai_limits *limits, lh_openai_request *request,
                              lh_openai_error *error) {
    const lh_body_reader reader = {body, "", error, limits->sketch, &request->left_out};
    lh_openai_conversation conversation;
    begin(&reader, endpoint, limits, request, &conversation);
    const char *prompt = lh_body_text(&reader, "prompt", SIZE_MAX),
               *suffix = lh_body_text(&reader, "suffix", SIZE_MAX),
               *system = lh_body_text(&reader, "system", SIZE_MAX);
    bool is_raw = lh_body_bool(&reader, "raw");
    if (is_raw && is_filled(system))
        lh_body_refuse(&reader, "system", "invalid_value",
                       "and 'raw' exclude each other: a raw prompt has all that the model sees.");
    lh_openai_request_check_form(&reader, request);
    request->suffix = is_filled(suffix) ? suffix : NULL;
    if (error->status || !is_filled(prompt))
        reply_loaded(&reader, limits, request);
    else if (is_raw || request->suffix)
        read_raw(&reader, limits, request);
    else
        read_prompt(system, &reader, &conversation);
    return !error->status;
}
