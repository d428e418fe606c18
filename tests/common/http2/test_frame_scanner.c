#include "common/http2/frame_scanner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A preface of 3 bytes, a DATA frame of 2, an empty SETTINGS, one of type 200 with 5. */
static const uint8_t wire[] = {'P', 'R', 'I', 0, 0, 2, 0, 1,   0, 0, 0, 1, 7, 7, 0, 0, 0, 4, 1,
                               0,   0,   0,   0, 0, 0, 5, 200, 9, 0, 0, 0, 1, 1, 2, 3, 4, 5};
static const lh_h2_frame_header frames[] = {{2, 0, 1}, {0, 4, 1}, {5, 200, 9}};

/* In pieces of this many bytes. */
static void expect_frames(size_t piece) {
    lh_h2_frame_scanner scanner;
    lh_h2_frame_header header;
    size_t found = 0;
    lh_h2_frame_scanner_init(&scanner, 3);
    for (size_t at = 0; at < sizeof wire; at += piece) {
        const uint8_t *bytes = wire + at;
        size_t length = sizeof wire - at < piece ? sizeof wire - at : piece;
        const uint8_t *end = bytes + length;
        while (lh_h2_frame_scanner_next(&scanner, &bytes, &length, &header)) {
            assert_true(found < 3);
            assert_int_equal(header.length, frames[found].length);
            assert_int_equal(header.type, frames[found].type);
            assert_int_equal(header.flags, frames[found].flags);
            found++;
        }
        assert_int_equal(length, 0);
        assert_ptr_equal(bytes, end);
    }
    assert_int_equal(found, 3);
}

static void frames_are_found_however_they_are_cut(void **state) {
    (void)state;
    for (size_t piece = 1; piece <= sizeof wire; piece++)
        expect_frames(piece);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(frames_are_found_however_they_are_cut)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
