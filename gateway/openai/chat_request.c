/* Messages, and the fields that only chat has. */
#include "gateway/openai/chat_request.h"

#include "gateway/openai/json_field.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOOLS_MAX 128

/* Where in the body: "messages[3].content". */
typedef struct place {
    char text[64];
} place;

static place place_of(size_t message, const char *field) {
    place at;
    snprintf(at.text, sizeof at.text, "messages[%zu]%s%s", message, *field ? "." : "", field);
    return at;
}

static bool out_of_memory(lh_openai_error *error) {
    lh_openai_error_from(error, &(lh_error){.status = LH_ERR_NO_MEMORY});
    return false;
}

/* ---- Content. ---- */

/* The text of one part, or NULL with *error filled. Nothing is ever fetched. */
static json_t *part_text(const json_t *part, size_t message, size_t index, lh_openai_error *error) {
    char param[96];
    snprintf(param, sizeof param, "messages[%zu].content[%zu]", message, index);
    const char *type = json_string_value(json_object_get(part, "type"));
    json_t *text = json_object_get(part, "text");
    if (!type) {
        lh_openai_refuse(error, param, "invalid_type", "'%s' must be an object with a 'type'.",
                         param);
    } else if (strcmp(type, "text") != 0) {
        lh_openai_refuse(error, param, "unsupported_value",
                         "'%s' is of type \"%.40s\"; this model takes parts of type \"text\" only.",
                         param, type);
    } else if (!json_is_string(text)) {
        lh_openai_refuse(error, param, "invalid_type", "'%s' must have a 'text' that is a string.",
                         param);
    } else {
        return text;
    }
    return NULL;
}

/* Puts the parts together, a line break between them, as llama.cpp and vLLM do. */
static bool join_parts(const json_t *parts, size_t message, lh_openai_chat_request *request,
                       lh_openai_error *error) {
    lh_text_buffer text = {0};
    for (size_t i = 0; i < json_array_size(parts); i++) {
        json_t *part = part_text(json_array_get(parts, i), message, i, error);
        if (!part) {
            lh_text_buffer_reset(&text);
            return false;
        }
        if ((i && lh_text_buffer_append(&text, "\n", 1, NULL)) ||
            lh_text_buffer_append(&text, json_string_value(part), json_string_length(part), NULL)) {
            lh_text_buffer_reset(&text);
            return out_of_memory(error);
        }
    }
    request->joined[message] = text.bytes;
    request->messages[message].content = text.bytes ? text.bytes : "";
    request->messages[message].content_length = text.length;
    return true;
}

/* An assistant's message may do without text where it called tools (which are not shown to the
 * model here). */
static bool may_be_empty(const json_t *message, const char *role) {
    return strcmp(role, "assistant") == 0 &&
           (lh_json_field(message, "tool_calls") || lh_json_field(message, "function_call") ||
            lh_json_field(message, "refusal"));
}

static bool parse_content(const json_t *message, size_t index, lh_openai_chat_request *request,
                          lh_openai_error *error) {
    json_t *content = lh_json_field(message, "content");
    lh_chat_message *out = &request->messages[index];
    place at = place_of(index, "content");
    if (json_is_string(content)) {
        out->content = json_string_value(content);
        out->content_length = json_string_length(content);
        return true;
    }
    if (json_is_array(content) && json_array_size(content) > 0)
        return join_parts(content, index, request, error);
    if (!content && may_be_empty(message, out->role)) {
        out->content = "";
        return true;
    }
    return lh_openai_refuse(error, at.text, content ? "invalid_type" : "missing_required_parameter",
                            "'%s' must be a string or a list of parts.", at.text);
}

static bool parse_role(const json_t *message, size_t index, lh_chat_message *out,
                       lh_openai_error *error) {
    static const char *const roles[][2] = {{"system", "system"},
                                           {"developer", "system"},
                                           {"user", "user"},
                                           {"assistant", "assistant"},
                                           {"tool", "tool"}};
    place at = place_of(index, "role");
    const char *role = json_string_value(json_object_get(message, "role"));
    for (size_t i = 0; role && i < sizeof roles / sizeof roles[0]; i++)
        if (strcmp(role, roles[i][0]) == 0) {
            out->role = roles[i][1];
            return true;
        }
    return lh_openai_refuse(error, at.text, role ? "invalid_value" : "missing_required_parameter",
                            "'%s' must be one of system, developer, user, assistant, tool.",
                            at.text);
}

static bool parse_message(const json_t *message, size_t index, lh_openai_chat_request *request,
                          lh_openai_error *error) {
    place at = place_of(index, "");
    if (!json_is_object(message))
        return lh_openai_refuse(error, at.text, "invalid_type", "'%s' must be an object.", at.text);
    return parse_role(message, index, &request->messages[index], error) &&
           parse_content(message, index, request, error);
}

