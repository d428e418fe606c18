/* The Range header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/port/byte_range.h"
#include "tests/support/failing_malloc.h"

static const struct {
    const char *header;
    uint64_t file_bytes;
    lh_status status;
    uint64_t offset, length;
} cases[] = {
    {"bytes=0-0", 10, LH_OK, 0, 1},
    {"bytes=0-9", 10, LH_OK, 0, 10},
    {"bytes=3-5", 10, LH_OK, 3, 3},
    {" bytes=3-5 ", 10, LH_OK, 3, 3},
    {"bytes=3-100", 10, LH_OK, 3, 7},
    {"bytes=3-18446744073709551615", 10, LH_OK, 3, 7},
    {"bytes=3-", 10, LH_OK, 3, 7},
    {"bytes=-3", 10, LH_OK, 7, 3},
    {"bytes=-30", 10, LH_OK, 0, 10},
    {"bytes=10-12", 10, LH_ERR_LIMIT, 0, 0},
    {"bytes=10-", 10, LH_ERR_LIMIT, 0, 0},
    {"bytes=-0", 10, LH_ERR_LIMIT, 0, 0},
    {"bytes=0-0", 0, LH_ERR_LIMIT, 0, 0},
    {"bytes=5-3", 10, LH_ERR_MALFORMED, 0, 0},
    {"bytes=", 10, LH_ERR_MALFORMED, 0, 0},
    {"bytes=-", 10, LH_ERR_MALFORMED, 0, 0},
    {"bytes=a-b", 10, LH_ERR_MALFORMED, 0, 0},
    {"bytes=1", 10, LH_ERR_MALFORMED, 0, 0},
    {"bytes=1-2x", 10, LH_ERR_MALFORMED, 0, 0},
    {"bytes= 1-2", 10, LH_ERR_MALFORMED, 0, 0},
    {"bytes=18446744073709551616-", 10, LH_ERR_MALFORMED, 0, 0},
    {"bytes=0-99999999999999999999", 10, LH_ERR_MALFORMED, 0, 0},
    {"bytes=+1-2", 10, LH_ERR_MALFORMED, 0, 0},
    {"bytes=0-1,3-4", 10, LH_ERR_UNSUPPORTED, 0, 0},
    {"items=0-1", 10, LH_ERR_UNSUPPORTED, 0, 0},
    {"bytes=-5", 0, LH_ERR_LIMIT, 0, 0},
    {"bytes=0-", 0, LH_ERR_LIMIT, 0, 0},
    {"", 10, LH_ERR_UNSUPPORTED, 0, 0},
};

static void every_form(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        lh_byte_range range = {0};
        lh_status status = lh_byte_range_parse(cases[i].header, cases[i].file_bytes, &range);
        if (status != cases[i].status)
            fail_msg("\"%s\" gave %s", cases[i].header, lh_status_name(status));
        if (status != LH_OK)
            continue;
        assert_int_equal(range.offset, cases[i].offset);
        assert_int_equal(range.length, cases[i].length);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_form)};
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
