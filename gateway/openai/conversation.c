/* Messages grow at the end. */
#include "gateway/openai/conversation.h"

#include "common/base/growing_array.h"
#include "common/json/json_text.h"

#include <string.h>

void lh_openai_conversation_begin(lh_openai_conversation *conversation, lh_openai_request *request,
                                  lh_openai_error *error) {
    *conversation = (lh_openai_conversation){.request = request, .error = error};
    if (!request->made)
        request->made = json_array();
    if (!request->made && !error->status)
        lh_openai_refuse_status(error, LH_ERR_NO_MEMORY);
}

/* ---- Texts ---- */

const char *lh_openai_conversation_keep(lh_openai_conversation *conversation, const char *text,
                                        size_t length) {
    json_t *copy = json_stringn_nocheck(length ? text : "", length);
    if (copy && json_array_append_new(conversation->request->made, copy) == 0)
        return json_string_value(copy);
    if (!conversation->error->status)
        lh_openai_refuse_status(conversation->error, LH_ERR_NO_MEMORY);
    return NULL;
}

const char *lh_openai_conversation_text(lh_openai_conversation *conversation,
                                        const lh_body_reader *item, const char *key,
                                        const lh_openai_part_rules *rules, size_t *length) {
    const json_t *value = lh_body_field(item, key);
    if (json_is_string(value)) {
        *length = json_string_length(value);
        return json_string_value(value);
    }
    if (value && !json_is_array(value))
        lh_body_refuse(item, key, "invalid_type", "must be a string or a list of parts.");
    lh_text_buffer text = {0};
    lh_openai_text_parts_join(item, key, rules, &text);
    *length = text.length;
    const char *kept = value && !conversation->error->status
                           ? lh_openai_conversation_keep(conversation, text.bytes, text.length)
                           : NULL;
    lh_text_buffer_reset(&text);
    return kept;
}

/* ---- Messages ---- */

/* NULL: no memory, or something is wrong already. */
static lh_chat_message *add(lh_openai_conversation *c, const char *role) {
    lh_openai_request *request = c->request;
    if (c->error->status)
        return NULL;
    if (!lh_growing_array_reserve(&request->messages, &c->capacity, request->message_count + 1,
                                  sizeof *request->messages)) {
        lh_openai_refuse_status(c->error, LH_ERR_NO_MEMORY);
        return NULL;
    }
    lh_chat_message *message = &request->messages[request->message_count++];
    *message = (lh_chat_message){.role = role, .content = ""};
    c->in_turn = strcmp(role, "assistant") == 0;
    return message;
}

static lh_chat_message *last(const lh_openai_conversation *c) {
    return &c->request->messages[c->request->message_count - 1];
}

/* One text behind another, with something between; NULL: no memory. */
static const char *joined(lh_openai_conversation *c, const char *first, size_t first_length,
                          const char *between, const char *second, size_t second_length) {
    lh_text_buffer text = {0};
    const char *kept = NULL;
    if (!lh_text_buffer_append(&text, first, first_length, NULL) &&
        !lh_text_buffer_append(&text, between, strlen(between), NULL) &&
        !lh_text_buffer_append(&text, second, second_length, NULL))
        kept = lh_openai_conversation_keep(c, text.bytes, text.length);
    else
        lh_openai_refuse_status(c->error, LH_ERR_NO_MEMORY);
    lh_text_buffer_reset(&text);
    return kept;
}

void lh_openai_conversation_say(lh_openai_conversation *c, const char *role, const char *text,
                                size_t length) {
    bool is_system = strcmp(role, "system") == 0;
    if (c->error->status)
        return;
    if (is_system && c->request->message_count && strcmp(last(c)->role, role) == 0) {
        lh_chat_message *system = last(c);
        system->content = joined(c, system->content, system->content_length, "\n\n", text, length);
        system->content_length += 2 + length;
        return;
    }
    lh_chat_message *message = add(c, role);
    if (message) {
        message->content = text;
        message->content_length = length;
    }
}

void lh_openai_conversation_result(lh_openai_conversation *c, const char *call_id, const char *text,
                                   size_t length) {
    lh_chat_message *message = add(c, "tool");
    if (message) {
        message->content = text;
        message->content_length = length;
        message->tool_call_id = call_id;
    }
}

/* ---- The assistant's turn ---- */

/* The message that a turn's next part goes into. */
static lh_chat_message *turn(lh_openai_conversation *c, bool may_go_on) {
    return c->in_turn && may_go_on && !c->error->status ? last(c) : add(c, "assistant");
}

void lh_openai_conversation_think(lh_openai_conversation *c, const char *text, size_t length) {
    bool is_first = c->in_turn && last(c)->content_length == 0 && !last(c)->tool_calls;
    lh_chat_message *message = turn(c, is_first);
    if (!message)
        return;
    message->thought =
        message->thought ? joined(c, message->thought, message->thought_length, "\n", text, length)
                         : text;
    message->thought_length += length + (message->thought_length > 0);
}

void lh_openai_conversation_answer(lh_openai_conversation *c, const char *text, size_t length) {
    lh_chat_message *message =
        turn(c, c->in_turn && last(c)->content_length == 0 && !last(c)->tool_calls);
    if (!message)
        return;
    message->content = text;
    message->content_length = length;
}

static json_t *call_json(const char *id, const char *name, const char *arguments) {
    return json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function", "name",
                     name, "arguments", arguments);
}

void lh_openai_conversation_call(lh_openai_conversation *c, const char *id, const char *name,
                                 const char *arguments) {
    lh_chat_message *message = turn(c, true);
    if (!message)
        return;
    json_t *calls = (json_t *)message->tool_calls;
    if (!calls) {
        message->tool_calls = calls = json_array();
        if (!calls || json_array_append_new(c->request->made, calls)) {
            message->tool_calls = NULL;
            lh_openai_refuse_status(c->error, LH_ERR_NO_MEMORY);
            return;
        }
        if (message->content_length == 0)
            message->content = NULL;
    }
    if (json_array_append_new(calls, call_json(id, name, arguments)))
        lh_openai_refuse_status(c->error, LH_ERR_NO_MEMORY);
}