static bool parse_messages(const json_t *body, lh_openai_chat_request *request,
                           lh_openai_error *error) {
    json_t *list = lh_json_field(body, "messages");
    if (!list)
        return lh_openai_refuse(error, "messages", "missing_required_parameter",
                                "'messages' is missing.");
    if (!json_is_array(list) || json_array_size(list) == 0)
        return lh_openai_refuse(error, "messages", "invalid_type",
                                "'messages' must be a list of at least one message.");
    size_t count = json_array_size(list);
    request->messages = calloc(count, sizeof *request->messages);
    request->joined = calloc(count, sizeof *request->joined);
    if (!request->messages || !request->joined)
        return out_of_memory(error);
    request->message_count = count;
    for (size_t i = 0; i < count; i++)
        if (!parse_message(json_array_get(list, i), i, request, error))
            return false;
    return true;
}

/* ---- What only chat has. ---- */

static bool check_response_format(const json_t *body, lh_openai_error *error) {
    json_t *format = lh_json_field(body, "response_format");
    if (!format)
        return true;
    const char *type = json_string_value(json_object_get(format, "type"));
    if (!type)
        return lh_openai_refuse(error, "response_format", "invalid_type",
                                "'response_format' must be an object with a 'type'.");
    if (strcmp(type, "text") == 0)
        return true;
    if (strcmp(type, "json_object") == 0 || strcmp(type, "json_schema") == 0)
        return lh_openai_refuse(error, "response_format", "unsupported_value",
                                "'response_format' of type \"%s\" is not supported by this server.",
                                type);
    return lh_openai_refuse(error, "response_format", "invalid_value",
                            "'response_format' is of an unknown type \"%.40s\".", type);
}

static bool check_modalities(const json_t *body, lh_openai_error *error) {
    json_t *list = lh_json_field(body, "modalities");
    if (!list)
        return true;
    if (!json_is_array(list) || json_array_size(list) == 0)
        return lh_openai_refuse(error, "modalities", "invalid_type",
                                "'modalities' must be a list, not empty.");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || strcmp(name, "text") != 0)
            return lh_openai_refuse(error, "modalities", "unsupported_value",
                                    "'modalities' may hold \"text\" only.");
    }
    return true;
}

/* Tools may be named where none is to be called; to call one is not built. */
static bool check_tools(const json_t *body, lh_openai_error *error) {
    json_t *tools = lh_json_field(body, "tools"), *choice = lh_json_field(body, "tool_choice");
    if (tools && !json_is_array(tools))
        return lh_openai_refuse(error, "tools", "invalid_type", "'tools' must be a list.");
    if (json_array_size(tools) > TOOLS_MAX)
        return lh_openai_refuse(error, "tools", "array_above_max_length",
                                "'tools' may hold at most %d tools.", TOOLS_MAX);
    const char *name = json_string_value(choice);
    bool none = name && strcmp(name, "none") == 0,
         automatic = !choice || (name && strcmp(name, "auto") == 0);
    if (!none && !automatic)
        return lh_openai_refuse(
            error, "tool_choice", "unsupported_value",
            "'tool_choice' may be \"none\" only: tools are not supported by this server.");
    if (!none && json_array_size(tools) > 0)
        return lh_openai_refuse(
            error, "tools", "unsupported_parameter",
            "'tools' are not supported by this server, unless 'tool_choice' is \"none\".");
    bool parallel;
    const char *call = NULL;
    return lh_json_field_bool(body, "parallel_tool_calls", NULL, &parallel, error) &&
           lh_json_field_choice(body, "function_call", "none|auto", &call, error);
}

static bool check_chat_fields(const json_t *body, lh_openai_error *error) {
    const char *text;
    return check_response_format(body, error) && check_modalities(body, error) &&
           check_tools(body, error) &&
           lh_json_field_choice(body, "reasoning_effort", "none|minimal|low|medium|high|xhigh|max",
                                &text, error) &&
           lh_json_field_choice(body, "verbosity", "low|medium|high", &text, error);
}

bool lh_openai_chat_request_parse(json_t *body, const lh_openai_limits *limits,
                                  lh_openai_chat_request *request, lh_openai_error *error) {
    *request = (lh_openai_chat_request){.body = body};
    return lh_openai_parameters_parse(body, LH_OPENAI_CHAT, limits, &request->parameters, error) &&
           check_chat_fields(body, error) && parse_messages(body, request, error);
}

void lh_openai_chat_request_reset(lh_openai_chat_request *request) {
    for (size_t i = 0; i < request->message_count; i++)
        free(request->joined[i]);
    free(request->joined);
    free(request->messages);
    lh_openai_parameters_reset(&request->parameters);
    json_decref(request->body);
    *request = (lh_openai_chat_request){0};
}
