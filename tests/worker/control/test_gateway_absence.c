#include "worker/control/gateway_absence.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define SECOND INT64_C(1000000)

/* It does not answer, once a second; the seconds in which that is told. */
static int tell(lh_gateway_absence *absence, int64_t from_s, int64_t until_s, int64_t *told) {
    int count = 0;
    for (int64_t s = from_s; s < until_s; s++) {
        bool is_due = lh_gateway_absence_is_due(absence, s * SECOND);
        lh_gateway_absence_note(absence, is_due, s * SECOND);
        if (is_due)
            told[count++] = s;
    }
    return count;
}

static void the_pauses_grow_up_to_ten_minutes(void **state) {
    (void)state;
    static const int64_t wanted[] = {100, 110, 130, 170, 250, 410, 730, 1330, 1930};
    lh_gateway_absence absence = {0};
    int64_t told[64];
    assert_int_equal(tell(&absence, 100, 2500, told), 9);
    for (int i = 0; i < 9; i++)
        assert_int_equal(told[i], wanted[i]);
    assert_int_equal(absence.since_us, 100 * SECOND);
}

static void who_answers_and_goes_again_is_told_at_once(void **state) {
    (void)state;
    lh_gateway_absence absence = {0};
    int64_t told[64];
    assert_false(lh_gateway_absence_end(&absence));
    assert_int_equal(tell(&absence, 100, 200, told), 4);
    assert_true(lh_gateway_absence_end(&absence));
    assert_int_equal(tell(&absence, 201, 206, told), 1);
    assert_int_equal(told[0], 201);
    assert_int_equal(absence.since_us, 201 * SECOND);
}

static void what_is_told_out_of_turn_counts(void **state) {
    (void)state;
    lh_gateway_absence absence = {0};
    lh_gateway_absence_note(&absence, true, 100 * SECOND);
    lh_gateway_absence_note(&absence, true, 105 * SECOND);
    assert_false(lh_gateway_absence_is_due(&absence, 124 * SECOND));
    assert_true(lh_gateway_absence_is_due(&absence, 125 * SECOND));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_pauses_grow_up_to_ten_minutes),
        cmocka_unit_test(who_answers_and_goes_again_is_told_at_once),
        cmocka_unit_test(what_is_told_out_of_turn_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
