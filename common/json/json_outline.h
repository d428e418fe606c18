/* What a JSON text will cost before it is parsed: one look at its bytes, which believes nothing of
 * them and allocates nothing. Thread: any. */
#pragma once

#include <stddef.h>

typedef struct lh_json_outline {
    size_t depth; /* of the deepest nesting */
    /* What jansson holds at most while it parses the text and afterwards, malloc's own bytes
     * included; a text that turns out to be malformed costs less. */
    size_t memory_bytes;
} lh_json_outline;

lh_json_outline lh_json_outline_of(const char *bytes, size_t length);
