/* Six bits a letter. */
#include "common/base/base64url.h"

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void lh_base64url_render(const uint8_t *bytes, size_t count, char *text) {
    uint32_t bits = 0;
    unsigned held = 0;
    for (size_t i = 0; i < count; i++) {
        bits = bits << 8 | bytes[i];
        for (held += 8; held >= 6; held -= 6)
            *text++ = letters[bits >> (held - 6) & 63];
    }
    if (held > 0)
        *text++ = letters[bits << (6 - held) & 63];
    *text = '\0';
}

/* -1: none of the alphabet. */
static int value_of(char letter) {
    for (int i = 0; i < 64; i++)
        if (letters[i] == letter)
            return i;
    return -1;
}

bool lh_base64url_parse(const char *text, size_t length, uint8_t *bytes, size_t count) {
    if (length != LH_BASE64URL_TEXT_BYTES(count) - 1)
        return false;
    uint32_t bits = 0;
    unsigned held = 0;
    size_t filled = 0;
    for (size_t i = 0; i < length; i++) {
        int value = value_of(text[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        held += 6;
        if (held >= 8) {
            held -= 8;
            bytes[filled++] = (uint8_t)(bits >> held);
        }
    }
    return (bits & ((1u << held) - 1)) == 0;
}
