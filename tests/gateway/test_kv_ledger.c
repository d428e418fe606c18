/* Pages promised. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/kv_ledger.h"

static void the_smallest_stage_decides(void **state) {
    (void)state;
    lh_kv_ledger ledger = {.stage_count = 2, .stages = {{64, 100, 0}, {16, 40, 0}}};
    assert_int_equal(lh_kv_ledger_positions(&ledger), 640);
    assert_false(lh_kv_ledger_promise(&ledger, 641));
    assert_int_equal(ledger.stages[0].pages_promised, 0);
    assert_true(lh_kv_ledger_promise(&ledger, 600));
    assert_int_equal(ledger.stages[0].pages_promised, 10);
    assert_int_equal(ledger.stages[1].pages_promised, 38);
    assert_true(lh_kv_ledger_promise(&ledger, 32));
    assert_int_equal(lh_kv_ledger_positions_free(&ledger), 0);
    assert_false(lh_kv_ledger_promise(&ledger, 1));
    assert_int_equal(ledger.stages[0].pages_promised, 11);
    lh_kv_ledger_give_back(&ledger, 600);
    assert_int_equal(lh_kv_ledger_positions_free(&ledger), 608);
    lh_kv_ledger_give_back(&ledger, 32);
    assert_int_equal(ledger.stages[0].pages_promised, 0);
    assert_int_equal(ledger.stages[1].pages_promised, 0);
}

static void without_a_chain_nothing_fits(void **state) {
    (void)state;
    lh_kv_ledger ledger = {0};
    assert_int_equal(lh_kv_ledger_positions(&ledger), 0);
    assert_false(lh_kv_ledger_promise(&ledger, 1));
    lh_kv_ledger_give_back(&ledger, 1);
}

static void huge_figures_do_not_wrap(void **state) {
    (void)state;
    lh_kv_ledger ledger = {.stage_count = 1, .stages = {{UINT32_MAX, UINT64_MAX, 0}}};
    assert_int_equal(lh_kv_ledger_positions(&ledger), UINT64_MAX);
    assert_true(lh_kv_ledger_promise(&ledger, UINT32_MAX));
    assert_int_equal(ledger.stages[0].pages_promised, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_stage_decides),
        cmocka_unit_test(without_a_chain_nothing_fits),
        cmocka_unit_test(huge_figures_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
