/* "-%05u-of-%05u.gguf" at the end of a path. */
#include "common/gguf/part_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS 5u
static const char ending[] = ".gguf";
#define ENDING_BYTES (sizeof ending - 1)
/* "-00001-of-00005.gguf" */
#define SUFFIX_BYTES (1 + DIGITS + 4 + DIGITS + ENDING_BYTES)

static bool parse_number(const char *text, uint32_t *number) {
    *number = 0;
    for (size_t i = 0; i < DIGITS; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *number = *number * 10 + (uint32_t)(text[i] - '0');
    }
    return true;
}

bool lh_gguf_part_name_parse(const char *path, lh_gguf_part_name *name) {
    size_t length = strlen(path);
    bool has_ending = length >= ENDING_BYTES && strcmp(path + length - ENDING_BYTES, ending) == 0;
    *name = (lh_gguf_part_name){length - (has_ending ? ENDING_BYTES : 0), 1, 1};
    if (!has_ending || length <= SUFFIX_BYTES)
        return false;
    const char *suffix = path + length - SUFFIX_BYTES;
    uint32_t number, count;
    if (suffix[0] != '-' || !parse_number(suffix + 1, &number) ||
        strncmp(suffix + 1 + DIGITS, "-of-", 4) != 0 ||
        !parse_number(suffix + 1 + DIGITS + 4, &count) || number == 0 || number > count)
        return false;
    *name = (lh_gguf_part_name){length - SUFFIX_BYTES, number, count};
    return true;
}

char *lh_gguf_part_path(const char *path, const lh_gguf_part_name *name, uint32_t number) {
    size_t capacity = name->stem_bytes + SUFFIX_BYTES + 2 * DIGITS + 1; /* %u has 10 at most */
    char *text = name->count > 1 ? malloc(capacity) : strdup(path);
    if (text && name->count > 1)
        snprintf(text, capacity, "%.*s-%05u-of-%05u%s", (int)name->stem_bytes, path, number,
                 name->count, ending);
    return text;
}

void lh_gguf_visit_parts(const char *path, void (*visit)(void *context, const char *path),
                         void *context) {
    lh_gguf_part_name name;
    lh_gguf_part_name_parse(path, &name);
    for (uint32_t i = 1; i <= name.count && i <= LH_GGUF_PARTS_MAX; i++) {
        char *part = lh_gguf_part_path(path, &name, i);
        if (part)
            visit(context, part);
        free(part);
    }
}
