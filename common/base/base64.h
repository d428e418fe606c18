/* Base64 with its own alphabet and padding (RFC 4648, 4). Thread: any. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* With the final NUL. */
#define LH_BASE64_TEXT_BYTES(count) (((count) + 2) / 3 * 4 + 1)

/* Writes LH_BASE64_TEXT_BYTES(count) of text. */
void lh_base64_render(const uint8_t *bytes, size_t count, char *text);
