/* UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, nothing above U+10FFFF. Thread: any.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Bytes at the front of bytes[length] that are valid UTF-8: `length` when all of it is. */
size_t lh_utf8_valid_prefix(const char *bytes, size_t length);

typedef enum lh_utf8_form {
    LH_UTF8_WHOLE,  /* one character of *size bytes */
    LH_UTF8_BROKEN, /* *size bytes that no character begins with: one U+FFFD stands for them all */
    LH_UTF8_CUT     /* the bytes end inside a character; *size is all of them */
} lh_utf8_form;

/* What stands at the front of bytes[length], length > 0. A broken sequence is cut where WHATWG and
 * Unicode ("maximal subpart") cut it, as Rust, Python and browsers do. */
lh_utf8_form lh_utf8_next(const char *bytes, size_t length, size_t *size);

/* Decodes one character of valid UTF-8 at *bytes and moves it on. */
uint32_t lh_utf8_decode(const char **bytes);
/* Characters of valid UTF-8. */
size_t lh_utf8_count(const char *bytes, size_t length);
