/* Arrays for the kernel tests. */
#include "tests/kernels/support/arrays.h"

#include "tests/support/quant_block.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const lh_dtype test_dtypes[] = {
    LH_DTYPE_F32,     LH_DTYPE_F16,    LH_DTYPE_BF16,  LH_DTYPE_Q8_0,    LH_DTYPE_Q4_0,
    LH_DTYPE_Q4_1,    LH_DTYPE_Q5_0,   LH_DTYPE_Q5_1,  LH_DTYPE_IQ4_NL,  LH_DTYPE_Q2_K,
    LH_DTYPE_Q3_K,    LH_DTYPE_Q4_K,   LH_DTYPE_Q5_K,  LH_DTYPE_Q6_K,    LH_DTYPE_MXFP4,
    LH_DTYPE_IQ4_XS,  LH_DTYPE_TQ1_0,  LH_DTYPE_TQ2_0, LH_DTYPE_IQ3_XXS, LH_DTYPE_IQ3_S,
    LH_DTYPE_IQ2_XXS, LH_DTYPE_IQ2_XS, LH_DTYPE_IQ2_S, LH_DTYPE_IQ1_S,   LH_DTYPE_IQ1_M};
_Static_assert(sizeof test_dtypes / sizeof test_dtypes[0] == TEST_DTYPES, "the header counts them");

uint32_t test_dtype_unit(lh_dtype dtype) {
    return lh_dtype_lookup((uint32_t)dtype)->block_elements;
}

lh_span test_quant_bytes(lh_dtype dtype) {
    uint32_t bytes = lh_dtype_lookup((uint32_t)dtype)->block_bytes;
    if (dtype == LH_DTYPE_MXFP4)
        return (lh_span){1, bytes};
    if (dtype == LH_DTYPE_IQ1_M)
        return (lh_span){0, 48};
    quant_scales scales = quant_block_scales(dtype);
    return scales.begin > 0 ? (lh_span){0, scales.begin} : (lh_span){2 * scales.count, bytes};
}

uint64_t random_bits(test_random *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint32_t random_between(test_random *random, uint32_t low, uint32_t high) {
    return low + (uint32_t)(random_bits(random) % (high - low + 1u));
}

float random_float(test_random *random) {
    uint64_t bits = random_bits(random);
    float value = (float)(int32_t)(uint32_t)bits * 0x1p-31f;
    switch (bits >> 32 & 63) {
    case 0:
        return value * 0x1p-20f;
    case 1:
        return value < 0 ? -0.0f : 0.0f;
    default:
        return value;
    }
}

void *test_alloc(size_t bytes) {
    size_t whole = (bytes + 63) / 64 * 64;
    void *memory = aligned_alloc(64, whole > 0 ? whole : 64);
    assert_non_null(memory);
    return memory;
}

float *random_floats(test_random *random, size_t count) {
    float *values = test_alloc(count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        values[i] = random_float(random);
    return values;
}

/* A binary16 between 2^-8 and 2^-5, either sign. */
static uint16_t random_scale(test_random *random) {
    return (uint16_t)((random_bits(random) & 0x83ffu) | random_between(random, 7, 9) << 10);
}

uint8_t *random_weights(test_random *random, lh_dtype dtype, uint32_t outputs, uint32_t inputs) {
    const lh_dtype_info *info = lh_dtype_lookup((uint32_t)dtype);
    size_t blocks = (size_t)outputs * (inputs / info->block_elements);
    uint8_t *bytes = malloc(blocks * info->block_bytes + 1), *block = bytes;
    assert_non_null(bytes);
    for (size_t b = 0; b < blocks; b++, block += info->block_bytes) {
        float value = random_float(random);
        uint32_t bits = bits_of_float(value);
        uint16_t upper = (uint16_t)(bits >> 16);
        if (dtype == LH_DTYPE_F32) {
            memcpy(block, &value, 4);
        } else if (dtype == LH_DTYPE_BF16) {
            memcpy(block, &upper, 2);
        } else {
            for (uint32_t i = 0; i < info->block_bytes; i++)
                block[i] = (uint8_t)random_bits(random);
            uint16_t scale = random_scale(random);
            if (info->block_elements > 1)
                quant_block_set_scale(dtype, block, scale);
            else
                memcpy(block, &scale, 2);
        }
    }
    return bytes;
}

lh_matrix pack_weights(lh_dtype dtype, uint32_t outputs, uint32_t inputs, const uint8_t *source) {
    lh_matrix matrix = {dtype, outputs, inputs,
                        test_alloc(lh_matrix_bytes(dtype, outputs, inputs))};
    lh_matrix_pack(&matrix, source, (lh_span){0, outputs});
    return matrix;
}

lh_activations pack_rows(const lh_kernels *kernels, lh_activation_kind kind, uint32_t rows,
                         uint32_t width, const float *x) {
    size_t bytes = lh_activations_bytes(kind, rows, width);
    lh_activations packed = {kind, rows, width, test_alloc(bytes)};
    memset(packed.data, 0, bytes);
    kernels->pack_activations(&packed, (lh_span){0, width}, x, width, NULL, NULL);
    return packed;
}

uint32_t test_stride(uint32_t quick) {
    return getenv("LONGHAUL_TEST_QUICK") ? quick : 1;
}

float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void assert_same_floats(const float *a, const float *b, size_t count, const char *what) {
    for (size_t i = 0; i < count; i++)
        if (bits_of_float(a[i]) != bits_of_float(b[i]))
            fail_msg("%s: element %zu is %a, should be %a", what, i, (double)a[i], (double)b[i]);
}
