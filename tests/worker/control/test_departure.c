/* When a worker that leaves may go. */
#include "tests/support/failing_malloc.h"
#include "worker/control/departure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_one_that_stays_is_never_let_go(void **state) {
    (void)state;
    lh_departure d = {0};
    const lh_assignment_reply may_go = {.has_leave = true, .may_go = true, .is_planned = true};
    assert_false(lh_departure_hear(&d, &may_go));
    assert_string_equal(d.reason, "");
    for (int i = 0; i < 5; i++)
        assert_false(lh_departure_note_failure(&d, false));
}

static void test_the_gateway_lets_it_go(void **state) {
    (void)state;
    lh_departure d = {.is_leaving = true};
    lh_assignment_reply answer = {
        .is_planned = true, .has_leave = true, .leave_reason = "others load"};
    assert_false(lh_departure_hear(&d, &answer)); /* whether it has an assignment or not */
    assert_string_equal(d.reason, "others load");
    strcpy(answer.leave_reason, "");
    assert_false(lh_departure_hear(&d, &answer));
    assert_string_equal(d.reason, "");
    answer.may_go = answer.has_assignment = true;
    assert_true(lh_departure_hear(&d, &answer));
}

static void test_an_older_gateway_takes_its_assignment_away(void **state) {
    (void)state;
    lh_departure d = {.is_leaving = true};
    lh_assignment_reply answer = {.is_planned = true, .has_assignment = true, .may_go = true};
    assert_false(lh_departure_hear(&d, &answer));
    answer.has_assignment = answer.is_planned = false; /* it has no plan: what is there stays */
    assert_false(lh_departure_hear(&d, &answer));
    answer.is_planned = true;
    assert_true(lh_departure_hear(&d, &answer));
}

static void test_the_third_silence_in_a_row_means_that_the_gateway_is_gone(void **state) {
    (void)state;
    lh_departure d = {.is_leaving = true};
    const lh_assignment_reply stay = {.is_planned = true, .has_assignment = true};
    assert_false(lh_departure_note_failure(&d, true));
    assert_false(lh_departure_note_failure(&d, true));
    assert_false(lh_departure_hear(&d, &stay));
    assert_false(lh_departure_note_failure(&d, true));
    assert_false(lh_departure_note_failure(&d, true));
    assert_true(lh_departure_note_failure(&d, true));
    d.failures = 0;
    assert_true(lh_departure_note_failure(&d, false)); /* nobody waits for what it has not */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_that_stays_is_never_let_go),
        cmocka_unit_test(test_the_gateway_lets_it_go),
        cmocka_unit_test(test_an_older_gateway_takes_its_assignment_away),
        cmocka_unit_test(test_the_third_silence_in_a_row_means_that_the_gateway_is_gone),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
