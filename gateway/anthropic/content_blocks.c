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
    bool is_said; /* something of it is in the conversation */
} message;

static void say(message *m, const char *text, size_t length) {
    m->is_said = true;
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

static void gather(const lh_body_reader *block, message *m, const char *text, size_t length) {
    if ((m->has_text && lh_text_buffer_append(&m->text, "\n", 1, NULL)) ||
        lh_text_buffer_append(&m->text, text, length, NULL))
        lh_openai_refuse_status(block->error, LH_ERR_NO_MEMORY);
    m->has_text = true;
}

static void read_text(const lh_body_reader *block, message *m) {
    const json_t *text = lh_body_field(block, "text");
    if (json_is_string(text))
        gather(block, m, json_string_value(text), json_string_length(text));
    else
        lh_body_refuse(block, "text", text ? "invalid_type" : "missing_required_parameter",
                       "must be a string.");
}

/* The text of a document, or of what a search has found; NULL: it has none, or none that can be
 * read. *text is where a list's texts are put together. Without memory *error is filled. */
static const char *text_of_source(const json_t *block, lh_text_buffer *text, size_t *length,
                                  lh_openai_error *error) {
    static const lh_openai_part_rules rules = {.types = "text"};
    const json_t *source = json_object_get(block, "source"),
                 *object = json_is_object(source) ? source : block,
                 *data = json_object_get(object, "data"),
                 *content = json_object_get(object, "content");
    const char *type = json_string_value(json_object_get(source, "type"));
    bool is_text = !type || lh_body_is_one_of(type, "text|content");
    const json_t *whole = json_is_string(content)    ? content
                          : json_array_size(content) ? NULL
                                                     : data;
    lh_openai_error wrong = {0};
    const lh_body_reader reader = {object, "", &wrong, NULL, NULL};
    if (is_text && json_is_string(whole)) {
        *length = json_string_length(whole);
        return json_string_value(whole);
    }
    if (!is_text || !json_is_array(content))
        return NULL;
    lh_openai_text_parts_join(&reader, "content", &rules, text);
    if (wrong.status == 500)
        *error = wrong;
    *length = text->length;
    return wrong.status ? NULL : text->length ? text->bytes : "";
}

static void read_source(const lh_body_reader *block, message *m) {
    lh_text_buffer own = {0};
    size_t length;
    const char *text = text_of_source(block->object, &own, &length, block->error);
    if (text)
        gather(block, m, text, length);
    else
        lh_body_refuse(block, "source", "unsupported_value",
                       "must be a text: this model reads nothing else.");
    lh_text_buffer_reset(&own);
}

static void read_thinking(const lh_body_reader *block, message *m) {
    const json_t *thought = lh_body_field(block, "thinking");
    flush(m);
    m->is_said = true;
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

/* An object of its own; none, or white space, is an empty one. */
static json_t *read_input(const lh_body_reader *block) {
    const char *text = json_string_value(lh_body_field(block, "input"));
    bool is_blank = text && !text[strspn(text, " \t\r\n")];
    json_t *input = is_blank ? NULL : lh_body_object(block, "input");
    return input ? json_incref(input) : json_object();
}

static void read_tool_use(const lh_body_reader *block, message *m) {
    const char *id = read_id(block, "id"), *name = lh_openai_tool_name(block);
    lh_text_buffer text = {0};
    flush(m);
    m->is_said = true;
    json_t *input = read_input(block);
    if (block->error->status) {
        json_decref(input);
        return;
    }
    const char *arguments = NULL;
    if (lh_json_render(input, &text) == LH_OK)
        arguments = lh_openai_conversation_keep(m->conversation, text.bytes, text.length);
    else
        lh_openai_refuse_status(block->error, LH_ERR_NO_MEMORY);
    if (id && name && arguments)
        lh_openai_conversation_call(m->conversation, id, name, arguments);
    lh_text_buffer_reset(&text);
}

/* Reads a part of a tool's result that is no text. A reference to a tool becomes its name. */
static lh_openai_part read_result_part(const lh_body_reader *item, const char *key,
                                       const char *type, const json_t *part, lh_text_buffer *text) {
    const json_t *name = json_object_get(part, "tool_name");
    bool is_reference = strcmp(type, "tool_reference") == 0 && json_is_string(name);
    bool has_source = lh_body_is_one_of(type, "document|search_result");
    lh_text_buffer own = {0};
    size_t length = is_reference ? json_string_length(name) : 0;
    const char *found = is_reference ? json_string_value(name)
                        : has_source ? text_of_source(part, &own, &length, item->error)
                                     : NULL;
    if (found && lh_text_buffer_append(text, found, length, NULL))
        lh_openai_refuse_status(item->error, LH_ERR_NO_MEMORY);
    lh_text_buffer_reset(&own);
    return found ? LH_OPENAI_PART_TAKEN : lh_openai_result_part(item, key, type, part, text);
}

static void read_tool_result(const lh_body_reader *block, message *m) {
    static const lh_openai_part_rules rules = {.types = "text", .other = read_result_part};
    const char *id = read_id(block, "tool_use_id"), *text = "";
    size_t length = 0;
    flush(m);
    m->is_said = true;
    lh_body_bool(block, "is_error"); /* its text says so */
    if (lh_body_field(block, "content"))
        text = lh_openai_conversation_text(m->conversation, block, "content", &rules, &length);
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
              {"tool_result", "user", read_tool_result},
              {"document", "user", read_source},
              {"search_result", "user", read_source}};

/* Blocks of other types in an assistant's answer come from Anthropic's own tools and servers. They
 * are left out, since the answer's text states their result. */
static bool is_left_out(const char *role, const char *type) {
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (strcmp(type, blocks[i].type) == 0)
            return false;
    return strcmp(role, "assistant") == 0;
}

static void read_block(const lh_body_reader *item, size_t index, const json_t *value, message *m) {
    char path[80], key[32];
    snprintf(key, sizeof key, "content[%zu]", index);
    snprintf(path, sizeof path, "%.40s%s.", item->path, key);
    const lh_body_reader block = {json_is_object(value) ? value : NULL, path, item->error, NULL,
                                  item->left_out};
    const char *type = lh_body_text(&block, "type", SIZE_MAX);
    for (size_t i = 0; type && i < sizeof blocks / sizeof *blocks; i++)
        if (strcmp(type, blocks[i].type) == 0 && lh_body_is_one_of(m->role, blocks[i].roles)) {
            blocks[i].read(&block, m);
            return;
        }
    if (type && is_left_out(m->role, type))
        lh_body_leave_out(item, key, type);
    else if (type)
        lh_body_refuse(&block, "type", "unsupported_value",
                       "is \"%.40s\"; this server takes text, of the assistant thinking and "
                       "tool_use, of the user tool_result and documents that are text.",
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
    if (!content && !json_object_get(item->object, "content"))
        lh_body_refuse(item, "content", "missing_required_parameter", "is missing.");
    else if (content && !json_is_array(content))
        lh_body_refuse(item, "content", "invalid_type", "must be a string or a list of blocks.");
    for (size_t i = 0; i < json_array_size(content) && !item->error->status; i++)
        read_block(item, i, json_array_get(content, i), m);
    flush(m);
    /* Templates want to see whose turn it was. */
    if (!m->is_said && strcmp(m->role, "system") != 0 && !item->error->status)
        say(m, "", 0);
    lh_text_buffer_reset(&m->text);
}

static void read_message(const lh_body_reader *body, size_t index, const json_t *value,
                         lh_openai_conversation *conversation) {
    char path[LH_BODY_PATH_BYTES];
    lh_body_reader item;
    if (!lh_body_element(body, "messages", index, value, path, &item))
        return;
    message m = {.conversation = conversation,
                 .role = lh_body_choice(&item, "role", "user|assistant|system")};
    if (m.role)
        read_content(&item, &m);
    else
        lh_body_refuse(&item, "role", "missing_required_parameter", "is missing.");
}

/* Claude Code begins each session with a block that is another one each time and tells Anthropic
 * whose bill it is: it is nothing that is said to the model, and would keep the prefix cache from
 * finding what follows. */
static bool begins_with_bill(const json_t *system) {
    static const char begin[] = "x-anthropic-billing-header:";
    const char *text = json_string_value(json_object_get(json_array_get(system, 0), "text"));
    return text && strncmp(text, begin, sizeof begin - 1) == 0;
}

static void read_system(const lh_body_reader *body, lh_openai_conversation *conversation) {
    bool has_bill = begins_with_bill(lh_body_field(body, "system"));
    const lh_openai_part_rules rules = {.types = "text", .first = has_bill ? 1 : 0};
    size_t length;
    const char *text = lh_openai_conversation_text(conversation, body, "system", &rules, &length);
    if (has_bill)
        lh_body_leave_out(body, "system[] x-anthropic-billing-header", NULL);
    if (text && length > 0)
        lh_openai_conversation_say(conversation, "system", text, length);
}

void lh_anthropic_messages_read(const lh_body_reader *body, lh_openai_conversation *conversation) {
    static const char words[] = "a list of at least one message";
    const json_t *list = lh_body_typed(body, "messages", "array", words);
    read_system(body, conversation);
    if (!list)
        lh_body_refuse(body, "messages", "missing_required_parameter", "is missing.");
    else if (json_array_size(list) == 0)
        lh_body_refuse(body, "messages", "invalid_type", "must be %s.", words);
    for (size_t i = 0; i < json_array_size(list) && !body->error->status; i++)
        read_message(body, i, json_array_get(list, i), conversation);
    if (!body->error->status && conversation->request->message_count == 0)
        lh_body_refuse(body, "messages", "invalid_value", "hold nothing that is said.");
}
