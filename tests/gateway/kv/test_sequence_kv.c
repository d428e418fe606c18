/* How far a sequence has come on the chain, and under which numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/kv/sequence_kv.h"
#include "tests/support/failing_malloc.h"

enum { BLOCK = 16, BLOCKS = 20 };

static lh_kv_store *store;
static uint32_t tokens[BLOCK * BLOCKS];
static const lh_prefix_scope scope = {1, 0};
static const lh_kv_ledger two_stages = {.stage_count = 2, .stages = {{16, BLOCKS}, {16, BLOCKS}}};

static int set_up(void **state) {
    (void)state;
    const lh_kv_store_options options = {.keeps_prefixes = true, .cached_max = 100};
    for (uint32_t i = 0; i < BLOCK * BLOCKS; i++)
        tokens[i] = i;
    assert_int_equal(lh_kv_store_create(&options, &store, NULL), LH_OK);
    lh_kv_store_reset(store, &two_stages);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    lh_kv_store_destroy(store);
    return 0;
}

static void begin(lh_sequence_kv *kv, uint64_t sequence, uint32_t length) {
    assert_true(lh_sequence_kv_begin(kv, store, sequence, scope, tokens, length, true, 0));
}

/* Rows go around in a step. */
static lh_block_table *send(lh_sequence_kv *kv, uint32_t rows) {
    lh_block_table *source = lh_sequence_kv_send(kv, store, tokens, rows, LH_STEP_PREFILL);
    lh_kv_store_pass(kv->table, source, kv->computed, LH_STEP_PREFILL);
    lh_kv_store_land(kv->table, source, true, LH_STEP_PREFILL);
    return source;
}

static uint64_t number_of(const lh_sequence_kv *kv) {
    return lh_block_table_number(kv->table);
}

/* The first number still stands for a cached prefix, which the replay forks from. */
static void a_replay_has_a_number_of_its_own(void **state) {
    (void)state;
    lh_sequence_kv kv = {0};
    begin(&kv, 7, 40);
    assert_int_equal(number_of(&kv), 7);
    send(&kv, 40);
    lh_sequence_kv_leave(&kv, store);
    assert_null(kv.table);
    begin(&kv, 7, 40);
    assert_true(number_of(&kv) == 7 + ((uint64_t)1 << 40));
    assert_int_equal(kv.computed, 32);
    assert_int_equal(lh_block_table_number(send(&kv, 8)), 7);
    lh_sequence_kv_leave(&kv, store);
    begin(&kv, 7, 40);
    assert_true(number_of(&kv) == 7 + ((uint64_t)2 << 40));
    lh_sequence_kv_leave(&kv, store);
}

static void what_was_cached_at_first_is_what_counts(void **state) {
    (void)state;
    lh_sequence_kv first = {0}, second = {0};
    begin(&first, 1, 40);
    send(&first, 40);
    assert_int_equal(first.cached_tokens, 0);
    begin(&second, 2, 40);
    send(&second, 4);
    send(&second, 4);
    assert_int_equal(second.cached_tokens, 32);
    lh_sequence_kv_leave(&first, store);
    begin(&first, 1, 40);
    send(&first, 8);
    assert_int_equal(first.cached_tokens, 0);
    lh_sequence_kv_leave(&first, store);
    lh_sequence_kv_leave(&second, store);
}

static void rows_that_were_sent_before_are_replayed(void **state) {
    (void)state;
    lh_sequence_kv kv = {0};
    begin(&kv, 1, 14);
    assert_int_equal(lh_sequence_kv_replayed(&kv, 14), 0);
    send(&kv, 10);
    assert_int_equal(kv.computed, 10);
    assert_true(kv.is_begun);
    lh_sequence_kv_leave(&kv, store);
    assert_false(kv.is_begun);
    assert_int_equal(kv.computed, 0);
    begin(&kv, 1, 14);
    assert_int_equal(lh_sequence_kv_replayed(&kv, 4), 4);
    assert_int_equal(lh_sequence_kv_replayed(&kv, 14), 10);
    send(&kv, 10);
    assert_int_equal(lh_sequence_kv_replayed(&kv, 4), 0);
    lh_sequence_kv_leave(&kv, store);
}

static void more_is_shared_before_the_first_rows_leave(void **state) {
    (void)state;
    lh_sequence_kv first = {0}, second = {0};
    begin(&first, 1, 40);
    begin(&second, 2, 40);
    assert_false(lh_sequence_kv_share_more(&second, store, tokens, 40));
    send(&first, 20);
    assert_true(lh_sequence_kv_share_more(&second, store, tokens, 40));
    assert_int_equal(second.computed, 16);
    assert_false(lh_sequence_kv_share_more(&second, store, tokens, 40));
    lh_sequence_kv_leave(&second, store);
    lh_sequence_kv_leave(&first, store);
}

static void a_break_keeps_what_went_around(void **state) {
    (void)state;
    lh_sequence_kv passed = {0}, unsent = {0};
    begin(&passed, 1, 40);
    send(&passed, 24);
    begin(&unsent, 2, 10);
    lh_kv_store_break(store);
    lh_sequence_kv_break(&passed, store);
    lh_sequence_kv_break(&unsent, store);
    assert_null(unsent.table);
    assert_int_equal(passed.computed, 24);
    assert_true(lh_sequence_kv_resume(&passed, store, 40));
    assert_int_equal(passed.computed, 24);
    assert_false(lh_sequence_kv_is_restoring(&passed));
    lh_sequence_kv_leave(&passed, store);
}

/* The last stages have 24 positions, the first ones get them again. */
static void a_restart_sends_again_what_stands(void **state) {
    (void)state;
    lh_sequence_kv kv = {0};
    begin(&kv, 1, 40);
    send(&kv, 24);
    lh_kv_store_break(store);
    lh_sequence_kv_break(&kv, store);
    assert_true(lh_sequence_kv_restart(&kv, store));
    assert_int_equal(kv.computed, 0);
    assert_int_equal(kv.restored, 24);
    assert_int_equal(number_of(&kv), 1);
    send(&kv, 20);
    assert_true(lh_sequence_kv_is_restoring(&kv));
    send(&kv, 4);
    assert_false(lh_sequence_kv_is_restoring(&kv));
    lh_sequence_kv_leave(&kv, store);
    assert_int_equal(kv.restored, 0);
}

static void the_next_row_needs_a_block(void **state) {
    (void)state;
    lh_sequence_kv kv = {0}, other = {0};
    begin(&kv, 1, 16);
    send(&kv, 16);
    begin(&other, 2, 16 * BLOCKS);
    assert_false(lh_sequence_kv_grow(&kv, store, 1));
    lh_sequence_kv_leave(&other, store);
    assert_true(lh_sequence_kv_grow(&kv, store, 1));
    assert_int_equal(lh_block_table_blocks(kv.table), 2);
    assert_false(lh_sequence_kv_begin(&other, store, 2, scope, tokens + 1, 16 * 17, true, 2));
    assert_null(other.table);
    assert_int_equal(other.tables, 1);
    lh_sequence_kv_leave(&kv, store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_replay_has_a_number_of_its_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_cached_at_first_is_what_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(rows_that_were_sent_before_are_replayed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_is_shared_before_the_first_rows_leave, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_break_keeps_what_went_around, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_restart_sends_again_what_stands, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_next_row_needs_a_block, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
