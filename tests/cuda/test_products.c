/* Products as kernels/cuda computes them, emulated, against the reference bit for bit: every type
 * and both kinds of int8 activations, numbers of rows about those at which another kernel is
 * chosen, outputs that leave tiles and blocks half empty, spans, and extreme quants. */
#include "tests/cuda/support/emulated_kernels.h"
#include "tests/kernels/support/arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A product with all its arrays. */
typedef struct problem {
    lh_matrix w;
    lh_activations x;
    float *values, *seed; /* x as floats; y before the product, with columns beside it */
    size_t y_stride;
} problem;

static problem make_problem(test_random *random, lh_dtype dtype, lh_activation_kind quantized,
                            uint32_t rows, uint32_t outputs, uint32_t inputs) {
    uint8_t *source = random_weights(random, dtype, outputs, inputs);
    problem p = {.w = pack_weights(dtype, outputs, inputs, source),
                 .values = random_floats(random, (size_t)rows * inputs),
                 .y_stride = outputs + random_between(random, 0, 3)};
    p.seed = random_floats(random, rows * p.y_stride);
    p.x = pack_rows(lh_kernels_at(0), lh_activation_kind_for(dtype, quantized), rows, inputs,
                    p.values);
    free(source);
    return p;
}

static void free_problem(problem *p) {
    free(p->w.data);
    free(p->x.data);
    free(p->values);
    free(p->seed);
}

/* The inputs cut at `cut`, which may be their end; from p->seed where it `continues`. */
static float *product_by(const lh_kernels *kernels, const problem *p, uint32_t cut,
                         bool continues) {
    const size_t bytes = p->x.rows * p->y_stride * sizeof(float);
    const lh_span out = {0, p->w.outputs};
    float *y = test_alloc(bytes);
    memcpy(y, p->seed, bytes);
    kernels->matmul(y, p->y_stride, &p->x, &p->w, (lh_span){0, cut}, out, continues);
    if (cut < p->w.inputs)
        kernels->matmul(y, p->y_stride, &p->x, &p->w, (lh_span){cut, p->w.inputs}, out, true);
    return y;
}

static void check(const problem *p, uint32_t cut, bool continues) {
    char what[96];
    snprintf(what, sizeof what, "%s rows %u outputs %u inputs %u, cut at %u",
             lh_dtype_lookup((uint32_t)p->w.dtype)->name, p->x.rows, p->w.outputs, p->w.inputs,
             cut);
    float *expected = product_by(lh_kernels_at(0), p, p->w.inputs, continues),
          *y = product_by(&emulated_kernels, p, cut, continues);
    assert_same_floats(y, expected, p->x.rows * p->y_stride, what);
    free(y);
    free(expected);
}

static uint32_t inputs_near(lh_dtype dtype, uint32_t columns) {
    const uint32_t unit = test_dtype_unit(dtype);
    return (columns + unit - 1) / unit * unit;
}

static void check_kinds(test_random *random, lh_dtype dtype, uint32_t rows, uint32_t outputs,
                        uint32_t columns) {
    for (lh_activation_kind kind = LH_ACTIVATION_Q8; kind <= LH_ACTIVATION_Q16; kind++) {
        const uint32_t inputs = inputs_near(dtype, columns);
        problem p = make_problem(random, dtype, kind, rows, outputs, inputs);
        const uint32_t cut = 32 * random_between(random, 1, (inputs + 31) / 32);
        check(&p, cut < inputs ? cut : inputs, random_between(random, 0, 1));
        free_problem(&p);
    }
}

static void test_every_type_and_kernel(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 3, 7, 40, 65};
    test_random random = {61};
    for (size_t d = 0; d < TEST_DTYPES; d++)
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
            check_kinds(&random, test_dtypes[d], rows[r], random_between(&random, 1, 50),
                        random_between(&random, 1, 300));
}

