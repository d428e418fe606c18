/* Which sets the machine runs, and what a wrong name is told. */
#include "kernels/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_best_is_the_last_that_runs(void **state) {
    (void)state;
    static const char *const spellings[] = {NULL, "", "auto"};
    size_t count = 0;
    while (lh_kernels_at(count))
        print_message("this machine runs %s\n", lh_kernels_at(count++)->name);
    assert_true(count > 0);
    assert_string_equal(lh_kernels_at(0)->name, "reference");
    for (size_t i = 0; i < 3; i++) {
        const lh_kernels *best = NULL;
        assert_int_equal(lh_kernels_select(spellings[i], &best, NULL), LH_OK);
        assert_ptr_equal(best, lh_kernels_at(count - 1));
    }
}

static void test_each_set_is_found_by_its_name(void **state) {
    (void)state;
    for (size_t i = 0; lh_kernels_at(i); i++) {
        const lh_kernels *kernels = NULL;
        assert_int_equal(lh_kernels_select(lh_kernels_at(i)->name, &kernels, NULL), LH_OK);
        assert_ptr_equal(kernels, lh_kernels_at(i));
    }
}

static void test_unknown_names_are_refused_with_the_choice(void **state) {
    (void)state;
    const lh_kernels *kernels = NULL;
    lh_error error;
    assert_int_equal(lh_kernels_select("avx9000", &kernels, &error), LH_ERR_INVALID);
    assert_non_null(strstr(error.message, "'avx9000'"));
    assert_non_null(strstr(error.message, "reference"));
    assert_null(kernels);
    assert_int_equal(lh_kernels_select("AVX2", &kernels, NULL), LH_ERR_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_is_the_last_that_runs),
        cmocka_unit_test(test_each_set_is_found_by_its_name),
        cmocka_unit_test(test_unknown_names_are_refused_with_the_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
