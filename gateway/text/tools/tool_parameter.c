/* Types of a schema on one side, what a model wrote on the other. */
#include "gateway/text/tools/tool_parameter.h"

#include "common/base/text_decoder.h"

#include <string.h>

const json_t *lh_tool_parameter_find(const json_t *tools, const char *function, const char *key,
                                     size_t key_length) {
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *of = json_object_get(json_array_get(tools, i), "function");
        const char *name = json_string_value(json_object_get(of, "name"));
        if (name && strcmp(name, function) == 0)
            return json_object_getn(
                json_object_get(json_object_get(of, "parameters"), "properties"), key, key_length);
    }
    return NULL;
}

static bool is_word(const json_t *word, const char *text) {
    return json_is_string(word) && strcmp(json_string_value(word), text) == 0;
}

static bool are_texts(const json_t *values) {
    bool are = json_array_size(values) > 0;
    for (size_t i = 0; i < json_array_size(values); i++)
        are &= json_is_string(json_array_get(values, i));
    return are;
}

static bool has_type(const json_t *schema, const char *name) {
    const json_t *type = json_object_get(schema, "type");
    bool has = is_word(type, name);
    for (size_t i = 0; i < json_array_size(type); i++)
        has |= is_word(json_array_get(type, i), name);
    return has;
}

bool lh_tool_parameter_is_text(const json_t *schema) {
    const json_t *type = json_object_get(schema, "type");
    if (!type)
        return are_texts(json_object_get(schema, "enum")) ||
               json_is_string(json_object_get(schema, "const"));
    size_t types = json_is_array(type) ? json_array_size(type) : 1;
    return has_type(schema, "string") && types == 1u + has_type(schema, "null");
}

static lh_status no_memory(lh_error *error) {
    return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a parameter");
}

static int append(const char *bytes, size_t length, void *json) {
    return lh_text_buffer_append(json, bytes, length, NULL) ? -1 : 0;
}

lh_status lh_tool_parameter_quote(const char *bytes, size_t length, lh_text_buffer *json,
                                  lh_error *error) {
    lh_text_buffer text = {0};
    lh_text_decoder decoder;
    lh_text_decoder_init(&decoder);
    lh_status status = lh_text_decoder_push(&decoder, bytes, length, &text, error);
    if (status == LH_OK)
        status = lh_text_decoder_finish(&decoder, &text, error);
    json_t *value =
        status == LH_OK ? json_stringn_nocheck(text.length ? text.bytes : "", text.length) : NULL;
    if (status == LH_OK && (!value || json_dump_callback(value, append, json, JSON_ENCODE_ANY)))
        status = no_memory(error);
    json_decref(value);
    lh_text_buffer_reset(&text);
    return status;
}

/* NULL: it is none of them. */
static const char *python_word(const char *written, size_t length) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i][0]) == length && memcmp(words[i][0], written, length) == 0)
            return words[i][1];
    return NULL;
}

static bool is_null(const char *written, size_t length) {
    return (length == 4 && memcmp(written, "null", 4) == 0) ||
           (length == 4 && memcmp(written, "None", 4) == 0);
}

/* LH_ERR_NOT_FOUND: it is no JSON. */
static lh_status check_json(const char *written, size_t length, lh_error *error) {
    json_error_t cause;
    json_t *value = json_loadb(written, length, JSON_DECODE_ANY, &cause);
    bool is_memory = !value && json_error_code(&cause) == json_error_out_of_memory;
    json_decref(value);
    return value ? LH_OK : is_memory ? no_memory(error) : LH_ERR_NOT_FOUND;
}

lh_status lh_tool_parameter_render(const json_t *schema, const char *written, size_t length,
                                   lh_text_buffer *json, lh_error *error) {
    if (lh_tool_parameter_is_text(schema))
        return has_type(schema, "null") && is_null(written, length)
                   ? lh_text_buffer_append(json, "null", 4, error)
                   : lh_tool_parameter_quote(written, length, json, error);
    const char *word = python_word(written, length);
    if (word)
        return lh_text_buffer_append(json, word, strlen(word), error);
    lh_status status = check_json(written, length, error);
    if (status == LH_ERR_NOT_FOUND)
        return lh_tool_parameter_quote(written, length, json, error);
    return status == LH_OK ? lh_text_buffer_append(json, written, length, error) : status;
}
