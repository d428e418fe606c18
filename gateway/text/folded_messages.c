/* One message after another: it becomes the next one, or goes on with the last. */
#include "gateway/text/folded_messages.h"

#include "common/base/text_buffer.h"

#include <stdlib.h>
#include <string.h>

/* Around what the system says as the user. */
#define MARK_BEGIN "<system>\n"
#define MARK_END   "\n</system>"

static bool is_role(const lh_chat_message *message, const char *role) {
    return strcmp(message->role, role) == 0;
}

/* How many at the beginning stay the system's. */
static size_t count_first(const lh_chat_message *messages, size_t count, lh_system_fold fold) {
    size_t first = 0;
    while (fold != LH_SYSTEM_FOLD_ALL && first < count && is_role(&messages[first], "system"))
        first++;
    return first;
}

bool lh_folded_messages_differ(const lh_chat_message *messages, size_t count, lh_system_fold fold) {
    size_t first = count_first(messages, count, fold);
    for (size_t i = first; i < count; i++)
        if (is_role(&messages[i], "system") ||
            (fold != LH_SYSTEM_FOLD_LATER && i > 0 && is_role(&messages[i], "user") &&
             is_role(&messages[i - 1], "user")))
            return true;
    return first > 1;
}

void lh_folded_messages_reset(lh_folded_messages *folded) {
    for (size_t i = 0; i < folded->text_count; i++)
        free(folded->texts[i]);
    free(folded->texts);
    free(folded->messages);
    *folded = (lh_folded_messages){0};
}

/* The message's text is what was put together, which is kept. */
static void keep(lh_folded_messages *folded, lh_chat_message *message, lh_text_buffer *text) {
    folded->texts[folded->text_count++] = text->bytes;
    message->content = text->bytes ? text->bytes : "";
    message->content_length = text->length;
}

static lh_status say(lh_text_buffer *text, const char *bytes, size_t length, lh_error *error) {
    return length ? lh_text_buffer_append(text, bytes, length, error) : LH_OK;
}

/* What the last message says (NULL: it does not go on), and this one behind it. */
static lh_status put_together(const lh_chat_message *last, const lh_chat_message *message,
                              bool is_marked, lh_text_buffer *text, lh_error *error) {
    lh_status status = last ? say(text, last->content, last->content_length, error) : LH_OK;
    if (!status && last)
        status = say(text, "\n\n", 2, error);
    if (!status && is_marked)
        status = say(text, MARK_BEGIN, strlen(MARK_BEGIN), error);
    if (!status)
        status = say(text, message->content, message->content_length, error);
    if (!status && is_marked)
        status = say(text, MARK_END, strlen(MARK_END), error);
    return status;
}

/* Whether a message of this role goes on with the last one. */
static bool does_go_on(const lh_folded_messages *folded, const char *role, bool is_folded,
                       lh_system_fold fold) {
    const lh_chat_message *last = folded->count ? &folded->messages[folded->count - 1] : NULL;
    if (!last || strcmp(last->role, role) != 0)
        return false;
    return strcmp(role, "system") == 0 ||
           (strcmp(role, "user") == 0 &&
            (is_folded || folded->ends_folded || fold != LH_SYSTEM_FOLD_LATER));
}

/* is_marked: of the system, told as the user's. */
static lh_status add(lh_folded_messages *folded, const lh_chat_message *message, bool is_marked,
                     lh_system_fold fold, lh_error *error) {
    const char *role = is_marked ? "user" : message->role;
    bool goes_on = does_go_on(folded, role, is_marked, fold);
    lh_chat_message *last = folded->count ? &folded->messages[folded->count - 1] : NULL;
    lh_text_buffer text = {0};
    lh_status status = LH_OK;
    if (goes_on || is_marked)
        status = put_together(goes_on ? last : NULL, message, is_marked, &text, error);
    if (status) {
        lh_text_buffer_reset(&text);
        return status;
    }
    if (!goes_on) {
        last = &folded->messages[folded->count++];
        *last = *message;
        last->role = role;
    }
    if (goes_on || is_marked)
        keep(folded, last, &text);
    folded->ends_folded = is_marked;
    return LH_OK;
}

lh_status lh_folded_messages_make(lh_folded_messages *folded, const lh_chat_message *messages,
                                  size_t count, lh_system_fold fold, lh_error *error) {
    size_t first = count_first(messages, count, fold);
    *folded = (lh_folded_messages){.messages = calloc(count + 1, sizeof *folded->messages),
                                   .texts = calloc(count + 1, sizeof *folded->texts)};
    if (!folded->messages || !folded->texts)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a conversation");
    lh_status status = LH_OK;
    for (size_t i = 0; i < count && !status; i++)
        status =
            add(folded, &messages[i], i >= first && is_role(&messages[i], "system"), fold, error);
    return status;
}
