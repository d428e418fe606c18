/* One small reader for each type of item. */
#include "gateway/responses/input_items.h"

#include <stdio.h>
#include <string.h>

#define TEXTS "input_text|output_text|text"

static const lh_openai_part_rules said = {.types = TEXTS},
                                  given = {.types = TEXTS, .other = lh_openai_result_part},
                                  thought = {.types = "reasoning_text|summary_text"};

/* Messages may lack a type: they have a role. */
static void read_message(const lh_body_reader *item, lh_openai_conversation *conversation) {
    const char *role = lh_body_choice(item, "role", "user|system|developer|assistant");
    if (!role)
        lh_body_refuse(item, "role", "missing_required_parameter", "is missing.");
    if (!json_object_get(item->object, "content"))
        lh_body_refuse(item, "content", "missing_required_parameter", "is missing.");
    size_t length = 0;
    const char *text = lh_openai_conversation_text(conversation, item, "content", &said, &length);
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

static void read_call(const lh_body_reader *item, lh_openai_conversation *conversation) {
    const char *id = read_call_id(item), *name = lh_openai_tool_name(item);
    const char *arguments = lh_openai_tool_arguments(item);
    if (id && name && arguments)
        lh_openai_conversation_call(conversation, id, name, arguments);
}

static void read_call_output(const lh_body_reader *item, lh_openai_conversation *conversation) {
    size_t length = 0;
    const char *id = read_call_id(item);
    const char *text = lh_openai_conversation_text(conversation, item, "output", &given, &length);
    if (id && !item->error->status)
        lh_openai_conversation_result(conversation, id, text ? text : "", length);
}

/* What this server told of a thought is its content; summaries are other servers'. */
static void read_reasoning(const lh_body_reader *item, lh_openai_conversation *conversation) {
    size_t length;
    if (lh_body_field(item, "encrypted_content"))
        lh_body_refuse(item, "encrypted_content", "unsupported_value",
                       "is not supported: this server tells its reasoning in 'content', and cannot "
                       "read what another one has encrypted.");
    const char *key = lh_body_field(item, "content") ? "content" : "summary";
    const char *text = lh_openai_conversation_text(conversation, item, key, &thought, &length);
    if (text && length > 0)
        lh_openai_conversation_think(conversation, text, length);
}

static const struct {
    const char *type;
    void (*read)(const lh_body_reader *item, lh_openai_conversation *conversation);
} types[] = {{"message", read_message},
             {"function_call", read_call},
             {"function_call_output", read_call_output},
             {"reasoning", read_reasoning}};

static void read_item(const lh_body_reader *body, size_t index, const json_t *value,
                      lh_openai_conversation *conversation) {
    char path[LH_BODY_PATH_BYTES];
    lh_body_reader item;
    if (!lh_body_element(body, "input", index, value, path, &item))
        return;
    const char *type = lh_body_text(&item, "type", SIZE_MAX);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(type ? type : "message", types[i].type) == 0) {
            types[i].read(&item, conversation);
            return;
        }
    lh_body_refuse(&item, "type", "unsupported_value",
                   strcmp(type, "item_reference") == 0
                       ? "is \"%.40s\": this server stores nothing that it could refer to."
                       : "is \"%.40s\"; this server takes message, function_call, "
                         "function_call_output and reasoning.",
                   type);
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
    for (size_t i = 0; i < json_array_size(input) && !body->error->status; i++)
        read_item(body, i, json_array_get(input, i), conversation);
    if (!body->error->status && conversation->request->message_count == 0)
        lh_body_refuse(body, "input", "invalid_value", "holds nothing that is said.");
}
