/* Part by part. */
#include "gateway/openai/text_parts.h"

#include "common/gguf/gguf.h"

#include <stdio.h>
#include <string.h>

static lh_status say(lh_text_buffer *text, const char *bytes) {
    return lh_text_buffer_append(text, bytes, strlen(bytes), NULL);
}

lh_openai_part lh_openai_result_part(const lh_body_reader *item, const char *key, const char *type,
                                     const json_t *part, lh_text_buffer *text) {
    static const char *const names[][2] = {{"image_url", "image"},
                                           {"input_image", "image"},
                                           {"input_file", "file"},
                                           {"input_audio", "audio"}};
    char mark[96];
    (void)part;
    lh_body_leave_out(item, key, type);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(type, names[i][0]) == 0)
            type = names[i][1];
    snprintf(mark, sizeof mark, "[%.40s, not shown: this model reads text]", type);
    if (say(text, mark))
        lh_openai_refuse_status(item->error, LH_ERR_NO_MEMORY);
    return LH_OPENAI_PART_TAKEN;
}

/* Thoughts in the words of other servers, whose signatures nobody here could check. */
static bool is_foreign_thought(const char *type) {
    return lh_body_is_one_of(type, "thinking|redacted_thinking|reasoning|encrypted_content");
}

static lh_openai_part take_text(const lh_body_reader *item, const char *key, const json_t *part,
                                lh_text_buffer *text) {
    const char *type = json_string_value(json_object_get(part, "type"));
    const char *member = strcmp(type, "refusal") == 0 ? "refusal" : "text";
    const json_t *value = json_object_get(part, member);
    if (!json_is_string(value))
        lh_body_refuse(item, key, "invalid_type", "must have a '%s' that is a string.", member);
    else if (lh_text_buffer_append(text, json_string_value(value), json_string_length(value), NULL))
        lh_openai_refuse_status(item->error, LH_ERR_NO_MEMORY);
    return LH_OPENAI_PART_TAKEN;
}

static lh_openai_part take(const lh_body_reader *item, const char *key, const json_t *part,
                           const lh_openai_part_rules *rules, lh_text_buffer *text) {
    const char *type = json_string_value(json_object_get(part, "type"));
    if (!type) {
        lh_body_refuse(item, key, "invalid_type", "must be an object with a 'type'.");
        return LH_OPENAI_PART_UNKNOWN;
    }
    if (lh_body_is_one_of(type, rules->types))
        return take_text(item, key, part, text);
    if (is_foreign_thought(type)) {
        lh_body_leave_out(item, key, type);
        return LH_OPENAI_PART_LEFT_OUT;
    }
    lh_openai_part taken =
        rules->other ? rules->other(item, key, type, part, text) : LH_OPENAI_PART_UNKNOWN;
    if (taken == LH_OPENAI_PART_UNKNOWN)
        lh_body_refuse(item, key, "unsupported_value",
                       "is of type \"%.40s\"; this model takes parts of type %s only.", type,
                       rules->types);
    return taken;
}

void lh_openai_text_parts_join(const lh_body_reader *item, const char *key,
                               const lh_openai_part_rules *rules, lh_text_buffer *text) {
    const json_t *list = lh_body_field(item, key);
    bool has_one = false;
    for (size_t i = rules->first; i < json_array_size(list) && !item->error->status; i++) {
        char name[64];
        size_t before = text->length;
        snprintf(name, sizeof name, "%.32s[%zu]", key, i);
        if (has_one && say(text, "\n"))
            lh_openai_refuse_status(item->error, LH_ERR_NO_MEMORY);
        bool is_taken =
            take(item, name, json_array_get(list, i), rules, text) == LH_OPENAI_PART_TAKEN;
        has_one |= is_taken;
        if (!is_taken)
            text->length = before;
    }
}
