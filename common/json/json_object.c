/* A look at the text before jansson, whose own limit of depth is 2048 and which knows none of
 * memory. */
#include "common/json/json_object.h"

#include "common/json/json_outline.h"
#include "common/json/json_path.h"

#include <stdio.h>

static json_t *refuse(lh_error *error, lh_status status, const char *message) {
    lh_fail(error, status, "%s", message);
    return NULL;
}

/* What jansson does not take. */
static void explain(const char *bytes, size_t length, const json_error_t *cause,
                    char field[LH_JSON_FIELD_BYTES], lh_error *error) {
    enum json_error_code code = json_error_code(cause);
    bool is_number = code == json_error_numeric_overflow;
    if (!is_number && code != json_error_null_character && code != json_error_null_byte_in_key) {
        lh_fail(error, LH_ERR_MALFORMED, "The body is not valid JSON: line %d, column %d: %s.",
                cause->line, cause->column, cause->text);
        return;
    }
    /* It has read as far as the byte behind the value. */
    size_t position = cause->position > 0 ? (size_t)cause->position - 1 : 0;
    lh_json_path_at(bytes, length, position, field, LH_JSON_FIELD_BYTES);
    lh_fail(error, LH_ERR_MALFORMED, "%s%s%s %s.", field[0] ? "'" : "",
            field[0] ? field : "The body", field[0] ? "'" : "",
            is_number ? "is a number beyond 64 bits"
                      : "holds the character \\u0000, which no text may have here");
}

json_t *lh_json_object_parse(const char *bytes, size_t length, lh_error *error) {
    char field[LH_JSON_FIELD_BYTES];
    return lh_json_object_parse_named(bytes, length, field, error);
}

json_t *lh_json_object_parse_named(const char *bytes, size_t length,
                                   char field[LH_JSON_FIELD_BYTES], lh_error *error) {
    field[0] = '\0';
    lh_json_outline outline = lh_json_outline_of(bytes, length);
    if (outline.depth > LH_JSON_DEPTH_MAX) {
        lh_fail(error, LH_ERR_LIMIT, "The body is nested more than %d deep.", LH_JSON_DEPTH_MAX);
        return NULL;
    }
    if (outline.memory_bytes > LH_JSON_MEMORY_MAX) {
        lh_fail(error, LH_ERR_LIMIT,
                "The body holds too many values: parsed, it would take more than %u MiB.",
                LH_JSON_MEMORY_MAX >> 20);
        return NULL;
    }
    if (length == 0)
        return refuse(error, LH_ERR_MALFORMED, "The body is empty, where a JSON object must be.");
    json_error_t cause;
    json_t *body = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &cause);
    if (!body && json_error_code(&cause) == json_error_out_of_memory)
        return refuse(error, LH_ERR_NO_MEMORY, "There is no memory for the body.");
    if (!body) {
        explain(bytes, length, &cause, field, error);
        return NULL;
    }
    if (!json_is_object(body)) {
        json_decref(body);
        return refuse(error, LH_ERR_MALFORMED, "The body must be a JSON object.");
    }
    return body;
}
