/* Checked field by field, so that the template and the constraint find what they expect. */
#include "gateway/openai/tools.h"

#include "common/json/json_text.h"
#include "gateway/openai/custom_tool.h"
#include "gateway/openai/output_format.h"

#include <stdio.h>
#include <string.h>

/* Of ASCII, or U+0080 to U+009F, which UTF-8 writes as C2 and the same byte. */
static bool has_control(const char *text) {
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (*at < 0x20 || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0))
            return true;
    return false;
}

const char *lh_openai_tool_name(const lh_body_reader *function) {
    const char *name = lh_body_text(function, "name", SIZE_MAX);
    if (!name)
        lh_body_refuse(function, "name", "missing_required_parameter", "is missing.");
    else if (!*name || strlen(name) > LH_TOOL_NAME_BYTES_MAX || has_control(name))
        lh_body_refuse(function, "name", "invalid_value",
                       "must have 1 to %u bytes, none of them of a control character.",
                       LH_TOOL_NAME_BYTES_MAX);
    return function->error->status ? NULL : name;
}

const char *lh_openai_tool_arguments(const lh_body_reader *function) {
    const char *arguments = lh_body_text(function, "arguments", SIZE_MAX);
    bool is_empty = !arguments || !arguments[strspn(arguments, " \t\r\n")];
    return function->error->status ? NULL : is_empty ? "{}" : arguments;
}

/* ---- Which tools there are ---- */

static const char *list_of(const lh_openai_tool_words *words) {
    return words->list ? words->list : "tools";
}

static bool is_other(const lh_openai_tool_words *words, const json_t *tool) {
    const char *type = json_string_value(json_object_get(tool, "type"));
    return type && strcmp(type, words->type) != 0;
}

/* The function that a tool is, or has; `path` becomes its. NULL: refused. */
static const json_t *function_of(const lh_body_reader *body, const lh_openai_tool_words *words,
                                 const json_t *tool, char path[48]) {
    const char *type = json_string_value(json_object_get(tool, "type"));
    if (!json_is_object(tool) || (!type && !words->may_lack_type))
        lh_body_refuse(body, path, "invalid_type", "must be an object with a 'type'.");
    else if (words->inside && !json_is_object(json_object_get(tool, words->inside)))
        lh_body_refuse(body, path, "invalid_type", "must have a '%s' that is an object.",
                       words->inside);
    strcat(path, ".");
    if (!words->inside)
        return tool;
    strcat(strcat(path, words->inside), ".");
    return json_object_get(tool, words->inside);
}

static void check_function(const lh_body_reader *body, const lh_openai_tool_words *words,
                           size_t index, const json_t *value) {
    char path[48];
    snprintf(path, sizeof path, "%s[%zu]", list_of(words), index);
    const lh_body_reader function = {function_of(body, words, value, path), path, body->error, NULL,
                                     body->left_out};
    if (body->error->status)
        return;
    lh_openai_tool_name(&function);
    lh_body_text(&function, "description", SIZE_MAX);
    lh_body_object(&function, words->parameters);
    lh_openai_output_format_check_strict(&function, words->parameters);
}

static bool has_tool(const json_t *list, const char *name) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *function = json_object_get(json_array_get(list, i), "function");
        if (strcmp(json_string_value(json_object_get(function, "name")), name) == 0)
            return true;
    }
    return false;
}

static json_t *as_function(json_t *function) {
    return function ? json_pack("{s:s, s:o}", "type", "function", "function", function) : NULL;
}

/* As chat has it, which is what templates know. NULL: no memory. */
static json_t *as_chat_has_it(const json_t *tool, const lh_openai_tool_words *words) {
    static const char *const members[] = {"name", "description", "strict"};
    json_t *function = json_object(), *parameters = json_object_get(tool, words->parameters);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        json_t *value = json_object_get(tool, members[i]);
        if (value && !json_is_null(value))
            function = lh_json_set(function, members[i], json_incref(value));
    }
    if (json_is_object(parameters))
        function = lh_json_set(function, "parameters", json_incref(parameters));
    return as_function(function);
}

