/* Sequences by their handles, and the one that is due next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/sequence_index.h"
#include "tests/support/failing_malloc.h"

enum { SEQUENCES = 200 };

static lh_sequence sequences[SEQUENCES];

/* More than there are buckets at the least, and handles that differ in their high bits alone. */
static void each_is_found_while_it_is_there(void **state) {
    (void)state;
    lh_sequence_index *index;
    assert_int_equal(lh_sequence_index_create(SEQUENCES, &index, NULL), LH_OK);
    for (uint64_t i = 0; i < SEQUENCES; i++) {
        sequences[i] = (lh_sequence){.handle = i << (i % 2 ? 40 : 0)};
        lh_sequence_index_add(index, &sequences[i]);
    }
    assert_null(lh_sequence_index_find(index, SEQUENCES + 1));
    for (uint64_t i = 0; i < SEQUENCES; i++) {
        assert_ptr_equal(lh_sequence_index_find(index, sequences[i].handle), &sequences[i]);
        lh_sequence_index_remove(index, &sequences[i]);
        assert_null(lh_sequence_index_find(index, sequences[i].handle));
    }
    lh_sequence_index_destroy(index);
}

/* Those without a deadline never are. */
static void the_earliest_deadline_is_next(void **state) {
    (void)state;
    static const int64_t deadlines_us[] = {0, 70, 30, 0, 50, 30, 90, 1};
    static const int64_t order_us[] = {1, 30, 30, 50, 70, 90};
    lh_sequence_index *index;
    assert_int_equal(lh_sequence_index_create(8, &index, NULL), LH_OK);
    assert_null(lh_sequence_index_next_due(index));
    for (uint64_t i = 0; i < 8; i++) {
        sequences[i] = (lh_sequence){.handle = i, .request.deadline_us = deadlines_us[i]};
        lh_sequence_index_add(index, &sequences[i]);
    }
    for (size_t i = 0; i < sizeof order_us / sizeof order_us[0]; i++) {
        lh_sequence *next = lh_sequence_index_next_due(index);
        assert_non_null(next);
        assert_int_equal(next->request.deadline_us, order_us[i]);
        lh_sequence_index_remove(index, next);
    }
    assert_null(lh_sequence_index_next_due(index));
    assert_ptr_equal(lh_sequence_index_find(index, 3), &sequences[3]);
    lh_sequence_index_remove(index, &sequences[0]);
    lh_sequence_index_remove(index, &sequences[3]);
    lh_sequence_index_destroy(index);
}

static void without_memory_there_is_none(void **state) {
    (void)state;
    lh_sequence_index *index;
    failing_malloc_arm(1);
    assert_int_equal(lh_sequence_index_create(8, &index, NULL), LH_ERR_NO_MEMORY);
    assert_true(failing_malloc_disarm());
    lh_sequence_index_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_is_found_while_it_is_there),
                                       cmocka_unit_test(the_earliest_deadline_is_next),
                                       cmocka_unit_test(without_memory_there_is_none)};
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
