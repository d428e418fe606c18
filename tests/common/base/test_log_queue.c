#include "common/base/log_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct small_queue {
    char memory[LH_LOG_QUEUE_BYTES_MIN];
    lh_log_queue queue;
} small_queue;

static void begin(small_queue *small) {
    small->queue = (lh_log_queue)LH_LOG_QUEUE(small->memory);
}

static void push_number(lh_log_queue *queue, int number, size_t length) {
    char line[LH_LOG_LINE_BYTES];
    memset(line, '.', sizeof line);
    assert_true(snprintf(line, sizeof line, "%d", number) < (int)length);
    lh_log_queue_push(queue, line, length);
}

static void assert_next(lh_log_queue *queue, int number, size_t length,
                        unsigned long long left_out) {
    char line[LH_LOG_LINE_BYTES];
    size_t found_length;
    unsigned long long found_left_out;
    assert_true(lh_log_queue_pop(queue, line, &found_length, &found_left_out));
    assert_int_equal(found_length, length);
    assert_int_equal(found_left_out, left_out);
    if (length > 0)
        assert_int_equal(atoi(line), number);
}

static void assert_empty(lh_log_queue *queue) {
    char line[LH_LOG_LINE_BYTES];
    size_t length;
    unsigned long long left_out;
    assert_false(lh_log_queue_pop(queue, line, &length, &left_out));
}

/* Of all lengths, so that lines and their heads lie across the memory's end in every way. */
static void lines_come_out_whole_and_in_their_order(void **state) {
    (void)state;
    static small_queue small;
    begin(&small);
    assert_empty(&small.queue);
    push_number(&small.queue, 0, 100);
    for (int number = 1; number < 4000; number++) {
        push_number(&small.queue, number, 10 + (size_t)number % 1900);
        assert_next(&small.queue, number - 1, number == 1 ? 100 : 10 + (size_t)(number - 1) % 1900,
                    0);
    }
    assert_next(&small.queue, 3999, 10 + 3999 % 1900, 0);
    assert_empty(&small.queue);
}

static void what_finds_no_room_is_told_where_it_is_missing(void **state) {
    (void)state;
    static small_queue small;
    begin(&small);
    push_number(&small.queue, 1, 2000);
    push_number(&small.queue, 2, 2000);
    push_number(&small.queue, 3, 2000);
    push_number(&small.queue, 4, 2000);
    push_number(&small.queue, 5, 20);
    push_number(&small.queue, 6, 2000);
    assert_next(&small.queue, 1, 2000, 0);
    push_number(&small.queue, 7, 2000);
    assert_next(&small.queue, 2, 2000, 0);
    assert_next(&small.queue, 5, 20, 2);
    assert_next(&small.queue, 7, 2000, 1);
    assert_empty(&small.queue);
}

static void the_last_ones_left_out_are_told_by_themselves(void **state) {
    (void)state;
    static small_queue small;
    begin(&small);
    push_number(&small.queue, 1, LH_LOG_LINE_BYTES);
    push_number(&small.queue, 2, 4);
    push_number(&small.queue, 3, 4);
    assert_next(&small.queue, 1, LH_LOG_LINE_BYTES, 0);
    assert_next(&small.queue, 0, 0, 2);
    assert_empty(&small.queue);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_come_out_whole_and_in_their_order),
        cmocka_unit_test(what_finds_no_room_is_told_where_it_is_missing),
        cmocka_unit_test(the_last_ones_left_out_are_told_by_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
