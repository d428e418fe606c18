/* Three bytes, four letters. */
#include "common/base/base64.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void lh_base64_render(const uint8_t *bytes, size_t count, char *text) {
    for (size_t i = 0; i < count; i += 3) {
        size_t left = count - i;
        uint32_t bits = (uint32_t)bytes[i] << 16 | (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                        (left > 2 ? bytes[i + 2] : 0);
        *text++ = letters[bits >> 18];
        *text++ = letters[bits >> 12 & 63];
        *text++ = left > 1 ? letters[bits >> 6 & 63] : '=';
        *text++ = left > 2 ? letters[bits & 63] : '=';
    }
    *text = '\0';
}
