/* libunistring's tables, with ASCII answered first. */
#include "gateway/text/jinja/unicode.h"

#include <string.h>
#include <unicase.h>
#include <unictype.h>

size_t jinja_utf8_encode(uint32_t character, char bytes[4]) {
    if (character < 0x80) {
        bytes[0] = (char)character;
        return 1;
    }
    size_t length = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    static const uint8_t heads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = length; i-- > 1; character >>= 6)
        bytes[i] = (char)(0x80 | (character & 0x3F));
    bytes[0] = (char)(heads[length] | character);
    return length;
}

bool jinja_is_space(uint32_t character) {
    return (character >= 9 && character <= 13) || (character >= 28 && character <= 32) ||
           character == 0x85 || character == 0xA0 || character == 0x1680 ||
           (character >= 0x2000 && character <= 0x200A) || character == 0x2028 ||
           character == 0x2029 || character == 0x202F || character == 0x205F || character == 0x3000;
}

bool jinja_is_line_end(uint32_t character) {
    return (character >= 10 && character <= 13) || (character >= 28 && character <= 30) ||
           character == 0x85 || character == 0x2028 || character == 0x2029;
}

static bool is_ascii_letter(uint32_t character) {
    return (character | 32) >= 'a' && (character | 32) <= 'z';
}

static bool is_ascii_digit(uint32_t character) {
    return character >= '0' && character <= '9';
}

bool jinja_is_alphabetic(uint32_t character) {
    if (character < 0x80)
        return is_ascii_letter(character);
    return uc_is_general_category_withtable(character, UC_CATEGORY_MASK_L);
}

bool jinja_is_decimal(uint32_t character) {
    if (character < 0x80)
        return is_ascii_digit(character);
    return uc_is_general_category_withtable(character, UC_CATEGORY_MASK_Nd);
}

bool jinja_is_digit(uint32_t character) {
    return character < 0x80 ? is_ascii_digit(character) : uc_digit_value(character) >= 0;
}

bool jinja_is_numeric(uint32_t character) {
    return character < 0x80 ? is_ascii_digit(character)
                            : uc_numeric_value(character).denominator != 0;
}

bool jinja_is_upper(uint32_t character) {
    return character < 0x80 ? character >= 'A' && character <= 'Z'
                            : uc_is_property_uppercase(character);
}

bool jinja_is_lower(uint32_t character) {
    return character < 0x80 ? character >= 'a' && character <= 'z'
                            : uc_is_property_lowercase(character);
}

bool jinja_is_title(uint32_t character) {
    return character >= 0x80 && uc_is_general_category_withtable(character, UC_CATEGORY_MASK_Lt);
}

bool jinja_is_cased(uint32_t character) {
    return jinja_is_upper(character) || jinja_is_lower(character) || jinja_is_title(character);
}

bool jinja_is_case_ignorable(uint32_t character) {
    return uc_is_property_case_ignorable(character);
}

bool jinja_is_printable(uint32_t character) {
    if (character < 0x80)
        return character >= 32 && character < 127;
    return !uc_is_general_category_withtable(character, UC_CATEGORY_MASK_C | UC_CATEGORY_MASK_Z);
}

bool jinja_is_name_start(uint32_t character) {
    return is_ascii_letter(character) || character == '_' ||
           (character >= 0x80 && uc_is_property_xid_start(character));
}

bool jinja_is_name_part(uint32_t character) {
    return jinja_is_name_start(character) || is_ascii_digit(character) ||
           (character >= 0x80 && uc_is_property_xid_continue(character));
}

static size_t map_ascii(uint32_t character, jinja_case to, char *bytes) {
    bool to_small = to == JINJA_LOWER || to == JINJA_FOLDED;
    if (to_small && jinja_is_upper(character))
        character += 32;
    else if (!to_small && jinja_is_lower(character))
        character -= 32;
    bytes[0] = (char)character;
    return 1;
}

size_t jinja_case_map(uint32_t character, jinja_case to, char bytes[JINJA_CASE_BYTES_MAX]) {
    if (character < 0x80)
        return map_ascii(character, to, bytes);
    char plain[4];
    size_t length = jinja_utf8_encode(character, plain), mapped = JINJA_CASE_BYTES_MAX;
    uint8_t *(*map)(const uint8_t *, size_t, const char *, uninorm_t, uint8_t *, size_t *) =
        to == JINJA_UPPER    ? u8_toupper
        : to == JINJA_LOWER  ? u8_tolower
        : to == JINJA_FOLDED ? u8_casefold
                             : u8_totitle;
    /* A mapping has up to three characters, so the buffer is large enough; with another one, or
     * none, the character stays as it is. */
    if (map((const uint8_t *)plain, length, NULL, NULL, (uint8_t *)bytes, &mapped) ==
        (uint8_t *)bytes)
        return mapped;
    memcpy(bytes, plain, length);
    return length;
}
