/* Arrays for the kernel tests. */
#include "tests/kernels/support/arrays.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
            uint32_t scales = dtype == LH_DTYPE_Q4_1 ? 2 : 1;
            for (uint32_t i = 2 * scales; i < info->block_bytes; i++)
                block[i] = (uint8_t)random_bits(random);
            for (uint32_t i = 0; i < scales; i++) {
                uint16_t scale = random_scale(random);
                memcpy(block + 2 * i, &scale, 2);
            }
        }
    }
    return bytes;
}

lh_matrix pack_weights(lh_dtype dtype, uint32_t outputs, uint32_t inputs, const uint8_t *source) {
    lh_matrix matrix = {dtype, outputs, inputs, test_alloc(lh_matrix_bytes(dtype, outputs, inputs))};
    lh_matrix_pack(&matrix, source, (lh_span){0, outputs});
    return matrix;
}

lh_activations pack_rows(const lh_kernels *kernels, lh_activation_kind kind, uint32_t rows, uint32_t width,
                         const float *x) {
    size_t bytes = lh_activations_bytes(kind, rows, width);
    lh_activations packed = {kind, rows, width, test_alloc(bytes)};
    memset(packed.data, 0, bytes);
    kernels->pack_activations(&packed, (lh_span){0, width}, x, width, NULL, NULL);
    return packed;
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

void for_each_fast_set(void (*check)(const lh_kernels *fast, void *context), void *context) {
    if (lh_kernels_at(1) == NULL) {
        print_message("skipped: this machine runs the reference alone\n");
        skip();
    }
    for (size_t i = 1; lh_kernels_at(i) != NULL; i++)
        check(lh_kernels_at(i), context);
}
