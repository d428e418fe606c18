/* Each value but the first stands behind a bracket, a comma or a colon, so counting those and the
 * strings counts what will be allocated. The sizes are jansson 2.14's on 64 bits, each block
 * rounded up as malloc does:
 *
 *     object    224   72 bytes, and a table of 8 buckets of 16
 *     member     80   table: three times 16 while it doubles; 32 for a number
 *     list      128   40 bytes, and 8 pointers
 *     element    56   three pointers while the list doubles; 32 for a number
 *     string     80   and its length: the value with its text, or the member's name with its hash
 *
 * An element or a member that is an object, a list or a string pays for a number as well; that is
 * the margin. tests/common/json/test_json_outline.c counts what jansson really takes. */
#include "common/json/json_outline.h"

#define OBJECT_BYTES  224
#define LIST_BYTES    128
#define MEMBER_BYTES  80
#define ELEMENT_BYTES 56
#define STRING_BYTES  80
#define PARSER_BYTES  4096
/* The lexer's copy of a string or number, while it doubles. */
#define LEXER_COPIES 3

/* The byte after a string that begins at `at`. */
static size_t skip_string(const char *bytes, size_t length, size_t at) {
    for (at++; at < length && bytes[at] != '"'; at++)
        at += bytes[at] == '\\';
    return at < length ? at + 1 : length;
}

static size_t max(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t cost_of(char mark) {
    switch (mark) {
    case '{':
        return OBJECT_BYTES;
    case '[':
        return LIST_BYTES + ELEMENT_BYTES;
    case ':':
        return MEMBER_BYTES;
    case ',':
        return ELEMENT_BYTES;
    default:
        return 0;
    }
}

lh_json_outline lh_json_outline_of(const char *bytes, size_t length) {
    lh_json_outline all = {.memory_bytes = PARSER_BYTES};
    size_t depth = 0, longest = 0, token = 0;
    for (size_t at = 0; at < length;) {
        if (bytes[at] == '"') {
            size_t end = skip_string(bytes, length, at);
            longest = max(longest, end - at);
            all.memory_bytes += STRING_BYTES + end - at;
            at = end;
            continue;
        }
        size_t cost = cost_of(bytes[at]);
        token = cost ? 0 : token + 1;
        longest = max(longest, token);
        all.memory_bytes += cost;
        depth += bytes[at] == '[' || bytes[at] == '{';
        all.depth = max(all.depth, depth);
        depth -= (bytes[at] == ']' || bytes[at] == '}') && depth;
        at++;
    }
    all.memory_bytes += LEXER_COPIES * longest;
    return all;
}
