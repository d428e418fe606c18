/* One walk over the text with a stack of names and indices. */
#include "common/json/json_path.h"

#include "common/json/json_object.h"

#include <stdio.h>

/* An object or a list that the position is in. */
typedef struct level {
    bool is_list;
    size_t index;            /* of the element */
    size_t name, name_bytes; /* of the member, in the text; 0 bytes: none was read yet */
} level;

/* The byte after a string that begins at `at`. */
static size_t skip_string(const char *bytes, size_t length, size_t at) {
    for (at++; at < length && bytes[at] != '"'; at++)
        at += bytes[at] == '\\';
    return at < length ? at + 1 : length;
}

static void enter(level *levels, size_t *depth, bool is_list) {
    if (*depth < LH_JSON_DEPTH_MAX)
        levels[*depth] = (level){.is_list = is_list};
    ++*depth;
}

static void print_level(const level *at, const char *bytes, char *path, size_t capacity,
                        size_t *used) {
    if (at->is_list) {
        int length = snprintf(path + *used, capacity - *used, "[%zu]", at->index);
        *used += length > 0 && (size_t)length < capacity - *used ? (size_t)length : 0;
    } else if (at->name_bytes > 0 && *used + at->name_bytes + 1 < capacity) {
        if (*used)
            path[(*used)++] = '.';
        for (size_t i = 0; i < at->name_bytes; i++) {
            char byte = bytes[at->name + i];
            path[(*used)++] = (unsigned char)byte < 0x20 || byte == 0x7f ? '?' : byte;
        }
    }
    path[*used] = '\0';
}

void lh_json_path_at(const char *bytes, size_t length, size_t position, char *path,
                     size_t capacity) {
    level levels[LH_JSON_DEPTH_MAX];
    size_t depth = 0, used = 0, string = 0, string_bytes = 0;
    for (size_t at = 0; at < length && at <= position;) {
        level *inner = depth && depth <= LH_JSON_DEPTH_MAX ? &levels[depth - 1] : NULL;
        if (bytes[at] == '"') {
            size_t end = skip_string(bytes, length, at);
            string = at + 1;
            string_bytes = end - at > 2 ? end - at - 2 : 0;
            at = end;
            continue;
        }
        if (bytes[at] == '{' || bytes[at] == '[')
            enter(levels, &depth, bytes[at] == '[');
        else if (depth && (bytes[at] == '}' || bytes[at] == ']'))
            depth--;
        else if (inner && bytes[at] == ':' && !inner->is_list)
            *inner = (level){.name = string, .name_bytes = string_bytes};
        else if (inner && bytes[at] == ',')
            *inner = (level){.is_list = inner->is_list, .index = inner->index + 1};
        at++;
    }
    path[0] = '\0';
    for (size_t i = 0; i < depth && i < LH_JSON_DEPTH_MAX; i++)
        print_level(&levels[i], bytes, path, capacity, &used);
}
