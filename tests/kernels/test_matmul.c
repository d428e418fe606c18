/* Matrix products: the reference against an independent spelling of the contract, each fast set
 * against the reference bit for bit, and spans against the whole. */
#include "tests/kernels/support/arrays.h"
#include "tests/kernels/support/file_quants.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A width of about `columns` that the type allows: whole blocks of it. */
static uint32_t width_near(lh_dtype dtype, uint32_t columns) {
    uint32_t unit = test_dtype_unit(dtype);
    return (columns + unit - 1) / unit * unit;
}

/* A product with all its arrays. */
typedef struct problem {
    lh_dtype dtype;
    uint32_t rows, inputs, outputs;
    size_t y_stride;
    uint8_t *source;
    float *x, *seed; /* seed: y before the product, with sentinels beside it */
    lh_matrix w;
    lh_activations packed;
    bool continues; /* from the seed, else from zero */
} problem;

static problem make_problem(test_random *random, lh_dtype dtype, uint32_t rows, uint32_t outputs,
                            uint32_t inputs) {
    problem p = {.dtype = dtype, .rows = rows, .inputs = inputs, .outputs = outputs};
    p.continues = random_between(random, 0, 1);
    p.y_stride = outputs + random_between(random, 0, 3);
    p.source = random_weights(random, dtype, outputs, inputs);
    p.x = random_floats(random, (size_t)rows * inputs);
    p.seed = random_floats(random, rows * p.y_stride);
    p.w = pack_weights(dtype, outputs, inputs, p.source);
    lh_activation_kind quantized =
        random_between(random, 0, 1) ? LH_ACTIVATION_Q16 : LH_ACTIVATION_Q8;
    p.packed =
        pack_rows(lh_kernels_at(0), lh_activation_kind_for(dtype, quantized), rows, inputs, p.x);
    return p;
}

static void free_problem(problem *p) {
    free(p->source);
    free(p->x);
    free(p->seed);
    free(p->w.data);
    free(p->packed.data);
}

static float *seeded(const problem *p) {
    float *y = test_alloc(p->rows * p->y_stride * sizeof(float));
    memcpy(y, p->seed, p->rows * p->y_stride * sizeof(float));
    return y;
}

static float *product_by(const lh_kernels *kernels, const problem *p) {
    float *y = seeded(p);
    kernels->matmul(y, p->y_stride, &p->packed, &p->w, (lh_span){0, p->inputs},
                    (lh_span){0, p->outputs}, p->continues);
    return y;
}

/* y continued by 32 inputs from block b of the row of weights on; v becomes what their quants leave
 * of it. */
static float add_block(float y, lh_dtype dtype, const uint8_t *weights, uint32_t b, float v[32]) {
    float amax = 0;
    for (int k = 0; k < 32; k++)
        amax = fmaxf(amax, fabsf(v[k]));
    float inverse = 127 / amax, dx = amax / 127;
    file_quant w = {0};
    int i = 0, j = 0;
    for (unsigned k = 0; k < 32; k++) {
        int q = amax > 0 ? (int)lrintf(v[k] * inverse) : 0;
        w = file_quant_at(dtype, weights, 32 * b + k);
        i += w.scale * w.q * q;
        j += w.minimum * q;
        v[k] = fmaf(-dx, (float)q, v[k]);
    }
    return w.has_minimum ? fmaf(fmaf((float)i, w.d, (float)j * w.m), dx, y)
                         : fmaf((float)i, w.d * dx, y);
}

/* One output as kernels.h spells it, from the file's bytes and the floats themselves. */
static float spelled_out(const problem *p, uint32_t row, uint32_t output) {
    float y = p->continues ? p->seed[row * p->y_stride + output] : 0;
    const float *x = p->x + (size_t)row * p->inputs;
    if (p->packed.kind == LH_ACTIVATION_F32) {
        float weights[288];
        lh_matrix_row(&p->w, output, weights); /* test_pack.c holds it to GGML's definition */
        for (uint32_t k = 0; k < p->inputs; k++)
            y = fmaf(weights[k], x[k], y);
        return y;
    }
    const lh_dtype_info *info = lh_dtype_lookup((uint32_t)p->dtype);
    const uint8_t *weights = p->source + output * lh_dtype_bytes(info, p->inputs);
    for (uint32_t b = 0; b < p->inputs / 32; b++, x += 32) {
        float v[32];
        memcpy(v, x, sizeof v);
        y = add_block(y, p->dtype, weights, b, v);
        if (p->packed.kind == LH_ACTIVATION_Q16)
            y = add_block(y, p->dtype, weights, b, v);
    }
    return y;
}

static void test_reference_is_the_contract(void **state) {
    (void)state;
    test_random random = {3};
    for (size_t d = 0; d < TEST_DTYPES; d++) {
        lh_dtype dtype = test_dtypes[d];
        problem p = make_problem(&random, dtype, 3, 21, width_near(dtype, 288));
        float *y = product_by(lh_kernels_at(0), &p);
        for (uint32_t row = 0; row < p.rows; row++)
            for (uint32_t o = 0; o < p.y_stride; o++) {
                float expected =
                    o < p.outputs ? spelled_out(&p, row, o) : p.seed[row * p.y_stride + o];
                assert_same_floats(&y[row * p.y_stride + o], &expected, 1,
                                   lh_dtype_lookup((uint32_t)dtype)->name);
            }
        free(y);
        free_problem(&p);
    }
}

