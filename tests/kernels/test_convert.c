/* binary16: all 65,536 of them, and random floats with their ties, against arithmetic in double. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float widened(const lh_kernels *kernels, uint16_t half) {
    float value;
    kernels->f32_from_f16(&value, &half, 1);
    return value;
}

static void test_every_half_widens_exactly(void **state) {
    (void)state;
    for (uint32_t half = 0; half < 65536; half++) {
        int exponent = half >> 10 & 31, mantissa = half & 1023;
        float value = widened(lh_kernels_at(0), (uint16_t)half);
        if (exponent == 31 && mantissa != 0) {
            assert_true(isnan(value));
            continue;
        }
        double exact = exponent == 31  ? INFINITY
                       : exponent == 0 ? ldexp(mantissa, -24)
                                       : ldexp(1024 + mantissa, exponent - 25);
        assert_true((double)value == (half & 0x8000 ? -exact : exact));
        assert_int_equal(signbit(value) != 0, half >> 15);
        uint16_t back;
        lh_kernels_at(0)->f16_from_f32(&back, &value, 1);
        assert_int_equal(back, half);
    }
}

static void check_every_half(const lh_kernels *set, void *context) {
    (void)context;
    enum { ALL = 65536 };
    uint16_t *halves = test_alloc(ALL * 2);
    float *y = test_alloc(ALL * 4), *expected = test_alloc(ALL * 4);
    for (uint32_t i = 0; i < ALL; i++)
        halves[i] = (uint16_t)i;
    set->f32_from_f16(y, halves, ALL);
    lh_kernels_at(0)->f32_from_f16(expected, halves, ALL);
    assert_same_floats(y, expected, ALL, set->name);
    free(halves);
    free(y);
    free(expected);
}

static void test_every_half_is_the_same_in_all_sets(void **state) {
    (void)state;
    for_each_set(check_every_half, NULL);
}

/* Rounding by the definition: of the two neighbours the nearer, of two equally near the
 * even one. */
static void test_rounding_is_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t half = 0; half < 0x7bff; half++) {
        double low = widened(lh_kernels_at(0), (uint16_t)half),
               high = widened(lh_kernels_at(0), (uint16_t)(half + 1));
        float tie = (float)((low + high) / 2);
        assert_true((double)tie == (low + high) / 2);
        const float x[3] = {nextafterf(tie, 0), tie, nextafterf(tie, INFINITY)};
        uint16_t y[3];
        lh_kernels_at(0)->f16_from_f32(y, x, 3);
        assert_int_equal(y[0], half);
        assert_int_equal(y[1], half + (half & 1));
        assert_int_equal(y[2], half + 1);
    }
}

static void test_overflow_is_infinity_and_nan_stays(void **state) {
    (void)state;
    const float x[] = {65504,     65519.996f, 65520,    3e38f,           INFINITY,
                       -INFINITY, -1e9f,      0x1p-25f, 0x1.000002p-25f, -0.0f};
    const uint16_t expected[] = {0x7bff, 0x7bff, 0x7c00, 0x7c00, 0x7c00,
                                 0xfc00, 0xfc00, 0,      1,      0x8000};
    uint16_t y[10], nan;
    lh_kernels_at(0)->f16_from_f32(y, x, 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(y[i], expected[i]);
    const float signalling = float_of_bits(0x7f800001);
    lh_kernels_at(0)->f16_from_f32(&nan, &signalling, 1);
    assert_true(isnan(widened(lh_kernels_at(0), nan)));
}

/* Every 1013th float, from memory that is not aligned. */
static void check_floats(const lh_kernels *set, void *context) {
    (void)context;
    enum { PIECE = 1001 };
    char input[PIECE * 4 + 1], output[PIECE * 2 + 1], expected[PIECE * 2 + 1];
    for (uint64_t bits = 0; bits < UINT32_MAX;) {
        size_t count = 0;
        for (; count < PIECE && bits < UINT32_MAX; count++, bits += 1013) {
            uint32_t pattern = (uint32_t)bits;
            memcpy(input + 1 + 4 * count, &pattern, 4);
        }
        set->f16_from_f32((uint16_t *)(void *)(output + 1),
                          (const float *)(const void *)(input + 1), count);
        lh_kernels_at(0)->f16_from_f32((uint16_t *)(void *)(expected + 1),
                                       (const float *)(const void *)(input + 1), count);
        assert_memory_equal(output + 1, expected + 1, 2 * count);
    }
}

static void test_floats_round_the_same_in_all_sets(void **state) {
    (void)state;
    for_each_set(check_floats, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half_widens_exactly),
        cmocka_unit_test(test_every_half_is_the_same_in_all_sets),
        cmocka_unit_test(test_rounding_is_to_nearest_even),
        cmocka_unit_test(test_overflow_is_infinity_and_nan_stays),
        cmocka_unit_test(test_floats_round_the_same_in_all_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
