/* Numbers that only grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/epoch_counter.h"
#include "tests/support/failing_malloc.h"

#define SECOND 1000000

static void they_follow_the_clock_and_never_repeat(void **state) {
    (void)state;
    lh_epoch_counter counter;
    lh_epoch_counter_init(&counter, 1000, 0, 0, 5 * SECOND);
    assert_int_equal(lh_epoch_counter_next(&counter, 5 * SECOND), 1000);
    assert_int_equal(lh_epoch_counter_next(&counter, 7 * SECOND - 1), 1001);
    lh_epoch_counter_take(&counter, 1001);
    assert_int_equal(lh_epoch_counter_next(&counter, 6 * SECOND), 1002);
    assert_int_equal(lh_epoch_counter_next(&counter, 7 * SECOND), 1002);
    assert_int_equal(lh_epoch_counter_next(&counter, 8 * SECOND), 1003);
}

/* Two fleets of one gateway have none in common. */
static void each_is_a_multiple_and_the_offset(void **state) {
    (void)state;
    lh_epoch_counter counter;
    lh_epoch_counter_init(&counter, 1000, 3, 2, 0);
    assert_int_equal(lh_epoch_counter_next(&counter, 0), 1001);
    lh_epoch_counter_take(&counter, 1001);
    assert_int_equal(lh_epoch_counter_next(&counter, 0), 1004);
    assert_int_equal(lh_epoch_counter_next(&counter, 4 * SECOND), 1004);
    assert_int_equal(lh_epoch_counter_next(&counter, 5 * SECOND), 1007);
}

static void what_a_worker_has_is_not_given_out_again(void **state) {
    (void)state;
    lh_epoch_counter counter;
    lh_epoch_counter_init(&counter, 1000, 0, 0, 0);
    lh_epoch_counter_skip(&counter, 1000, 0);
    assert_int_equal(lh_epoch_counter_next(&counter, 0), 1001);
    lh_epoch_counter_skip(&counter, 5000, 0);
    lh_epoch_counter_skip(&counter, 4000, 0);
    assert_int_equal(lh_epoch_counter_next(&counter, 0), 5001);
}

/* However often it is told, nobody moves it further than clocks are ahead of each other. */
static void what_no_clock_can_have_been_ahead_to_is_not_believed(void **state) {
    (void)state;
    const uint32_t lead = 86400;
    lh_epoch_counter counter;
    lh_epoch_counter_init(&counter, 1000, 0, 0, 0);
    lh_epoch_counter_skip(&counter, 1000 + lead, 0);
    lh_epoch_counter_skip(&counter, UINT32_MAX, 0);
    lh_epoch_counter_skip(&counter, (UINT64_C(1) << 32) + 1500, 0);
    assert_int_equal(lh_epoch_counter_next(&counter, 0), 1000);
    lh_epoch_counter_skip(&counter, 999 + lead, 0);
    lh_epoch_counter_skip(&counter, 999 + 2 * lead, 0);
    assert_int_equal(lh_epoch_counter_next(&counter, 0), 1000 + lead);
    lh_epoch_counter_skip(&counter, 1000 + lead, SECOND);
    assert_int_equal(lh_epoch_counter_next(&counter, SECOND), 1001 + lead);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_follow_the_clock_and_never_repeat),
        cmocka_unit_test(each_is_a_multiple_and_the_offset),
        cmocka_unit_test(what_a_worker_has_is_not_given_out_again),
        cmocka_unit_test(what_no_clock_can_have_been_ahead_to_is_not_believed),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
