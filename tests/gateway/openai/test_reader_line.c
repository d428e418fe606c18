/* Whose turn it is. */
#include "gateway/openai/reader_line.h"

#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static lh_reader_line line, other;
static lh_reader_place places[8];

static int empty(void **state) {
    (void)state;
    line = other = (lh_reader_line){.running_max = UINT32_MAX};
    for (size_t i = 0; i < 8; i++)
        places[i] = (lh_reader_place){.bytes = 10};
    return 0;
}

static void push(size_t place, uint64_t client, int64_t turn_us) {
    assert_true(lh_reader_line_push(&line, client, turn_us, &places[place]));
}

/* The next that runs, by its number; -1: none. */
static int take(lh_reader_line *from, uint64_t *client) {
    lh_reader_place *taken = lh_reader_line_take(from, client);
    return taken ? (int)(taken - places) : -1;
}

/* The next one, which ends at once. */
static int run(lh_reader_line *from) {
    uint64_t client;
    int taken = take(from, &client);
    if (taken >= 0)
        lh_reader_line_end(from, client);
    return taken;
}

static void who_used_least_goes_first(void **state) {
    (void)state;
    push(0, 1, 500);
    push(1, 2, 400);
    push(2, 1, 500);
    push(3, 3, 400);
    assert_int_equal(line.count, 4);
    assert_int_equal(line.bytes, 40);
    assert_int_equal(run(&line), 1);
    lh_reader_line_set_turn(&line, 3, 600);
    assert_int_equal(run(&line), 0);
    assert_int_equal(run(&line), 2);
    assert_int_equal(run(&line), 3);
    assert_int_equal(run(&line), -1);
    assert_int_equal(line.count + line.bytes, 0);
    assert_null(line.clients);
}

static void of_equals_who_waits_longest_goes_first(void **state) {
    (void)state;
    for (size_t i = 0; i < 3; i++)
        push(i, i + 1, 7);
    for (int i = 0; i < 3; i++)
        assert_int_equal(run(&line), i);
}

static void one_of_a_client_runs_at_a_time(void **state) {
    (void)state;
    uint64_t client, second;
    line.running_max = 1;
    push(0, 1, 1);
    push(1, 1, 1);
    push(2, 2, 9);
    assert_int_equal(take(&line, &client), 0);
    assert_int_equal(take(&line, &second), 2);
    assert_int_equal(run(&line), -1);
    lh_reader_line_end(&line, client);
    lh_reader_line_end(&line, second);
    assert_int_equal(run(&line), 1);
    assert_null(line.clients);
}

static void who_waits_may_leave(void **state) {
    (void)state;
    push(0, 1, 1);
    push(1, 1, 1);
    push(2, 1, 1);
    lh_reader_line_remove(&places[1]);
    assert_int_equal(lh_reader_line_waiting(&line, 1).count, 2);
    assert_int_equal(lh_reader_line_waiting(&line, 1).bytes, 20);
    lh_reader_line_remove(&places[0]);
    lh_reader_line_remove(&places[2]);
    assert_null(line.clients);
    assert_int_equal(lh_reader_line_waiting(&line, 1).count, 0);
}

/* Into a line where nothing of the client waits, and behind what does. */
static void a_client_moves_to_another_line(void **state) {
    (void)state;
    assert_false(lh_reader_line_move(&line, &other, 1));
    push(0, 1, 5);
    push(1, 1, 5);
    push(2, 2, 6);
    assert_true(lh_reader_line_move(&line, &other, 1));
    assert_int_equal(line.count, 1);
    assert_int_equal(other.count, 2);
    push(3, 1, 5);
    assert_true(lh_reader_line_move(&line, &other, 1));
    assert_int_equal(other.bytes, 30);
    lh_reader_line_remove(&places[1]);
    assert_int_equal(run(&line), 2);
    assert_int_equal(run(&line), -1);
    assert_int_equal(run(&other), 0);
    assert_int_equal(run(&other), 3);
    assert_null(line.clients);
    assert_null(other.clients);
}

static void what_runs_keeps_its_client(void **state) {
    (void)state;
    uint64_t client;
    push(0, 1, 5);
    push(1, 1, 5);
    assert_int_equal(take(&line, &client), 0);
    assert_false(lh_reader_line_move(&line, &other, 1));
    assert_true(lh_reader_line_push(&other, 1, 5, &places[2]));
    assert_true(lh_reader_line_move(&line, &other, 1));
    lh_reader_line_end(&line, client);
    assert_null(line.clients);
    assert_int_equal(run(&other), 2);
    assert_int_equal(run(&other), 1);
}

static void missing_memory_is_told(void **state) {
    (void)state;
    failing_malloc_arm(1);
    bool pushed = lh_reader_line_push(&line, 1, 1, &places[0]);
    assert_true(failing_malloc_disarm());
    assert_false(pushed);
    assert_int_equal(line.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_used_least_goes_first, empty),
        cmocka_unit_test_setup(of_equals_who_waits_longest_goes_first, empty),
        cmocka_unit_test_setup(one_of_a_client_runs_at_a_time, empty),
        cmocka_unit_test_setup(who_waits_may_leave, empty),
        cmocka_unit_test_setup(a_client_moves_to_another_line, empty),
        cmocka_unit_test_setup(what_runs_keeps_its_client, empty),
        cmocka_unit_test_setup(missing_memory_is_told, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
