/* Lines first, then the JSON of each. */
#include "gateway/cli/answer_events_json.h"

#include "common/json/json_object.h"

#include <stdio.h>
#include <string.h>

#define LINE_BYTES_MAX (1u << 20)

static bool is_text(const json_t *object, const char *key, const char *text) {
    const char *value = json_string_value(json_object_get(object, key));
    return value && strcmp(value, text) == 0;
}

static void take_error(lh_answer_events *events, const json_t *error) {
    const char *message = json_string_value(json_object_get(error, "message"));
    snprintf(events->fault, sizeof events->fault, "%s", message ? message : "without a word");
    events->has_no_template =
        is_text(error, "param", "messages") && is_text(error, "code", "unsupported_value");
}

static void take_text(lh_answer_events *events, const json_t *text, bool is_thought) {
    if (json_string_length(text) > 0)
        events->on_text(events->context, json_string_value(text), json_string_length(text),
                        is_thought);
}

static void take_object(lh_answer_events *events, const json_t *root) {
    const json_t *error = json_object_get(root, "error"),
                 *choices = json_object_get(root, "choices");
    if (error)
        take_error(events, error);
    for (size_t i = 0; i < json_array_size(choices); i++) {
        const json_t *choice = json_array_get(choices, i),
                     *delta = json_object_get(choice, "delta");
        take_text(events, json_object_get(delta, "reasoning_content"), true);
        take_text(events, json_object_get(delta, "content"), false);
        take_text(events, json_object_get(choice, "text"), false);
    }
}

static lh_status take_json(lh_answer_events *events, const char *bytes, size_t length,
                           lh_error *error) {
    lh_error cause;
    json_t *root = lh_json_object_parse(bytes, length, &cause);
    if (!root)
        return lh_fail(error, cause.status, "the gateway's answer cannot be read: %.200s",
                       cause.message);
    take_object(events, root);
    json_decref(root);
    return LH_OK;
}

/* "data: {...}", the last of which is "data: [DONE]"; or an error's object alone. */
static lh_status take_line(lh_answer_events *events, const char *line, size_t length,
                           lh_error *error) {
    static const char data[] = "data:", last[] = "[DONE]";
    if (length > 0 && line[length - 1] == '\r')
        length--;
    if (length > 0 && line[0] == '{')
        return take_json(events, line, length, error);
    if (length < sizeof data - 1 || memcmp(line, data, sizeof data - 1) != 0)
        return LH_OK; /* an empty line, a comment, or a field that says nothing here */
    line += sizeof data - 1;
    length -= sizeof data - 1;
    while (length > 0 && *line == ' ')
        line++, length--;
    if (length == sizeof last - 1 && memcmp(line, last, length) == 0) {
        events->is_whole = true;
        return LH_OK;
    }
    return take_json(events, line, length, error);
}

static lh_status end_line(lh_answer_events *events, lh_error *error) {
    lh_status status =
        take_line(events, events->line.bytes ? events->line.bytes : "", events->line.length, error);
    events->line.length = 0;
    return status;
}

lh_status lh_answer_events_feed(lh_answer_events *events, const char *bytes, size_t length,
                                lh_error *error) {
    lh_status status = LH_OK;
    while (status == LH_OK && length > 0) {
        const char *end = memchr(bytes, '\n', length);
        size_t part = end ? (size_t)(end - bytes) : length;
        if (events->line.length + part > LINE_BYTES_MAX)
            return lh_fail(error, LH_ERR_LIMIT, "a line of the gateway's answer is over 1 MiB");
        status = lh_text_buffer_append(&events->line, bytes, part, error);
        if (status == LH_OK && end)
            status = end_line(events, error);
        bytes += part + (end ? 1 : 0);
        length -= part + (end ? 1 : 0);
    }
    return status;
}

lh_status lh_answer_events_end(lh_answer_events *events, lh_error *error) {
    return end_line(events, error);
}

void lh_answer_events_reset(lh_answer_events *events) {
    lh_text_buffer_reset(&events->line);
}
