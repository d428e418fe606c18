/* A growing array of bytes. */
#include "common/base/text_buffer.h"

#include "common/base/growing_array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void lh_text_buffer_reset(lh_text_buffer *buffer) {
    free(buffer->bytes);
    *buffer = (lh_text_buffer){0};
}

lh_status lh_text_buffer_append(lh_text_buffer *buffer, const char *bytes, size_t length,
                                lh_error *error) {
    if (length == 0)
        return LH_OK;
    if (length > SIZE_MAX / 4 || buffer->length > SIZE_MAX / 4)
        return lh_fail(error, LH_ERR_NO_MEMORY, "text of %zu bytes cannot grow by %zu",
                       buffer->length, length);
    size_t wanted = buffer->length + length;
    if (!lh_growing_array_reserve(&buffer->bytes, &buffer->capacity, wanted, 1))
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %zu bytes of text", wanted);
    memcpy(buffer->bytes + buffer->length, bytes, length);
    buffer->length = wanted;
    return LH_OK;
}
