/* Packing of activations and the sums for the norm: extremes, spans, and every set against the
 * reference. */
#include "kernels/layout.h"
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void test_blocks_hold_what_was_put_in(void **state) {
    (void)state;
    test_random random = {11};
    float *x = random_floats(&random, 64);
    lh_activations packed = pack_rows(lh_kernels_at(0), LH_ACTIVATION_F32, 1, 64, x);
    assert_same_floats(packed.data, x, 64, "floats as they are");
    free(packed.data);
    free(x);
}

/* Blocks that try the definition's edges, one a row. */
static float *extreme_rows(uint32_t *rows) {
    static const float fills[][2] = {
        {0.0f, -0.0f},          {0x1p-149f, 0x1p-149f}, {0x1p-126f, -0x1p-130f},
        {3.7e-37f, 1e-38f},     {3.8e-37f, 3.8e-37f},   {3e38f, -3.4e38f},
        {INFINITY, 1.0f},       {-INFINITY, 0.0f},      {NAN, 1.0f},
        {1.0f, -1.0f},          {127.0f, 0.5f},         {127.0f, 2.5f},
        {127.0f, -1.5f},        {1e-30f, 1e30f},        {254.0f, 3.0f},
        {1.0f, 0x1.fffffep-1f},
    };
    *rows = sizeof fills / sizeof fills[0];
    float *x = test_alloc(*rows * 32 * sizeof(float));
    for (uint32_t row = 0; row < *rows; row++)
        for (uint32_t c = 0; c < 32; c++)
            x[row * 32 + c] = fills[row][(c * 7 + 3) % 5 == 0 ? 0 : 1];
    return x;
}

static void check_extremes(const lh_kernels *set, void *context) {
    (void)context;
    uint32_t rows;
    float *x = extreme_rows(&rows);
    lh_activations expected = pack_rows(lh_kernels_at(0), LH_ACTIVATION_Q8, rows, 32, x);
    lh_activations packed = pack_rows(set, LH_ACTIVATION_Q8, rows, 32, x);
    assert_memory_equal(packed.data, expected.data,
                        lh_activations_bytes(LH_ACTIVATION_Q8, rows, 32));
    free(packed.data);
    free(expected.data);
    free(x);
}

static void test_extreme_blocks(void **state) {
    (void)state;
    for_each_set(check_extremes, NULL);
}

/* What is not finite must show in the product and not turn into a number. */
static void check_not_finite(const lh_kernels *set, void *context) {
    (void)context;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    test_random random = {12};
    uint8_t *source = random_weights(&random, LH_DTYPE_Q4_1, 16, 32);
    lh_matrix w = pack_weights(LH_DTYPE_Q4_1, 16, 32, source);
    for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
        float x[32] = {1, 2, 3}, y[16];
        x[17] = bad[b];
        lh_activations packed =
            pack_rows(set, b % 2 ? LH_ACTIVATION_Q8 : LH_ACTIVATION_Q16, 1, 32, x);
        set->matmul(y, 16, &packed, &w, (lh_span){0, 32}, (lh_span){0, 16}, false);
        for (int o = 0; o < 16; o++)
            assert_true(!isfinite(y[o]));
        free(packed.data);
    }
    free(w.data);
    free(source);
}

static void test_what_is_not_finite_is_not_lost(void **state) {
    (void)state;
    for_each_set(check_not_finite, NULL);
}

/* Random cuts, with gain and squares, against the reference in one piece. */
static void check_spans(const lh_kernels *kernels, lh_activation_kind kind, test_random *random) {
    uint32_t rows = random_between(random, 1, 5), width = 32 * random_between(random, 1, 9);
    if (kind == LH_ACTIVATION_F32)
        width -= random_between(random, 0, 31);
    size_t stride = width + random_between(random, 0, 2),
           bytes = lh_activations_bytes(kind, rows, width);
    float *x = random_floats(random, rows * stride), *gain = random_floats(random, width);
    const float *used = random_between(random, 0, 3) == 0 ? NULL : gain;
    lh_activations a = {kind, rows, width, test_alloc(bytes)},
                   b = {kind, rows, width, test_alloc(bytes)};
    float expected[5 * 16] = {0}, squares[5 * 16] = {0}, expected_scale[5], scale[5];
    lh_kernels_at(0)->pack_activations(&a, (lh_span){0, width}, x, stride, used, expected);
    for (uint32_t from = 0; from < width;) {
        uint32_t to = from + 32 * random_between(random, 1, 4);
        lh_span columns = {from, to < width ? to : width};
        kernels->pack_activations(&b, columns, x, stride, used, squares);
        from = columns.end;
    }
    assert_memory_equal(a.data, b.data, bytes);
    assert_same_floats(squares, expected, rows * 16, kernels->name);
    if (kernels->rms_scale) { /* on a GPU a part of norm_activations: tests/cuda/test_norm.c */
        lh_kernels_at(0)->rms_scale(expected_scale, expected, rows, width, 1e-5f);
        kernels->rms_scale(scale, squares, rows, width, 1e-5f);
        assert_same_floats(scale, expected_scale, rows, kernels->name);
    }
    free(a.data);
    free(b.data);
    free(x);
    free(gain);
}

static void check_any_spans(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {13};
    for (int i = 0; i < 60; i++)
        check_spans(set, (lh_activation_kind)(i % 3), &random);
}

static void test_spans_give_the_whole(void **state) {
    (void)state;
    for_each_set(check_any_spans, NULL);
}

static void test_two_blocks_say_more_than_one(void **state) {
    (void)state;
    test_random random = {16};
    for (int i = 0; i < 200; i++) {
        float *x = random_floats(&random, 32);
        lh_activations packed = pack_rows(lh_kernels_at(0), LH_ACTIVATION_Q16, 1, 32, x);
        const lh_q8_block *block = packed.data;
        float amax = 0;
        for (int k = 0; k < 32; k++)
            amax = fmaxf(amax, fabsf(x[k]));
        for (int k = 0; k < 32; k++) {
            double said = (double)block[0].d * block[0].q[k] + (double)block[1].d * block[1].q[k];
            assert_true(fabs(said - x[k]) <= amax / 64516 * (1 + 1e-3));
        }
        free(packed.data);
        free(x);
    }
}

static void test_rms_scale_is_that_of_the_norm(void **state) {
    (void)state;
    test_random random = {14};
    float *x = random_floats(&random, 576), squares[16] = {0}, scale;
    lh_activations packed = pack_rows(lh_kernels_at(0), LH_ACTIVATION_Q8, 1, 576, x);
    lh_kernels_at(0)->pack_activations(&packed, (lh_span){0, 576}, x, 576, NULL, squares);
    lh_kernels_at(0)->rms_scale(&scale, squares, 1, 576, 1e-5f);
    double sum = 0;
    for (int i = 0; i < 576; i++)
        sum += (double)x[i] * x[i];
    assert_true(fabs(scale * sqrt(sum / 576 + 1e-5) - 1) < 1e-6);
    free(packed.data);
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_hold_what_was_put_in),
        cmocka_unit_test(test_extreme_blocks),
        cmocka_unit_test(test_what_is_not_finite_is_not_lost),
        cmocka_unit_test(test_spans_give_the_whole),
        cmocka_unit_test(test_two_blocks_say_more_than_one),
        cmocka_unit_test(test_rms_scale_is_that_of_the_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
