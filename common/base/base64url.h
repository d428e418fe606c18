/* Bytes as base64url without padding (RFC 4648, section 5). Strict: each sequence of bytes has one
 * text, and no other is taken. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the text of so many bytes takes, with its terminator. */
#define LH_BASE64URL_TEXT_BYTES(count) (((count) * 8 + 5) / 6 + 1)

void lh_base64url_render(const uint8_t *bytes, size_t count, char *text);
/* Fills bytes[count] from text[length]. False, and the bytes are of no use: another length, a
 * letter that is not of the alphabet, or bits left over that are not 0. */
bool lh_base64url_parse(const char *text, size_t length, uint8_t *bytes, size_t count);
