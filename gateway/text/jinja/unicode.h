/* What Python's str knows of a character. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

size_t jinja_utf8_encode(uint32_t character, char bytes[4]);
bool jinja_is_space(uint32_t character);
/* Where splitlines() ends a line. */
bool jinja_is_line_end(uint32_t character);
bool jinja_is_alphabetic(uint32_t character);
bool jinja_is_decimal(uint32_t character);
bool jinja_is_digit(uint32_t character);
bool jinja_is_numeric(uint32_t character);
bool jinja_is_upper(uint32_t character);
bool jinja_is_lower(uint32_t character);
bool jinja_is_title(uint32_t character);
bool jinja_is_cased(uint32_t character);
bool jinja_is_case_ignorable(uint32_t character);
bool jinja_is_printable(uint32_t character);
/* May a name begin with it, may it go on with it? */
bool jinja_is_name_start(uint32_t character);
bool jinja_is_name_part(uint32_t character);

#define JINJA_CASE_BYTES_MAX 24

typedef enum jinja_case { JINJA_UPPER, JINJA_LOWER, JINJA_TITLE, JINJA_FOLDED } jinja_case;

/* The character in another case, which may be several characters; the bytes written. */
size_t jinja_case_map(uint32_t character, jinja_case to, char bytes[JINJA_CASE_BYTES_MAX]);
