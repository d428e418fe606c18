/* Where a place of a JSON text is, as a path that a user recognizes. Believes nothing of the text,
 * allocates nothing. Thread: any. */
#pragma once

#include <stddef.h>

/* The path of the value that has the byte at `position`: "messages[0].content"; "" for the
 * outermost value. Nesting beyond LH_JSON_DEPTH_MAX is left out, and so is what has no room in
 * path[capacity]; names are shown as they are written, control characters as '?'. */
void lh_json_path_at(const char *bytes, size_t length, size_t position, char *path,
                     size_t capacity);
