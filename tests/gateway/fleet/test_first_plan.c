/* When the first plan is due: created at 1,000, last changed at 5,000, stable after 100. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/first_plan.h"
#include "tests/support/failing_malloc.h"

#define PATIENCE_US 60000000

static int64_t due(uint32_t workers, uint32_t expected) {
    return lh_first_plan_due_us(workers, expected, 100, 1000, 5000);
}

static void any_number_is_planned_when_it_is_stable(void **state) {
    (void)state;
    assert_int_equal(due(1, 0), 5100);
    assert_int_equal(due(9, 0), 5100);
}

static void the_expected_ones_are_planned_at_once(void **state) {
    (void)state;
    assert_int_equal(due(3, 3), 5000);
    assert_int_equal(due(4, 3), 5000);
}

static void one_that_does_not_come_is_waited_for_a_minute(void **state) {
    (void)state;
    assert_int_equal(due(2, 3), 1000 + PATIENCE_US);
    assert_int_equal(lh_first_plan_due_us(2, 3, 100, 1000, 950 + PATIENCE_US), 1050 + PATIENCE_US);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_is_planned_when_it_is_stable),
        cmocka_unit_test(the_expected_ones_are_planned_at_once),
        cmocka_unit_test(one_that_does_not_come_is_waited_for_a_minute),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
