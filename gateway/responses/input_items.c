/* One small reader for each type of item. */
#include "gateway/responses/input_items.h"

#include "gateway/openai/custom_tool.h"
#include "gateway/openai/text_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXTS "input_text|output_text|text|refusal|summary_text|reasoning_text"

static const lh_openai_part_rules said = {.types = TEXTS},
                                  given = {.types = TEXTS, .other = lh_openai_result_part},
                                  thought = {.types = "reasoning_text|summary_text|text"};

/* Messages may lack a type: they have a role. */
static void read_message(const lh_body_reader *item, lh_openai_conversation *conversation) {
    const char *role = lh_body_choice(item, "role", "user|system|developer|assistant");
    if (!role)
        lh_body_refuse(item, "role", "missing_required_parameter", "is missing.");
    if (!json_object_get(item->object, "content"))
        lh_body_refuse(item, "content", "missing_required_parameter", "is missing.");
    size_t length = 0;
    const char *text = lh_openai_conversation_text(
        conversation, item, "content", conversation->was_answered ? &given : &said, &length);
    if (!role || item->error->status)
        return;
    text = text ? text : "";
    if (strcmp(role, "assistant") == 0)
        lh_openai_conversation_answer(conversation, text, length);
    else
        lh_openai_conversation_say(conversation, strcmp(role, "user") == 0 ? "user" : "system",
                                   text, length);
}

static const char *read_call_id(const lh_body_reader *item) {
    const char *id = lh_body_text(item, "call_id", LH_OPENAI_CALL_ID_CHARACTERS_MAX);
    if (!id)
        lh_body_refuse(item, "call_id", "missing_required_parameter", "is missing.");
    return id;
}

/* The name under which the model knows a tool; NULL: refused. */
static const char *read_name(const lh_body_reader *item, lh_openai_conversation *conversation) {
    char flat[LH_OPENAI_TOOL_NAME_BYTES];
    const char *name = lh_openai_tool_name(item);
    const char *space = lh_body_text(item, "namespace", SIZE_MAX);
    if (!name || !space || !lh_openai_tool_flat_name(space, name, flat))
        return name;
    return lh_openai_conversation_keep(conversation, flat, strlen(flat));
}

static void read_call(const lh_body_reader *item, lh_openai_conversation *conversation) {
    const char *id = read_call_id(item), *name = read_name(item, conversation);
    const char *arguments = lh_openai_tool_arguments(item);
    if (id && name && arguments)
        lh_openai_conversation_call(conversation, id, name, arguments);
}

/* Takes the text of arguments, NULL: no memory. */
static void call(const lh_body_reader *item, lh_openai_conversation *conversation, const char *name,
                 json_t *arguments) {
    const char *id = read_call_id(item), *kept = NULL;
    if (arguments)
        kept = lh_openai_conversation_keep(conversation, json_string_value(arguments),
                                           json_string_length(arguments));
    else if (!item->error->status)
        lh_openai_refuse_status(item->error, LH_ERR_NO_MEMORY);
    if (id && name && kept)
        lh_openai_conversation_call(conversation, id, name, kept);
    json_decref(arguments);
}

static void read_custom_call(const lh_body_reader *item, lh_openai_conversation *conversation) {
    const char *input = lh_body_text(item, "input", SIZE_MAX);
    call(item, conversation, read_name(item, conversation),
         lh_openai_custom_arguments(input ? input : "", input ? strlen(input) : 0));
}

/* A command for the client's own machine, as another server's model has called it. */
static void read_shell_call(const lh_body_reader *item, lh_openai_conversation *conversation) {
    json_t *action = lh_body_object(item, "action");
    char *text = action ? json_dumps(action, 0) : NULL;
    if (!lh_body_field(item, "call_id"))
        lh_body_leave_out(item, "call_id", NULL);
    else
        call(item, conversation, "local_shell", json_string(action ? text : "{}"));
    free(text);
}

static void read_call_output(const lh_body_reader *item, lh_openai_conversation *conversation) {
    size_t length = 0;
    const char *id = read_call_id(item);
    const char *text = lh_openai_conversation_text(conversation, item, "output", &given, &length);
    if (id && !item->error->status)
        lh_openai_conversation_result(conversation, id, text ? text : "", length);
}

/* What this server told of a thought is its content; summaries are other servers', and what they
 * have encrypted nobody here can read. */
