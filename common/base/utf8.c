/* UTF-8: Unicode standard, table 3-7. */
#include "common/base/utf8.h"

/* Bytes of a character by its lead, and the bounds of the byte after the lead; 0: no lead. */
static size_t lead(uint8_t byte, uint8_t *low, uint8_t *high) {
    *low = 0x80;
    *high = 0xBF;
    if (byte < 0x80)
        return 1;
    if (byte >= 0xC2 && byte <= 0xDF)
        return 2;
    if (byte >= 0xE0 && byte <= 0xEF) {
        *low = byte == 0xE0 ? 0xA0 : 0x80;  /* overlong */
        *high = byte == 0xED ? 0x9F : 0xBF; /* surrogates */
        return 3;
    }
    if (byte >= 0xF0 && byte <= 0xF4) {
        *low = byte == 0xF0 ? 0x90 : 0x80;  /* overlong */
        *high = byte == 0xF4 ? 0x8F : 0xBF; /* above U+10FFFF */
        return 4;
    }
    return 0;
}

lh_utf8_form lh_utf8_next(const char *bytes, size_t length, size_t *size) {
    uint8_t low, high;
    size_t whole = lead((uint8_t)bytes[0], &low, &high);
    *size = 1;
    if (whole == 0)
        return LH_UTF8_BROKEN;
    while (*size < whole) {
        if (*size == length)
            return LH_UTF8_CUT;
        uint8_t next = (uint8_t)bytes[*size];
        if (next < low || next > high)
            return LH_UTF8_BROKEN;
        low = 0x80;
        high = 0xBF;
        ++*size;
    }
    return LH_UTF8_WHOLE;
}

size_t lh_utf8_valid_prefix(const char *bytes, size_t length) {
    size_t at = 0, size;
    while (at < length)
        if ((uint8_t)bytes[at] < 0x80)
            at++;
        else if (lh_utf8_next(bytes + at, length - at, &size) == LH_UTF8_WHOLE)
            at += size;
        else
            break;
    return at;
}

uint32_t lh_utf8_decode(const char **bytes) {
    const uint8_t *at = (const uint8_t *)*bytes;
    if (at[0] < 0x80) {
        *bytes += 1;
        return at[0];
    }
    if (at[0] < 0xE0) {
        *bytes += 2;
        return (at[0] & 0x1FU) << 6 | (at[1] & 0x3FU);
    }
    if (at[0] < 0xF0) {
        *bytes += 3;
        return (at[0] & 0x0FU) << 12 | (at[1] & 0x3FU) << 6 | (at[2] & 0x3FU);
    }
    *bytes += 4;
    return (at[0] & 0x07U) << 18 | (at[1] & 0x3FU) << 12 | (at[2] & 0x3FU) << 6 | (at[3] & 0x3FU);
}

size_t lh_utf8_count(const char *bytes, size_t length) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return count;
}
