/* Elder words become newer ones. */
#include "gateway/openai/chat_tools.h"

#include "common/json/json_text.h"
#include "gateway/openai/tool_choice.h"

#include <stdio.h>
#include <string.h>

/* ---- Functions ---- */

static void choose_function(const lh_body_reader *body, const json_t *list,
                            lh_openai_tools *tools) {
    const json_t *choice =
        lh_body_typed(body, "function_call", "string|object", "none, auto, or an object");
    if (json_is_object(choice)) {
        const lh_body_reader named = {choice, "function_call.", body->error, NULL, body->left_out};
        lh_openai_tools_choose(body, list, LH_TOOL_CHOICE_NAMED, lh_openai_tool_name(&named),
                               tools);
    } else {
        const char *word = choice ? lh_body_choice(body, "function_call", "none|auto") : NULL;
        bool is_none = word && strcmp(word, "none") == 0;
        lh_openai_tools_choose(body, list, is_none ? LH_TOOL_CHOICE_NONE : LH_TOOL_CHOICE_AUTO,
                               NULL, tools);
    }
    tools->has_one_call = true;
}

void lh_openai_chat_tools_read(const lh_body_reader *body, lh_openai_request *request) {
    static const lh_openai_tool_words words = {
        .inside = "function", .parameters = "parameters", .type = "function"};
    static const lh_openai_tool_words elder = {
        .list = "functions", .parameters = "parameters", .type = "function", .may_lack_type = true};
    request->tool_kinds = json_object();
    const json_t *list = lh_openai_tools_read(body, &words, request->made, request->tool_kinds);
    const json_t *functions = lh_openai_tools_read(body, &elder, request->made, NULL);
    request->calls_functions = json_array_size(functions) > 0 && json_array_size(list) == 0;
    if (request->calls_functions) {
        choose_function(body, functions, &request->tools);
        return;
    }
    if (json_array_size(functions) > 0)
        lh_body_leave_out(body, "functions", NULL);
    lh_openai_tool_choice_read(body, list, request->made, &request->tools);
    request->tools.kinds = request->tool_kinds;
    lh_openai_tools_read_parallel(body, &request->tools);
}

/* ---- Messages ---- */

/* The call of `function_call` as one of tool_calls; NULL: it is refused, or there is no memory. */
static json_t *call_of(const lh_body_reader *message, size_t number) {
    char path[LH_BODY_PATH_BYTES + 16], id[16];
    snprintf(path, sizeof path, "%sfunction_call.", message->path);
    const lh_body_reader function = {lh_body_object(message, "function_call"), path, message->error,
                                     NULL, message->left_out};
    const char *name = lh_openai_tool_name(&function);
    const char *arguments = lh_body_text(&function, "arguments", SIZE_MAX);
    snprintf(id, sizeof id, "call%05zu", number % 100000);
    return name ? json_pack("[{s:s, s:s, s:{s:s, s:s}}]", "id", id, "type", "function", "function",
                            "name", name, "arguments", arguments ? arguments : "{}")
                : NULL;
}

/* The last one that function_call has made. */
static const char *last_id(const json_t *made) {
    const json_t *calls = json_array_get(made, json_array_size(made) - 1);
    return json_string_value(json_object_get(json_array_get(calls, 0), "id"));
}

void lh_openai_chat_calls_read(const lh_body_reader *message, json_t *made, lh_chat_message *out) {
    const char *role = json_string_value(json_object_get(message->object, "role"));
    lh_openai_tools_parse_message(message, out);
    if (role && strcmp(role, "function") == 0)
        out->tool_call_id = last_id(made);
    if (strcmp(out->role, "assistant") != 0 || out->tool_calls || !made ||
        !lh_body_field(message, "function_call"))
        return;
    json_t *calls = call_of(message, json_array_size(made));
    if (calls && json_array_append_new(made, calls) == 0)
        out->tool_calls = calls;
    else if (!message->error->status)
        lh_openai_refuse_status(message->error, LH_ERR_NO_MEMORY);
}
