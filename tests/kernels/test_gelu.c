/* The GELU gate: the reference against tanh in double, each set against the reference. Every 4093rd
 * float; with LONGHAUL_TEST_EXHAUSTIVE=1 (a minute) every one between 2^-24 and 64 in magnitude,
 * where GELU bends. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PIECE = 997 };

static uint64_t stride_of_bits(uint64_t bits) {
    uint32_t magnitude = (uint32_t)bits & 0x7fffffffu;
    bool bends = magnitude >= bits_of_float(0x1p-24f) && magnitude < bits_of_float(64);
    return bends && getenv("LONGHAUL_TEST_EXHAUSTIVE") ? 1 : 4093;
}

/* The next floats of the sweep that are no NaN. */
static size_t next_piece(uint64_t *bits, float x[PIECE]) {
    size_t count = 0;
    for (; count < PIECE && *bits <= UINT32_MAX; *bits += stride_of_bits(*bits)) {
        float value = float_of_bits((uint32_t)*bits);
        if (!isnan(value))
            x[count++] = value;
    }
    return count;
}

static void gelu_of(const lh_kernels *kernels, float *y, const float *x, size_t count) {
    float ones[PIECE];
    for (size_t i = 0; i < count; i++)
        ones[i] = 1;
    kernels->gelu_mul(y, x, ones, PIECE, 1, (lh_span){0, (uint32_t)count});
}

/* v / 2 (1 + tanh u) without the cancellation that 1 + tanh u has where u is negative. */
static double exact_gelu(double v) {
    return v / (1 + exp(-2 * sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
}

static double ulp_at(double value) {
    int exponent;
    frexp(value, &exponent);
    return ldexp(1, exponent - 24 < -149 ? -149 : exponent - 24);
}

static void test_gelu_error(void **state) {
    (void)state;
    double positive = 0, near = 0, absolute = 0;
    float x[PIECE], y[PIECE];
    for (uint64_t bits = 0; bits <= UINT32_MAX;) {
        size_t count = next_piece(&bits, x);
        gelu_of(lh_kernels_at(0), y, x, count);
        for (size_t i = 0; i < count; i++) {
            if (isinf(x[i]))
                continue;
            double exact = exact_gelu(x[i]), error = fabs((double)y[i] - exact);
            if (x[i] >= 0)
                positive = fmax(positive, error / ulp_at(exact));
            else {
                absolute = fmax(absolute, error);
                if (x[i] > -5)
                    near = fmax(near, error / ulp_at(exact));
            }
        }
    }
    print_message("gelu: at most %.2f ulp from 0 on, %.2f ulp in (-5, 0), %.3g below 0\n", positive,
                  near, absolute);
    assert_true(positive < 3 && near < 32 && absolute < 6e-8);
}

static void test_gelu_edges(void **state) {
    (void)state;
    const float x[] = {INFINITY, 1e30f, 88.0f, 0.0f, -0.0f, -11.0f, -1e30f};
    float y[7];
    gelu_of(lh_kernels_at(0), y, x, 7);
    assert_true(y[0] == INFINITY && y[1] == 1e30f && y[2] == 88.0f);
    for (int i = 3; i < 7; i++)
        assert_true(y[i] == 0);
    const float nan = NAN;
    gelu_of(lh_kernels_at(0), y, &nan, 1);
    assert_true(isnan(y[0]));
}

static void check_sweep(const lh_kernels *set, void *context) {
    (void)context;
    float x[PIECE], y[PIECE], expected[PIECE];
    for (uint64_t bits = 0; bits <= UINT32_MAX;) {
        size_t count = next_piece(&bits, x);
        for (size_t i = 0; i < count; i++) /* infinity times a zero is a NaN of either sign */
            x[i] = isinf(x[i]) ? 1 : x[i];
        gelu_of(set, y, x, count);
        gelu_of(lh_kernels_at(0), expected, x, count);
        assert_same_floats(y, expected, count, set->name);
    }
}

static void test_gelu_is_the_same_for_all_magnitudes(void **state) {
    (void)state;
    for_each_set(check_sweep, NULL);
}

static void check_panels(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {61};
    for (int i = 0; i < 100; i++) {
        uint32_t rows = random_between(&random, 1, 4), width = random_between(&random, 1, 120);
        size_t stride = width + random_between(&random, 0, 2), count = rows * stride;
        const lh_span columns = {32 * random_between(&random, 0, width / 32), width};
        float *gate = random_floats(&random, count), *up = random_floats(&random, count);
        float *expected = test_alloc(count * 4);
        memcpy(expected, gate, count * 4);
        set->gelu_mul(gate, gate, up, stride, rows, columns);
        lh_kernels_at(0)->gelu_mul(expected, expected, up, stride, rows, columns);
        assert_same_floats(gate, expected, count, set->name);
        free(expected);
        free(up);
        free(gate);
    }
}

static void test_panels_of_any_shape(void **state) {
    (void)state;
    for_each_set(check_panels, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gelu_error),
        cmocka_unit_test(test_gelu_edges),
        cmocka_unit_test(test_gelu_is_the_same_for_all_magnitudes),
        cmocka_unit_test(test_panels_of_any_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
