/* Rows of a packed matrix as kernels/cuda dequantizes them, against lh_matrix_row. */
#include "kernels/cuda/cuda_kernels.h"
#include "tests/kernels/support/arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static void check(test_random *random, lh_dtype dtype) {
    const uint32_t unit = test_dtype_unit(dtype), inputs = unit * random_between(random, 1, 3),
                   outputs = random_between(random, 1, 50), count = random_between(random, 1, 6);
    uint8_t *source = random_weights(random, dtype, outputs, inputs);
    /* MXFP4's exponents: the least, which are subnormal, and the greatest that is finite */
    static const uint8_t exponents[] = {0, 1, 2, 254};
    for (size_t b = 0; dtype == LH_DTYPE_MXFP4 && b < (size_t)outputs * inputs / unit; b++)
        source[b * 17] = exponents[b % 4];
    lh_matrix w = pack_weights(dtype, outputs, inputs, source);
    const size_t stride = inputs + random_between(random, 0, 3);
    float *y = random_floats(random, count * stride), *expected = test_alloc(inputs * 4);
    uint32_t *ids = test_alloc(count * sizeof *ids);
    for (uint32_t i = 0; i < count; i++)
        ids[i] = random_between(random, 0, outputs - 1);
    assert_int_equal(lh_cuda_matrix_rows(NULL, y, stride, &w, ids, count), 0);
    for (uint32_t i = 0; i < count; i++) {
        lh_matrix_row(&w, ids[i], expected);
        assert_same_floats(y + i * stride, expected, inputs,
                           lh_dtype_lookup((uint32_t)dtype)->name);
    }
    free(source);
    free(w.data);
    free(y);
    free(expected);
    free(ids);
}

static void test_rows_of_every_type(void **state) {
    (void)state;
    test_random random = {81};
    for (size_t d = 0; d < TEST_DTYPES; d++)
        for (int i = 0; i < 4; i++)
            check(&random, test_dtypes[d]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_of_every_type)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
