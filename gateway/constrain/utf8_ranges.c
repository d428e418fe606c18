/* A range is cut until its first and last character differ in one byte, behind which both have all
 * that can be there. */
#include "gateway/constrain/utf8_ranges.h"

#include "common/base/arithmetic.h"

#include <assert.h>

#define LENGTHS 4

static const uint32_t last_of_length[LENGTHS] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};

static void encode(uint32_t character, size_t length, uint8_t bytes[4]) {
    static const uint8_t lead[LENGTHS] = {0x00, 0xC0, 0xE0, 0xF0};
    for (size_t i = length; i-- > 1; character >>= 6)
        bytes[i] = (uint8_t)(0x80 | (character & 0x3F));
    bytes[0] = (uint8_t)(lead[length - 1] | character);
}

size_t lh_utf8_encode(uint32_t character, uint8_t bytes[4]) {
    size_t length = 1;
    assert(character <= last_of_length[LENGTHS - 1]);
    while (character > last_of_length[length - 1])
        length++;
    encode(character, length, bytes);
    return length;
}

/* What is left of the range, and what was made of it. */
typedef struct cutting {
    lh_byte_ranges *ranges;
    size_t count;
} cutting;

static void push(cutting *own, uint32_t first, uint32_t last, size_t length) {
    uint8_t low[4], high[4];
    encode(first, length, low);
    encode(last, length, high);
    assert(own->count < LH_UTF8_RANGES_MAX);
    lh_byte_ranges *made = &own->ranges[own->count++];
    made->length = length;
    for (size_t i = 0; i < length; i++)
        made->bytes[i] = (lh_byte_range){low[i], high[i]};
}

/* The last character of a range that begins with `first` and can be written as one. */
static uint32_t end_of_piece(uint32_t first, uint32_t last, size_t length) {
    for (size_t tail = 1; tail < length; tail++) {
        uint32_t below = (1u << (6 * tail)) - 1; /* what the last `tail` bytes hold */
        if ((first & ~below) == (last & ~below))
            continue; /* they differ within the tail only */
        if ((first & below) != 0)
            return first | below;
        if ((last & below) != below)
            return (last & ~below) - 1;
    }
    return last;
}

static void cut(cutting *own, uint32_t first, uint32_t last, size_t length) {
    while (first <= last) {
        uint32_t end = end_of_piece(first, last, length);
        while (end != end_of_piece(first, end, length))
            end = end_of_piece(first, end, length);
        push(own, first, end, length);
        first = end + 1;
    }
}

size_t lh_utf8_ranges(uint32_t first, uint32_t last, lh_byte_ranges ranges[LH_UTF8_RANGES_MAX]) {
    cutting own = {ranges, 0};
    for (size_t length = 1; length <= LENGTHS && first <= last; length++) {
        uint32_t end = lh_min_u32(last, last_of_length[length - 1]);
        if (first <= end) {
            cut(&own, first, end, length);
            first = end + 1;
        }
    }
    return own.count;
}
