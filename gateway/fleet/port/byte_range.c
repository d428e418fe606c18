/* "bytes=a-b". */
#include "gateway/fleet/port/byte_range.h"

#include <stdbool.h>
#include <string.h>

/* Digits at *text; false: there are none, or they do not fit. */
static bool read_number(const char **text, uint64_t *value) {
    const char *at = *text;
    *value = 0;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(*value, 10u, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*at - '0'), value))
            return false;
    bool is_number = at > *text;
    *text = at;
    return is_number;
}

static lh_status read_suffix(const char **text, uint64_t file_bytes, lh_byte_range *range) {
    uint64_t length;
    if (!read_number(text, &length))
        return LH_ERR_MALFORMED;
    if (length == 0 || file_bytes == 0)
        return LH_ERR_LIMIT;
    range->length = length < file_bytes ? length : file_bytes;
    range->offset = file_bytes - range->length;
    return LH_OK;
}

static lh_status read_bounds(const char **text, uint64_t file_bytes, lh_byte_range *range) {
    uint64_t first, last = UINT64_MAX;
    if (!read_number(text, &first) || *(*text)++ != '-')
        return LH_ERR_MALFORMED;
    if (**text >= '0' && **text <= '9' && !read_number(text, &last))
        return LH_ERR_MALFORMED;
    if (last < first)
        return LH_ERR_MALFORMED;
    if (first >= file_bytes)
        return LH_ERR_LIMIT;
    range->offset = first;
    range->length = (last < file_bytes - 1 ? last : file_bytes - 1) - first + 1;
    return LH_OK;
}

lh_status lh_byte_range_parse(const char *header, uint64_t file_bytes, lh_byte_range *range) {
    const char *text = header + strspn(header, " \t");
    if (strncmp(text, "bytes=", 6) != 0 || strchr(text, ','))
        return LH_ERR_UNSUPPORTED;
    text += 6;
    lh_status status;
    if (*text == '-') {
        text++;
        status = read_suffix(&text, file_bytes, range);
    } else {
        status = read_bounds(&text, file_bytes, range);
    }
    if (status != LH_ERR_MALFORMED && text[strspn(text, " \t")] != 0)
        return LH_ERR_MALFORMED;
    return status;
}
