/* Element-wise kernels: each set against the reference bit for bit, the reference against its
 * definition. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct panel {
    uint32_t rows;
    size_t stride;
    lh_span columns;
    float *a, *b;
} panel;

static panel random_panel(test_random *random) {
    panel p = {.rows = random_between(random, 1, 4)};
    uint32_t width = random_between(random, 1, 120);
    p.stride = width + random_between(random, 0, 2);
    p.columns.begin = random_between(random, 0, 1) ? 32 * random_between(random, 0, width / 32) : 0;
    p.columns.end = width;
    p.a = random_floats(random, p.rows * p.stride);
    p.b = random_floats(random, p.rows * p.stride);
    for (size_t i = 0; i < p.rows * p.stride; i++)
        p.a[i] *= i % 5 == 0 ? 300.0f : 8.0f;
    return p;
}

/* Both outputs begin as copies of a, so that what lies beside the columns is compared as well. */
static void compare(const panel *p, void (*run)(const lh_kernels *, const panel *, float *),
                    const lh_kernels *set) {
    size_t bytes = p->rows * p->stride * sizeof(float);
    float *y = test_alloc(bytes), *expected = test_alloc(bytes);
    memcpy(y, p->a, bytes);
    memcpy(expected, p->a, bytes);
    run(set, p, y);
    run(lh_kernels_at(0), p, expected);
    assert_same_floats(y, expected, p->rows * p->stride, set->name);
    free(y);
    free(expected);
}

static void run_scale(const lh_kernels *kernels, const panel *p, float *y) {
    kernels->scale_rows(y, p->stride, p->rows, p->columns, p->b);
}

static void run_scale_add(const lh_kernels *kernels, const panel *p, float *y) {
    kernels->scale_add_rows(y, p->stride, p->rows, p->columns, p->b, p->a);
}

static void run_add_rows(const lh_kernels *kernels, const panel *p, float *y) {
    kernels->add_rows(y, p->stride, p->rows, p->columns, p->b, p->a);
}

static void run_add_rows_as_they_are(const lh_kernels *kernels, const panel *p, float *y) {
    kernels->add_rows(y, p->stride, p->rows, p->columns, NULL, p->b);
}

static void run_swiglu(const lh_kernels *kernels, const panel *p, float *y) {
    kernels->swiglu_mul(y, y, p->b, p->stride, p->rows, p->columns);
}

static void run_silu(const lh_kernels *kernels, const panel *p, float *y) {
    kernels->silu_mul(y, y, p->b, p->stride, p->rows, p->columns);
}

static void check_panels(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {22};
    for (int i = 0; i < 200; i++) {
        panel p = random_panel(&random);
        compare(&p, run_scale, set);
        compare(&p, run_scale_add, set);
        compare(&p, run_silu, set);
        compare(&p, run_add_rows, set);
        compare(&p, run_add_rows_as_they_are, set);
        for (size_t v = 0; v < p.rows * p.stride; v++)
            p.b[v] *= 20;
        compare(&p, run_swiglu, set);
        free(p.a);
        free(p.b);
    }
}

static void test_panels_of_any_shape(void **state) {
    (void)state;
    for_each_set(check_panels, NULL);
}

static void test_silu_is_close_to_its_definition(void **state) {
    (void)state;
    for (float v = -90; v < 90; v += 0.37f) {
        float y = v, one = 1;
        lh_kernels_at(0)->silu_mul(&y, &y, &one, 1, 1, (lh_span){0, 1});
        double exact = v / (1 + exp(-(double)v));
        assert_true(fabs(y - exact) <= 4e-7 * fabs(exact) + 3e-37);
    }
}

static void test_added_rows(void **state) {
    (void)state;
    float y[2] = {1, 2};
    const float scale[2] = {2, 3}, bias = 0.5f;
    lh_kernels_at(0)->add_rows(y, 1, 2, (lh_span){0, 1}, scale, &bias);
    assert_true(y[0] == 2 && y[1] == 3.5f);
    lh_kernels_at(0)->add_rows(y, 1, 2, (lh_span){0, 1}, NULL, &bias);
    assert_true(y[0] == 2.5f && y[1] == 4);
}

