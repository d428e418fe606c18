/* Pages as blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/kv/ledger.h"
#include "tests/support/failing_malloc.h"

static void the_smallest_stage_decides(void **state) {
    (void)state;
    lh_kv_ledger ledger = {
        .stage_count = 3, .stages = {{64, 100}, {16, 43}, {32, 1000}}, .blocks_live = 5};
    lh_kv_ledger_measure(&ledger);
    assert_int_equal(ledger.block_positions, 64);
    assert_int_equal(ledger.blocks_total, 10);
    assert_int_equal(lh_kv_ledger_positions(&ledger), 640);
    assert_int_equal(lh_kv_ledger_blocks_for(&ledger, 0), 0);
    assert_int_equal(lh_kv_ledger_blocks_for(&ledger, 64), 1);
    assert_int_equal(lh_kv_ledger_blocks_for(&ledger, 65), 2);
    assert_int_equal(lh_kv_ledger_blocks_for(&ledger, UINT32_MAX), (1u << 26));
    assert_int_equal(lh_kv_ledger_pages(&ledger, 0, 3), 3);
    assert_int_equal(lh_kv_ledger_pages(&ledger, 1, 3), 12);
    ledger.blocks_live = 4;
    ledger.blocks_cached = 3;
    ledger.blocks_returning = 2;
    assert_int_equal(lh_kv_ledger_blocks_free(&ledger), 1);
    assert_int_equal(lh_kv_ledger_positions_free(&ledger), 6 * 64);
}

static void pages_of_odd_sizes_have_a_common_block(void **state) {
    (void)state;
    lh_kv_ledger ledger = {.stage_count = 2, .stages = {{48, 100}, {64, 100}}};
    lh_kv_ledger_measure(&ledger);
    assert_int_equal(ledger.block_positions, 192);
    assert_int_equal(ledger.blocks_total, 25);
    ledger = (lh_kv_ledger){.stage_count = 2,
                            .stages = {{UINT32_MAX, 100}, {UINT32_MAX - 1, 100}},
                            .block_positions = 16};
    lh_kv_ledger_measure(&ledger);
    assert_int_equal(lh_kv_ledger_positions(&ledger), 0);
    assert_int_equal(ledger.block_positions, 0);
}

static void without_stages_there_is_nothing(void **state) {
    (void)state;
    lh_kv_ledger ledger = {.blocks_live = 3, .blocks_cached = 2, .blocks_returning = 1};
    lh_kv_ledger_measure(&ledger);
    assert_int_equal(ledger.blocks_total, 0);
    assert_int_equal(lh_kv_ledger_blocks_free(&ledger), 0);
}

static void what_is_held_moves_to_other_stages(void **state) {
    (void)state;
    lh_kv_ledger ledger = {.stage_count = 1, .stages = {{16, 50}}};
    const lh_kv_ledger fitting = {.stage_count = 2, .stages = {{8, 20}, {16, 10}}},
                       smaller = {.stage_count = 2, .stages = {{8, 20}, {16, 9}}},
                       coarser = {.stage_count = 2, .stages = {{32, 50}, {16, 50}}};
    lh_kv_ledger_measure(&ledger);
    ledger.blocks_live = 5;
    ledger.blocks_cached = 3;
    ledger.blocks_returning = 2;
    assert_false(lh_kv_ledger_move(&ledger, &smaller));
    assert_false(lh_kv_ledger_move(&ledger, &coarser));
    assert_int_equal(ledger.blocks_total, 50);
    assert_int_equal(ledger.stage_count, 1);
    assert_true(lh_kv_ledger_move(&ledger, &fitting));
    assert_int_equal(ledger.stage_count, 2);
    assert_int_equal(ledger.blocks_total, 10);
    assert_int_equal(ledger.blocks_live, 5);
    assert_int_equal(ledger.blocks_cached, 3);
    assert_int_equal(ledger.blocks_returning, 2);
    lh_kv_ledger_measure(&ledger); /* nothing is held any more */
    assert_int_equal(lh_kv_ledger_blocks_free(&ledger), 10);
}

static void without_a_chain_nothing_fits(void **state) {
    (void)state;
    lh_kv_ledger ledger = {0};
    lh_kv_ledger_measure(&ledger);
    assert_int_equal(lh_kv_ledger_positions(&ledger), 0);
    assert_int_equal(lh_kv_ledger_positions_free(&ledger), 0);
}

static void huge_figures_do_not_wrap(void **state) {
    (void)state;
    lh_kv_ledger ledger = {.stage_count = 1, .stages = {{1u << 24, UINT64_MAX}}};
    lh_kv_ledger_measure(&ledger);
    assert_int_equal(lh_kv_ledger_positions(&ledger), UINT64_MAX);
    assert_int_equal(lh_kv_ledger_blocks_for(&ledger, UINT32_MAX), 256);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_stage_decides),
        cmocka_unit_test(pages_of_odd_sizes_have_a_common_block),
        cmocka_unit_test(without_stages_there_is_nothing),
        cmocka_unit_test(what_is_held_moves_to_other_stages),
        cmocka_unit_test(without_a_chain_nothing_fits),
        cmocka_unit_test(huge_figures_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
