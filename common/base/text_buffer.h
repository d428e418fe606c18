/* Bytes that grow at the end. Thread: the owner's. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>

typedef struct lh_text_buffer {
    char *bytes; /* not terminated; NULL while nothing was appended */
    size_t length, capacity;
} lh_text_buffer;

/* An empty buffer is {0}. Frees the bytes and makes it empty again. */
void lh_text_buffer_reset(lh_text_buffer *buffer);

/* Appends bytes[length]. LH_ERR_NO_MEMORY: the buffer is as it was. */
lh_status lh_text_buffer_append(lh_text_buffer *buffer, const char *bytes, size_t length,
                                lh_error *error);
/* To standard output, all of it at once. LH_ERR_IO. */
lh_status lh_text_buffer_print(const lh_text_buffer *buffer, lh_error *error);
