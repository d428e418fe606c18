/* Packed weights give back what GGML defines, computed here from its bytes. */
#include "tests/kernels/support/arrays.h"
#include "tests/kernels/support/file_quants.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Element k of a row, from GGML's definition of the blocks. */
static float ggml_element(lh_dtype dtype, const uint8_t *row, uint32_t k) {
    float value;
    switch (dtype) {
    case LH_DTYPE_F32:
        memcpy(&value, row + 4 * k, 4);
        return value;
    case LH_DTYPE_F16:
        return file_half(row + 2 * k);
    case LH_DTYPE_BF16:
        return float_of_bits((uint32_t)row[2 * k] << 16 | (uint32_t)row[2 * k + 1] << 24);
    default:
        break;
    }
    file_quant w = file_quant_at(dtype, row, k);
    value = w.d * (float)w.scale * (float)w.q;
    /* one rounding: the products are exact */
    return w.has_minimum ? value + w.m * (float)w.minimum : value;
}

static void test_rows_come_back_as_ggml_defines_them(void **state) {
    (void)state;
    test_random random = {1};
    /* outputs, blocks */
    static const uint32_t shapes[][2] = {{16, 1}, {1, 2}, {17, 3}, {48, 5}, {95, 1}};
    for (size_t d = 0; d < TEST_DTYPES; d++)
        for (size_t s = 0; s < 5; s++) {
            uint32_t outputs = shapes[s][0],
                     inputs = shapes[s][1] * test_dtype_unit(test_dtypes[d]);
            if (test_dtype_unit(test_dtypes[d]) == 1)
                inputs = 32 * inputs - 5;
            uint8_t *source = random_weights(&random, test_dtypes[d], outputs, inputs);
            lh_matrix matrix = pack_weights(test_dtypes[d], outputs, inputs, source);
            size_t row_bytes = lh_dtype_bytes(lh_dtype_lookup((uint32_t)test_dtypes[d]), inputs);
            float row[1280], expected[1280];
            for (uint32_t o = 0; o < outputs; o++) {
                for (uint32_t k = 0; k < inputs; k++)
                    expected[k] = ggml_element(test_dtypes[d], source + o * row_bytes, k);
                lh_matrix_row(&matrix, o, row);
                assert_same_floats(row, expected, inputs,
                                   lh_dtype_lookup((uint32_t)test_dtypes[d])->name);
            }
            free(matrix.data);
            free(source);
        }
}

static void test_spans_of_rows_pack_as_the_whole(void **state) {
    (void)state;
    test_random random = {2};
    for (size_t d = 0; d < TEST_DTYPES; d++) {
        uint32_t inputs = test_dtype_unit(test_dtypes[d]) == 256 ? 256 : 64;
        uint8_t *source = random_weights(&random, test_dtypes[d], 75, inputs);
        lh_matrix whole = pack_weights(test_dtypes[d], 75, inputs, source);
        size_t bytes = lh_matrix_bytes(test_dtypes[d], 75, inputs);
        lh_matrix parts = {test_dtypes[d], 75, inputs, test_alloc(bytes)};
        memset(parts.data, 0xa5, bytes);
        size_t row_bytes = lh_dtype_bytes(lh_dtype_lookup((uint32_t)test_dtypes[d]), inputs);
        lh_matrix_pack(&parts, source + 48 * row_bytes, (lh_span){48, 75});
        lh_matrix_pack(&parts, source, (lh_span){0, 16});
        lh_matrix_pack(&parts, source + 16 * row_bytes, (lh_span){16, 48});
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
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q5_0, 576, 1536), 576 * 48 * 22);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q5_1, 576, 1536), 576 * 48 * 24);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_IQ4_NL, 576, 1536), 576 * 48 * 18);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_MXFP4, 576, 1536), 576 * 48 * 17);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_TQ2_0, 576, 1536), 576 * 6 * 66);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_TQ1_0, 576, 1536), 576 * 6 * 66); /* as pairs */
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_IQ3_S, 576, 1536), 576 * 6 * (8 * 17 + 2));
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_IQ2_XXS, 576, 1536), 576 * 6 * (8 * 13 + 2));
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_IQ1_M, 576, 1536), 576 * 6 * (8 * 14 + 2));
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_IQ4_XS, 576, 1536), 576 * 6 * (136 + 2));
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q2_K, 576, 1536), 576 * 6 * 84);
    /* scales as bytes */
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q3_K, 576, 1536), 576 * 6 * (110 + 4));
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q4_K, 576, 1536), 576 * 6 * (144 + 4));
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q5_K, 576, 1536), 576 * 6 * (176 + 4));
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q6_K, 576, 1536), 576 * 6 * 210);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_F32, 1, 16), 16 * 16 * 4); /* padded to a tile */
}

static void test_impossible_shapes_have_no_bytes(void **state) {
    (void)state;
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_F32, UINT32_MAX, UINT32_MAX), 0);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q8_0, 16, 33), 0);
    assert_int_equal(lh_matrix_bytes(LH_DTYPE_Q4_K, 16, 288), 0);
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
