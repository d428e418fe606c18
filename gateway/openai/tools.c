/* Checked field by field, so that the template and the constraint find what they expect. */
#include "gateway/openai/tools.h"

#include <stdio.h>
#include <string.h>

#define TOOLS_MAX              128
#define NAME_CHARACTERS_MAX    64
#define TOOL_CALLS_MAX         128
#define CALL_ID_CHARACTERS_MAX 256

/* A name as the API has it: [A-Za-z0-9_-], so that no template can take it for a mark. */
static const char *read_name(const lh_body_reader *function) {
    const char *name = lh_body_text(function, "name", NAME_CHARACTERS_MAX);
    if (!name)
        lh_body_refuse(function, "name", "missing_required_parameter", "is missing.");
    else if (!*name || name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789_-")])
        lh_body_refuse(function, "name", "invalid_value",
                       "may have letters, digits, '_' and '-' only.");
    return function->error->status ? NULL : name;
}

/* ---- Which tools there are ---- */

static void check_tool(const lh_body_reader *body, size_t index, const json_t *value) {
    char path[48];
    snprintf(path, sizeof path, "tools[%zu]", index);
    const char *type = json_string_value(json_object_get(value, "type"));
    if (!type)
        lh_body_refuse(body, path, "invalid_type", "must be an object with a 'type'.");
    else if (strcmp(type, "function") != 0)
        lh_body_refuse(body, path, "unsupported_value",
                       "is of type \"%.40s\"; \"function\" is what this server knows.", type);
    else if (!json_is_object(json_object_get(value, "function")))
        lh_body_refuse(body, path, "invalid_type", "must have a 'function' that is an object.");
    if (body->error->status)
        return;
    strcat(path, ".function.");
    const lh_body_reader function = {json_object_get(value, "function"), path, body->error};
    read_name(&function);
    lh_body_text(&function, "description", SIZE_MAX);
    lh_body_object(&function, "parameters");
    lh_body_bool(&function, "strict");
}

static bool has_tool(const json_t *list, const char *name) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *function = json_object_get(json_array_get(list, i), "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0)
            return true;
    }
    return false;
}

static void check_list(const lh_body_reader *body, const json_t *list) {
    if (list && !json_is_array(list))
        lh_body_refuse(body, "tools", "invalid_type", "must be a list.");
    else if (json_array_size(list) > TOOLS_MAX)
        lh_body_refuse(body, "tools", "array_above_max_length", "may hold at most %d tools.",
                       TOOLS_MAX);
    for (size_t i = 0; i < json_array_size(list) && !body->error->status; i++)
        check_tool(body, i, json_array_get(list, i));
}

/* ---- Which may be called ---- */

static void read_named(const lh_body_reader *body, const json_t *choice, const json_t *list,
                       lh_openai_tools *tools) {
    const char *type = json_string_value(json_object_get(choice, "type"));
    if (!type || strcmp(type, "function") != 0) {
        lh_body_refuse(body, "tool_choice", type ? "unsupported_value" : "invalid_type",
                       "must be none, auto, required, or an object of type \"function\".");
        return;
    }
    const lh_body_reader function = {json_object_get(choice, "function"), "tool_choice.function.",
                                     body->error};
    tools->name = read_name(&function);
    tools->choice = LH_TOOL_CHOICE_NAMED;
    if (tools->name && !has_tool(list, tools->name))
        lh_body_refuse(body, "tool_choice", "invalid_value",
                       "names \"%s\", which is none of 'tools'.", tools->name);
}

static void read_choice(const lh_body_reader *body, const json_t *list, lh_openai_tools *tools) {
    const json_t *choice = lh_body_field(body, "tool_choice");
    bool is_empty = json_array_size(list) == 0;
    if (json_is_object(choice)) {
        read_named(body, choice, list, tools);
        return;
    }
    const char *word = lh_body_choice(body, "tool_choice", "none|auto|required");
    if (is_empty && word && strcmp(word, "required") == 0)
        lh_body_refuse(body, "tool_choice", "invalid_value", "is \"required\" without 'tools'.");
    if (is_empty || (word && strcmp(word, "none") == 0))
        tools->choice = LH_TOOL_CHOICE_NONE;
    else
        tools->choice =
            word && strcmp(word, "required") == 0 ? LH_TOOL_CHOICE_REQUIRED : LH_TOOL_CHOICE_AUTO;
}

void lh_openai_tools_parse(const lh_body_reader *body, lh_openai_tools *tools) {
    const json_t *list = lh_body_field(body, "tools");
    check_list(body, list);
    read_choice(body, list, tools);
    tools->list = tools->choice == LH_TOOL_CHOICE_NONE ? NULL : list;
    tools->has_one_call =
        lh_body_field(body, "parallel_tool_calls") && !lh_body_bool(body, "parallel_tool_calls");
    lh_body_choice(body, "function_call", "none|auto");
}

/* ---- Calls and results in messages ---- */

static void check_call(const lh_body_reader *message, size_t index, const json_t *value) {
    char key[32], path[96], inner[112];
    snprintf(key, sizeof key, "tool_calls[%zu]", index);
    snprintf(path, sizeof path, "%s%s.", message->path, key);
    const lh_body_reader call = {value, path, message->error};
    if (!json_is_object(value)) {
        lh_body_refuse(message, key, "invalid_type", "must be an object.");
        return;
    }
    lh_body_text(&call, "id", CALL_ID_CHARACTERS_MAX);
    lh_body_choice(&call, "type", "function");
    if (!lh_body_object(&call, "function"))
        lh_body_refuse(&call, "function", "missing_required_parameter", "is missing.");
    snprintf(inner, sizeof inner, "%sfunction.", path);
    const lh_body_reader function = {lh_body_field(&call, "function"), inner, message->error};
    read_name(&function);
    if (!lh_body_text(&function, "arguments", SIZE_MAX))
        lh_body_refuse(&function, "arguments", "missing_required_parameter",
                       "must be a string of JSON.");
}

static void read_calls(const lh_body_reader *message, lh_chat_message *out) {
    const json_t *calls = lh_body_field(message, "tool_calls");
    if (calls && !json_is_array(calls))
        lh_body_refuse(message, "tool_calls", "invalid_type", "must be a list.");
    else if (json_array_size(calls) > TOOL_CALLS_MAX)
        lh_body_refuse(message, "tool_calls", "array_above_max_length",
                       "may hold at most %d calls.", TOOL_CALLS_MAX);
    for (size_t i = 0; i < json_array_size(calls) && !message->error->status; i++)
        check_call(message, i, json_array_get(calls, i));
    out->tool_calls = json_array_size(calls) > 0 ? calls : NULL;
}

void lh_openai_tools_parse_message(const lh_body_reader *message, lh_chat_message *out) {
    if (strcmp(out->role, "assistant") == 0)
        read_calls(message, out);
    if (strcmp(out->role, "tool") == 0) {
        out->tool_call_id = lh_body_text(message, "tool_call_id", CALL_ID_CHARACTERS_MAX);
        out->name = lh_body_text(message, "name", NAME_CHARACTERS_MAX);
    }
}
