/* The bounds of the store: requests, steps of each, bytes; and that nothing told of a request that
 * has gone does harm. */
#include "gateway/trace/trace_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static lh_trace_store *open_store(uint32_t requests, size_t bytes) {
    lh_trace_store *store;
    assert_int_equal(lh_trace_store_create(requests, bytes, &store, NULL), LH_OK);
    return store;
}

static uint64_t open_request(lh_trace_store *store, int name) {
    char id[32], request_id[32];
    snprintf(id, sizeof id, "chatcmpl-%d", name);
    snprintf(request_id, sizeof request_id, "req_%d", name);
    return lh_trace_store_open(store, id, request_id, 1000 + name);
}

/* One step of one request, with so many bytes of times. */
static void add_step(lh_trace_store *store, uint64_t trace, uint64_t number, int64_t results_us,
                     size_t bytes) {
    static const uint8_t zeros[4096];
    lh_trace_part part = {
        .trace = trace, .first_position = (uint32_t)number, .rows = 1, .draws = results_us != 0};
    lh_trace_step content = {
        .step = number, .results_us = results_us, .frames_bytes = bytes, .frames = zeros};
    lh_trace_store_begin_step(store, &part, 1, 5000 + (int64_t)number);
    assert_false(lh_trace_store_is_settled(store, trace));
    lh_trace_step *step = lh_trace_step_create(&content);
    lh_trace_store_end_step(store, &part, 1, step);
    lh_trace_step_release(step);
}

static void test_a_request_is_found_by_its_ids(void **state) {
    (void)state;
    lh_trace_store *store = open_store(4, 1 << 20);
    uint64_t number = open_request(store, 7);
    assert_true(number != 0);
    assert_true(lh_trace_store_is_settled(store, number));
    lh_trace_store_note_tokens(store, number, 12, 2000);
    lh_trace_store_note_end(store, number, 9999);
    add_step(store, number, 1, 0, 10);
    add_step(store, number, 2, 7000, 10);
    add_step(store, number, 3, 8000, 10);
    assert_true(lh_trace_store_is_settled(store, number));
    lh_trace *by_id = lh_trace_store_find(store, "chatcmpl-7"),
             *by_request = lh_trace_store_find(store, "req_7");
    assert_non_null(by_id);
    assert_non_null(by_request);
    assert_null(lh_trace_store_find(store, "chatcmpl-"));
    assert_null(lh_trace_store_find(store, ""));
    assert_null(lh_trace_store_get(store, 0));
    assert_int_equal(by_id->received_us, 1007);
    assert_int_equal(by_id->tokenized_us, 2000);
    assert_int_equal(by_id->admitted_us, 5001);
    assert_int_equal(by_id->ended_us, 9999);
    assert_int_equal(by_id->prompt_tokens, 12);
    assert_int_equal(by_id->token_count, 2);
    assert_int_equal(by_id->first_token_us, 7000);
    assert_int_equal(by_id->last_token_us, 8000);
    assert_int_equal(by_id->entry_count, 3);
    lh_trace_store_destroy(store); /* copies live on */
    assert_int_equal(by_id->entries[2].step->step, 3);
    lh_trace_destroy(by_id);
    lh_trace_destroy(by_request);
}

static void test_the_oldest_request_goes_first(void **state) {
    (void)state;
    lh_trace_store *store = open_store(3, 1 << 20);
    uint64_t numbers[5];
    for (int i = 0; i < 5; i++)
        numbers[i] = open_request(store, i);
    assert_null(lh_trace_store_find(store, "chatcmpl-1"));
    lh_trace_store_note_end(store, numbers[1], 1); /* has gone: ignored */
    add_step(store, numbers[4], 1, 0, 10);
    lh_trace_part gone = {.trace = numbers[0], .rows = 1};
    lh_trace_store_begin_step(store, &gone, 1, 1);
    lh_trace_store_end_step(store, &gone, 1, NULL);
    for (int i = 2; i < 5; i++) {
        lh_trace *trace = lh_trace_store_get(store, numbers[i]);
        assert_non_null(trace);
        assert_int_equal(trace->entry_count, i == 4);
        assert_int_equal(trace->ended_us, 0);
        lh_trace_destroy(trace);
    }
    /* a client's id, used twice */
    uint64_t again = lh_trace_store_open(store, "chatcmpl-9", "req_3", 1);
    lh_trace *newest = lh_trace_store_find(store, "req_3");
    assert_string_equal(newest->id, "chatcmpl-9");
    assert_true(again > numbers[4]);
    lh_trace_destroy(newest);
    lh_trace_store_destroy(store);
}

