/* A look at the brackets before jansson, whose own limit of depth is 2048. */
#include "common/json/json_object.h"

#include <string.h>

typedef struct outline {
    size_t depth, values;
} outline;

/* The byte after a string that begins at `at`. */
static size_t skip_string(const char *bytes, size_t length, size_t at) {
    for (at++; at < length && bytes[at] != '"'; at++)
        at += bytes[at] == '\\';
    return at + 1;
}

/* The deepest nesting, and values at most: each but the first stands behind a bracket, a comma or a
 * colon. */
static outline measure(const char *bytes, size_t length) {
    outline all = {0, 1};
    size_t depth = 0;
    for (size_t at = 0; at < length;) {
        char byte = bytes[at];
        if (byte == '"') {
            at = skip_string(bytes, length, at);
            continue;
        }
        if (byte == '[' || byte == '{') {
            depth++;
            all.depth = depth > all.depth ? depth : all.depth;
        } else if ((byte == ']' || byte == '}') && depth) {
            depth--;
        }
        all.values += byte == '[' || byte == '{' || byte == ',' || byte == ':';
        at++;
    }
    return all;
}

json_t *lh_json_object_parse(const char *bytes, size_t length, lh_error *error) {
    outline seen = measure(bytes, length);
    if (seen.depth > LH_JSON_DEPTH_MAX) {
        lh_fail(error, LH_ERR_LIMIT, "The body is nested more than %d deep.", LH_JSON_DEPTH_MAX);
        return NULL;
    }
    if (seen.values > LH_JSON_VALUES_MAX) {
        lh_fail(error, LH_ERR_LIMIT, "The body holds more than %u values.", LH_JSON_VALUES_MAX);
        return NULL;
    }
    json_error_t cause;
    json_t *body = json_loadb(bytes, length, JSON_REJECT_DUPLICATES, &cause);
    if (!body && json_error_code(&cause) == json_error_out_of_memory) {
        lh_fail(error, LH_ERR_NO_MEMORY, "There is no memory for the body.");
        return NULL;
    }
    if (!body) {
        lh_fail(error, LH_ERR_MALFORMED, "The body is not valid JSON: line %d, column %d: %s.",
                cause.line, cause.column, cause.text);
        return NULL;
    }
    if (!json_is_object(body)) {
        json_decref(body);
        lh_fail(error, LH_ERR_MALFORMED, "The body must be a JSON object.");
        return NULL;
    }
    return body;
}
