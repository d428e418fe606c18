/* Messages of chat, prompts of completions in their four shapes, and the fields that only one of
 * the two has. */
#include "gateway/openai/request.h"

#include "gateway/openai/chat_tools.h"
#include "gateway/openai/reasoning.h"
#include "gateway/openai/text_parts.h"
#include "gateway/openai/tool_form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BEST_OF_MAX 20

/* ---- Messages. ---- */

/* Who speaks for a session's history may leave out what an assistant or a tool has not said; of the
 * others it is an error, which null is not. */
static bool may_be_empty(const lh_body_reader *message, const char *role) {
    return message->sketch || lh_body_is_one_of(role, "assistant|tool") ||
           json_object_get(message->object, "content");
}

static void parse_content(const lh_body_reader *message, lh_chat_message *out, char **joined) {
    const json_t *content =
        lh_body_typed(message, "content", "string|array", "a string or a list of parts");
    const lh_openai_part_rules rules = {
        .types = "text|input_text|output_text|refusal",
        .other = strcmp(out->role, "tool") == 0 ? lh_openai_result_part : NULL};
    out->content = out->tool_calls ? NULL : "";
    if (json_is_string(content)) {
        out->content = json_string_value(content);
        out->content_length = json_string_length(content);
    } else if (json_is_array(content) && json_array_size(content) > 0) {
        lh_text_buffer text = {0};
        lh_openai_text_parts_join(message, "content", &rules, &text);
        *joined = text.bytes;
        out->content = text.bytes ? text.bytes : "";
        out->content_length = text.length;
    } else if (!content && !may_be_empty(message, out->role)) {
        lh_body_refuse(message, "content", "missing_required_parameter",
                       "must be a string or a list of parts.");
    }
}

/* What an assistant thought, as the answer told it apart. */
static void parse_thought(const lh_body_reader *message, lh_chat_message *out) {
    const json_t *thought = lh_body_field(message, "reasoning_content");
    if (thought && !json_is_string(thought))
        lh_body_refuse(message, "reasoning_content", "invalid_type", "must be a string.");
    if (strcmp(out->role, "assistant") != 0 || !json_is_string(thought))
        return;
    out->thought = json_string_value(thought);
    out->thought_length = json_string_length(thought);
}

/* As the template knows it; "": refused. */
static const char *parse_role(const lh_body_reader *message) {
    static const char *const roles[][2] = {{"system", "system"}, {"developer", "system"},
                                           {"user", "user"},     {"assistant", "assistant"},
                                           {"tool", "tool"},     {"function", "tool"}};
    static const char words[] = "one of system, developer, user, assistant, tool";
    const char *role = json_string_value(lh_body_typed(message, "role", "string", words));
    for (size_t i = 0; role && i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(role, roles[i][0]) == 0)
            return roles[i][1];
    lh_body_refuse(message, "role", role ? "invalid_value" : "missing_required_parameter",
                   "must be %s.", words);
    return "";
}

/* made: as the request's; NULL: nothing is kept. */
static void parse_message(const lh_body_reader *message, json_t *made, lh_chat_message *out,
                          char **joined) {
    out->role = parse_role(message);
    lh_openai_chat_calls_read(message, made, out);
    parse_content(message, out, joined);
    parse_thought(message, out);
}

static void parse_element(const lh_body_reader *body, size_t index, const json_t *value,
                          lh_openai_request *request) {
    char path[LH_BODY_PATH_BYTES];
    lh_body_reader message;
    if (lh_body_element(body, "messages", index, value, path, &message))
        parse_message(&message, request->made, &request->messages[index], &request->joined[index]);
}

static void draw_message(const lh_body_reader *body) {
    const lh_body_reader message = lh_body_items(body, "messages");
    lh_chat_message nothing = {0};
    char *joined = NULL;
    if (message.sketch)
        parse_message(&message, NULL, &nothing, &joined);
}

