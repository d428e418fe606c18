/* A growing array of bytes. */
#include "common/base/text_buffer.h"

#include "common/base/growing_array.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
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

lh_status lh_text_buffer_print(const lh_text_buffer *buffer, lh_error *error) {
    if (fwrite(buffer->bytes, 1, buffer->length, stdout) != buffer->length || fflush(stdout) != 0)
        return lh_fail(error, LH_ERR_IO, "standard output cannot be written: %s", strerror(errno));
    return LH_OK;
}
