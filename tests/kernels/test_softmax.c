/* The parts of a softmax: each set against the reference bit for bit. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Runs `count` floats of strided bit patterns through exp_sum in pieces. */
static void check_exp_sweep(const lh_kernels *set, void *context) {
    (void)context;
    enum { PIECE = 997 };
    float x[PIECE], y[PIECE], expected[PIECE];
    uint64_t bits = 0;
    while (bits < UINT32_MAX) {
        size_t count = 0;
        for (; count < PIECE && bits < UINT32_MAX; bits += 1511) {
            float value = float_of_bits((uint32_t)bits);
            if (!isnan(value))
                x[count++] = value;
        }
        float sum = set->exp_sum(y, x, 0, count),
              expected_sum = lh_kernels_at(0)->exp_sum(expected, x, 0, count);
        assert_same_floats(y, expected, count, set->name);
        assert_same_floats(&sum, &expected_sum, 1, set->name);
    }
}

static void test_exp_is_the_same_for_all_magnitudes(void **state) {
    (void)state;
    for_each_set(check_exp_sweep, NULL);
}

static void check_exp_sum_and_max(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {21};
    for (size_t count = 1; count < 140; count++) {
        float *x = random_floats(&random, count), *y = test_alloc(count * 4),
              *expected = test_alloc(count * 4);
        float max = set->max(x, count), expected_max = lh_kernels_at(0)->max(x, count);
        assert_same_floats(&max, &expected_max, 1, set->name);
        float sum = set->exp_sum(y, x, max, count),
              expected_sum = lh_kernels_at(0)->exp_sum(expected, x, max, count);
        assert_same_floats(y, expected, count, set->name);
        assert_same_floats(&sum, &expected_sum, 1, set->name);
        free(x);
        free(y);
        free(expected);
    }
}

static void test_exp_sum_and_max_of_any_count(void **state) {
    (void)state;
    for_each_set(check_exp_sum_and_max, NULL);
}

static void test_max_of_zeros_is_plus_zero(void **state) {
    (void)state;
    const float zeros[] = {-0.0f, 0.0f, -0.0f}, below[] = {-0.0f, -1.0f};
    for (size_t set = 0; lh_kernels_at(set); set++) {
        assert_int_equal(bits_of_float(lh_kernels_at(set)->max(zeros, 3)), 0);
        assert_int_equal(bits_of_float(lh_kernels_at(set)->max(below, 2)), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_is_the_same_for_all_magnitudes),
        cmocka_unit_test(test_exp_sum_and_max_of_any_count),
        cmocka_unit_test(test_max_of_zeros_is_plus_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