/* A custom one as chat has it; NULL: it is refused, or there is no memory. */
static json_t *read_custom(const lh_body_reader *body, const char *path, const json_t *tool,
                           json_t *kinds) {
    char inside[64];
    snprintf(inside, sizeof inside, "%s.custom.", path);
    const lh_body_reader custom = {json_object_get(tool, "custom"), inside, body->error, NULL,
                                   body->left_out};
    if (!json_is_object(custom.object))
        lh_body_refuse(body, path, "invalid_type", "must have a 'custom' that is an object.");
    const char *name = body->error->status ? NULL : lh_openai_tool_name(&custom);
    if (!name)
        return NULL;
    json_t *kind = json_pack("{s:s, s:s}", "type", "custom", "name", name);
    json_t *function = lh_openai_custom_tool(&custom, name, &kind);
    if (json_object_set_new(kinds, name, kind) && !body->error->status)
        lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
    return as_function(function);
}

/* One of the list as chat has it; NULL: it is left out, or refused, or there is no memory. */
static json_t *read_tool(const lh_body_reader *body, const lh_openai_tool_words *words,
                         size_t index, json_t *tool, json_t *kinds) {
    char path[48];
    const char *type = json_string_value(json_object_get(tool, "type"));
    snprintf(path, sizeof path, "%s[%zu]", list_of(words), index);
    if (is_other(words, tool) && kinds && strcmp(type, "custom") == 0)
        return read_custom(body, path, tool, kinds);
    if (is_other(words, tool)) {
        lh_body_leave_out(body, path, type);
        return NULL;
    }
    check_function(body, words, index, tool);
    return body->error->status ? NULL
           : words->inside     ? json_incref(tool)
                               : as_chat_has_it(tool, words);
}

const json_t *lh_openai_tools_read(const lh_body_reader *body, const lh_openai_tool_words *words,
                                   json_t *made, json_t *kinds) {
    const json_t *list = lh_body_typed(body, list_of(words), "array", "a list");
    if (body->error->status || !list)
        return NULL;
    json_t *chats = json_array();
    for (size_t i = 0; i < json_array_size(list) && !body->error->status; i++) {
        json_t *tool = read_tool(body, words, i, json_array_get(list, i), kinds);
        if (tool)
            chats = lh_json_append(chats, tool);
    }
    if (chats && json_array_append_new(made, chats) == 0)
        return body->error->status ? NULL : chats;
    lh_openai_refuse_status(body->error, LH_ERR_NO_MEMORY);
    return NULL;
}

/* ---- Which may be called ---- */

void lh_openai_tools_choose(const lh_body_reader *body, const json_t *list,
                            lh_openai_tool_choice choice, const char *name,
                            lh_openai_tools *tools) {
    bool is_empty = json_array_size(list) == 0;
    if (choice == LH_TOOL_CHOICE_NAMED && name && !has_tool(list, name))
        lh_body_refuse(body, "tool_choice", "invalid_value",
                       "names \"%s\", which is none of 'tools'.", name);
    if (choice == LH_TOOL_CHOICE_REQUIRED && is_empty)
        lh_body_refuse(body, "tool_choice", "invalid_value", "wants a call without 'tools'.");
    tools->choice = is_empty ? LH_TOOL_CHOICE_NONE : choice;
    tools->name = name;
    tools->list = tools->choice == LH_TOOL_CHOICE_NONE ? NULL : list;
}

bool lh_openai_tool_flat_name(const char *space, const char *name,
                              char flat[LH_OPENAI_TOOL_NAME_BYTES]) {
    size_t length = space ? strlen(space) : 0;
    const char *between = length == 0 || space[length - 1] == '_' ? "" : "__";
    if (length > 0 && length + strlen(between) + strlen(name) < (size_t)LH_OPENAI_TOOL_NAME_BYTES) {
        strcat(strcat(strcpy(flat, space), between), name);
        return true;
    }
    if (strlen(name) >= LH_OPENAI_TOOL_NAME_BYTES)
        return false;
    strcpy(flat, name);
    return true;
}

