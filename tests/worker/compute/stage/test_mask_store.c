/* What the last stage keeps of masks: it obeys, within a bound. */
#include "tests/support/failing_malloc.h"
#include "worker/compute/stage/mask_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define VOCABULARY 100u

static const uint8_t code[2] = {1, 70}; /* token 70 alone */

static lh_mask_store *create(void) {
    lh_mask_store *store;
    lh_error error;
    assert_int_equal(lh_mask_store_create(VOCABULARY, &store, &error), LH_OK);
    return store;
}

static lh_step_mask mask_numbered(uint64_t number) {
    return (lh_step_mask){number, VOCABULARY, sizeof code, code};
}

static lh_status keep(lh_mask_store *store, uint64_t number, lh_error *error) {
    const lh_step_mask mask = mask_numbered(number);
    return lh_mask_store_keep(store, &mask, error);
}

static void test_kept_until_dropped(void **state) {
    (void)state;
    lh_mask_store *store = create();
    lh_error error;
    assert_null(lh_mask_store_find(store, 1));
    assert_int_equal(keep(store, 1, &error), LH_OK);
    assert_int_equal(keep(store, 1 + LH_STEP_MASKS_KEPT_MAX, &error), LH_OK); /* the same bucket */
    const uint64_t *words = lh_mask_store_find(store, 1);
    assert_non_null(words);
    assert_true(words[0] == 0 && words[1] == 1u << 6);
    assert_int_equal(keep(store, 1, &error), LH_OK); /* comes again: it stays where it is */
    assert_ptr_equal(lh_mask_store_find(store, 1), words);
    lh_mask_store_drop(store, 1);
    lh_mask_store_drop(store, 1);
    assert_null(lh_mask_store_find(store, 1));
    assert_non_null(lh_mask_store_find(store, 1 + LH_STEP_MASKS_KEPT_MAX));
    lh_mask_store_reset(store);
    assert_null(lh_mask_store_find(store, 1 + LH_STEP_MASKS_KEPT_MAX));
    lh_mask_store_destroy(store);
}

static void test_no_more_than_the_bound(void **state) {
    (void)state;
    lh_mask_store *store = create();
    lh_error error;
    for (uint64_t number = 1; number <= LH_STEP_MASKS_KEPT_MAX; number++)
        assert_int_equal(keep(store, number, &error), LH_OK);
    assert_int_equal(keep(store, LH_STEP_MASKS_KEPT_MAX + 1, &error), LH_ERR_LIMIT);
    assert_int_equal(keep(store, 5, &error), LH_OK); /* it is here */
    lh_mask_store_drop(store, 5);
    assert_int_equal(keep(store, LH_STEP_MASKS_KEPT_MAX + 1, &error), LH_OK);
    lh_mask_store_destroy(store);
}

static void test_what_is_no_mask_of_the_model_is_refused(void **state) {
    (void)state;
    lh_mask_store *store = create();
    lh_error error;
    lh_step_mask mask = mask_numbered(1);
    mask.vocabulary++;
    assert_int_equal(lh_mask_store_keep(store, &mask, &error), LH_ERR_INVALID);
    assert_string_equal(error.message, "mask 1: over 101 tokens; the model has 100");
    mask = mask_numbered(1);
    mask.code_bytes = 1; /* allows nothing */
    assert_int_equal(lh_mask_store_keep(store, &mask, &error), LH_ERR_MALFORMED);
    assert_null(lh_mask_store_find(store, 1));
    lh_mask_store_destroy(store);
}

static void test_nth_allocation_fails(void **state) {
    (void)state;
    for (size_t n = 1;; n++) {
        lh_mask_store *store = NULL;
        lh_error error;
        failing_malloc_arm(n);
        lh_status status = lh_mask_store_create(VOCABULARY, &store, &error);
        if (status == LH_OK)
            status = keep(store, 1, &error);
        bool failed = failing_malloc_disarm();
        assert_int_equal(status, failed ? LH_ERR_NO_MEMORY : LH_OK);
        lh_mask_store_destroy(store);
        if (!failed)
            return;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept_until_dropped),
        cmocka_unit_test(test_no_more_than_the_bound),
        cmocka_unit_test(test_what_is_no_mask_of_the_model_is_refused),
        cmocka_unit_test(test_nth_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
