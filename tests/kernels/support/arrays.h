/* Arrays for the kernel tests: random contents from a seed, and comparison bit for bit. */
#pragma once

#include "kernels/kernels.h"

#include <stdint.h>

/* Every type that we hold; the first TEST_FLOAT_DTYPES are not quantized. */
extern const lh_dtype test_dtypes[];
#define TEST_DTYPES       25u
#define TEST_FLOAT_DTYPES 3u
/* Elements of a block: `inputs` is a multiple of it. */
uint32_t test_dtype_unit(lh_dtype dtype);

/* splitmix64: the state is the seed. */
typedef struct test_random {
    uint64_t state;
} test_random;

uint64_t random_bits(test_random *random);
/* In [low, high]. */
uint32_t random_between(test_random *random, uint32_t low, uint32_t high);
/* In (-1, 1), of varied exponents: mostly near 1, a few tiny ones, a few zeros of either sign. */
float random_float(test_random *random);

/* 64-byte aligned, ending at the end of its memory, so that a sanitizer sees a read beyond; free()
 * it. */
void *test_alloc(size_t bytes);
float *random_floats(test_random *random, size_t count);
/* A matrix in GGML's layout with scales of moderate size and any quants. */
uint8_t *random_weights(test_random *random, lh_dtype dtype, uint32_t outputs, uint32_t inputs);
/* The bytes of a block of a quantized type from which its quants begin and before which
 * they end. */
lh_span test_quant_bytes(lh_dtype dtype);
/* `source` packed; matrix->data is allocated. */
lh_matrix pack_weights(lh_dtype dtype, uint32_t outputs, uint32_t inputs, const uint8_t *source);
/* x[rows][width] packed by `kernels`; data is allocated. */
lh_activations pack_rows(const lh_kernels *kernels, lh_activation_kind kind, uint32_t rows,
                         uint32_t width, const float *x);

/* `quick` for programs that a sanitizer or an emulator makes slow (LONGHAUL_TEST_QUICK), else 1: by
 * so many cases a loop goes on, which then still meets each kind of them. */
uint32_t test_stride(uint32_t quick);

float float_of_bits(uint32_t bits);
uint32_t bits_of_float(float value);
/* Fails with the index and both values where a[i] and b[i] differ in any bit. */
void assert_same_floats(const float *a, const float *b, size_t count, const char *what);

/* Runs check(set, context) for each instruction set of this machine. The reference is one of them:
 * beside itself it shows that it stays within its arrays, and that nothing but its input counts. */
void for_each_set(void (*check)(const lh_kernels *set, void *context), void *context);
