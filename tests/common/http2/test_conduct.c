#include "common/http2/conduct.h"
#include "tests/support/failing_malloc.h"

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

/* ---- Frames that carry nothing ---- */

enum {
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PING = 6,
    GOAWAY,
    WINDOW_UPDATE,
    UNKNOWN = 77
};

static int allowed_frames(lh_h2_conduct *conduct, lh_h2_frame_header frame, int most) {
    lh_error error;
    int counted = 0;
    while (counted < most && lh_h2_conduct_count_frame(conduct, &frame, &error) == LH_OK)
        counted++;
    if (counted < most)
        assert_int_equal(error.status, LH_ERR_LIMIT);
    return counted;
}

static void idle_frames_of_each_kind_are_bounded(void **state) {
    (void)state;
    static const lh_h2_frame_header idle[] = {
        {0, DATA, 0}, {256, DATA, 8}, {5, PRIORITY, 0},      {4, RST_STREAM, 0}, {0, SETTINGS, 1},
        {8, PING, 0}, {8, GOAWAY, 0}, {4, WINDOW_UPDATE, 0}, {100, UNKNOWN, 99},
    };
    for (size_t i = 0; i < sizeof idle / sizeof idle[0]; i++) {
        lh_h2_conduct conduct = {0};
        assert_int_equal(allowed_frames(&conduct, idle[i], 5000), 1000);
    }
}

static void frames_that_carry_something_are_not(void **state) {
    (void)state;
    static const lh_h2_frame_header useful[] = {
        {1, DATA, 0}, {0, DATA, 1}, {257, DATA, 8}, {10, HEADERS, 4}, {10, 9, 4}};
    for (size_t i = 0; i < sizeof useful / sizeof useful[0]; i++) {
        lh_h2_conduct conduct = {0};
        assert_int_equal(allowed_frames(&conduct, useful[i], 5000), 5000);
    }
}

static void the_bucket_fills_with_time_and_use(void **state) {
    (void)state;
    static const lh_h2_frame_header ping = {8, PING, 0}, headers = {10, HEADERS, 4};
    lh_h2_conduct conduct = {0};
    assert_int_equal(allowed_frames(&conduct, ping, 5000), 1000);
    lh_h2_conduct_note_time(&conduct, 1010);
    assert_int_equal(allowed_frames(&conduct, ping, 5000), 100);
    for (int i = 0; i < 512; i++)
        lh_h2_conduct_note_sent(&conduct, 1);
    assert_int_equal(allowed_frames(&conduct, ping, 5000), 1); /* one more was refused before */
    lh_h2_conduct_note_sent(&conduct, 256 * 20);
    assert_int_equal(allowed_frames(&conduct, ping, 5000), 19);
    assert_int_equal(allowed_frames(&conduct, headers, 11), 11);
    assert_int_equal(allowed_frames(&conduct, ping, 5000), 10);
    lh_h2_conduct_note_time(&conduct, 3600 * 1000);
    assert_int_equal(allowed_frames(&conduct, ping, 5000), 1000); /* never more than full */
}

/* ---- Header fields ---- */

static lh_status count_field(lh_h2_conduct *conduct, size_t name_length, size_t value_length,
                             lh_error *error) {
    return lh_h2_conduct_count_field(conduct, name_length, value_length, 100, error);
}

static void the_bound_of_a_block_is_exact(void **state) {
    (void)state;
    lh_error error;
    lh_h2_conduct conduct = {0};
    lh_h2_conduct_count_block_frame(&conduct, true, 0, NULL);
    assert_int_equal(count_field(&conduct, 10, 10, &error), LH_OK);      /* 52 */
    assert_int_equal(count_field(&conduct, 10, 6, &error), LH_OK);       /* 100 */
    assert_int_equal(count_field(&conduct, 0, 0, &error), LH_ERR_LIMIT); /* a name alone costs 32 */
    assert_string_equal(error.message, "the headers of one request or answer are over 100 bytes");
    lh_h2_conduct_count_block_frame(&conduct, true, 0, NULL);
    assert_int_equal(count_field(&conduct, 10, 58, &error), LH_OK);
    lh_h2_conduct_count_block_frame(&conduct, true, 0, NULL);
    assert_int_equal(count_field(&conduct, 10, 59, &error), LH_ERR_LIMIT);
}

/* Blocks of a hundred bytes until one is too many. */
static int allowed_blocks(lh_h2_conduct *conduct, lh_error *error) {
    int counted = 0;
    lh_h2_conduct_count_block_frame(conduct, true, 0, NULL);
    while (count_field(conduct, 34, 34, error) == LH_OK) {
        counted++;
        lh_h2_conduct_count_block_frame(conduct, true, 0, NULL);
    }
    return counted;
}

static void headers_are_earned_by_time(void **state) {
    (void)state;
    lh_error error;
    lh_h2_conduct conduct = {0};
    assert_int_equal(allowed_blocks(&conduct, &error), (256 << 10) / 100);
    assert_string_equal(error.message, "the peer floods the connection with headers");
    conduct = (lh_h2_conduct){.header_bytes = 256 << 10};
    lh_h2_conduct_note_time(&conduct, 100);
    assert_int_equal(allowed_blocks(&conduct, &error), 209700 / 100);
    conduct = (lh_h2_conduct){.header_bytes = 128 << 10};
    lh_h2_conduct_note_time(&conduct, 3600 * 1000); /* the bucket is full, and holds no more */
    assert_int_equal(allowed_blocks(&conduct, &error), (256 << 10) / 100);
}

static lh_status count_frame(lh_h2_conduct *conduct, bool begins_block, size_t length,
                             lh_error *error) {
    return lh_h2_conduct_count_block_frame(conduct, begins_block, length, error);
}

/* A block costs eight times its bytes until it has come to its end. */
static void ignored_blocks_cost_more(void **state) {
    (void)state;
    lh_error error;
    lh_h2_conduct conduct = {0};
    for (int i = 0; i < 1000; i++) { /* seen, and so counted by their fields alone */
        assert_int_equal(count_frame(&conduct, true, 16384, &error), LH_OK);
        assert_int_equal(count_frame(&conduct, false, 16384, &error), LH_OK);
        lh_h2_conduct_end_block(&conduct);
    }
    assert_int_equal(allowed_blocks(&conduct, &error), (256 << 10) / 100);
    conduct = (lh_h2_conduct){0};
    assert_int_equal(count_frame(&conduct, true, 16384, &error), LH_OK);
    assert_int_equal(count_frame(&conduct, true, 16383, &error), LH_OK); /* the first is ignored */
    lh_h2_conduct_end_block(&conduct); /* this gives nothing back of the other one */
    assert_int_equal(count_frame(&conduct, true, 16384, &error), LH_OK);
    assert_int_equal(count_frame(&conduct, true, 1, &error), LH_ERR_LIMIT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_allowed_by_what_went_well),
        cmocka_unit_test(resets_are_allowed_by_what_went_well),
        cmocka_unit_test(idle_frames_of_each_kind_are_bounded),
        cmocka_unit_test(frames_that_carry_something_are_not),
        cmocka_unit_test(the_bucket_fills_with_time_and_use),
        cmocka_unit_test(the_bound_of_a_block_is_exact),
        cmocka_unit_test(headers_are_earned_by_time),
        cmocka_unit_test(ignored_blocks_cost_more),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
