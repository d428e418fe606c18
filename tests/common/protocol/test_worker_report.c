/* A report's texts. */
#include "common/protocol/worker_report.h"
#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_an_error_is_cut_at_a_character(void **state) {
    (void)state;
    lh_worker_report report = {0};
    char error[400];
    memset(error, 'x', sizeof(error));
    error[sizeof(error) - 1] = '\0';
    memcpy(error + 254, "\xc3\xa4", 2); /* the character that does not fit is left out whole */
    lh_worker_report_copy_error(report.assignment.error, error);
    assert_int_equal(strlen(report.assignment.error), 254);
    error[253] = '\0';
    lh_worker_report_copy_error(report.assignment.error, error);
    assert_int_equal(strlen(report.assignment.error), 253);
    lh_worker_report_copy_error(report.assignment.error, "\xc3\xa4");
    assert_string_equal(report.assignment.error, "\xc3\xa4");
    lh_worker_report_copy_error(report.assignment.error, "");
    assert_string_equal(report.assignment.error, "");
    memset(error, 0x80, sizeof(error) - 1); /* no character begins at all */
    error[sizeof(error) - 1] = '\0';
    lh_worker_report_copy_error(report.assignment.error, error);
    assert_string_equal(report.assignment.error, "");
}

static void test_states_have_names(void **state) {
    (void)state;
    assert_string_equal(lh_worker_stage_state_name(LH_WORKER_IDLE), "idle");
    assert_string_equal(lh_worker_stage_state_name(LH_WORKER_FETCHING), "fetching");
    assert_string_equal(lh_worker_stage_state_name(LH_WORKER_LOADING), "loading");
    assert_string_equal(lh_worker_stage_state_name(LH_WORKER_READY), "ready");
    assert_string_equal(lh_worker_stage_state_name(LH_WORKER_FAILED), "failed");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_error_is_cut_at_a_character),
        cmocka_unit_test(test_states_have_names),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
