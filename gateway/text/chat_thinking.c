/* What Python's split, lstrip and rstrip do in the template. */
#include "gateway/text/chat_thinking.h"

#include <stdbool.h>
#include <string.h>

static const char opening[] = "<think>", closing[] = "</think>";

lh_text lh_chat_thinking_strip(lh_text text) {
    while (text.length > 0 && *text.bytes == '\n') {
        text.bytes++;
        text.length--;
    }
    return text;
}

static lh_text strip_lines_right(lh_text text) {
    while (text.length > 0 && text.bytes[text.length - 1] == '\n')
        text.length--;
    return text;
}

/* The text behind the last `mark`, or all of it. */
static lh_text after_last(lh_text text, const char *mark) {
    size_t size = strlen(mark);
    for (const char *found;
         text.length > 0 && (found = memmem(text.bytes, text.length, mark, size));) {
        text.length -= (size_t)(found - text.bytes) + size;
        text.bytes = found + size;
    }
    return text;
}

lh_chat_thinking lh_chat_thinking_split(lh_text content) {
    const char *end =
        content.length ? memmem(content.bytes, content.length, closing, sizeof closing - 1) : NULL;
    if (!end)
        return (lh_chat_thinking){.thought = {"", 0}, .answer = content};
    lh_text thought = {content.bytes, (size_t)(end - content.bytes)};
    thought = after_last(strip_lines_right(thought), opening);
    return (lh_chat_thinking){.thought = strip_lines_right(lh_chat_thinking_strip(thought)),
                              .answer = lh_chat_thinking_strip(after_last(content, closing))};
}

static bool is_tool_response(const lh_chat_message *message) {
    static const char head[] = "<tool_response>", tail[] = "</tool_response>";
    size_t length = message->content_length;
    return length >= sizeof tail - 1 && memcmp(message->content, head, sizeof head - 1) == 0 &&
           memcmp(message->content + length - (sizeof tail - 1), tail, sizeof tail - 1) == 0;
}

size_t lh_chat_thinking_last_query(const lh_chat_message *messages, size_t count) {
    for (size_t i = count; i-- > 0;)
        if (strcmp(messages[i].role, "user") == 0 && !is_tool_response(&messages[i]))
            return i;
    return count - 1;
}
