/* One walk over the bytes, which minds strings and nothing else of the structure. */
#include "common/json/json_repair.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ESCAPE_BYTES 6u /* \uXXXX */
/* Fewer digits than a number of 64 bits may have. */
#define DIGITS_SURE 18u
/* More digits than the largest double has. */
#define DIGITS_MAX 300u

typedef struct walk {
    const char *bytes;
    size_t length, at;
    char *copy;
    lh_json_repairs repairs;
} walk;

size_t lh_json_mark_length(const char *bytes, size_t length) {
    return length >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
}

static void put(walk *w, size_t at, const char *text, size_t length) {
    if (w->copy)
        memcpy(w->copy + at, text, length);
}

/* ---- Texts ---- */

/* -1: it is none. */
static int32_t hex_value(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

/* The unit of UTF-16 that is escaped at a place; -1: none is. */
static int32_t unit_at(const walk *w, size_t at) {
    int32_t unit = 0;
    if (at + ESCAPE_BYTES > w->length || w->bytes[at] != '\\' || w->bytes[at + 1] != 'u')
        return -1;
    for (size_t i = 2; i < ESCAPE_BYTES; i++) {
        int32_t value = hex_value(w->bytes[at + i]);
        if (value < 0)
            return -1;
        unit = unit * 16 + value;
    }
    return unit;
}

static bool is_high(int32_t unit) {
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool is_low(int32_t unit) {
    return unit >= 0xdc00 && unit < 0xe000;
}

/* At a backslash: over the escape, or the pair of them. */
static void take_escape(walk *w) {
    int32_t unit = unit_at(w, w->at);
    if (unit < 0) {
        w->at += 2;
        return;
    }
    if (is_high(unit) && is_low(unit_at(w, w->at + ESCAPE_BYTES))) {
        w->at += 2 * ESCAPE_BYTES;
        return;
    }
    if (unit == 0 || is_high(unit) || is_low(unit)) {
        put(w, w->at, "\\ufffd", ESCAPE_BYTES);
        w->repairs.characters++;
    }
    w->at += ESCAPE_BYTES;
}

/* Half a pair in UTF-8, which has no place for it (RFC 3629). */
static bool is_half_pair(const walk *w) {
    const unsigned char *at = (const unsigned char *)w->bytes + w->at;
    return w->length - w->at >= 3 && at[0] == 0xed && at[1] >= 0xa0 && at[1] <= 0xbf &&
           (at[2] & 0xc0) == 0x80;
}

/* Behind the quotation mark. */
static void take_text(walk *w) {
    while (w->at < w->length && w->bytes[w->at] != '"') {
        if (w->bytes[w->at] == '\\') {
            take_escape(w);
        } else if (is_half_pair(w)) {
            put(w, w->at, "\xEF\xBF\xBD", 3);
            w->repairs.characters++;
            w->at += 3;
        } else {
            w->at++;
        }
    }
    w->at++;
}

/* ---- Numbers ---- */

/* More digits than a double has: about as large as any. */
static void put_largest(walk *w, size_t from, size_t digits) {
    if (w->copy)
        memset(w->copy + from, '0', digits);
    put(w, from, "9e", 2);
    put(w, from + digits - 3, "300", 3);
    w->repairs.numbers++;
}

/* The last two digits become an exponent. */
static void take_integer(walk *w, size_t from, size_t digits) {
    char text[DIGITS_MAX + 2];
    if (digits > DIGITS_MAX) {
        put_largest(w, from, digits);
        return;
    }
    bool is_negative = from > 0 && w->bytes[from - 1] == '-';
    text[0] = is_negative ? '-' : '+';
    memcpy(text + 1, w->bytes + from, digits);
    text[digits + 1] = '\0';
    errno = 0;
    (void)strtoll(text, NULL, 10);
    if (errno != ERANGE)
        return;
    put(w, from + digits - 2, "e2", 2);
    w->repairs.numbers++;
}

/* Takes a number that has a point or an exponent. exponent_digits: the length of the exponent,
 * which ends the number. */
static void take_real(walk *w, size_t from, size_t length, size_t exponent_digits) {
    char text[DIGITS_MAX + 1];
    size_t end = from + length;
    if (length > DIGITS_MAX || exponent_digits < 3)
        return; /* a long fraction, which is small */
    memcpy(text, w->bytes + from, length);
    text[length] = '\0';
    if (isfinite(strtod(text, NULL)))
        return;
    if (w->copy)
        memset(w->copy + end - exponent_digits, '0', exponent_digits);
    put(w, end - 3, "200", 3);
    w->repairs.numbers++;
}

static size_t count_digits(const walk *w, size_t from) {
    size_t count = 0;
    while (from + count < w->length && w->bytes[from + count] >= '0' &&
           w->bytes[from + count] <= '9')
        count++;
    return count;
}

static bool is_any(const walk *w, size_t at, const char *of) {
    return at < w->length && w->bytes[at] && strchr(of, w->bytes[at]);
}

/* At its first digit. */
static void take_number(walk *w) {
    size_t from = w->at, digits = count_digits(w, from), end = from + digits, exponent = 0;
    if (is_any(w, end, "."))
        end += 1 + count_digits(w, end + 1);
    if (is_any(w, end, "eE")) {
        size_t sign = is_any(w, end + 1, "+-");
        exponent = count_digits(w, end + 1 + sign);
        end += 1 + sign + exponent;
    }
    w->at = end;
    if (end > from + digits)
        take_real(w, from, end - from, exponent);
    else if (digits > DIGITS_SURE)
        take_integer(w, from, digits);
}

lh_json_repairs lh_json_repair(const char *bytes, size_t length, char *copy) {
    walk w = {.bytes = bytes, .length = length, .copy = copy};
    while (w.at < length) {
        char byte = bytes[w.at];
        if (byte >= '0' && byte <= '9') {
            take_number(&w);
            continue;
        }
        w.at++;
        if (byte == '"')
            take_text(&w);
    }
    return w.repairs;
}
