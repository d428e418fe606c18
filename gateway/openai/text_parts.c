/* Part by part. */
#include "gateway/openai/text_parts.h"

#include "common/gguf/gguf.h"

#include <stdio.h>
#include <string.h>

/* Thoughts in the words of other servers, whose signatures nobody here could check. */
static bool is_left_out(const char *type) {
    return lh_body_is_one_of(type, "thinking|redacted_thinking|reasoning|encrypted_content");
}

/* The text of one part; no bytes: it is refused, or left out. */
static lh_text part_text(const lh_body_reader *item, const char *list, size_t index,
                         const char *types, const json_t *part) {
    static const char unseen[] = "[something that this model cannot see or hear]";
    char key[64];
    snprintf(key, sizeof key, "%.32s[%zu]", list, index);
    const char *type = json_string_value(json_object_get(part, "type"));
    const char *member = type && strcmp(type, "refusal") == 0 ? "refusal" : "text";
    const json_t *text = json_object_get(part, member);
    bool is_taken = type && lh_body_is_one_of(type, types);
    if (type && is_left_out(type)) {
        lh_body_leave_out(item, key, type);
        return (lh_text){NULL, 0};
    }
    if (is_taken && lh_body_is_one_of(type, LH_OPENAI_MEDIA_PARTS)) {
        lh_body_leave_out(item, key, type);
        return (lh_text){unseen, sizeof unseen - 1};
    }
    if (!type)
        lh_body_refuse(item, key, "invalid_type", "must be an object with a 'type'.");
    else if (!is_taken)
        lh_body_refuse(item, key, "unsupported_value",
                       "is of type \"%.40s\"; this model takes parts of type %s only.", type,
                       types);
    else if (!json_is_string(text))
        lh_body_refuse(item, key, "invalid_type", "must have a '%s' that is a string.", member);
    return item->error->status ? (lh_text){NULL, 0}
                               : (lh_text){json_string_value(text), json_string_length(text)};
}

void lh_openai_text_parts_join(const lh_body_reader *item, const char *key, const char *types,
                               lh_text_buffer *text) {
    const json_t *list = lh_body_field(item, key);
    bool is_first = true;
    for (size_t i = 0; i < json_array_size(list) && !item->error->status; i++) {
        lh_text part = part_text(item, key, i, types, json_array_get(list, i));
        if (!part.bytes)
            continue;
        if ((!is_first && lh_text_buffer_append(text, "\n", 1, NULL)) ||
            lh_text_buffer_append(text, part.bytes, part.length, NULL))
            lh_openai_refuse_status(item->error, LH_ERR_NO_MEMORY);
        is_first = false;
    }
}
