/* Byte by byte. */
#include "gateway/text/tools/json_extent.h"

#include <string.h>

static bool is_blank(char byte) {
    return byte == ' ' || byte == '\t' || byte == '\n' || byte == '\r';
}

static void take_in_string(lh_json_extent *extent, char byte) {
    if (extent->is_escaped) {
        extent->is_escaped = false;
    } else if (byte == '\\') {
        extent->is_escaped = true;
    } else if (byte == '"') {
        extent->in_string = false;
        extent->is_over = extent->depth == 0;
    }
}

/* Outside of strings. False: the byte is behind the value. */
static bool take_outside(lh_json_extent *extent, char byte) {
    bool opens = byte == '{' || byte == '[', closes = byte == '}' || byte == ']';
    bool ends_scalar = closes || byte == ',' || byte == ':' || byte == '"' || is_blank(byte);
    if (!extent->has_begun && is_blank(byte))
        return true;
    if (extent->depth == 0 && (extent->has_begun ? ends_scalar || opens : closes)) {
        extent->is_over = true;
        return false;
    }
    extent->has_begun = true;
    extent->in_string = byte == '"';
    extent->depth += opens ? 1 : 0;
    if (closes && --extent->depth == 0)
        extent->is_over = true;
    return true;
}

size_t lh_json_extent_take(lh_json_extent *extent, const char *bytes, size_t length) {
    size_t taken = 0;
    while (taken < length && !extent->is_over) {
        if (extent->in_string)
            take_in_string(extent, bytes[taken]);
        else if (!take_outside(extent, bytes[taken]))
            break;
        taken++;
    }
    return taken;
}
