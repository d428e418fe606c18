/* exp, log and angles against libm in double: accuracy, and the edges. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* Distance of `value` from `exact` in units of the last place of a float near it. */
static double ulps(float value, double exact) {
    int exponent;
    frexp(exact, &exponent);
    return fabs((double)value - exact) / ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

/* Less of the floats for programs that a sanitizer or an emulator makes slow. */
static uint32_t stride(uint32_t usual) {
    return getenv("LONGHAUL_TEST_QUICK") ? 17 * usual : usual;
}

/* Every 251st bit pattern of the finite floats whose exp is a positive finite float. */
static void test_exp_error_is_below_one_ulp(void **state) {
    (void)state;
    double worst = 0;
    const uint32_t step = stride(251);
    for (uint64_t bits = 0; bits < UINT32_MAX; bits += step) {
        float x = float_of_bits((uint32_t)bits);
        if (!(x > -103.9f && x < 88.7228f))
            continue;
        double error = ulps(lh_exp_f32(x), exp(x));
        worst = error > worst ? error : worst;
    }
    print_message("exp: at most %.3f ulp\n", worst);
    assert_true(worst < 1.0);
}

static void test_exp_edges(void **state) {
    (void)state;
    assert_true(lh_exp_f32(0.0f) == 1.0f && lh_exp_f32(-0.0f) == 1.0f);
    assert_true(lh_exp_f32(INFINITY) == INFINITY && lh_exp_f32(89.0f) == INFINITY);
    assert_true(lh_exp_f32(-INFINITY) == 0.0f && lh_exp_f32(-104.5f) == 0.0f &&
                lh_exp_f32(-1e30f) == 0.0f);
    assert_true(lh_exp_f32(-103.0f) == 0x1p-149f);
    assert_true(isnan(lh_exp_f32(NAN)));
    assert_true(lh_exp_f32(0x1p-149f) == 1.0f);
}

static void test_log_error_is_below_one_ulp(void **state) {
    (void)state;
    double worst = 0;
    const uint32_t step = stride(97);
    for (uint32_t bits = 1; bits < 0x7f800000u; bits += step) {
        float x = float_of_bits(bits);
        double error = ulps(lh_log_f32(x), log(x));
        worst = error > worst ? error : worst;
    }
    print_message("log: at most %.3f ulp\n", worst);
    assert_true(worst < 1.0);
    assert_true(lh_log_f32(1.0f) == 0.0f);
}

static void test_rope_frequencies_are_powers_of_the_base(void **state) {
    (void)state;
    static const double bases[] = {10000, 100000, 500000, 1e6, 130000, 5e8};
    static const uint32_t dims[] = {2, 64, 80, 100, 128, 256};
    for (size_t b = 0; b < sizeof bases / sizeof bases[0]; b++)
        for (size_t n = 0; n < sizeof dims / sizeof dims[0]; n++) {
            double frequency[128];
            lh_rope_frequencies(frequency, dims[n], bases[b]);
            for (uint32_t i = 0; i < dims[n] / 2; i++) {
                long double exact = powl((long double)bases[b], -2.0L * i / dims[n]);
                assert_true(fabsl(frequency[i] / exact - 1) < 4e-16L);
            }
        }
}

static void test_rope_angles_hold_at_far_positions(void **state) {
    (void)state;
    double frequency[64], worst = 0;
    lh_rope_frequencies(frequency, 128, 10000);
    for (uint32_t position = 0; position < 1u << 20; position += position < 3000 ? 1 : 1237) {
        float cosine[64], sine[64];
        lh_kernels_at(0)->rope_angles(cosine, sine, frequency, 64, position, 1);
        for (uint32_t i = 0; i < 64; i++) {
            double error = fmax(fabs(cosine[i] - cos(position * frequency[i])),
                                fabs(sine[i] - sin(position * frequency[i])));
            worst = error > worst ? error : worst;
        }
    }
    print_message("angles: at most %.3g\n", worst);
    assert_true(worst < 3.1e-8); /* half a unit in the last place below 1 */
}

/* Any number of pairs, with scaled magnitudes. */
static void test_rope_angles_are_the_same_in_all_sets(void **state) {
    (void)state;
    test_random random = {21};
    for (size_t set = 1; lh_kernels_at(set); set++)
        for (int i = 0; i < 2000; i++) {
            double frequency[128], magnitude = i % 2 ? 1 : 1 + 0.3 * i / 2000;
            float expected[2][128], cosine[128], sine[128];
            uint32_t half = random_between(&random, 1, 128),
                     position = random_between(&random, 0, 1u << 20);
            lh_rope_frequencies(frequency, 2 * half, i % 3 ? 10000 : 1e6);
            lh_kernels_at(0)->rope_angles(expected[0], expected[1], frequency, half, position,
                                          magnitude);
            lh_kernels_at(set)->rope_angles(cosine, sine, frequency, half, position, magnitude);
            assert_memory_equal(cosine, expected[0], half * sizeof(float));
            assert_memory_equal(sine, expected[1], half * sizeof(float));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp_error_is_below_one_ulp),
        cmocka_unit_test(test_exp_edges),
        cmocka_unit_test(test_log_error_is_below_one_ulp),
        cmocka_unit_test(test_rope_frequencies_are_powers_of_the_base),
        cmocka_unit_test(test_rope_angles_hold_at_far_positions),
        cmocka_unit_test(test_rope_angles_are_the_same_in_all_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
