/* Part by part. */
#include "gateway/openai/text_parts.h"

#include <stdio.h>
#include <string.h>

/* The text of one part; NULL: refused. */
static const json_t *part_text(const lh_body_reader *item, const char *list, size_t index,
                               const char *types, const json_t *part) {
    char key[64];
    snprintf(key, sizeof key, "%.32s[%zu]", list, index);
    const char *type = json_string_value(json_object_get(part, "type"));
    const json_t *text = json_object_get(part, "text");
    if (!type)
        lh_body_refuse(item, key, "invalid_type", "must be an object with a 'type'.");
    else if (!lh_body_is_one_of(type, types))
        lh_body_refuse(item, key, "unsupported_value",
                       "is of type \"%.40s\"; this model takes parts of type %s only.", type,
                       types);
    else if (!json_is_string(text))
        lh_body_refuse(item, key, "invalid_type", "must have a 'text' that is a string.");
    return item->error->status ? NULL : text;
}

void lh_openai_text_parts_join(const lh_body_reader *item, const char *key, const char *types,
                               lh_text_buffer *text) {
    const json_t *list = lh_body_field(item, key);
    for (size_t i = 0; i < json_array_size(list) && !item->error->status; i++) {
        const json_t *part = part_text(item, key, i, types, json_array_get(list, i));
        if (part &&
            ((i && lh_text_buffer_append(text, "\n", 1, NULL)) ||
             lh_text_buffer_append(text, json_string_value(part), json_string_length(part), NULL)))
            lh_openai_refuse_status(item->error, LH_ERR_NO_MEMORY);
    }
}
