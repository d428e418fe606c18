#include "common/http2/time_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { START_US = 5000000, SAVED_US = 200000 };

/* However much is saved, there is a pause after each half of a millisecond. */
static void what_is_saved_is_spent_with_pauses(void **state) {
    (void)state;
    enum { PIECE_US = 125, PIECES = 4 };
    lh_h2_time_share share;
    int64_t now_us = START_US;
    lh_h2_time_share_init(&share, 20, now_us);
    for (int i = 0; i < 100; i++) {
        for (int piece = 0; piece < PIECES; piece++) {
            assert_int_equal(lh_h2_time_share_wait_us(&share, now_us), 0);
            now_us += PIECE_US;
            lh_h2_time_share_spend(&share, PIECE_US, now_us);
        }
        assert_int_equal(lh_h2_time_share_wait_us(&share, now_us), 1000);
        assert_int_equal(lh_h2_time_share_wait_us(&share, now_us + 999), 1);
        now_us += 1000;
    }
}

static void no_more_is_saved_however_long_nothing_is_done(void **state) {
    (void)state;
    lh_h2_time_share share;
    lh_h2_time_share_init(&share, 20, START_US);
    int64_t now_us = START_US + (int64_t)3600 * 1000000;
    assert_int_equal(lh_h2_time_share_wait_us(&share, now_us), 0);
    lh_h2_time_share_spend(&share, SAVED_US, now_us - 1000);
    assert_int_equal(lh_h2_time_share_wait_us(&share, now_us), 20);
}

/* Work that always waits for its turn, in pieces of half a millisecond, asked at odd times. */
static void work_without_end_gets_a_twentieth(void **state) {
    (void)state;
    enum { PIECE_US = 500, SECONDS = 100 };
    lh_h2_time_share share;
    int64_t now_us = START_US, end_us = START_US + (int64_t)SECONDS * 1000000, spent_us = 0;
    lh_h2_time_share_init(&share, 20, now_us);
    while (now_us < end_us) {
        if (lh_h2_time_share_wait_us(&share, now_us) == 0) {
            lh_h2_time_share_spend(&share, PIECE_US, now_us);
            spent_us += PIECE_US;
        }
        now_us += 777;
    }
    assert_in_range((uint64_t)spent_us, SAVED_US + SECONDS * 50000 - PIECE_US,
                    SAVED_US + SECONDS * 50000 + PIECE_US);
}

static void a_long_piece_of_work_is_waited_for(void **state) {
    (void)state;
    lh_h2_time_share share;
    lh_h2_time_share_init(&share, 20, START_US);
    lh_h2_time_share_spend(&share, SAVED_US + 30000, START_US);
    assert_int_equal(lh_h2_time_share_wait_us(&share, START_US), 30001 * 20);
    assert_int_equal(lh_h2_time_share_wait_us(&share, START_US + 30001 * 20 - 1), 1);
    assert_int_equal(lh_h2_time_share_wait_us(&share, START_US + 30001 * 20), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_saved_is_spent_with_pauses),
        cmocka_unit_test(no_more_is_saved_however_long_nothing_is_done),
        cmocka_unit_test(work_without_end_gets_a_twentieth),
        cmocka_unit_test(a_long_piece_of_work_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
