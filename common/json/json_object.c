/* A look at the text before jansson, whose own limit of depth is 2048 and which knows none of
 * memory. */
#include "common/json/json_object.h"

#include "common/json/json_outline.h"

static json_t *refuse(lh_error *error, lh_status status, const char *message) {
    lh_fail(error, status, "%s", message);
    return NULL;
}

json_t *lh_json_object_parse(const char *bytes, size_t length, lh_error *error) {
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
    json_error_t cause;
    json_t *body = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &cause);
    if (!body && json_error_code(&cause) == json_error_out_of_memory)
        return refuse(error, LH_ERR_NO_MEMORY, "There is no memory for the body.");
    if (!body) {
        lh_fail(error, LH_ERR_MALFORMED, "The body is not valid JSON: line %d, column %d: %s.",
                cause.line, cause.column, cause.text);
        return NULL;
    }
    if (!json_is_object(body)) {
        json_decref(body);
        return refuse(error, LH_ERR_MALFORMED, "The body must be a JSON object.");
    }
    return body;
}
