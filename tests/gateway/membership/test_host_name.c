/* What may stand in a certificate as a host. */
#include "gateway/membership/host_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void tells_hosts_from_others(void **state) {
    (void)state;
    static const char *const right[] = {"office", "office.example", "a-b.c_d", "1.2.3.4",
                                        "::1",    "fd00::1:2",      "4office", "x.1"};
    static const char *const wrong[] = {
        "",  ".",   "a..b",  "a.",        "-a",  "a-",    "a b", "a,b",       "a:b",
        "*", "*.a", "1.2.3", "256.1.1.1", "a/b", "URI:x", "a\n", "1.2.3.4.5", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        assert_true(lh_host_name_is_valid(right[i]));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_false(lh_host_name_is_valid(wrong[i]));
    char longest[LH_HOST_NAME_BYTES + 1];
    memset(longest, 'a', sizeof longest);
    for (size_t i = 60; i < sizeof longest; i += 60)
        longest[i] = '.';
    longest[LH_HOST_NAME_BYTES] = '\0';
    assert_false(lh_host_name_is_valid(longest));
    longest[LH_HOST_NAME_BYTES - 1] = '\0';
    assert_true(lh_host_name_is_valid(longest));
}

static void compares_names_and_addresses(void **state) {
    (void)state;
    assert_true(lh_host_name_is_same("Office.example", "office.EXAMPLE"));
    assert_false(lh_host_name_is_same("office.example", "office"));
    assert_true(lh_host_name_is_same("::1", "0:0::1"));
    assert_false(lh_host_name_is_same("::1", "127.0.0.1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tells_hosts_from_others),
        cmocka_unit_test(compares_names_and_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
