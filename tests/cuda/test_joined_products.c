/* Several products of the same rows (q, k, v; gate, up) as kernels/cuda launches them together,
 * emulated: the bits of one after the other by the reference, the scale of each row and the bias
 * included; of some types, numbers of outputs that end within a tile, spans; and no more launches
 * than stated. */
#include "kernels/cuda/cuda_kernels.h"
#include "tests/cuda/support/emulated_kernels.h"
#include "tests/kernels/support/arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SET_MAX 6u
#define INPUTS  512u

/* Products of one kind of activations. */
typedef struct product_set {
    const char *name;
    uint32_t count;
    lh_dtype dtypes[SET_MAX];
    uint32_t few_launches; /* of up to 64 rows, or of floats */
} product_set;

static const product_set sets[] = {
    {"q, k, v", 3, {LH_DTYPE_Q4_0, LH_DTYPE_Q4_0, LH_DTYPE_Q4_0}, 1},
    {"q, k and a larger v", 3, {LH_DTYPE_Q4_K, LH_DTYPE_Q4_K, LH_DTYPE_Q6_K}, 2},
    {"k apart", 3, {LH_DTYPE_Q2_K, LH_DTYPE_Q5_1, LH_DTYPE_Q2_K}, 2},
    {"gate, up", 2, {LH_DTYPE_MXFP4, LH_DTYPE_MXFP4}, 1},
    {"types of one form", 2, {LH_DTYPE_IQ3_S, LH_DTYPE_IQ4_XS}, 2},
    {"one", 1, {LH_DTYPE_Q8_0}, 1},
    {"more than a launch takes",
     6,
     {LH_DTYPE_Q5_0, LH_DTYPE_Q5_0, LH_DTYPE_Q5_0, LH_DTYPE_Q5_0, LH_DTYPE_Q5_0, LH_DTYPE_Q5_0},
     2},
    {"floats", 3, {LH_DTYPE_F16, LH_DTYPE_F32, LH_DTYPE_F16}, 2},
};

typedef struct problem {
    const product_set *set;
    lh_activations x;
    float *scale;
    lh_cuda_product products[SET_MAX]; /* of which y is what both begin with */
} problem;

static lh_cuda_product make_product(test_random *random, lh_dtype dtype, uint32_t rows) {
    const uint32_t outputs = random_between(random, 1, 70);
    uint8_t *source = random_weights(random, dtype, outputs, INPUTS);
    lh_cuda_product p = {.y_stride = outputs + random_between(random, 0, 3),
                         .w = pack_weights(dtype, outputs, INPUTS, source),
                         .out = {0, outputs}};
    if (outputs > 32 && random_between(random, 0, 1))
        p.out = (lh_span){16, random_between(random, 0, 1) ? 32 : outputs};
    if (random_between(random, 0, 1))
        p.bias = random_floats(random, outputs);
    p.y = random_floats(random, rows * p.y_stride);
    free(source);
    return p;
}

static problem make_problem(test_random *random, const product_set *set, uint32_t rows) {
    problem p = {.set = set, .scale = random_floats(random, rows)};
    float *values = random_floats(random, (size_t)rows * INPUTS);
    const lh_activation_kind quantized =
        random_between(random, 0, 1) ? LH_ACTIVATION_Q8 : LH_ACTIVATION_Q16;
    p.x = pack_rows(lh_kernels_at(0), lh_activation_kind_for(set->dtypes[0], quantized), rows,
                    INPUTS, values);
    for (uint32_t i = 0; i < set->count; i++)
        p.products[i] = make_product(random, set->dtypes[i], rows);
    free(values);
    return p;
}

static void free_problem(problem *p) {
    for (uint32_t i = 0; i < p->set->count; i++) {
        free(p->products[i].w.data);
        free(p->products[i].y);
        free((float *)p->products[i].bias);
    }
    free(p->x.data);
    free(p->scale);
}

static size_t y_bytes(const problem *p, uint32_t i) {
    return p->x.rows * p->products[i].y_stride * sizeof(float);
}