static void check_against_reference(const lh_kernels *set, const problem *p) {
    char what[96];
    snprintf(what, sizeof what, "%s %s rows %u outputs %u inputs %u", set->name,
             lh_dtype_lookup((uint32_t)p->dtype)->name, p->rows, p->outputs, p->inputs);
    float *expected = product_by(lh_kernels_at(0), p), *y = product_by(set, p);
    assert_same_floats(y, expected, p->rows * p->y_stride, what);
    free(y);
    free(expected);
}

static void check_row_counts(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {4};
    for (size_t d = 0; d < TEST_DTYPES; d++)
        for (uint32_t rows = 1; rows <= 34; rows += rows < 18 ? 1 : 8) {
            problem p = make_problem(&random, test_dtypes[d], rows, random_between(&random, 1, 150),
                                     width_near(test_dtypes[d], 96));
            check_against_reference(set, &p);
            free_problem(&p);
        }
}

static void test_any_number_of_rows(void **state) {
    (void)state;
    for_each_set(check_row_counts, NULL);
}

static void check_random_shapes(const lh_kernels *set, void *context) {
    (void)context;
    test_random random = {5};
    for (int i = 0; i < 200; i++) {
        lh_dtype dtype = test_dtypes[random_between(&random, 0, TEST_DTYPES - 1)];
        uint32_t inputs = width_near(dtype, random_between(&random, 1, 600));
        problem p = make_problem(&random, dtype, random_between(&random, 1, 40),
                                 random_between(&random, 1, 200), inputs);
        check_against_reference(set, &p);
        free_problem(&p);
    }
}

static void test_random_shapes(void **state) {
    (void)state;
    for_each_set(check_random_shapes, NULL);
}

/* Extreme quants and activations: the integer dot must hold them all. */
static void check_extremes(const lh_kernels *set, void *context) {
    (void)context;
    static const uint8_t fills[] = {0x00, 0x7f, 0x80, 0x81, 0xff, 0xf0, 0x0f};
    test_random random = {6};
    for (size_t d = TEST_FLOAT_DTYPES; d < TEST_DTYPES; d++)
        for (size_t f = 0; f < sizeof fills; f++) {
            lh_dtype dtype = test_dtypes[d];
            uint32_t rows = 3 + (uint32_t)f, inputs = width_near(dtype, 64);
            problem p = make_problem(&random, dtype, rows, 32, inputs);
            const lh_dtype_info *info = lh_dtype_lookup((uint32_t)dtype);
            lh_span quants = test_quant_bytes(dtype);
            for (size_t i = 0; i < lh_dtype_bytes(info, 32ull * inputs); i++)
                if (i % info->block_bytes >= quants.begin && i % info->block_bytes < quants.end)
                    p.source[i] = fills[f];
            lh_matrix_pack(&p.w, p.source, (lh_span){0, 32});
            for (size_t i = 0; i < (size_t)rows * inputs; i++)
                p.x[i] = i / inputs % 3 == 0   ? 1.0f
                         : i / inputs % 3 == 1 ? -1.0f
                         : i % 2               ? 1.0f
                                               : -1.0f;
            lh_kernels_at(0)->pack_activations(&p.packed, (lh_span){0, inputs}, p.x, inputs, NULL,
                                               NULL);
            check_against_reference(set, &p);
            free_problem(&p);
        }
}

static void test_extreme_quants(void **state) {
    (void)state;
    for_each_set(check_extremes, NULL);
}

/* Random cuts of both spans, the input's in ascending order, the output's in any. */
static void check_split(const lh_kernels *kernels, problem *p, test_random *random) {
    float *expected = product_by(lh_kernels_at(0), p), *y = seeded(p);
    for (uint32_t from = 0; from < p->inputs;) {
        uint32_t to = from + 32 * random_between(random, 1, 4);
        lh_span in = {from, to < p->inputs ? to : p->inputs};
        bool continues = p->continues || from > 0;
        uint32_t cut = 16 * random_between(random, 0, p->outputs / 16);
        if (cut < p->outputs)
            kernels->matmul(y, p->y_stride, &p->packed, &p->w, in, (lh_span){cut, p->outputs},
                            continues);
        kernels->matmul(y, p->y_stride, &p->packed, &p->w, in, (lh_span){0, cut}, continues);
        from = in.end;
    }
    assert_same_floats(y, expected, p->rows * p->y_stride, kernels->name);
    free(y);
    free(expected);
}

static void test_spans_give_the_whole(void **state) {
    (void)state;
    test_random random = {7};
    for (size_t set = 0; lh_kernels_at(set); set++)
        for (size_t d = 0; d < TEST_DTYPES; d++)
            for (int i = 0; i < 6; i++) {
                uint32_t inputs = width_near(test_dtypes[d], random_between(&random, 33, 400));
                problem p = make_problem(&random, test_dtypes[d], random_between(&random, 1, 24),
                                         random_between(&random, 1, 120), inputs);
                check_split(lh_kernels_at(set), &p, &random);
                free_problem(&p);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_is_the_contract),
        cmocka_unit_test(test_any_number_of_rows),
        cmocka_unit_test(test_random_shapes),
        cmocka_unit_test(test_extreme_quants),
        cmocka_unit_test(test_spans_give_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
