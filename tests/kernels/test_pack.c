/* Packed weights give back what GGML defines, computed here from its bytes. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const lh_dtype dtypes[] = {LH_DTYPE_F32,  LH_DTYPE_F16,  LH_DTYPE_BF16,
                                  LH_DTYPE_Q8_0, LH_DTYPE_Q4_0, LH_DTYPE_Q4_1};
#define DTYPES (sizeof dtypes / sizeof dtypes[0])

/* A binary16 by arithmetic on its fields. */
static float half_value(const uint8_t *bytes) {
    int bits = bytes[0] | bytes[1] << 8, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    double magnitude = exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
    return (float)(bits & 0x8000 ? -magnitude : magnitude);
}

/* Element k of a row, from ggml-quants.c's definition of the blocks. */
static float ggml_element(lh_dtype dtype, const uint8_t *row, uint32_t k) {
    const lh_dtype_info *info = lh_dtype_lookup((uint32_t)dtype);
    const uint8_t *block = row + (size_t)(k / info->block_elements) * info->block_bytes;
    uint32_t i = k % info->block_elements;
    float value;
    switch (dtype) {
    case LH_DTYPE_F32:
        memcpy(&value, block, 4);
        return value;
    case LH_DTYPE_F16:
        return half_value(block);
    case LH_DTYPE_BF16:
        return float_of_bits((uint32_t)block[0] << 16 | (uint32_t)block[1] << 24);
    case LH_DTYPE_Q8_0:
        return half_value(block) * (float)(int8_t)block[2 + i];
    case LH_DTYPE_Q4_0:
        return half_value(block) * (float)((i < 16 ? block[2 + i] & 15 : block[2 + i - 16] >> 4) - 8);
    case LH_DTYPE_Q4_1:
        return fmaf(half_value(block), (float)(i < 16 ? block[4 + i] & 15 : block[4 + i - 16] >> 4),
                    half_value(block + 2));
    }
    fail();
    return 0;
}

static void test_rows_come_back_as_ggml_defines_them(void **state) {
    (void)state;
    test_random random = {1};
    static const uint32_t shapes[][2] = {{16, 32}, {1, 64}, {17, 96}, {48, 160}, {95, 32}};
    for (size_t d = 0; d < DTYPES; d++)
        for (size_t s = 0; s < 5; s++) {
            uint32_t outputs = shapes[s][0];
            uint32_t inputs =
                shapes[s][1] - (lh_dtype_lookup((uint32_t)dtypes[d])->block_elements == 1 ? 5 : 0);
            uint8_t *source = random_weights(&random, dtypes[d], outputs, inputs);
            lh_matrix matrix = pack_weights(dtypes[d], outputs, inputs, source);
            size_t row_bytes = lh_dtype_bytes(lh_dtype_lookup((uint32_t)dtypes[d]), inputs);
            float row[160], expected[160];
            for (uint32_t o = 0; o < outputs; o++) {
                for (uint32_t k = 0; k < inputs; k++)
                    expected[k] = ggml_element(dtypes[d], source + o * row_bytes, k);
                lh_matrix_row(&matrix, o, row);
                assert_same_floats(row, expected, inputs, lh_dtype_lookup((uint32_t)dtypes[d])->name);
            }
            free(matrix.data);
            free(source);
        }
}

static void test_spans_of_rows_pack_as_the_whole(void **state) {
    (void)state;
    test_random random = {2};
    for (size_t d = 0; d < DTYPES; d++) {
        uint8_t *source = random_weights(&random, dtypes[d], 75, 64);
        lh_matrix whole = pack_weights(dtypes[d], 75, 64, source);
        size_t bytes = lh_matrix_bytes(dtypes[d], 75, 64);
        lh_matrix parts = {dtypes[d], 75, 64, test_alloc(bytes)};
        memset(parts.data, 0xa5, bytes);
        lh_matrix_pack(&parts, source, (lh_span){48, 75});
        lh_matrix_pack(&parts, source, (lh_span){0, 16});
        lh_matrix_pack(&parts, source, (lh_span){16, 48});
        assert_memory_equal(whole.data, parts.data, bytes);
        free(parts.data);
        free(whole.data);
        free(source);
    }
}

static void test_packed_bytes_are_those_of_the_file(void **state) {
    (void)state;
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_F32, 32, 48), 32 * 48 * 4);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_F16, 32, 48), 32 * 48 * 2);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q4_1, 576, 1536), 576 * 48 * 20);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q4_0, 576, 1536), 576 * 48 * 18);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q8_0, 576, 1536), 576 * 48 * 34);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_F32, 1, 16), 16 * 16 * 4); /* padded to a tile */
}

static void test_impossible_shapes_have_no_bytes(void **state) {
    (void)state;
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_F32, UINT32_MAX, UINT32_MAX), 0);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q8_0, 16, 33), 0);
    assert_int_equal(lh_matrix_bytes((lh_dtype)2000, 16, 32), 0);
    assert_int_equal(lh_activations_bytes(LH_ACTIVATION_Q8, 1, 33), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_back_as_ggml_defines_them),
        cmocka_unit_test(test_spans_of_rows_pack_as_the_whole),
        cmocka_unit_test(test_packed_bytes_are_those_of_the_file),
        cmocka_unit_test(test_impossible_shapes_have_no_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
