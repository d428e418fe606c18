/* Packing with the norm's sums and its scale at once, emulated, against the reference's
 * pack_activations and rms_scale: every kind, rows that spans cut, widths about the columns that a
 * block of threads takes at a time. */
#include "kernels/cuda/cuda_kernels.h"
#include "tests/kernels/support/arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EPSILON 1e-5f

static lh_activations activations(lh_activation_kind kind, uint32_t rows, uint32_t width) {
    size_t bytes = lh_activations_bytes(kind, rows, width);
    lh_activations packed = {kind, rows, width, test_alloc(bytes)};
    memset(packed.data, 0x5a, bytes);
    return packed;
}

static void check(test_random *random, lh_activation_kind kind, uint32_t rows, uint32_t width,
                  bool has_gain) {
    const size_t stride = width + random_between(random, 0, 5);
    float *x = random_floats(random, rows * stride), *gain = random_floats(random, width);
    float *squares = random_floats(random, rows * LH_LANES), *scale = test_alloc(rows * 4);
    float *expected_squares = test_alloc(rows * LH_LANES * 4),
          *expected_scale = test_alloc(rows * 4);
    lh_activations packed = activations(kind, rows, width),
                   expected = activations(kind, rows, width);
    char what[64];
    snprintf(what, sizeof what, "kind %d, rows %u of %u", (int)kind, rows, width);
    memset(expected_squares, 0, rows * LH_LANES * 4);
    for (uint32_t begin = 0, end; begin < width; begin = end) {
        uint32_t blocks = random_between(random, 1, (width + 31) / 32);
        end = begin + 32 * blocks < width ? begin + 32 * blocks : width;
        const lh_span span = {begin, end};
        assert_int_equal(lh_cuda_norm_activations(NULL, &packed, span, x, stride,
                                                  has_gain ? gain : NULL, squares, scale, EPSILON),
                         0);
        lh_kernels_at(0)->pack_activations(&expected, span, x, stride, has_gain ? gain : NULL,
                                           expected_squares);
        assert_same_floats(squares, expected_squares, rows * LH_LANES, what);
    }
    lh_kernels_at(0)->rms_scale(expected_scale, expected_squares, rows, width, EPSILON);
    assert_same_floats(scale, expected_scale, rows, what);
    assert_memory_equal(packed.data, expected.data, lh_activations_bytes(kind, rows, width));
    free(packed.data);
    free(expected.data);
    free(expected_scale);
    free(expected_squares);
    free(scale);
    free(squares);
    free(gain);
    free(x);
}

static void test_every_kind(void **state) {
    (void)state;
    static const uint32_t widths[] = {32, 992, 4096, 4128, 8224};
    test_random random = {91};
    for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++)
        for (int kind = 0; kind < 3; kind++)
            check(&random, (lh_activation_kind)kind, random_between(&random, 1, 4), widths[w],
                  kind != 1);
    check(&random, LH_ACTIVATION_F32, 3, 4111, true); /* no whole blocks */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_kind)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
