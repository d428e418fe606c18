/* Bytes of tokens in, whole UTF-8 characters out. A token may hold a part of a character; clients
 * decode each event as strict UTF-8, so half a character must never leave.
 *
 * Each maximal subpart of an ill-formed sequence becomes one U+FFFD (WHATWG; the same as Python's
 * and Rust's lossy decoding), so the pieces put together are what decoding the whole at once gives.
 * Thread: the owner's. */
#pragma once

#include "common/base/text_buffer.h"

#include <stdint.h>

typedef struct lh_text_decoder {
    char held[4]; /* the front of a character that may go on in the next token */
    uint8_t held_count;
} lh_text_decoder;

void lh_text_decoder_init(lh_text_decoder *decoder);

/* Appends the characters that bytes[length] completes to `out`. LH_ERR_NO_MEMORY. */
lh_status lh_text_decoder_push(lh_text_decoder *decoder, const char *bytes, size_t length,
                               lh_text_buffer *out, lh_error *error);

/* The end of the text: an incomplete character becomes one U+FFFD. The decoder is as after init.
 * LH_ERR_NO_MEMORY. */
lh_status lh_text_decoder_finish(lh_text_decoder *decoder, lh_text_buffer *out, lh_error *error);
