/* A move must gain clearly more than it costs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/fleet/move_decision.h"

#define S 1000000.0

static const lh_move a_tenth_for_an_hour = {
    .value_now = 110, .value_next = 100, .unchanged_us = INT64_C(3600000000)};

static void what_costs_little_needs_little(void **state) {
    (void)state;
    lh_move move = a_tenth_for_an_hour;
    assert_true(lh_move_is_worthwhile(&move));
    move.unchanged_us = 0; /* a minute: 5.5 s for 0.2 */
    assert_true(lh_move_is_worthwhile(&move));
    assert_true(fabs(lh_move_gain_us(&move) - 60 * S / 11) < 1);
}

static void what_is_hardly_better_is_none(void **state) {
    (void)state;
    lh_move move = a_tenth_for_an_hour;
    move.value_next = 105;
    assert_false(lh_move_is_worthwhile(&move));
    move.value_next = 104;
    assert_true(lh_move_is_worthwhile(&move));
    move.value_next = move.value_now;
    assert_false(lh_move_is_worthwhile(&move));
    move.value_next = 120;
    assert_false(lh_move_is_worthwhile(&move));
}

/* 1,000 s of loading take 200 s of the steps beside it; an hour gains 327 s, half of which is less.
 */
static void loading_costs(void **state) {
    (void)state;
    lh_move move = a_tenth_for_an_hour;
    move.loading_us = 1000 * S;
    assert_false(lh_move_is_worthwhile(&move));
    move.loading_us = 800 * S;
    assert_true(lh_move_is_worthwhile(&move));
    move.unchanged_us = 60 * 1000000;
    assert_false(lh_move_is_worthwhile(&move));
}

static void replaying_costs(void **state) {
    (void)state;
    lh_move move = a_tenth_for_an_hour;
    move.unchanged_us = 60 * 1000000;
    move.value_next = 104; /* gains 3.3 s in a minute */
    move.replay_us = 0.4 * S;
    assert_true(lh_move_is_worthwhile(&move));
    move.loading_us = 3 * S;
    assert_false(lh_move_is_worthwhile(&move));
}

/* Of half of the time of each step a minute gains 30 s: too little for 10 s of silence at once. */
static void a_long_pause_waits(void **state) {
    (void)state;
    lh_move move = {.value_now = 200, .value_next = 100, .replay_us = 10 * S};
    assert_false(lh_move_is_worthwhile(&move));
    move.unchanged_us = 100 * 1000000;
    assert_false(lh_move_is_worthwhile(&move));
    move.unchanged_us = 105 * 1000000;
    assert_true(lh_move_is_worthwhile(&move));
}

/* A chain that does not keep its bound, or whose link is gone, is left for any that does. */
static void what_cannot_go_on_is_left(void **state) {
    (void)state;
    lh_move move = {.value_now = INFINITY, .value_next = 100, .loading_us = 10 * S};
    assert_true(lh_move_is_worthwhile(&move));
    move.value_next = INFINITY;
    move.value_now = 100;
    assert_false(lh_move_is_worthwhile(&move));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_costs_little_needs_little),
        cmocka_unit_test(what_is_hardly_better_is_none),
        cmocka_unit_test(loading_costs),
        cmocka_unit_test(replaying_costs),
        cmocka_unit_test(a_long_pause_waits),
        cmocka_unit_test(what_cannot_go_on_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
