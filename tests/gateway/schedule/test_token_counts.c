/* Tokens, each with an entry of its own, in the order in which they came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "gateway/schedule/token_counts.h"
#include "tests/support/failing_malloc.h"

/* As many as there is room for, several times; their slots are taken by others, too. */
static void each_token_has_its_entry(void **state) {
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 8, 64, 1000};
    static const uint32_t strides[] = {1, 1u << 16, 0x10000001};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t k = 0; k < sizeof strides / sizeof strides[0]; k++) {
            uint32_t size = sizes[i], count = 1;
            lh_token_counts *counts = lh_token_counts_create(size);
            assert_non_null(counts);
            lh_token_counts_entries(counts, &count);
            assert_int_equal(count, 0);
            for (uint32_t round = 1; round <= 2; round++)
                for (uint32_t token = 0; token < size; token++)
                    lh_token_counts_entry(counts, token * strides[k])->output_count += token + 1;
            const lh_token_count *entries = lh_token_counts_entries(counts, &count);
            assert_int_equal(count, size);
            for (uint32_t token = 0; token < size; token++) {
                assert_int_equal(entries[token].token, token * strides[k]);
                assert_int_equal(entries[token].prompt_count, 0);
                assert_int_equal(entries[token].output_count, 2 * (token + 1));
            }
            lh_token_counts_destroy(counts);
        }
}

static void without_memory_there_are_none(void **state) {
    (void)state;
    for (size_t n = 1; n <= 2; n++) {
        failing_malloc_arm(n);
        assert_null(lh_token_counts_create(8));
        assert_true(failing_malloc_disarm());
    }
    lh_token_counts_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_token_has_its_entry),
                                       cmocka_unit_test(without_memory_there_are_none)};
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
