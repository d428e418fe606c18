/* How long to wait after a failure. */
#include "worker/membership/renewal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { DAY_S = 86400 };

static void pauses_grow_to_an_hour(void **state) {
    (void)state;
    assert_int_equal(lh_renewal_pause_s(1, 10 * DAY_S), 1);
    assert_int_equal(lh_renewal_pause_s(2, 10 * DAY_S), 2);
    assert_int_equal(lh_renewal_pause_s(5, 10 * DAY_S), 16);
    for (int failures = 13; failures < 100; failures++)
        assert_int_equal(lh_renewal_pause_s(failures, 10 * DAY_S), 3600);
}

static void towards_the_end_it_is_tried_more_often(void **state) {
    (void)state;
    assert_int_equal(lh_renewal_pause_s(20, 8000), 1000);
    assert_int_equal(lh_renewal_pause_s(20, 80), 10);
    assert_int_equal(lh_renewal_pause_s(20, 8), 1);
    assert_int_equal(lh_renewal_pause_s(20, -5 * DAY_S), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pauses_grow_to_an_hour),
                                       cmocka_unit_test(towards_the_end_it_is_tried_more_often)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
