/* The pauses between two tries. */
#include "tests/support/failing_malloc.h"
#include "worker/control/assignment_failure.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const lh_error no_room = {.status = LH_ERR_LIMIT, .message = "no room"};

static void test_nothing_has_failed_at_first(void **state) {
    (void)state;
    lh_assignment_failure f = {0};
    const lh_control_assignment one = {0}; /* the same as what `about` begins with */
    assert_false(lh_assignment_failure_bars(&f, &one, 0));
}

static void test_the_pause_doubles_up_to_half_a_minute(void **state) {
    (void)state;
    static const uint64_t pauses_ms[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000};
    const lh_control_assignment one = {.generation = 1};
    lh_assignment_failure f = {0};
    uint64_t now_ms = 5;
    for (size_t i = 0; i < sizeof pauses_ms / sizeof pauses_ms[0]; i++) {
        lh_assignment_failure_note(&f, &no_room, &one, now_ms);
        assert_string_equal(f.error.message, "no room");
        now_ms += pauses_ms[i];
        assert_true(lh_assignment_failure_bars(&f, &one, now_ms - 1));
        assert_false(lh_assignment_failure_bars(&f, &one, now_ms));
    }
}

static void test_another_assignment_is_tried_at_once_and_begins_anew(void **state) {
    (void)state;
    const lh_control_assignment one = {.generation = 1}, other = {.generation = 2};
    lh_assignment_failure f = {0};
    lh_assignment_failure_note(&f, &no_room, &one, 0);
    lh_assignment_failure_note(&f, &no_room, &one, 0);
    assert_false(lh_assignment_failure_bars(&f, &other, 0));
    lh_assignment_failure_note(&f, &no_room, &other, 0);
    assert_true(lh_assignment_failure_bars(&f, &other, 999));
    assert_false(lh_assignment_failure_bars(&f, &other, 1000));
}

static void test_a_model_that_cannot_be_computed_is_never_tried_again(void **state) {
    (void)state;
    static const lh_error cannot = {.status = LH_ERR_UNSUPPORTED, .message = "no such thing"};
    lh_control_assignment one = {.generation = 1, .model = {.header_sha256 = "ab"}}, other = one;
    lh_assignment_failure f = {0};
    lh_assignment_failure_note(&f, &cannot, &one, 0);
    assert_true(lh_assignment_failure_is_final(&f));
    other.generation = 2;
    other.last_layer = 3;
    assert_true(lh_assignment_failure_bars(&f, &other, UINT64_MAX - 1));
    strcpy(other.model.header_sha256, "cd");
    assert_false(lh_assignment_failure_bars(&f, &other, 1));
    lh_assignment_failure_forget(&f);
    assert_false(lh_assignment_failure_bars(&f, &one, 1));
    assert_false(lh_assignment_failure_is_final(&f));
}

static void test_what_went_well_is_forgotten(void **state) {
    (void)state;
    const lh_control_assignment one = {.generation = 1};
    lh_assignment_failure f = {0};
    lh_assignment_failure_note(&f, &no_room, &one, 0);
    lh_assignment_failure_note(&f, &no_room, &one, 0);
    lh_assignment_failure_forget(&f);
    assert_false(lh_assignment_failure_bars(&f, &one, 0));
    lh_assignment_failure_note(&f, &no_room, &one, 0);
    assert_false(lh_assignment_failure_bars(&f, &one, 1000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_has_failed_at_first),
        cmocka_unit_test(test_the_pause_doubles_up_to_half_a_minute),
        cmocka_unit_test(test_another_assignment_is_tried_at_once_and_begins_anew),
        cmocka_unit_test(test_a_model_that_cannot_be_computed_is_never_tried_again),
        cmocka_unit_test(test_what_went_well_is_forgotten),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
