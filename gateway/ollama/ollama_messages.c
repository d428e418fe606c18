/* A result is that of the first call without one, of the tool that it names if it names one. */
#include "gateway/ollama/ollama_messages.h"

#include "common/json/json_text.h"

#include <stdio.h>
#include <string.h>

typedef struct messages {
    lh_openai_conversation *conversation;
    json_t *open; /* [[id, name]]: the calls that have no result yet */
    size_t calls; /* so far */
} messages;

static void refuse_memory(const messages *m) {
    if (!m->conversation->error->status)
        lh_openai_refuse_status(m->conversation->error, LH_ERR_NO_MEMORY);
}

/* ---- Calls ---- */

/* The client's own id, or one of nine letters and digits, which is what some templates want. NULL:
 * no memory. */
static const char *id_of(const lh_body_reader *call, messages *m) {
    const char *given = lh_body_text(call, "id", LH_OPENAI_CALL_ID_CHARACTERS_MAX);
    char made[16];
    if (given && *given)
        return given;
    snprintf(made, sizeof made, "call%05zu", m->calls % 100000);
    return lh_openai_conversation_keep(m->conversation, made, strlen(made));
}

static const char *arguments_of(const lh_body_reader *function, messages *m) {
    json_t *arguments = lh_body_object(function, "arguments");
    lh_text_buffer text = {0};
    if (!arguments || function->error->status)
        return "{}";
    const char *kept = NULL;
    if (lh_json_render(json_incref(arguments), &text) == LH_OK)
        kept = lh_openai_conversation_keep(m->conversation, text.bytes, text.length);
    else
        refuse_memory(m);
    lh_text_buffer_reset(&text);
    return kept;
}

static void read_call(const lh_body_reader *item, size_t index, const json_t *value, messages *m) {
    char path[LH_BODY_PATH_BYTES], inside[LH_BODY_PATH_BYTES + 16];
    lh_body_reader call;
    if (!lh_body_element(item, "tool_calls", index, value, path, &call))
        return;
    snprintf(inside, sizeof inside, "%sfunction.", call.path);
    const lh_body_reader function = lh_body_inside(&call, "function", inside);
    const char *name = lh_openai_tool_name(&function), *arguments = arguments_of(&function, m),
               *id = id_of(&call, m);
    if (!name || !arguments || !id || item->error->status)
        return;
    m->calls++;
    lh_openai_conversation_call(m->conversation, id, name, arguments);
    json_t *open = lh_json_append(m->open, json_pack("[s, s]", id, name));
    m->open = open;
    if (!open)
        refuse_memory(m);
}

/* Takes it out of those without a result. NULL: there is none, or no memory. */
static const char *take_open(messages *m, const char *name) {
    for (size_t i = 0; i < json_array_size(m->open); i++) {
        const json_t *call = json_array_get(m->open, i);
        if (name && strcmp(json_string_value(json_array_get(call, 1)), name) != 0)
            continue;
        const char *id = json_string_value(json_array_get(call, 0));
        const char *kept = lh_openai_conversation_keep(m->conversation, id, strlen(id));
        json_array_remove(m->open, i);
        return kept;
    }
    return NULL;
}

/* ---- Messages ---- */

static void refuse_images(const lh_body_reader *item) {
    const json_t *images = lh_body_typed(item, "images", "array", "a list");
    if (json_array_size(images) > 0)
        lh_body_refuse(item, "images", "unsupported_parameter",
                       "are not supported by this server.");
}

static void read_assistant(const lh_body_reader *item, const char *text, size_t length,
                           messages *m) {
    const char *thought = lh_body_text(item, "thinking", SIZE_MAX);
    const json_t *calls = lh_body_typed(item, "tool_calls", "array", "a list");
    if (thought && *thought)
        lh_openai_conversation_think(m->conversation, thought,
                                     json_string_length(lh_body_field(item, "thinking")));
    if (length > 0 || (json_array_size(calls) == 0 && !(thought && *thought)))
        lh_openai_conversation_answer(m->conversation, text, length);
    for (size_t i = 0; i < json_array_size(calls) && !item->error->status; i++)
        read_call(item, i, json_array_get(calls, i), m);
}

/* A result that answers no call is shown to the model all the same. */
static void read_result(const lh_body_reader *item, const char *text, size_t length, messages *m) {
    const char *id = lh_body_text(item, "tool_call_id", LH_OPENAI_CALL_ID_CHARACTERS_MAX);
    const char *name = lh_body_text(item, "tool_name", SIZE_MAX);
    if (!name || !*name) /* elder clients */
        name = lh_body_text(item, "name", SIZE_MAX);
    if (!id || !*id)
        id = take_open(m, name && *name ? name : NULL);
    if (!item->error->status)
        lh_openai_conversation_result(m->conversation, id ? id : "call00000", text, length);
}

static void read_message(const lh_body_reader *body, size_t index, const json_t *value,
                         messages *m) {
    char path[LH_BODY_PATH_BYTES];
    lh_body_reader item;
    if (!lh_body_element(body, "messages", index, value, path, &item))
        return;
    const char *role = lh_body_choice(&item, "role", "system|user|assistant|tool");
    const char *text = lh_body_text(&item, "content", SIZE_MAX);
    size_t length = text ? json_string_length(lh_body_field(&item, "content")) : 0;
    refuse_images(&item);
    if (!role)
        lh_body_refuse(&item, "role", "missing_required_parameter", "is missing.");
    if (item.error->status)
        return;
    text = text ? text : "";
    if (strcmp(role, "assistant") == 0)
        read_assistant(&item, text, length, m);
    else if (strcmp(role, "tool") == 0)
        read_result(&item, text, length, m);
    else
        lh_openai_conversation_say(m->conversation, role, text, length);
}

void lh_ollama_messages_read(const lh_body_reader *body, lh_openai_conversation *conversation) {
    const json_t *list = lh_body_field(body, "messages");
    messages m = {conversation, json_array(), 0};
    if (!m.open)
        refuse_memory(&m);
    for (size_t i = 0; i < json_array_size(list) && !body->error->status; i++)
        read_message(body, i, json_array_get(list, i), &m);
    json_decref(m.open);
}