static void parse_messages(const lh_body_reader *body, lh_openai_request *request) {
    const json_t *list = lh_body_typed(body, "messages", "array", "a list of at least one message");
    size_t count = json_array_size(list);
    draw_message(body);
    if (!list)
        lh_body_refuse(body, "messages", "missing_required_parameter", "is missing.");
    else if (count == 0)
        lh_body_refuse(body, "messages", "invalid_type", "must be a list of at least one message.");
    if (body->error->status)
        return;
    request->messages = calloc(count, sizeof *request->messages);
    request->joined = calloc(count, sizeof *request->joined);
    if (!request->messages || !request->joined) {
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
        return;
    }
    request->message_count = count;
    for (size_t i = 0; i < count && !body->error->status; i++)
        parse_element(body, i, json_array_get(list, i), request);
}

/* ---- What only chat has. ---- */

static void check_modalities(const lh_body_reader *body) {
    const json_t *list = lh_body_typed(body, "modalities", "array", "a list, not empty");
    if (list && json_array_size(list) == 0)
        lh_body_refuse(body, "modalities", "invalid_type", "must be a list, not empty.");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || strcmp(name, "text") != 0)
            lh_body_refuse(body, "modalities", "unsupported_value", "may hold \"text\" only.");
    }
}

/* What the template is told beside the messages. */
static void parse_template_options(const lh_body_reader *body, lh_openai_request *request) {
    request->template_arguments = lh_body_object(body, "chat_template_kwargs");
    request->continues_last_message = lh_body_bool(body, "continue_final_message");
    request->has_answer_head =
        lh_body_bool_or(body, "add_generation_prompt", !request->continues_last_message);
    if (request->continues_last_message && request->has_answer_head)
        lh_body_refuse(body, "continue_final_message", "invalid_value",
                       "and 'add_generation_prompt' exclude each other.");
}

static void parse_reasoning_format(const lh_body_reader *body, bool keeps_thoughts,
                                   lh_openai_request *request) {
    const char *format = lh_body_choice(body, "reasoning_format", "auto|none");
    request->keeps_thoughts = format ? strcmp(format, "none") == 0 : keeps_thoughts;
}

static void parse_chat(const lh_body_reader *body, const lh_openai_limits *limits,
                       lh_openai_request *request) {
    request->made = json_array();
    if (!request->made)
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
    parse_template_options(body, request);
    parse_reasoning_format(body, limits->keeps_thoughts, request);
    lh_openai_reasoning_read(body, request);
    check_modalities(body);
    lh_openai_chat_tools_read(body, request);
    lh_body_choice(body, "verbosity", "low|medium|high");
    parse_messages(body, request);
}

/* ---- Prompts. ---- */

static const char prompt_words[] =
    "a string, a list of strings, a list of token ids or a list of such lists; none of them empty";

/* The field, and in it "prompt[2]" of several. */
static void parse_prompt(const lh_body_reader *body, const char *field, const char *key,
                         const json_t *value, bool is_text, uint32_t vocabulary,
                         lh_openai_prompt *prompt) {
    size_t count = is_text ? json_string_length(value) : json_array_size(value);
    if (count == 0) {
        lh_body_refuse(body, field, "invalid_type", "must be %s.", prompt_words);
        return;
    }
    if (is_text) {
        prompt->text = json_string_value(value);
        prompt->length = count;
        return;
    }
    prompt->tokens = calloc(count, sizeof *prompt->tokens);
    if (!prompt->tokens)
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
    for (size_t i = 0; i < count && !body->error->status; i++)
        prompt->tokens[prompt->token_count++] = lh_body_token(body, key, value, i, vocabulary);
}

void lh_openai_prompts_parse(const lh_body_reader *body, const char *key,
                             const lh_openai_limits *limits, lh_openai_request *request) {
    const json_t *value = lh_body_typed(body, key, "string|array", prompt_words);
    const json_t *first = json_array_get(value, 0);
    uint32_t choices = request->parameters.choices;
    bool several = json_is_string(first) || json_is_array(first);
    size_t count = several ? json_array_size(value) : 1;
    if (!value)
        lh_body_refuse(body, key, "missing_required_parameter", "is missing.");
    else if (count > limits->prompts_max)
        lh_body_refuse(body, key, "array_above_max_length", "may hold at most %u prompts.",
                       limits->prompts_max);
    else if ((uint64_t)count * choices > limits->sequences_max)
        lh_openai_refuse(body->error, 400, key, "array_above_max_length",
                         "%zu prompts of %u choices each are more than the %u sequences that may "
                         "run and wait here.",
                         count, choices, limits->sequences_max);
    if (body->error->status)
        return;
    request->prompts = calloc(count, sizeof *request->prompts);
    if (!request->prompts) {
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
        return;
    }
    request->prompt_count = count;
    for (size_t i = 0; i < count && !body->error->status; i++) {
        char name[32];
        snprintf(name, sizeof name, several ? "%s[%zu]" : "%s", key, i);
        parse_prompt(body, key, name, several ? json_array_get(value, i) : value,
                     json_is_string(several ? first : value), limits->vocabulary,
                     &request->prompts[i]);
    }
}

