#include "worker/compute/stage/shard_tracker.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The width is no multiple of a block: three of 32 columns and one of 8. */
enum { ROWS_MAX = 6, ROWS = 4, WIDTH = 104 };

static lh_shard_tracker tracker;

static int set_up(void **state) {
    (void)state;
    if (lh_shard_tracker_init(&tracker, ROWS_MAX, WIDTH, NULL) != LH_OK)
        return 1;
    lh_shard_tracker_start(&tracker, ROWS);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_shard_tracker_reset(&tracker);
    return 0;
}

static void refused(uint32_t first_row, uint32_t rows, uint32_t first_column, uint32_t columns,
                    const char *words) {
    const lh_rectangle part = {first_row, rows, first_column, columns};
    lh_error error;
    assert_int_equal(lh_shard_tracker_check(&tracker, &part, &error), LH_ERR_INVALID);
    if (!strstr(error.message, words))
        fail_msg("no '%s' in: %s", words, error.message);
}

static uint32_t come(uint32_t first_row, uint32_t rows, uint32_t first_column, uint32_t columns) {
    const lh_rectangle part = {first_row, rows, first_column, columns};
    assert_int_equal(lh_shard_tracker_check(&tracker, &part, NULL), LH_OK);
    lh_shard_tracker_note(&tracker, &part);
    return lh_shard_tracker_complete_columns(&tracker);
}

/* Each begins inside: rows of the largest step are there, but not of this one. */
static void one_that_ends_past_the_step_is_refused(void **state) {
    (void)state;
    refused(0, ROWS + 1, 0, WIDTH, "outside");
    refused(ROWS - 1, 2, 0, WIDTH, "outside");
    refused(ROWS - 1, UINT32_MAX, 0, WIDTH, "outside");
    refused(0, ROWS, 96, 32, "outside");
    refused(0, ROWS, 96, UINT32_MAX - 7, "outside");
    come(ROWS - 1, 1, 96, 8);
}

static void one_that_is_outside_or_empty_is_refused(void **state) {
    (void)state;
    refused(ROWS, 1, 0, WIDTH, "outside");
    refused(UINT32_MAX, 1, 0, WIDTH, "outside");
    refused(0, ROWS, 128, 32, "outside");
    refused(0, 0, 0, WIDTH, "empty");
    refused(0, ROWS, 0, 0, "empty");
}

static void parts_of_blocks_are_refused(void **state) {
    (void)state;
    refused(0, ROWS, 16, 32, "whole blocks");
    refused(0, ROWS, 0, 16, "whole blocks");
    refused(0, ROWS, 96, 4, "whole blocks");
}

static void what_has_come_does_not_come_again(void **state) {
    (void)state;
    come(1, 2, 32, 32);
    refused(1, 2, 32, 32, "already");
    refused(2, 2, 0, 64, "already"); /* one cell of it */
    come(3, 1, 0, 64);
    lh_shard_tracker_start(&tracker, ROWS);
    come(1, 2, 32, 32);
}

/* In any order; only columns that are there in all rows, from the first on, count. */
static void columns_are_complete_when_all_rows_have_come(void **state) {
    (void)state;
    assert_int_equal(come(0, ROWS, 96, 8), 0);
    assert_int_equal(come(0, ROWS - 1, 0, 64), 0);
    assert_int_equal(come(ROWS - 1, 1, 0, 32), 32);
    assert_int_equal(come(ROWS - 1, 1, 32, 32), 64);
    assert_int_equal(come(0, ROWS, 64, 32), WIDTH);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(one_that_ends_past_the_step_is_refused),
        TEST(one_that_is_outside_or_empty_is_refused),
        TEST(parts_of_blocks_are_refused),
        TEST(what_has_come_does_not_come_again),
        TEST(columns_are_complete_when_all_rows_have_come),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
