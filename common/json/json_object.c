/* A look at the text before jansson, whose own limit of depth is 2048 and which knows none of
 * memory. */
#include "common/json/json_object.h"

#include "common/json/json_outline.h"
#include "common/json/json_repair.h"

#include <stdlib.h>
#include <string.h>

static json_t *refuse(lh_error *error, lh_status status, const char *message) {
    lh_fail(error, status, "%s", message);
    return NULL;
}

static bool is_within_bounds(const char *bytes, size_t length, lh_error *error) {
    lh_json_outline outline = lh_json_outline_of(bytes, length);
    if (outline.depth > LH_JSON_DEPTH_MAX)
        lh_fail(error, LH_ERR_LIMIT, "The body is nested more than %d deep.", LH_JSON_DEPTH_MAX);
    else if (outline.memory_bytes > LH_JSON_MEMORY_MAX)
        lh_fail(error, LH_ERR_LIMIT,
                "The body holds too many values: parsed, it would take more than %u MiB.",
                LH_JSON_MEMORY_MAX >> 20);
    else
        return true;
    return false;
}

static json_t *parse(const char *bytes, size_t length, size_t flags, lh_error *error) {
    json_error_t cause;
    if (!is_within_bounds(bytes, length, error))
        return NULL;
    if (length == 0)
        return refuse(error, LH_ERR_MALFORMED, "The body is empty, where a JSON object must be.");
    json_t *body = json_loadb(bytes, length, flags, &cause);
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

json_t *lh_json_object_parse(const char *bytes, size_t length, lh_error *error) {
    return parse(bytes, length, JSON_REJECT_DUPLICATES, error);
}

json_t *lh_json_object_parse_freely(const char *bytes, size_t length, size_t *replaced,
                                    lh_error *error) {
    size_t mark = lh_json_mark_length(bytes, length);
    lh_json_repairs repairs = lh_json_repair(bytes + mark, length - mark, NULL);
    *replaced = repairs.characters;
    if (repairs.characters == 0 && repairs.numbers == 0)
        return parse(bytes + mark, length - mark, 0, error);
    char *copy = malloc(length - mark);
    if (!copy)
        return refuse(error, LH_ERR_NO_MEMORY, "There is no memory for the body.");
    memcpy(copy, bytes + mark, length - mark);
    lh_json_repair(bytes + mark, length - mark, copy);
    json_t *body = parse(copy, length - mark, 0, error);
    free(copy);
    return body;
}
