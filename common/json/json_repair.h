/* JSON as clients write it, where jansson does not take it though nothing about it is unclear: a
 * byte order mark before it, the character 0 and halves of surrogate pairs in texts, numbers beyond
 * what a number holds here. Each is repaired in its place, so that no length changes. Thread: any.
 */
#pragma once

#include <stddef.h>

typedef struct lh_json_repairs {
    size_t characters; /* U+FFFD stands for them */
    size_t numbers;    /* of more digits than 64 bits have, or too large for a double: about as
                          large now, and no integers */
} lh_json_repairs;

/* How long the byte order mark at the front is: 0 or 3. */
size_t lh_json_mark_length(const char *bytes, size_t length);
/* Counts what is to be repaired; copy: where bytes[length] are, too, and are repaired; NULL: they
 * are counted alone. Bytes that are no JSON stay as they are. */
lh_json_repairs lh_json_repair(const char *bytes, size_t length, char *copy);
