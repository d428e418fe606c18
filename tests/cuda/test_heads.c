/* Products with a matrix for each head, emulated, against the reference one head at a time, bit for
 * bit; and copies of a part of each head. */
#include "kernels/cuda/cuda_kernels.h"
#include "tests/cuda/support/emulated_kernels.h"
#include "tests/kernels/support/arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Rows of heads, with something between rows and between heads. */
typedef struct head_rows {
    uint32_t rows, heads;
    size_t head_stride, stride, count;
    float *at;
} head_rows;

static head_rows make_rows(test_random *random, uint32_t rows, uint32_t heads, uint32_t width) {
    head_rows r = {.rows = rows, .heads = heads};
    r.head_stride = width + random_between(random, 0, 5);
    r.stride = heads * r.head_stride + random_between(random, 0, 5);
    r.count = rows * r.stride;
    r.at = random_floats(random, r.count);
    return r;
}

static void multiply_plainly(const head_rows *y, const head_rows *x, const lh_matrix *first,
                             size_t bytes, lh_activation_kind kind) {
    const lh_kernels *reference = lh_kernels_at(0);
    const lh_span in = {0, first->inputs}, out = {0, first->outputs};
    for (uint32_t head = 0; head < x->heads; head++)
        for (uint32_t row = 0; row < x->rows; row++) {
            const lh_activations packed = pack_rows(
                reference, kind, 1, first->inputs, x->at + row * x->stride + head * x->head_stride);
            lh_matrix matrix = *first;
            matrix.data = (uint8_t *)matrix.data + head * bytes;
            reference->matmul(y->at + row * y->stride + head * y->head_stride, y->stride, &packed,
                              &matrix, in, out, false);
            free(packed.data);
        }
}

static void check(test_random *random, lh_dtype dtype, lh_activation_kind quantized,
                  uint32_t rows) {
    const uint32_t heads = random_between(random, 1, 5), outputs = random_between(random, 1, 40),
                   unit = test_dtype_unit(dtype),
                   inputs = unit * random_between(random, 1, unit > 32 ? 1 : 3);
    const size_t bytes = lh_matrix_bytes(dtype, outputs, inputs);
    const lh_activation_kind kind = lh_activation_kind_for(dtype, quantized);
    lh_matrix first = {dtype, outputs, inputs, test_alloc(heads * bytes)};
    for (uint32_t head = 0; head < heads; head++) {
        uint8_t *source = random_weights(random, dtype, outputs, inputs);
        lh_matrix one = first;
        one.data = (uint8_t *)one.data + head * bytes;
        lh_matrix_pack(&one, source, (lh_span){0, outputs});
        free(source);
    }
    const head_rows x = make_rows(random, rows, heads, inputs),
                    y = make_rows(random, rows, heads, outputs);
    head_rows expected = y;
    expected.at = test_alloc(y.count * sizeof *y.at);
    memcpy(expected.at, y.at, y.count * sizeof *y.at);
    multiply_plainly(&expected, &x, &first, bytes, kind);
    const lh_activations packed = {kind, heads * rows, inputs,
                                   test_alloc(lh_activations_bytes(kind, heads * rows, inputs))};
    assert_int_equal(lh_cuda_pack_heads(NULL, &packed, x.at, x.stride, x.head_stride, heads), 0);
    assert_int_equal(
        lh_cuda_head_products(NULL, y.at, y.stride, y.head_stride, &packed, &first, bytes, heads),
        0);
    assert_same_floats(y.at, expected.at, y.count, lh_dtype_lookup((uint32_t)dtype)->name);
    free(packed.data);
    free(expected.at);
    free(first.data);
    free(x.at);
    free(y.at);
}

static void test_each_head_has_a_matrix(void **state) {
    (void)state;
    test_random random = {111};
    const uint32_t rows[] = {1, 7, 8, 9, 16, 17, 35};
    for (uint32_t i = 0; i < TEST_DTYPES; i++) {
        emulated_order(i);
        check(&random, test_dtypes[i], LH_ACTIVATION_Q8, rows[i % 7]);
        check(&random, test_dtypes[i], LH_ACTIVATION_Q16, rows[(i + 3) % 7]);
    }
    for (uint32_t i = 0; i < 7; i++)
        check(&random, LH_DTYPE_F32, LH_ACTIVATION_Q8, rows[i]);
}

static void test_a_part_of_each_head_is_copied(void **state) {
    (void)state;
    enum { ROWS = 9, HEADS = 7, WIDTH = 48 };
    test_random random = {112};
    const head_rows x = make_rows(&random, ROWS, HEADS, WIDTH),
                    y = make_rows(&random, ROWS, HEADS, WIDTH);
    float *expected = test_alloc(y.count * sizeof *expected);
    memcpy(expected, y.at, y.count * sizeof *expected);
    for (uint32_t row = 0; row < ROWS; row++)
        for (uint32_t head = 0; head < HEADS; head++)
            memcpy(expected + row * y.stride + head * y.head_stride,
                   x.at + row * x.stride + head * x.head_stride, WIDTH * sizeof *expected);
    assert_int_equal(lh_cuda_copy_heads(NULL, y.at, y.stride, y.head_stride, x.at, x.stride,
                                        x.head_stride, ROWS, HEADS, WIDTH),
                     0);
    assert_same_floats(y.at, expected, y.count, "heads");
    free(expected);
    free(x.at);
    free(y.at);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_head_has_a_matrix),
        cmocka_unit_test(test_a_part_of_each_head_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
