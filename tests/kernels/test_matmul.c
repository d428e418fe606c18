/* Matrix products: the reference against an independent spelling of the contract, each fast set against the
 * reference bit for bit, and spans against the whole. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const lh_dtype dtypes[] = {LH_DTYPE_F32,  LH_DTYPE_F16,  LH_DTYPE_BF16,
                                  LH_DTYPE_Q8_0, LH_DTYPE_Q4_0, LH_DTYPE_Q4_1};
#define DTYPES (sizeof dtypes / sizeof dtypes[0])

/* A product with all its arrays. */
typedef struct problem {
    lh_dtype dtype;
    uint32_t rows, inputs, outputs;
    size_t y_stride;
    uint8_t *source;
    float *x, *seed; /* seed: y before the product, with sentinels beside it */
    lh_matrix w;
    lh_activations packed;
} problem;

static problem make_problem(test_random *random, lh_dtype dtype, uint32_t rows, uint32_t outputs,
                            uint32_t inputs) {
    problem p = {.dtype = dtype, .rows = rows, .inputs = inputs, .outputs = outputs};
    p.y_stride = outputs + random_between(random, 0, 3);
    p.source = random_weights(random, dtype, outputs, inputs);
    p.x = random_floats(random, (size_t)rows * inputs);
    p.seed = random_floats(random, rows * p.y_stride);
    p.w = pack_weights(dtype, outputs, inputs, p.source);
    p.packed = pack_rows(lh_kernels_at(0), lh_activation_kind_for(dtype), rows, inputs, p.x);
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
    kernels->matmul(y, p->y_stride, &p->packed, &p->w, (lh_span){0, p->inputs}, (lh_span){0, p->outputs});
    return y;
}

static float half_value(const uint8_t *bytes) {
    uint16_t half;
    float value;
    memcpy(&half, bytes, 2);
    lh_kernels_at(0)->f32_from_f16(&value, &half, 1);
    return value;
}

/* One output as kernels.h spells it, from the file's bytes and the floats themselves. */
static float spelled_out(const problem *p, uint32_t row, uint32_t output) {
    float y = p->seed[row * p->y_stride + output];
    const float *x = p->x + (size_t)row * p->inputs;
    if (lh_activation_kind_for(p->dtype) == LH_ACTIVATION_F32) {
        float weights[512];
        lh_matrix_row(&p->w, output, weights); /* test_pack.c holds it to GGML's definition */
        for (uint32_t k = 0; k < p->inputs; k++)
            y = fmaf(weights[k], x[k], y);
        return y;
    }
    uint32_t block_bytes = lh_dtype_lookup((uint32_t)p->dtype)->block_bytes, blocks = p->inputs / 32;
    const uint8_t *block = p->source + (size_t)output * blocks * block_bytes;
    for (uint32_t b = 0; b < blocks; b++, x += 32, block += block_bytes) {
        float amax = 0;
        for (int k = 0; k < 32; k++)
            amax = fmaxf(amax, fabsf(x[k]));
        float inverse = 127 / amax, dx = amax / 127;
        int dot = 0, sum = 0;
        for (int k = 0; k < 32; k++) {
            int q = amax > 0 ? (int)lrintf(x[k] * inverse) : 0, w;
            const uint8_t *nibbles = block + (p->dtype == LH_DTYPE_Q4_1 ? 4 : 2);
            if (p->dtype == LH_DTYPE_Q8_0)
                w = (int8_t)block[2 + k];
            else
                w = (k < 16 ? nibbles[k] & 15 : nibbles[k - 16] >> 4) - (p->dtype == LH_DTYPE_Q4_0 ? 8 : 0);
            dot += w * q;
            sum += q;
        }
        y = fmaf((float)dot, half_value(block) * dx, y);
        if (p->dtype == LH_DTYPE_Q4_1)
            y = fmaf((float)sum, half_value(block + 2) * dx, y);
    }
    return y;
}

static void test_reference_is_the_contract(void **state) {
    (void)state;
    test_random random = {3};
    for (size_t d = 0; d < DTYPES; d++) {
        problem p = make_problem(&random, dtypes[d], 3, 21, 192);
        float *y = product_by(lh_kernels_at(0), &p);
        for (uint32_t row = 0; row < p.rows; row++)
            for (uint32_t o = 0; o < p.y_stride; o++) {
                float expected = o < p.outputs ? spelled_out(&p, row, o) : p.seed[row * p.y_stride + o];
                assert_same_floats(&y[row * p.y_stride + o], &expected, 1,
                                   lh_dtype_lookup((uint32_t)dtypes[d])->name);
            }
        free(y);
        free_problem(&p);
    }
}

