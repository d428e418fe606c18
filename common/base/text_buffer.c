/* A growing array of bytes. */
#include "common/base/text_buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void lh_text_buffer_reset(lh_text_buffer *buffer) {
    free(buffer->bytes);
    *buffer = (lh_text_buffer){0};
}

static lh_status grow(lh_text_buffer *buffer, size_t length, lh_error *error) {
    if (length > SIZE_MAX / 4 || buffer->length > SIZE_MAX / 4)
        return lh_fail(error, LH_ERR_NO_MEMORY, "text of %zu bytes cannot grow by %zu",
                       buffer->length, length);
    size_t capacity = buffer->capacity ? buffer->capacity : 64;
    while (capacity < buffer->length + length)
        capacity *= 2;
    char *bytes = realloc(buffer->bytes, capacity);
    if (!bytes)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %zu bytes of text", capacity);
    buffer->bytes = bytes;
    buffer->capacity = capacity;
    return LH_OK;
}

lh_status lh_text_buffer_append(lh_text_buffer *buffer, const char *bytes, size_t length,
                                lh_error *error) {
    if (length == 0)
        return LH_OK;
    if (buffer->capacity - buffer->length < length) {
        lh_status status = grow(buffer, length, error);
        if (status)
            return status;
    }
    memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length += length;
    return LH_OK;
}
