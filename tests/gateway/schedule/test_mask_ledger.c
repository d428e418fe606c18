/* Which masks the last worker has, as the gateway counts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "common/protocol/step_parts.h"
#include "gateway/schedule/mask_ledger.h"
#include "tests/support/failing_malloc.h"

#define PLACES LH_STEP_MASKS_KEPT_MAX

static lh_mask_ledger *create(void) {
    lh_mask_ledger *ledger;
    assert_int_equal(lh_mask_ledger_create(&ledger, NULL), LH_OK);
    return ledger;
}

static void a_mask_is_known_when_a_step_that_brought_it_is_back(void **state) {
    (void)state;
    lh_mask_ledger *ledger = create();
    assert_null(lh_mask_ledger_find(ledger, 77));
    lh_kept_mask *mask = lh_mask_ledger_enter(ledger, 77);
    assert_ptr_equal(lh_mask_ledger_find(ledger, 77), mask);
    assert_true(lh_kept_mask_number(mask) > 0 && !lh_kept_mask_is_known(mask));
    lh_mask_ledger_name(ledger, mask);
    lh_mask_ledger_name(ledger, mask);
    lh_kept_mask_note_known(mask);
    lh_kept_mask_return(mask);
    assert_true(lh_kept_mask_is_known(mask));
    lh_kept_mask_note_missing(mask);
    assert_false(lh_kept_mask_is_known(mask));
    lh_kept_mask_return(mask);
    uint64_t number = lh_kept_mask_number(mask);
    lh_mask_ledger_reset(ledger);
    assert_null(lh_mask_ledger_find(ledger, 77));
    assert_true(lh_kept_mask_number(lh_mask_ledger_enter(ledger, 77)) > number);
    lh_mask_ledger_destroy(ledger);
}

/* The least recently named go, but none that a step under way names; and a place is free only when
 * the drop has been taken. */
static void what_is_used_least_makes_way(void **state) {
    (void)state;
    lh_mask_ledger *ledger = create();
    for (uint64_t id = 1; id <= PLACES / 4 * 3; id++)
        lh_mask_ledger_enter(ledger, id);
    assert_null(lh_mask_ledger_next_drop(ledger));
    for (uint64_t id = PLACES / 4 * 3 + 1; id <= PLACES; id++)
        lh_mask_ledger_enter(ledger, id);
    assert_false(lh_mask_ledger_has_room(ledger));
    lh_mask_ledger_name(ledger, lh_mask_ledger_find(ledger, 1)); /* under way, and the last named */
    lh_mask_ledger_name(ledger, lh_mask_ledger_find(ledger, 2));
    lh_kept_mask_return(lh_mask_ledger_find(ledger, 2));
    lh_kept_mask *dropped = lh_mask_ledger_find(ledger, 3);
    uint64_t number = lh_kept_mask_number(dropped);
    assert_ptr_equal(lh_mask_ledger_next_drop(ledger), dropped);
    assert_null(lh_mask_ledger_find(ledger, 3));
    assert_false(lh_mask_ledger_has_room(ledger));
    lh_mask_ledger_finish_drop(ledger, dropped);
    assert_true(lh_mask_ledger_has_room(ledger));
    assert_true(lh_kept_mask_number(lh_mask_ledger_enter(ledger, 3)) > number);
    uint32_t drops = 0;
    for (lh_kept_mask *mask; (mask = lh_mask_ledger_next_drop(ledger)); drops++)
        lh_mask_ledger_finish_drop(ledger, mask);
    assert_int_equal(drops, PLACES / 4);
    assert_non_null(lh_mask_ledger_find(ledger, 1));
    assert_non_null(lh_mask_ledger_find(ledger, 2));
    lh_mask_ledger_destroy(ledger);
}

static void without_memory_there_is_no_ledger(void **state) {
    (void)state;
    lh_mask_ledger *ledger;
    lh_error error;
    failing_malloc_arm(1);
    assert_int_equal(lh_mask_ledger_create(&ledger, &error), LH_ERR_NO_MEMORY);
    assert_true(failing_malloc_disarm());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_is_known_when_a_step_that_brought_it_is_back),
        cmocka_unit_test(what_is_used_least_makes_way),
        cmocka_unit_test(without_memory_there_is_no_ledger),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