static void read_reasoning(const lh_body_reader *item, lh_openai_conversation *conversation) {
    size_t length;
    if (lh_body_field(item, "encrypted_content"))
        lh_body_leave_out(item, "encrypted_content", NULL);
    const char *key = lh_body_field(item, "content") ? "content" : "summary";
    const char *text = lh_openai_conversation_text(conversation, item, key, &thought, &length);
    if (text && length > 0)
        lh_openai_conversation_think(conversation, text, length);
}

/* From another agent of the client's, to this one. */
static void read_agent_message(const lh_body_reader *item, lh_openai_conversation *conversation) {
    size_t length;
    const char *text = lh_openai_conversation_text(conversation, item, "content", &given, &length);
    if (text && length > 0)
        lh_openai_conversation_say(conversation, "user", text, length);
}

/* What is not stored here cannot be found; but a thought is nobody's loss. */
static void read_reference(const lh_body_reader *item, lh_openai_conversation *conversation) {
    (void)conversation;
    const char *id = lh_body_text(item, "id", SIZE_MAX);
    if (id && strncmp(id, "rs_", 3) == 0)
        lh_body_leave_out(item, "id", "item_reference to a thought");
    else
        lh_body_refuse(item, "type", "unsupported_value",
                       "is \"item_reference\": this server stores nothing that it could refer to. "
                       "Send the item itself (a client's option is called 'store', which is to be "
                       "false).");
}

static const struct {
    const char *type;
    void (*read)(const lh_body_reader *item, lh_openai_conversation *conversation);
} types[] = {{"message", read_message},
             {"function_call", read_call},
             {"function_call_output", read_call_output},
             {"custom_tool_call", read_custom_call},
             {"custom_tool_call_output", read_call_output},
             {"local_shell_call", read_shell_call},
             {"local_shell_call_output", read_call_output},
             {"shell_call", read_shell_call},
             {"reasoning", read_reasoning},
             {"agent_message", read_agent_message},
             {"item_reference", read_reference}};

/* Items of other types are of tools that OpenAI runs itself, or of the client's own bookkeeping: a
 * conversation that has them goes on without. */
static void read_item(const lh_body_reader *body, size_t index, const json_t *value,
                      lh_openai_conversation *conversation) {
    char path[LH_BODY_PATH_BYTES], name[32];
    lh_body_reader item;
    if (!lh_body_element(body, "input", index, value, path, &item))
        return;
    const char *type = lh_body_text(&item, "type", SIZE_MAX);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type ? type : "message", types[i].type) == 0) {
            types[i].read(&item, conversation);
            return;
        }
    snprintf(name, sizeof name, "input[%zu]", index);
    if (!item.error->status && strcmp(type, "additional_tools") != 0)
        lh_body_leave_out(body, name, type);
}

static bool is_answer(const json_t *item) {
    const char *type = json_string_value(json_object_get(item, "type")),
               *role = json_string_value(json_object_get(item, "role"));
    return (role && strcmp(role, "assistant") == 0) ||
           (type && lh_body_is_one_of(type, "function_call|custom_tool_call|reasoning"));
}

/* How many items there are up to the last one that is an answer's: they are said already. */
static size_t count_answered(const json_t *input) {
    size_t count = json_array_size(input);
    while (count > 0 && !is_answer(json_array_get(input, count - 1)))
        count--;
    return count;
}

void lh_responses_input_read(const lh_body_reader *body, lh_openai_conversation *conversation) {
    static const char words[] = "a string or a list of at least one item";
    const json_t *input = lh_body_typed(body, "input", "string|array", words);
    if (json_is_string(input)) {
        lh_openai_conversation_say(conversation, "user", json_string_value(input),
                                   json_string_length(input));
        return;
    }
    if (!input)
        lh_body_refuse(body, "input", "missing_required_parameter", "is missing.");
    else if (json_array_size(input) == 0)
        lh_body_refuse(body, "input", "invalid_type", "must be %s.", words);
    size_t answered = count_answered(input);
    for (size_t i = 0; i < json_array_size(input) && !body->error->status; i++) {
        conversation->was_answered = i < answered;
        read_item(body, i, json_array_get(input, i), conversation);
    }
    if (!body->error->status && conversation->request->message_count == 0)
        lh_body_refuse(body, "input", "invalid_value", "holds nothing that is said.");
}
