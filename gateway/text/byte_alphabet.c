/* Bytes that are printable in Latin-1 stand for themselves; the 68 others follow from U+0100 on, in
 * ascending order. */
#include "gateway/text/byte_alphabet.h"

#include "common/base/utf8.h"

/* The byte of a character, or -1: 0..32 are U+0100..U+0120, 127..160 are U+0121..U+0142, 173 is
 * U+0143. */
static int byte_of(uint32_t character) {
    if ((character > 32 && character < 127) ||
        (character > 160 && character < 256 && character != 173))
        return (int)character;
    if (character >= 0x100 && character <= 0x120)
        return (int)(character - 0x100);
    if (character >= 0x121 && character <= 0x142)
        return (int)(character - 0x121) + 127;
    return character == 0x143 ? 173 : -1;
}

lh_status lh_byte_alphabet_decode(const char *text, size_t length, char *bytes, size_t *count,
                                  lh_error *error) {
    if (lh_utf8_valid_prefix(text, length) < length)
        return lh_fail(error, LH_ERR_MALFORMED, "is not UTF-8");
    const char *end = text + length;
    *count = 0;
    while (text < end) {
        uint32_t character = lh_utf8_decode(&text);
        int byte = byte_of(character);
        if (byte < 0)
            return lh_fail(error, LH_ERR_MALFORMED, "holds U+%04X, which stands for no byte",
                           character);
        bytes[(*count)++] = (char)byte;
    }
    return LH_OK;
}