static void check_against_reference(const lh_kernels *fast, const problem *p) {
    char what[96];
    snprintf(what, sizeof what, "%s %s rows %u outputs %u inputs %u", fast->name,
             lh_dtype_lookup((uint32_t)p->dtype)->name, p->rows, p->outputs, p->inputs);
    float *expected = product_by(lh_kernels_at(0), p), *y = product_by(fast, p);
    assert_same_floats(y, expected, p->rows * p->y_stride, what);
    free(y);
    free(expected);
}

static void check_row_counts(const lh_kernels *fast, void *context) {
    (void)context;
    test_random random = {4};
    for (size_t d = 0; d < DTYPES; d++)
        for (uint32_t rows = 1; rows <= 20; rows++) {
            problem p = make_problem(&random, dtypes[d], rows, random_between(&random, 1, 150), 96);
            check_against_reference(fast, &p);
            free_problem(&p);
        }
}

static void test_any_number_of_rows(void **state) {
    (void)state;
    for_each_fast_set(check_row_counts, NULL);
}

static void check_random_shapes(const lh_kernels *fast, void *context) {
    (void)context;
    test_random random = {5};
    for (int i = 0; i < 120; i++) {
        lh_dtype dtype = dtypes[random_between(&random, 0, DTYPES - 1)];
        bool any_width = lh_activation_kind_for(dtype) == LH_ACTIVATION_F32;
        uint32_t inputs = any_width ? random_between(&random, 1, 300) : 32 * random_between(&random, 1, 12);
        problem p = make_problem(&random, dtype, random_between(&random, 1, 40),
                                 random_between(&random, 1, 200), inputs);
        check_against_reference(fast, &p);
        free_problem(&p);
    }
}

static void test_random_shapes(void **state) {
    (void)state;
    for_each_fast_set(check_random_shapes, NULL);
}

/* Extreme quants and activations: the integer dot must hold them all. */
static void check_extremes(const lh_kernels *fast, void *context) {
    (void)context;
    static const uint8_t fills[] = {0x00, 0x7f, 0x80, 0x81, 0xff, 0xf0, 0x0f};
    test_random random = {6};
    for (size_t d = 3; d < DTYPES; d++)
        for (size_t f = 0; f < sizeof fills; f++) {
            uint32_t rows = 3 + (uint32_t)f;
            problem p = make_problem(&random, dtypes[d], rows, 32, 64);
            uint32_t block_bytes = lh_dtype_lookup((uint32_t)dtypes[d])->block_bytes;
            for (size_t i = 0; i < 32u * 2 * block_bytes; i++)
                if (i % block_bytes >= block_bytes - (dtypes[d] == LH_DTYPE_Q8_0 ? 32u : 16u))
                    p.source[i] = fills[f];
            lh_matrix_pack(&p.w, p.source, (lh_span){0, 32});
            for (size_t i = 0; i < (size_t)rows * 64; i++)
                p.x[i] = (i / 64) % 3 == 0 ? 1.0f : (i / 64) % 3 == 1 ? -1.0f : i % 2 ? 1.0f : -1.0f;
            lh_kernels_at(0)->pack_activations(&p.packed, (lh_span){0, 64}, p.x, 64, NULL, NULL);
            check_against_reference(fast, &p);
            free_problem(&p);
        }
}

static void test_extreme_quants(void **state) {
    (void)state;
    for_each_fast_set(check_extremes, NULL);
}

/* Random cuts of both spans, the input's in ascending order, the output's in any. */
static void check_split(const lh_kernels *kernels, problem *p, test_random *random) {
    float *expected = product_by(lh_kernels_at(0), p), *y = seeded(p);
    for (uint32_t from = 0; from < p->inputs;) {
        uint32_t to = from + 32 * random_between(random, 1, 4);
        lh_span in = {from, to < p->inputs ? to : p->inputs};
        uint32_t cut = 16 * random_between(random, 0, p->outputs / 16);
        if (cut < p->outputs)
            kernels->matmul(y, p->y_stride, &p->packed, &p->w, in, (lh_span){cut, p->outputs});
        kernels->matmul(y, p->y_stride, &p->packed, &p->w, in, (lh_span){0, cut});
        from = in.end;
    }
    assert_same_floats(y, expected, p->rows * p->y_stride, kernels->name);
    free(y);
    free(expected);
}

static void test_spans_give_the_whole(void **state) {
    (void)state;
    test_random random = {7};
    for (size_t set = 0; lh_kernels_at(set) != NULL; set++)
        for (size_t d = 0; d < DTYPES; d++)
            for (int i = 0; i < 6; i++) {
                uint32_t inputs = 32 * random_between(&random, 2, 12);
                if (lh_activation_kind_for(dtypes[d]) == LH_ACTIVATION_F32)
                    inputs -= random_between(&random, 0, 31);
                problem p = make_problem(&random, dtypes[d], random_between(&random, 1, 9),
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