void lh_openai_tools_read_parallel(const lh_body_reader *body, lh_openai_tools *tools) {
    bool is_named = tools->choice == LH_TOOL_CHOICE_NAMED;
    tools->has_one_call = !lh_body_bool_or(body, "parallel_tool_calls", !is_named);
}

/* ---- Calls and results in messages ---- */

/* A call of a custom tool becomes one of the function that stands for it; the body is the request's
 * own. */
static void take_custom(const lh_body_reader *call) {
    json_t *object = (json_t *)call->object, *custom = lh_body_object(call, "custom");
    const char *input = json_string_value(json_object_get(custom, "input"));
    if (!custom)
        lh_body_refuse(call, "custom", "missing_required_parameter", "is missing.");
    if (call->error->status)
        return;
    json_t *name = json_object_get(custom, "name");
    json_t *arguments = lh_openai_custom_arguments(input ? input : "", input ? strlen(input) : 0);
    json_t *function = json_pack("{s:O?, s:o}", "name", name, "arguments", arguments);
    if (json_object_set_new(object, "function", function) ||
        json_object_set_new(object, "type", json_string("function")))
        lh_openai_refuse_status(call->error, LH_ERR_NO_MEMORY);
    json_object_del(object, "custom");
}

static void check_call(const lh_body_reader *message, size_t index, const json_t *value) {
    char path[LH_BODY_PATH_BYTES], inner[LH_BODY_PATH_BYTES + 16];
    lh_body_reader call;
    if (!lh_body_element(message, "tool_calls", index, value, path, &call))
        return;
    lh_body_text(&call, "id", LH_OPENAI_CALL_ID_CHARACTERS_MAX);
    const char *type = lh_body_choice(&call, "type", "function|custom");
    if (type && strcmp(type, "custom") == 0)
        take_custom(&call);
    if (!lh_body_object(&call, "function"))
        lh_body_refuse(&call, "function", "missing_required_parameter", "is missing.");
    snprintf(inner, sizeof inner, "%sfunction.", path);
    const lh_body_reader function = {lh_body_field(&call, "function"), inner, message->error, NULL,
                                     message->left_out};
    lh_openai_tool_name(&function);
    const char *arguments = lh_openai_tool_arguments(&function);
    /* Templates find a text there; the body is the request's own. */
    if (arguments && strcmp(arguments, "{}") == 0 &&
        json_object_set_new((json_t *)function.object, "arguments", json_string(arguments)))
        lh_openai_refuse_status(message->error, LH_ERR_NO_MEMORY);
}

static void read_calls(const lh_body_reader *message, lh_chat_message *out) {
    const json_t *calls = lh_body_typed(message, "tool_calls", "array", "a list");
    if (json_array_size(calls) > LH_TOOL_CALLS_MAX)
        lh_body_refuse(message, "tool_calls", "array_above_max_length",
                       "may hold at most %u calls.", LH_TOOL_CALLS_MAX);
    for (size_t i = 0; i < json_array_size(calls) && !message->error->status; i++)
        check_call(message, i, json_array_get(calls, i));
    out->tool_calls = json_array_size(calls) > 0 ? calls : NULL;
}

void lh_openai_tools_parse_message(const lh_body_reader *message, lh_chat_message *out) {
    if (strcmp(out->role, "assistant") == 0)
        read_calls(message, out);
    if (strcmp(out->role, "tool") == 0) {
        out->tool_call_id = lh_body_text(message, "tool_call_id", LH_OPENAI_CALL_ID_CHARACTERS_MAX);
        out->name = lh_body_text(message, "name", LH_TOOL_NAME_BYTES_MAX);
    }
}
