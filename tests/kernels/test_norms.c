/* RMSNorm of heads and behind a branch: the reference against its definition in double, each set
 * against the reference. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define EPSILON 1e-6f

static double rms(const float *x, uint32_t count) {
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)x[i] * x[i];
    return sqrt(sum / count + (double)EPSILON);
}

static void test_heads_are_normed_one_by_one(void **state) {
    (void)state;
    enum { ROWS = 3, HEADS = 5, DIMS = 44, STRIDE = HEADS * DIMS + 2 };
    test_random random = {51};
    float *x = random_floats(&random, ROWS * STRIDE), *y = test_alloc(ROWS * STRIDE * 4);
    float *gain = random_floats(&random, DIMS);
    memcpy(y, x, ROWS * STRIDE * 4);
    lh_kernels_at(0)->norm_heads(y, STRIDE, ROWS, HEADS, DIMS, gain, EPSILON);
    for (uint32_t row = 0; row < ROWS; row++) {
        for (uint32_t i = 0; i < HEADS * DIMS; i++) {
            const float *head = x + row * STRIDE + i / DIMS * DIMS;
            double expected = head[i % DIMS] / rms(head, DIMS) * gain[i % DIMS];
            assert_true(fabs(y[row * STRIDE + i] - expected) <= 5e-7 * fabs(expected));
        }
        assert_same_floats(y + row * STRIDE + HEADS * DIMS, x + row * STRIDE + HEADS * DIMS, 2,
                           "beside");
    }
    free(gain);
    free(y);
    free(x);
}

static void test_a_normed_row_is_added(void **state) {
    (void)state;
    enum { ROWS = 3, WIDTH = 100 };
    test_random random = {52};
    float *x = random_floats(&random, ROWS * WIDTH), *y = random_floats(&random, ROWS * WIDTH);
    float *before = test_alloc(ROWS * WIDTH * 4), *gain = random_floats(&random, WIDTH);
    memcpy(before, y, ROWS * WIDTH * 4);
    lh_kernels_at(0)->norm_add(y, x, WIDTH, ROWS, WIDTH, gain, EPSILON);
    for (uint32_t i = 0; i < ROWS * WIDTH; i++) {
        double added = x[i] / rms(x + i / WIDTH * WIDTH, WIDTH) * gain[i % WIDTH];
        assert_true(fabs(y[i] - (before[i] + added)) <= 5e-7 * (fabs(added) + fabs(before[i])));
    }
    free(gain);
    free(before);
    free(y);
    free(x);
}

static void test_a_row_of_zeros_stays_finite(void **state) {
    (void)state;
    float x[16] = {0}, gain[16] = {1};
    lh_kernels_at(0)->norm_heads(x, 16, 1, 1, 16, gain, EPSILON);
    for (int i = 0; i < 16; i++)
        assert_true(x[i] == 0);
}

static void check_heads(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {53};
    for (int i = 0; i < 100; i++) {
        uint32_t rows = random_between(&random, 1, 4), heads = random_between(&random, 1, 5);
        uint32_t head_dim = random_between(&random, 1, 140);
        size_t stride = (size_t)heads * head_dim + random_between(&random, 0, 5);
        float *x = random_floats(&random, rows * stride), *y = test_alloc(rows * stride * 4);
        float *gain = random_floats(&random, head_dim);
        memcpy(y, x, rows * stride * 4);
        set->norm_heads(y, stride, rows, heads, head_dim, gain, EPSILON);
        lh_kernels_at(0)->norm_heads(x, stride, rows, heads, head_dim, gain, EPSILON);
        assert_same_floats(y, x, rows * stride, set->name);
        free(gain);
        free(y);
        free(x);
    }
}

static void test_heads_of_any_shape(void **state) {
    (void)state;
    for_each_set(check_heads, NULL);
}

static void check_rows(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {54};
    for (int i = 0; i < 100; i++) {
        uint32_t rows = random_between(&random, 1, 4), width = random_between(&random, 1, 300);
        size_t stride = width + random_between(&random, 0, 5);
        float *x = random_floats(&random, rows * stride), *gain = random_floats(&random, width);
        float *y = random_floats(&random, rows * stride), *expected = test_alloc(rows * stride * 4);
        memcpy(expected, y, rows * stride * 4);
        set->norm_add(y, x, stride, rows, width, gain, EPSILON);
        lh_kernels_at(0)->norm_add(expected, x, stride, rows, width, gain, EPSILON);
        assert_same_floats(y, expected, rows * stride, set->name);
        free(expected);
        free(y);
        free(gain);
        free(x);
    }
}

static void test_rows_of_any_shape(void **state) {
    (void)state;
    for_each_set(check_rows, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads_are_normed_one_by_one),
        cmocka_unit_test(test_a_normed_row_is_added),
        cmocka_unit_test(test_a_row_of_zeros_stays_finite),
        cmocka_unit_test(test_heads_of_any_shape),
        cmocka_unit_test(test_rows_of_any_shape),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
