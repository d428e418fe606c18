/* As json_t. What has no memory becomes NULL and makes the whole NULL. */
#include "gateway/text/chat_messages.h"

#include "gateway/text/tools/tool_prompt.h"

#include <string.h>

static bool is_role(const lh_chat_message *message, const char *role) {
    return strcmp(message->role, role) == 0;
}

bool lh_chat_messages_call_tools(const lh_chat_message *messages, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (messages[i].tool_calls)
            return true;
    return false;
}

/* The object with one more member, which it takes; NULL, and both are released: no memory. */
static json_t *with(json_t *object, const char *key, json_t *value) {
    if (object && !json_object_set_new_nocheck(object, key, value))
        return object;
    if (!object)
        json_decref(value);
    json_decref(object);
    return NULL;
}

static json_t *text_of(const char *bytes, size_t length) {
    return bytes ? json_stringn_nocheck(bytes, length) : json_null();
}

/* ---- For templates that know tools ---- */

/* The arguments' value, where they are an object; else their text. */
static json_t *value_of_arguments(json_t *arguments) {
    json_t *value = json_loads(json_string_value(arguments), JSON_DECODE_ANY, NULL);
    if (json_is_object(value))
        return value;
    json_decref(value);
    return json_incref(arguments);
}

static json_t *call_json(const json_t *call, bool parses) {
    const json_t *function = json_object_get(call, "function");
    json_t *arguments = json_object_get(function, "arguments"), *id = json_object_get(call, "id");
    json_t *made = json_pack("{s:s, s:{s:O, s:o}}", "type", "function", "function", "name",
                             json_object_get(function, "name"), "arguments",
                             parses ? value_of_arguments(arguments) : json_incref(arguments));
    return id ? with(made, "id", json_incref(id)) : made;
}

static json_t *calls_json(const json_t *calls, bool parses) {
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(calls); i++)
        if (json_array_append_new(list, call_json(json_array_get(calls, i), parses))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *message_json(const lh_chat_message *message, bool parses) {
    json_t *made = with(json_object(), "role", json_string(message->role));
    made = with(made, "content", text_of(message->content, message->content_length));
    if (message->thought)
        made = with(made, "reasoning_content", text_of(message->thought, message->thought_length));
    if (message->tool_calls)
        made = with(made, "tool_calls", calls_json(message->tool_calls, parses));
    if (message->tool_call_id)
        made = with(made, "tool_call_id", json_string(message->tool_call_id));
    return message->name ? with(made, "name", json_string(message->name)) : made;
}

/* ---- For those that do not ---- */

typedef struct wording {
    json_t *list; /* NULL: no memory */
    lh_text_buffer text;
} wording;

static lh_status say(wording *words, const char *bytes, size_t length, lh_error *error) {
    return lh_text_buffer_append(&words->text, bytes, length, error);
}

/* What has been put together becomes a message. */
static lh_status put_message(wording *words, const char *role, lh_error *error) {
    json_t *message =
        with(with(json_object(), "role", json_string(role)), "content",
             text_of(words->text.length ? words->text.bytes : "", words->text.length));
    words->text.length = 0;
    return json_array_append_new(words->list, message)
               ? lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a conversation")
               : LH_OK;
}

/* The first message, with the tools behind what it says itself (NULL: nothing). */
static lh_status put_first(wording *words, const lh_chat_message *own, const json_t *tools,
                           const char *role, lh_error *error) {
    lh_status status = LH_OK;
    if (own)
        status = say(words, own->content, own->content_length, error);
    if (status == LH_OK && words->text.length > 0 && tools)
        status = say(words, "\n\n", 2, error);
    if (status == LH_OK && tools)
        status = lh_tool_prompt_tools(tools, &words->text, error);
    return status ? status : put_message(words, role, error);
}

/* Results of several calls are one message: many templates want the roles to take turns.
 * takes_user: what the user says behind them belongs to it, too. */
static lh_status put_results(wording *words, const lh_chat_message *messages, size_t count,
                             size_t *at, bool takes_user, lh_error *error) {
    lh_status status = LH_OK;
    for (; *at < count && is_role(&messages[*at], "tool") && status == LH_OK; ++*at)
        status = lh_tool_prompt_result(messages[*at].content, messages[*at].content_length,
                                       &words->text, error);
    if (takes_user && *at < count && is_role(&messages[*at], "user") && status == LH_OK) {
        status = say(words, "\n\n", 2, error);
        if (status == LH_OK)
            status = say(words, messages[*at].content, messages[*at].content_length, error);
        ++*at;
    }
    return status ? status : put_message(words, "user", error);
}

static lh_status put_other(wording *words, const lh_chat_message *message, lh_error *error) {
    lh_status status = say(words, message->content ? message->content : "",
                           message->content ? message->content_length : 0, error);
    if (status == LH_OK && message->tool_calls)
        status = lh_tool_prompt_calls(message->tool_calls, &words->text, error);
    return status ? status : put_message(words, message->role, error);
}

static lh_status word(wording *words, const lh_chat_message *messages, size_t count,
                      const json_t *tools, lh_chat_tools_form form, lh_error *error) {
    const char *teller = form == LH_CHAT_TOOLS_WORDS_OF_USER ? "user" : "system";
    bool has_first = count > 0 && is_role(&messages[0], teller);
    lh_status status = LH_OK;
    if (has_first || tools)
        status = put_first(words, has_first ? messages : NULL, tools, teller, error);
    for (size_t i = has_first ? 1 : 0; i < count && status == LH_OK;)
        if (is_role(&messages[i], "tool"))
            status = put_results(words, messages, count, &i, form != LH_CHAT_TOOLS_WORDS, error);
        else
            status = put_other(words, &messages[i++], error);
    return status;
}

lh_status lh_chat_messages_json(const lh_chat_message *messages, size_t count, const json_t *tools,
                                lh_chat_tools_form form, json_t **values, lh_error *error) {
    wording words = {.list = json_array()};
    lh_status status = LH_OK;
    if (form >= LH_CHAT_TOOLS_WORDS)
        status = word(&words, messages, count, tools, form, error);
    else
        for (size_t i = 0; i < count && status == LH_OK; i++)
            if (json_array_append_new(words.list,
                                      message_json(&messages[i], form == LH_CHAT_TOOLS_OBJECTS)))
                status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a conversation");
    lh_text_buffer_reset(&words.text);
    if (status == LH_OK && words.list) {
        *values = words.list;
        return LH_OK;
    }
    json_decref(words.list);
    return status ? status : lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a conversation");
}
