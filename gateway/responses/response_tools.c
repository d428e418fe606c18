/* One small reader for each type of tool. */
#include "gateway/responses/response_tools.h"

#include "common/json/json_text.h"
#include "gateway/openai/custom_tool.h"
#include "gateway/openai/tool_choice.h"

#include <stdio.h>
#include <string.h>

/* As many calls as a form can have (constraint_source.h). */
#define TOOLS_MAX 256u

typedef struct tool_list {
    const lh_body_reader *body;
    json_t *chats; /* as chat has them */
    json_t *kinds; /* as lh_openai_tools has them */
} tool_list;

static void check_memory(const tool_list *tools, bool is_done) {
    if (!is_done && !tools->body->error->status)
        lh_openai_refuse_status(tools->body->error, LH_ERR_NO_MEMORY);
}

static bool has_tool(const json_t *chats, const char *name) {
    for (size_t i = 0; i < json_array_size(chats); i++) {
        const json_t *function = json_object_get(json_array_get(chats, i), "function");
        const char *other = json_string_value(json_object_get(function, "name"));
        if (other && strcmp(other, name) == 0)
            return true;
    }
    return false;
}

/* Takes the function, and what more is to be known of it; NULL: nothing. A name that is there is
 * the same tool once more. */
static void add(tool_list *tools, const char *flat, json_t *function, json_t *kind) {
    bool is_new = function && !has_tool(tools->chats, flat);
    if (json_array_size(tools->chats) == TOOLS_MAX)
        lh_body_refuse(tools->body, "tools", "array_above_max_length", "hold more than %u tools.",
                       TOOLS_MAX);
    if (is_new && kind)
        check_memory(tools, json_object_set(tools->kinds, flat, kind) == 0);
    if (is_new)
        check_memory(tools,
                     json_array_append_new(tools->chats, json_pack("{s:s, s:O}", "type", "function",
                                                                   "function", function)) == 0);
    check_memory(tools, function != NULL);
    json_decref(function);
    json_decref(kind);
}

/* The name that the model knows; false: it is refused. */
static bool name_tool(const lh_body_reader *tool, const char *space,
                      char flat[LH_OPENAI_TOOL_NAME_BYTES]) {
    const char *name = lh_openai_tool_name(tool);
    if (name && !lh_openai_tool_flat_name(space, name, flat))
        lh_body_refuse(tool, "name", "string_above_max_length", "is too long.");
    return !tool->error->status;
}

static json_t *kind_of(const lh_body_reader *tool, const char *type, const char *space) {
    json_t *kind =
        json_pack("{s:s, s:O}", "type", type, "name", json_object_get(tool->object, "name"));
    return space ? lh_json_set(kind, "namespace", json_string(space)) : kind;
}

static void read_function(tool_list *tools, const lh_body_reader *tool, const char *space) {
    static const char *const members[] = {"description", "strict", "parameters"};
    char flat[LH_OPENAI_TOOL_NAME_BYTES];
    lh_body_text(tool, "description", SIZE_MAX);
    lh_openai_output_format_check_strict(tool, "parameters");
    lh_body_object(tool, "parameters");
    if (!name_tool(tool, space, flat))
        return;
    json_t *function = json_pack("{s:s}", "name", flat);
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        json_t *value = lh_body_field(tool, members[i]);
        if (value)
            function = lh_json_set(function, members[i], json_incref(value));
    }
    add(tools, flat, function, space ? kind_of(tool, "function", space) : NULL);
}

static void read_custom(tool_list *tools, const lh_body_reader *tool, const char *space) {
    char flat[LH_OPENAI_TOOL_NAME_BYTES];
    if (!name_tool(tool, space, flat))
        return;
    json_t *kind = kind_of(tool, "custom", space);
    check_memory(tools, kind != NULL);
    add(tools, flat, lh_openai_custom_tool(tool, flat, &kind), kind);
}

/* ---- Lists ---- */

static void read_tool(tool_list *tools, const lh_body_reader *list, const char *key, size_t index,
                      const json_t *value, const char *space);

static void read_namespace(tool_list *tools, const lh_body_reader *tool) {
    const char *name = lh_openai_tool_name(tool);
    const json_t *list = lh_body_typed(tool, "tools", "array", "a list");
    for (size_t i = 0; i < json_array_size(list) && !tool->error->status; i++)
        read_tool(tools, tool, "tools", i, json_array_get(list, i), name);
}

static void read_tool(tool_list *tools, const lh_body_reader *list, const char *key, size_t index,
                      const json_t *value, const char *space) {
    char path[LH_BODY_PATH_BYTES], name[48];
    lh_body_reader tool;
    snprintf(name, sizeof name, "%s[%zu]", key, index);
    const char *type = json_string_value(json_object_get(value, "type"));
    if (!type) {
        lh_body_refuse(list, name, "invalid_type", "must be an object with a 'type'.");
        return;
    }
    if (!lh_body_element(list, key, index, value, path, &tool))
        return;
    if (strcmp(type, "function") == 0)
        read_function(tools, &tool, space);
    else if (strcmp(type, "custom") == 0)
        read_custom(tools, &tool, space);
    else if (strcmp(type, "namespace") == 0 && !space)
        read_namespace(tools, &tool);
    else
        lh_body_leave_out(list, name, type);
}

static void read_list(tool_list *tools, const lh_body_reader *of) {
    const json_t *list = lh_body_typed(of, "tools", "array", "a list");
    for (size_t i = 0; i < json_array_size(list) && !of->error->status; i++)
        read_tool(tools, of, "tools", i, json_array_get(list, i), NULL);
}

/* Items that make tools known as the conversation goes on. */
static void read_added(tool_list *tools) {
    const json_t *input = json_object_get(tools->body->object, "input");
    for (size_t i = 0; i < json_array_size(input); i++) {
        const json_t *item = json_array_get(input, i);
        const char *type = json_string_value(json_object_get(item, "type"));
        char path[LH_BODY_PATH_BYTES];
        lh_body_reader added;
        if (type && lh_body_is_one_of(type, "additional_tools|tool_search_output") &&
            lh_body_element(tools->body, "input", i, item, path, &added))
            read_list(tools, &added);
    }
}

void lh_response_tools_read(const lh_body_reader *body, lh_openai_request *request) {
    tool_list tools = {body, json_array(), json_object()};
    request->tool_kinds = tools.kinds;
    check_memory(&tools, tools.chats && tools.kinds &&
                             json_array_append_new(request->made, tools.chats) == 0);
    if (body->sketch || !body->error->status)
        read_list(&tools, body);
    if (!body->error->status)
        read_added(&tools);
    lh_openai_tool_choice_read(body, tools.chats, request->made, &request->tools);
    request->tools.kinds = tools.kinds;
    lh_openai_tools_read_parallel(body, &request->tools);
}
