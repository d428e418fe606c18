/* Names of workers, sites and chains. */
#include "common/base/name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_names(void **state) {
    (void)state;
    char longest[65];
    memset(longest, 'a', 64);
    longest[64] = '\0';
    assert_false(lh_name_is_valid(longest));
    longest[63] = '\0';
    assert_true(lh_name_is_valid(longest));
    assert_true(lh_name_is_valid("A.b_c-9"));
    assert_false(lh_name_is_valid(""));
    assert_false(lh_name_is_valid("a b"));
    assert_false(lh_name_is_valid("a/b"));
    assert_false(lh_name_is_valid("."));
    assert_false(lh_name_is_valid(".."));
    assert_true(lh_name_is_valid("..."));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