static void test_any_number_of_rows(void **state) {
    (void)state;
    static const lh_dtype dtypes[] = {LH_DTYPE_Q4_1, LH_DTYPE_Q6_K, LH_DTYPE_IQ4_NL, LH_DTYPE_F16};
    static const uint32_t rows[] = {2, 4, 5, 8, 15, 16, 17, 33, 63, 64, 66, 128, 131};
    test_random random = {62};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        check_kinds(&random, dtypes[r % 4], rows[r], random_between(&random, 60, 90), 160);
    check_kinds(&random, LH_DTYPE_Q4_0, 70, 150, 160); /* enough for two tiles each */
}

/* More blocks than a phase, a stage, or both buffers of one have. */
static void test_many_inputs(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 4, 9};
    test_random random = {63};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (uint32_t columns = 992; columns <= 3104; columns += 704)
            check_kinds(&random, r ? LH_DTYPE_Q4_0 : LH_DTYPE_Q5_K, rows[r], 17, columns);
}

/* The greatest quants and activations: the integers must hold them all. */
static void test_extreme_quants(void **state) {
    (void)state;
    static const uint8_t fills[] = {0x00, 0x80, 0xff};
    test_random random = {64};
    for (size_t d = TEST_FLOAT_DTYPES; d < TEST_DTYPES; d++)
        for (size_t f = 0; f < sizeof fills; f++) {
            const lh_dtype dtype = test_dtypes[d];
            const lh_dtype_info *info = lh_dtype_lookup((uint32_t)dtype);
            const uint32_t rows = f % 2 ? 5 : 2, inputs = inputs_near(dtype, 64);
            problem p = make_problem(&random, dtype, LH_ACTIVATION_Q8, rows, 16, inputs);
            uint8_t *source = random_weights(&random, dtype, 16, inputs);
            const lh_span quants = test_quant_bytes(dtype);
            for (size_t i = 0; i < lh_dtype_bytes(info, 16ull * inputs); i++)
                if (i % info->block_bytes >= quants.begin && i % info->block_bytes < quants.end)
                    source[i] = fills[f];
            lh_matrix_pack(&p.w, source, (lh_span){0, 16});
            for (size_t i = 0; i < (size_t)rows * inputs; i++)
                p.values[i] = i / inputs % 2 ? 1.0f : i % 2 ? -1.0f : 1.0f;
            lh_kernels_at(0)->pack_activations(&p.x, (lh_span){0, inputs}, p.values, inputs, NULL,
                                               NULL);
            check(&p, inputs, false);
            free(source);
            free_problem(&p);
        }
}

/* A span of outputs in the middle: nothing beside it is touched. */
static void test_spans_of_outputs(void **state) {
    (void)state;
    static const uint32_t rows[] = {2, 6, 70};
    test_random random = {65};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        problem p = make_problem(&random, LH_DTYPE_Q4_K, LH_ACTIVATION_Q8, rows[r], 150, 256);
        const size_t bytes = rows[r] * p.y_stride * sizeof(float);
        float *y = test_alloc(bytes), *expected = test_alloc(bytes);
        memcpy(y, p.seed, bytes);
        memcpy(expected, p.seed, bytes);
        const lh_span in = {32, 224}, out = {32, 112};
        emulated_kernels.matmul(y, p.y_stride, &p.x, &p.w, in, out, true);
        lh_kernels_at(0)->matmul(expected, p.y_stride, &p.x, &p.w, in, out, true);
        assert_same_floats(y, expected, rows[r] * p.y_stride, "a span");
        free(y);
        free(expected);
        free_problem(&p);
    }
}

/* Whatever the order of threads and blocks. */
static void test_any_order(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 4, 20, 66};
    test_random random = {66};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        problem p = make_problem(&random, LH_DTYPE_Q4_0, LH_ACTIVATION_Q16, rows[r], 33, 1120);
        for (uint64_t seed = 1; seed <= 4; seed++) {
            emulated_order(seed);
            check(&p, p.w.inputs, false);
        }
        free_problem(&p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_type_and_kernel), cmocka_unit_test(test_any_number_of_rows),
        cmocka_unit_test(test_many_inputs),           cmocka_unit_test(test_extreme_quants),
        cmocka_unit_test(test_spans_of_outputs),      cmocka_unit_test(test_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
