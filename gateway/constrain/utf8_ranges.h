/* A range of characters as ranges of bytes: U+0800 to U+FFFF is E0 A0-BF 80-BF and E1-EF 80-BF
 * 80-BF (RFC 3629). Thread: any. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct lh_byte_range {
    uint8_t first, last;
} lh_byte_range;

/* All characters whose bytes are in these ranges, one after the other. */
typedef struct lh_byte_ranges {
    lh_byte_range bytes[4];
    size_t length;
} lh_byte_ranges;

/* One range of characters becomes as many at most: three for each border of two to four bytes, and
 * each of the lengths. */
#define LH_UTF8_RANGES_MAX 32

/* Writes a character, no surrogate, in UTF-8 and gives the number of its bytes. */
size_t lh_utf8_encode(uint32_t character, uint8_t bytes[4]);

/* Writes what first .. last, which has no surrogates, is made of, in ascending order, apart from
 * each other; two of the same length begin with the same range or with ranges apart. Gives their
 * number. */
size_t lh_utf8_ranges(uint32_t first, uint32_t last, lh_byte_ranges ranges[LH_UTF8_RANGES_MAX]);