static void test_the_first_and_the_last_steps_are_kept(void **state) {
    (void)state;
    lh_trace_store *store = open_store(1, 16 << 20);
    uint64_t number = open_request(store, 1);
    const uint32_t kept = LH_TRACE_STEPS_FIRST + LH_TRACE_STEPS_LAST,
                   all = kept + 3 * LH_TRACE_STEPS_LAST / 2;
    for (uint32_t i = 0; i < all; i++)
        add_step(store, number, i, 100 + i, 10);
    lh_trace *trace = lh_trace_store_get(store, number);
    assert_int_equal(trace->entry_count, kept);
    assert_int_equal(trace->dropped_count, all - kept);
    assert_int_equal(trace->token_count, all);
    assert_int_equal(trace->first_token_us, 100);
    assert_int_equal(trace->last_token_us, 100 + all - 1);
    for (uint32_t i = 0; i < kept; i++)
        assert_int_equal(trace->entries[i].step->step,
                         i < LH_TRACE_STEPS_FIRST ? i : all - kept + i);
    lh_trace_destroy(trace);
    lh_trace_store_destroy(store);
}

static void test_bytes_are_bounded(void **state) {
    (void)state;
    lh_trace_store *store = open_store(8, 20000);
    uint64_t first = open_request(store, 1), second = open_request(store, 2);
    for (int i = 0; i < 4; i++)
        add_step(store, first, (uint64_t)i, 0, 4000);
    for (int i = 0; i < 3; i++)
        add_step(store, second, (uint64_t)i, 0, 4000);
    assert_null(lh_trace_store_get(store, first)); /* gone, to make room */
    lh_trace *trace = lh_trace_store_get(store, second);
    assert_int_equal(trace->entry_count, 3);
    lh_trace_destroy(trace);
    for (int i = 0; i < 9; i++) /* alone it may not grow beyond the bound either */
        add_step(store, second, (uint64_t)i, 0, 4000);
    trace = lh_trace_store_get(store, second);
    assert_true(trace->entry_count <= 4);
    assert_int_equal(trace->entry_count + trace->dropped_count, 12);
    lh_trace_destroy(trace);
    lh_trace_store_destroy(store);
}

static void test_a_step_is_shared(void **state) {
    (void)state;
    lh_trace_store *store = open_store(4, 1 << 20);
    lh_trace_part parts[2] = {{.trace = open_request(store, 1), .rows = 1, .draws = 1},
                              {.trace = open_request(store, 2), .rows = 3, .draws = 2}};
    lh_trace_step content = {.step = 5, .results_us = 77};
    lh_trace_store_begin_step(store, parts, 2, 50);
    lh_trace_step *step = lh_trace_step_create(&content);
    lh_trace_store_end_step(store, parts, 2, step);
    lh_trace_step_release(step);
    lh_trace *one = lh_trace_store_get(store, parts[0].trace),
             *two = lh_trace_store_get(store, parts[1].trace);
    assert_ptr_equal(one->entries[0].step, two->entries[0].step);
    assert_int_equal(two->entries[0].rows, 3);
    assert_int_equal(two->token_count, 2);
    lh_trace_destroy(one);
    lh_trace_destroy(two);
    lh_trace_store_destroy(store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_is_found_by_its_ids),
        cmocka_unit_test(test_the_oldest_request_goes_first),
        cmocka_unit_test(test_the_first_and_the_last_steps_are_kept),
        cmocka_unit_test(test_bytes_are_bounded),
        cmocka_unit_test(test_a_step_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