/* The logprobs of an echoed prompt are told, too. */
static void score_echo(lh_sequence_request *sequence) {
    uint32_t top = sequence->sampling.top_logprobs;
    sequence->scores_prompt = true;
    if (sequence->prompt_tops < top)
        sequence->prompt_tops = top;
}

static void parse_completion(const lh_body_reader *body, const lh_openai_limits *limits,
                             lh_openai_request *request) {
    const lh_openai_parameters *parameters = &request->parameters;
    int64_t best_of = lh_body_integer(body, "best_of", 1, BEST_OF_MAX, parameters->choices);
    if (best_of < parameters->choices)
        lh_body_refuse(body, "best_of", "invalid_value", "is smaller than 'n'.");
    if (best_of > parameters->choices)
        lh_body_refuse(body, "best_of", "unsupported_value",
                       "larger than 'n' is not supported by this server.");
    const char *suffix = lh_body_text(body, "suffix", SIZE_MAX);
    request->suffix = suffix && *suffix ? suffix : NULL;
    request->parses_special = lh_body_bool_or(body, "parse_special", true);
    request->echo = lh_body_bool(body, "echo");
    if (request->echo && parameters->sequence.sampling.want_logprob)
        score_echo(&request->parameters.sequence);
    lh_openai_prompts_parse(body, "prompt", limits, request);
}

bool lh_openai_request_parse(json_t *body, lh_openai_endpoint endpoint,
                             const lh_openai_limits *limits, lh_openai_request *request,
                             lh_openai_error *error) {
    const lh_body_reader reader = {body, "", error, limits->sketch, &request->left_out};
    *request = (lh_openai_request){.endpoint = endpoint, .body = body};
    *error = (lh_openai_error){0};
    lh_openai_parameters_parse(&reader, endpoint, limits, &request->parameters);
    lh_openai_output_format_parse(&reader, &request->format);
    if (endpoint == LH_OPENAI_CHAT)
        parse_chat(&reader, limits, request);
    else
        parse_completion(&reader, limits, request);
    lh_openai_request_check_form(&reader, request);
    return !error->status;
}

void lh_openai_request_check_form(const lh_body_reader *body, const lh_openai_request *request) {
    if (request->format.is_given || lh_openai_tools_have_form(&request->tools))
        lh_openai_output_format_check_companions(
            body, request->format.is_given ? request->format.param : "tools");
}

static void free_text(lh_openai_request *request) {
    for (size_t i = 0; request->joined && i < request->message_count; i++)
        free(request->joined[i]);
    free(request->joined);
    free(request->messages);
    for (size_t i = 0; i < request->prompt_count; i++)
        free(request->prompts[i].tokens);
    free(request->prompts);
    json_decref(request->made);
    request->made = NULL;
    request->tools.list = NULL;
    request->messages = NULL;
    request->joined = NULL;
    request->prompts = NULL;
    request->message_count = request->prompt_count = 0;
}

void lh_openai_request_drop_text(lh_openai_request *request) {
    json_t *stops = json_incref((json_t *)request->parameters.stop_list);
    free_text(request);
    json_decref(request->body);
    request->body = stops;
}

void lh_openai_request_reset(lh_openai_request *request) {
    free_text(request);
    lh_openai_parameters_reset(&request->parameters);
    lh_openai_output_format_reset(&request->format);
    json_decref(request->kept_tools);
    json_decref(request->tool_kinds);
    json_decref(request->reply);
    json_decref(request->told);
    json_decref(request->body);
    *request = (lh_openai_request){0};
}