/* The definition, with its bounds, in double. */
static void test_swiglu_is_close_to_its_definition(void **state) {
    (void)state;
    for (float v = -40; v < 20; v += 0.37f)
        for (float up = -9; up < 9; up += 1.3f) {
            float y = v;
            lh_kernels_at(0)->swiglu_mul(&y, &y, &up, 1, 1, (lh_span){0, 1});
            double g = fmin(v, 7), u = fmax(-7, fmin(up, 7));
            double exact = g / (1 + exp(-1.702 * g)) * (u + 1);
            assert_true(fabs(y - exact) <= 4e-6 * fabs(exact) + 1e-20);
        }
}

static void check_swiglu_of_nothing(const lh_kernels *set, void *context) {
    (void)context;
    float none = NAN, one = 1, y = NAN;
    set->swiglu_mul(&y, &none, &one, 1, 1, (lh_span){0, 1});
    assert_true(isnan(y));
    set->swiglu_mul(&y, &one, &none, 1, 1, (lh_span){0, 1});
    assert_true(isnan(y));
}

static void test_swiglu_of_no_number_is_none(void **state) {
    (void)state;
    for_each_set(check_swiglu_of_nothing, NULL);
}

static void check_rope(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {23};
    for (int i = 0; i < 100; i++) {
        uint32_t rows = random_between(&random, 1, 3), heads = random_between(&random, 1, 4);
        uint32_t head_dim = 2 * random_between(&random, 1, 50),
                 rotated = 2 * random_between(&random, 1, head_dim / 2);
        size_t stride = (size_t)heads * head_dim + random_between(&random, 0, 5);
        float *x = random_floats(&random, rows * stride), *y = test_alloc(rows * stride * 4);
        float *cosine = random_floats(&random, rows * rotated / 2),
              *sine = random_floats(&random, rows * rotated / 2);
        memcpy(y, x, rows * stride * 4);
        set->rope(y, stride, rows, heads, head_dim, rotated, i % 2, cosine, sine);
        lh_kernels_at(0)->rope(x, stride, rows, heads, head_dim, rotated, i % 2, cosine, sine);
        assert_same_floats(y, x, rows * stride, set->name);
        free(x);
        free(y);
        free(cosine);
        free(sine);
    }
}

static void test_rope_of_any_shape(void **state) {
    (void)state;
    for_each_set(check_rope, NULL);
}

static void test_rope_rotates_the_right_pairs(void **state) {
    (void)state;
    const float cosine[2] = {0, 1}, sine[2] = {1, 0};
    float interleaved[6] = {1, 2, 3, 4, 5, 6}, halves[6] = {1, 2, 3, 4, 5, 6};
    lh_kernels_at(0)->rope(interleaved, 6, 1, 1, 6, 4, true, cosine, sine);
    lh_kernels_at(0)->rope(halves, 6, 1, 1, 6, 4, false, cosine, sine);
    const float expected_interleaved[6] = {-2, 1, 3, 4, 5, 6},
                expected_halves[6] = {-3, 2, 1, 4, 5, 6};
    assert_same_floats(interleaved, expected_interleaved, 6, "pairs (2i, 2i + 1)");
    assert_same_floats(halves, expected_halves, 6, "pairs (i, i + half)");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_panels_of_any_shape),
        cmocka_unit_test(test_silu_is_close_to_its_definition),
        cmocka_unit_test(test_added_rows),
        cmocka_unit_test(test_swiglu_is_close_to_its_definition),
        cmocka_unit_test(test_swiglu_of_no_number_is_none),
        cmocka_unit_test(test_rope_of_any_shape),
        cmocka_unit_test(test_rope_rotates_the_right_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
