/* Times as people write them. */
#include "gateway/cli/duration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void reads_each_unit(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t seconds;
    } right[] = {{"1s", 1}, {"90s", 90}, {"30m", 1800}, {"1h", 3600}, {"7d", 604800}};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        int64_t seconds = 0;
        assert_int_equal(lh_duration_parse("--ttl", right[i].text, 1, 604800, &seconds, NULL),
                         LH_OK);
        assert_int_equal(seconds, right[i].seconds);
    }
}

static void refuses_what_is_no_time(void **state) {
    (void)state;
    static const char *const wrong[] = {"",
                                        "1",
                                        "h",
                                        "1x",
                                        "-1h",
                                        "1hh",
                                        "1 h",
                                        " 1h",
                                        "1.5h",
                                        "99999999999999999999s",
                                        "9223372036854775807d"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int64_t seconds;
        lh_error error;
        assert_int_equal(lh_duration_parse("--ttl", wrong[i], 0, INT64_MAX, &seconds, &error),
                         LH_ERR_INVALID);
        assert_non_null(strstr(error.message, "--ttl"));
    }
}

static void keeps_to_its_range(void **state) {
    (void)state;
    int64_t seconds;
    assert_int_equal(lh_duration_parse("--ttl", "59s", 60, 3600, &seconds, NULL), LH_ERR_INVALID);
    assert_int_equal(lh_duration_parse("--ttl", "60s", 60, 3600, &seconds, NULL), LH_OK);
    assert_int_equal(lh_duration_parse("--ttl", "61m", 60, 3600, &seconds, NULL), LH_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_each_unit),
        cmocka_unit_test(refuses_what_is_no_time),
        cmocka_unit_test(keeps_to_its_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