static float *copy_of_y(const problem *p, uint32_t i) {
    float *y = test_alloc(y_bytes(p, i));
    memcpy(y, p->products[i].y, y_bytes(p, i));
    return y;
}

static float *reference_of(const problem *p, uint32_t i, lh_span in, bool continues,
                           const float *scale) {
    const lh_kernels *reference = lh_kernels_at(0);
    const lh_cuda_product *product = &p->products[i];
    float *y = copy_of_y(p, i);
    reference->matmul(y, product->y_stride, &p->x, &product->w, in, product->out, continues);
    if (scale && product->bias)
        reference->scale_add_rows(y, product->y_stride, p->x.rows, product->out, scale,
                                  product->bias);
    else if (scale)
        reference->scale_rows(y, product->y_stride, p->x.rows, product->out, scale);
    return y;
}

/* Rows beyond 64 of quantized weights go one product after the other. */
static uint32_t launches_of(const problem *p) {
    const bool is_float = p->x.kind == LH_ACTIVATION_F32;
    return is_float || p->x.rows <= 64 ? p->set->few_launches : p->set->count;
}

static void check(const problem *p, lh_span in, bool continues, const float *scale) {
    lh_cuda_product products[SET_MAX];
    for (uint32_t i = 0; i < p->set->count; i++) {
        products[i] = p->products[i];
        products[i].y = copy_of_y(p, i);
    }
    const uint64_t before = emulated_launches();
    assert_int_equal(lh_cuda_products(NULL, products, p->set->count, &p->x, in, continues, scale),
                     0);
    assert_int_equal(emulated_launches() - before, launches_of(p));
    for (uint32_t i = 0; i < p->set->count; i++) {
        char what[96];
        snprintf(what, sizeof what, "%s, %u rows: product %u", p->set->name, p->x.rows, i);
        float *expected = reference_of(p, i, in, continues, scale);
        assert_same_floats(products[i].y, expected, y_bytes(p, i) / sizeof *expected, what);
        free(expected);
        free(products[i].y);
    }
}

static void test_sets_of_products(void **state) {
    (void)state;
    static const uint32_t rows[] = {1, 2, 8, 13, 17, 64, 65};
    test_random random = {81};
    for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++)
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            emulated_order(100 * s + r + 1);
            problem p = make_problem(&random, &sets[s], rows[r]);
            check(&p, (lh_span){0, INPUTS}, false, p.scale);
            check(&p, (lh_span){0, 256}, false, NULL);
            check(&p, (lh_span){256, INPUTS}, true, p.scale);
            free_problem(&p);
        }
}

static void test_nothing_to_do(void **state) {
    (void)state;
    test_random random = {82};
    problem p = make_problem(&random, &sets[0], 3);
    float *before[3];
    for (uint32_t i = 0; i < 3; i++)
        before[i] = copy_of_y(&p, i);
    const uint64_t launches = emulated_launches();
    const lh_activations none = {p.x.kind, 0, p.x.width, p.x.data};
    const lh_span all = {0, INPUTS}, empty = {32, 32};
    assert_int_equal(lh_cuda_products(NULL, p.products, 3, &none, all, false, NULL), 0);
    assert_int_equal(lh_cuda_products(NULL, p.products, 3, &p.x, empty, false, NULL), 0);
    assert_int_equal(lh_cuda_products(NULL, p.products, 0, &p.x, all, false, NULL), 0);
    for (uint32_t i = 0; i < 3; i++)
        p.products[i].out = empty;
    assert_int_equal(lh_cuda_products(NULL, p.products, 3, &p.x, all, false, NULL), 0);
    assert_int_equal(emulated_launches(), launches);
    for (uint32_t i = 0; i < 3; i++) {
        assert_memory_equal(p.products[i].y, before[i], y_bytes(&p, i));
        free(before[i]);
    }
    free_problem(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sets_of_products),
        cmocka_unit_test(test_nothing_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
