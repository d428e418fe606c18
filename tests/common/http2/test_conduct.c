#include "common/http2/conduct.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* How many of them a peer may make before the next one is refused. */
static int allowance(lh_h2_conduct *conduct,
                     lh_status (*count)(lh_h2_conduct *conduct, lh_error *error), lh_error *error) {
    int counted = 0;
    while (count(conduct, error) == LH_OK)
        counted++;
    return counted;
}

static void faults_are_allowed_by_what_went_well(void **state) {
    (void)state;
    lh_error error;
    lh_h2_conduct fresh = {0}, earned = {.completed = 800}, nearly = {.completed = 7};
    assert_int_equal(allowance(&fresh, lh_h2_conduct_count_fault, &error), 64);
    assert_int_equal(error.status, LH_ERR_LIMIT);
    assert_string_equal(error.message, "the peer made 65 protocol faults");
    assert_int_equal(allowance(&earned, lh_h2_conduct_count_fault, &error), 64 + 100);
    assert_int_equal(allowance(&nearly, lh_h2_conduct_count_fault, &error), 64);
}

static void resets_are_allowed_by_what_went_well(void **state) {
    (void)state;
    lh_error error;
    lh_h2_conduct fresh = {0}, earned = {.completed = 801};
    assert_int_equal(allowance(&fresh, lh_h2_conduct_count_reset, &error), 500);
    assert_int_equal(error.status, LH_ERR_LIMIT);
    assert_string_equal(error.message, "the peer made 501 resets of streams");
    assert_int_equal(allowance(&earned, lh_h2_conduct_count_reset, &error), 500 + 400);
    assert_int_equal(lh_h2_conduct_count_fault(&earned, &error), LH_OK); /* counts of its own */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_allowed_by_what_went_well),
        cmocka_unit_test(resets_are_allowed_by_what_went_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
