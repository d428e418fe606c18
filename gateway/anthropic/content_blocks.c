/* Texts are gathered until something else comes, which goes where it stands. */
#include "gateway/anthropic/content_blocks.h"

#include "common/json/json_text.h"

#include <stdio.h>
#include <string.h>

/* One message while its blocks are read. */
typedef struct message {
    lh_openai_conversation *conversation;
    const char *role;
    lh_text_buffer text; /* of blocks that have not gone into the conversation */
    bool has_text;
} message;

static void say(message *m, const char *text, size_t length) {
    if (strcmp(m->role, "assistant") == 0)
        lh_openai_conversation_answer(m->conversation, text, length);
    else
        lh_openai_conversation_say(m->conversation, m->role, text, length);
}

/* What has been gathered becomes a text of the conversation. */
static void flush(message *m) {
    const char *text =
        m->has_text && !m->conversation->error->status
            ? lh_openai_conversation_keep(m->conversation, m->text.bytes, m->text.length)
            : NULL;
    if (text)
        say(m, text, m->text.length);
    m->text.length = 0;
    m->has_text = false;
}

/* ---- Blocks ---- */

static void read_text(const lh_body_reader *block, message *m) {
    const json_t *text = lh_body_field(block, "text");
    if (!json_is_string(text)) {
        lh_body_refuse(block, "text", text ? "invalid_type" : "missing_required_parameter",
                       "must be a string.");
        return;
    }
    if ((m->has_text && lh_text_buffer_append(&m->text, "\n", 1, NULL)) ||
        lh_text_buffer_append(&m->text, json_string_value(text), json_string_length(text), NULL))
        lh_openai_refuse_status(block->error, LH_ERR_NO_MEMORY);
    m->has_text = true;
}

static void read_thinking(const lh_body_reader *block, message *m) {
    const json_t *thought = lh_body_field(block, "thinking");
    flush(m);
    if (!json_is_string(thought))
        lh_body_refuse(block, "thinking", thought ? "invalid_type" : "missing_required_parameter",
                       "must be a string.");
    else
        lh_openai_conversation_think(m->conversation, json_string_value(thought),
                                     json_string_length(thought));
}

static const char *read_id(const lh_body_reader *block, const char *key) {
    const char *id = lh_body_text(block, key, LH_OPENAI_CALL_ID_CHARACTERS_MAX);
    if (!id)
        lh_body_refuse(block, key, "missing_required_parameter", "is missing.");
    return id;
}

static void read_tool_use(const lh_body_reader *block, message *m) {
    const char *id = read_id(block, "id"), *name = lh_openai_tool_name(block);
    json_t *input = lh_body_object(block, "input");
    lh_text_buffer text = {0};
    flush(m);
    if (!input)
        lh_body_refuse(block, "input", "missing_required_parameter", "is missing.");
    if (block->error->status)
        return;
    const char *arguments = NULL;
    if (lh_json_render(json_incref(input), &text) == LH_OK)
        arguments = lh_openai_conversation_keep(m->conversation, text.bytes, text.length);
    else
        lh_openai_refuse_status(block->error, LH_ERR_NO_MEMORY);
    if (id && name && arguments)
        lh_openai_conversation_call(m->conversation, id, name, arguments);
    lh_text_buffer_reset(&text);
}

static void read_tool_result(const lh_body_reader *block, message *m) {
    const char *id = read_id(block, "tool_use_id"), *text = "";
    size_t length = 0;
    flush(m);
    lh_body_bool(block, "is_error"); /* its text says so */
    if (lh_body_field(block, "content"))
        text = lh_openai_conversation_text(m->conversation, block, "content", "text", &length);
    if (id && text)
        lh_openai_conversation_result(m->conversation, id, text, length);
}

static const struct {
    const char *type;
    const char *roles; /* whose blocks they may be */
    void (*read)(const lh_body_reader *block, message *m);
} blocks[] = {{"text", "user|assistant|system", read_text},
              {"thinking", "assistant", read_thinking},
              {"tool_use", "assistant", read_tool_use},
              {"tool_result", "user", read_tool_result}};

static void read_block(const lh_body_reader *item, size_t index, const json_t *value, message *m) {
    char path[80];
    snprintf(path, sizeof path, "%.40scontent[%zu].", item->path, index);
    const lh_body_reader block = {json_is_object(value) ? value : NULL, path, item->error, NULL,
                                  item->left_out};
    const char *type = lh_body_text(&block, "type", SIZE_MAX);
    for (size_t i = 0; type && i < sizeof blocks / sizeof *blocks; i++)
        if (strcmp(type, blocks[i].type) == 0 && lh_body_is_one_of(m->role, blocks[i].roles)) {
            blocks[i].read(&block, m);
            return;
        }
    if (type)
        lh_body_refuse(&block, "type", "unsupported_value",
                       "is \"%.40s\"; this server takes text, of the assistant thinking and "
                       "tool_use, of the user tool_result.",
                       type);
    else
        lh_body_refuse(&block, "type", "missing_required_parameter", "is missing.");
}

/* ---- Messages ---- */

static void read_content(const lh_body_reader *item, message *m) {
    const json_t *content = lh_body_field(item, "content");
    if (json_is_string(content)) {
        say(m, json_string_value(content), json_string_length(content));
        return;
    }
    if (!content)
        lh_body_refuse(item, "content", "missing_required_parameter", "is missing.");
    else if (!json_is_array(content))
        lh_body_refuse(item, "content", "invalid_type", "must be a string or a list of blocks.");
    for (size_t i = 0; i < json_array_size(content) && !item->error->status; i++)
        read_block(item, i, json_array_get(content, i), m);
    flush(m);
    lh_text_buffer_reset(&m->text);
}

static void read_message(const lh_body_reader *body, size_t index, const json_t *value,
                         lh_openai_conversation *conversation) {
    char path[LH_BODY_PATH_BYTES];
    lh_body_reader item;
    if (!lh_body_element(body, "messages", index, value, path, &item))
        return;
    message m = {conversation, lh_body_choice(&item, "role", "user|assistant|system"), {0}, false};
    if (m.role)
        read_content(&item, &m);
    else
        lh_body_refuse(&item, "role", "missing_required_parameter", "is missing.");
}

void lh_anthropic_messages_read(const lh_body_reader *body, lh_openai_conversation *conversation) {
    static const char words[] = "a list of at least one message";
    const json_t *list = lh_body_typed(body, "messages", "array", words);
    size_t length;
    const char *system = lh_openai_conversation_text(conversation, body, "system", "text", &length);
    if (system && length > 0)
        lh_openai_conversation_say(conversation, "system", system, length);
    if (!list)
        lh_body_refuse(body, "messages", "missing_required_parameter", "is missing.");
    else if (json_array_size(list) == 0)
        lh_body_refuse(body, "messages", "invalid_type", "must be %s.", words);
    for (size_t i = 0; i < json_array_size(list) && !body->error->status; i++)
        read_message(body, i, json_array_get(list, i), conversation);
    if (!body->error->status && conversation->request->message_count == 0)
        lh_body_refuse(body, "messages", "invalid_value", "hold nothing that is said.");
}
