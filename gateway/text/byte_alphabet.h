/* GPT-2's alphabet: byte-level vocabularies are written in 256 printable characters, one for each
 * byte, so that they survive in text files. A space is U+0120, a line feed is U+010A. Thread: any.
 */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Decodes text[length] to bytes[at most length]. LH_ERR_MALFORMED: not UTF-8, or a character
 * outside the alphabet (named). */
lh_status lh_byte_alphabet_decode(const char *text, size_t length, char *bytes, size_t *count,
                                  lh_error *error);
