/* Where a JSON value ends (RFC 8259) in a text that comes in pieces. It counts brackets and minds
 * strings; whether what is between them is JSON is not its business. Plain data, {0} at first.
 * Thread: its owner's. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_json_extent {
    uint32_t depth;
    bool has_begun, in_string, is_escaped;
    bool is_over;
} lh_json_extent;

/* How many of the bytes belong to the value, and white space before it. A number or a name ends
 * before the byte that is none of it. */
size_t lh_json_extent_take(lh_json_extent *extent, const char *bytes, size_t length);
