/* Each character of a range is in one of the ranges of bytes, and no other character is in any. */
#include "gateway/constrain/utf8_ranges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

static bool holds(const lh_byte_ranges *ranges, const uint8_t bytes[4], size_t length) {
    for (size_t i = 0; i < length; i++)
        if (ranges->length != length || bytes[i] < ranges->bytes[i].first ||
            bytes[i] > ranges->bytes[i].last)
            return false;
    return true;
}

/* Looks at the characters near the borders, and at every `stride`-th. */
static void check_range(uint32_t first, uint32_t last, uint32_t stride) {
    lh_byte_ranges ranges[LH_UTF8_RANGES_MAX];
    size_t count = lh_utf8_ranges(first, last, ranges);
    uint32_t near_first = first > 70 ? first - 70 : 0;
    for (uint32_t character = 0; character <= 0x10FFFF;) {
        uint8_t bytes[4];
        size_t length = lh_utf8_encode(character, bytes), found = 0;
        for (size_t i = 0; i < count; i++)
            found += holds(&ranges[i], bytes, length);
        if (found != (character >= first && character <= last))
            fail_msg("U+%04X .. U+%04X: U+%04X is in %zu", first, last, character, found);
        bool is_near = (character >= near_first && character <= first + 70) ||
                       (character + 70 >= last && character <= last + 70);
        character += is_near ? 1 : stride;
        if (!is_near && character > near_first && character - stride < near_first)
            character = near_first;
    }
}

static void ranges_are_cut(void **state) {
    (void)state;
    static const uint32_t borders[] = {0,       1,        0x7F,   0x80,   0x7FF,   0x800,   0xFFF,
                                       0x1000,  0xD7FF,   0xE000, 0xFFFF, 0x10000, 0x1F600, 0x3FFFF,
                                       0x40000, 0x10FFFF, 0xE9,   0x4E00, 0x9FFF,  0x12345};
    size_t count = sizeof borders / sizeof borders[0];
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++)
            if (borders[i] <= borders[k])
                check_range(borders[i], borders[k], 61);
}

static void random_ranges_are_cut(void **state) {
    (void)state;
    uint32_t seed = 1;
    for (size_t i = 0; i < 200; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t first = (seed >> 8) % (i % 2 ? 0x110000 : 0x3000);
        seed = seed * 1664525u + 1013904223u;
        uint32_t last = first + (seed >> 8) % (i % 3 ? 0x200 : 0x110000);
        check_range(first, last < 0x10FFFF ? last : 0x10FFFF, 211);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_cut),
        cmocka_unit_test(random_ranges_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
