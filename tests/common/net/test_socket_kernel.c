#include "common/net/socket_kernel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void the_systems_own_choice_is_always_there(void **state) {
    (void)state;
    assert_int_equal(lh_socket_check_congestion_control("", NULL), LH_OK);
    assert_int_equal(lh_socket_check_congestion_control("reno", NULL), LH_OK); /* in every kernel */
}

static void an_unknown_one_is_refused_with_those_that_there_are(void **state) {
    (void)state;
    lh_error error;
    assert_int_equal(lh_socket_check_congestion_control("longhaul", &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "'longhaul'"));
    assert_non_null(strstr(error.message, "reno"));
    assert_int_equal(
        lh_socket_check_congestion_control("a-name-that-is-much-too-long-for-the-kernel", &error),
        LH_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_systems_own_choice_is_always_there),
        cmocka_unit_test(an_unknown_one_is_refused_with_those_that_there_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
