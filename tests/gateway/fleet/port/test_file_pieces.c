/* What is named lies in the file, and each byte is where it is said to be. */
#include "gateway/fleet/port/file_pieces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void four_numbers_are_read(void **state) {
    (void)state;
    lh_file_pieces p;
    assert_int_equal(lh_file_pieces_parse("100-7-20-3", 147, &p), LH_OK);
    assert_true(p.offset == 100 && p.bytes == 7 && p.stride == 20 && p.count == 3);
    assert_int_equal(lh_file_pieces_size(&p), 21);
    assert_int_equal(lh_file_pieces_parse("0-5-5-1", 5, &p), LH_OK);
}

static void what_is_no_such_name_is_refused(void **state) {
    (void)state;
    static const char *const malformed[] = {"",
                                            "1",
                                            "1-2-3",
                                            "1-2-3-",
                                            "1-2-3-4 ",
                                            " 1-2-3-4",
                                            "1-2-3-4-5",
                                            "1--2-3",
                                            "1-2-3-0x4",
                                            "-1-2-3-4",
                                            "a-2-3-4",
                                            "1-2-3-4/",
                                            "1-2-3-99999999999999999999",
                                            "+1-2-3-4"};
    static const char *const outside[] = {"0-0-5-1",
                                          "0-5-5-0",
                                          "0-5-4-2",
                                          "100-7-20-4",
                                          "141-7-20-1",
                                          "18446744073709551615-1-1-1",
                                          "0-1-18446744073709551615-3",
                                          "0-18446744073709551615-18446744073709551615-2"};
    lh_file_pieces p;
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++)
        assert_int_equal(lh_file_pieces_parse(malformed[i], 147, &p), LH_ERR_MALFORMED);
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        assert_int_equal(lh_file_pieces_parse(outside[i], 147, &p), LH_ERR_LIMIT);
}

static void each_byte_is_found(void **state) {
    (void)state;
    const lh_file_pieces p = {100, 7, 20, 3};
    for (uint64_t position = 0; position < 21; position++)
        for (uint64_t length = 1; length <= 21 - position; length++) {
            const lh_piece_extent extent = lh_file_pieces_at(&p, position, length);
            assert_int_equal(extent.offset, 100 + position / 7 * 20 + position % 7);
            assert_true(extent.bytes > 0 && extent.bytes <= length);
            assert_true(extent.bytes == length || position % 7 + extent.bytes == 7);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_numbers_are_read),
        cmocka_unit_test(what_is_no_such_name_is_refused),
        cmocka_unit_test(each_byte_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
