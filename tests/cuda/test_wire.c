/* What kernels/cuda packs for the wire, emulated, against the wire's own codec, byte for byte:
 * every type, numbers of all sizes, rows that end within a block, and blocks of threads fewer than
 * there is work for. What the codec refuses is refused. */
#include "common/protocol/wire_type.h"
#include "kernels/cuda/cuda_kernels.h"
#include "tests/cuda/support/emulated_kernels.h"
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct problem {
    uint32_t rows, columns, blocks;
    size_t stride;
    float *x;
} problem;

static problem make_problem(test_random *random, uint32_t rows, uint32_t columns) {
    problem p = {.rows = rows,
                 .columns = columns,
                 .blocks = random_between(random, 1, 3),
                 .stride = columns + random_between(random, 0, 5)};
    p.x = random_floats(random, rows * p.stride);
    return p;
}

static void pack_on_gpu(lh_wire_type wire, const problem *p, uint8_t *bytes, uint32_t *refused) {
    const lh_cuda_wire type = wire == LH_WIRE_F16 ? LH_CUDA_WIRE_F16 : LH_CUDA_WIRE_Q8;
    assert_int_equal(lh_cuda_wire_bytes(type, p->rows, p->columns),
                     lh_wire_bytes(wire, p->rows, p->columns));
    assert_true(lh_cuda_wire_bytes(type, p->rows, p->columns) <= (size_t)3 * p->rows * p->columns);
    assert_int_equal(lh_cuda_pack_wire(NULL, type, bytes, refused, p->x, p->stride, p->rows,
                                       p->columns, p->blocks),
                     0);
}

/* Returns whether the codec takes it. */
static bool check(lh_wire_type wire, const problem *p) {
    const size_t bytes = lh_wire_bytes(wire, p->rows, p->columns), row = p->columns * sizeof *p->x;
    float *tight = test_alloc(p->rows * row);
    uint8_t *expected = test_alloc(bytes), *packed = test_alloc(bytes);
    uint32_t refused = 0;
    for (uint32_t r = 0; r < p->rows; r++)
        memcpy(tight + (size_t)r * p->columns, p->x + r * p->stride, row);
    const bool is_good = lh_wire_encode(wire, tight, p->rows, p->columns, expected);
    pack_on_gpu(wire, p, packed, &refused);
    assert_int_equal(refused, !is_good);
    for (size_t i = 0; is_good && i < bytes; i++)
        if (packed[i] != expected[i])
            fail_msg("%s, %u rows of %u columns: byte %zu of %zu is %02x, not %02x",
                     lh_wire_name(wire), p->rows, p->columns, i, bytes, packed[i], expected[i]);
    free(tight);
    free(expected);
    free(packed);
    return is_good;
}

static void check_types(const problem *p) {
    assert_true(check(LH_WIRE_F16, p));
    assert_true(check(LH_WIRE_Q8, p));
}

static void test_any_shape(void **state) {
    (void)state;
    static const uint32_t columns[] = {1, 2, 3, 5, 31, 32, 33, 61, 64, 96, 127, 576, 2049};
    static const uint32_t rows[] = {1, 2, 7, 65};
    test_random random = {91};
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++)
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            emulated_order(10 * c + r + 1);
            problem p = make_problem(&random, rows[r], columns[c]);
            check_types(&p);
            free(p.x);
        }
}

/* Any bits that are finite: each block's exponent is another one. */
static float any_finite(test_random *random, uint32_t exponent) {
    const uint32_t below = random_between(random, 0, exponent < 30 ? exponent : 30);
    const uint32_t bits = (exponent - below) << 23 | (uint32_t)(random_bits(random) & 0x807fffffu);
    return float_of_bits(random_between(random, 0, 9) ? bits : bits & 0x80000000u);
}

static void test_numbers_of_all_sizes(void **state) {
    (void)state;
    test_random random = {92};
    uint32_t taken = 0, tried = 0;
    for (uint32_t exponent = 0; exponent < 255; exponent += test_stride(16), tried++) {
        problem p = make_problem(&random, 3, 70);
        for (size_t i = 0; i < p.rows * p.stride; i++)
            p.x[i] = any_finite(&random, exponent);
        taken += check(LH_WIRE_F16, &p);
        assert_true(check(LH_WIRE_Q8, &p) || exponent == 254);
        free(p.x);
    }
    assert_true(taken + 1 >= tried);
}

/* About the greatest that F16, its exponent, and the two kinds of scales take, and between two
 * numbers that are as near. */
static void test_limits(void **state) {
    (void)state;
    static const float limits[] = {
        65504.0f, 65520.0f,  131008.0f,           0x1p-14f,    127 * 0x1p-14f,  127 * 65504.0f,
        0x1p-24f, 0x1p-149f, 65504.0f * 0x1p112f, 0x1.fcp127f, 0x1.fffffep127f, 1.0f};
    test_random random = {93};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        for (int ulps = -2; ulps <= 2; ulps++) {
            const uint32_t bits = bits_of_float(limits[i]) + (uint32_t)ulps;
            if (!isfinite(float_of_bits(bits)) || bits >> 31)
                continue;
            problem p = make_problem(&random, 2, 40);
            for (uint32_t k = 0; k < p.columns; k++)
                p.x[k] *= float_of_bits(bits) * 0.5f;
            p.x[random_between(&random, 0, 39)] = -float_of_bits(bits);
            check(LH_WIRE_F16, &p);
            check(LH_WIRE_Q8, &p);
            free(p.x);
        }
}

/* Halves of a unit: to even, as the codec rounds. */
static void test_ties(void **state) {
    (void)state;
    test_random random = {94};
    problem p = make_problem(&random, 1, 64);
    for (uint32_t k = 0; k < 64; k++)
        p.x[k] = k == 0 || k == 32 ? 127.0f : ((float)k - 32) + 0.5f;
    check_types(&p);
    for (uint32_t k = 0; k < 64; k++)
        p.x[k] = float_of_bits(0x3f801000u + k * 0x1000u); /* between two binary16 numbers */
    check_types(&p);
    for (uint32_t k = 0; k < 64; k++)
        p.x[k] = (float)k * 0x1p-25f; /* and between two subnormal ones */
    check_types(&p);
    free(p.x);
}

static void test_what_is_refused(void **state) {
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    test_random random = {95};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        for (uint32_t at = 0; at < 70; at += 23) {
            problem p = make_problem(&random, 4, 70);
            p.x[2 * p.stride + at] = bad[i];
            assert_false(check(LH_WIRE_F16, &p));
            assert_false(check(LH_WIRE_Q8, &p));
            free(p.x);
        }
}

static void test_nothing_to_do(void **state) {
    (void)state;
    uint32_t refused = 0;
    const uint64_t launches = emulated_launches();
    assert_int_equal(lh_cuda_pack_wire(NULL, LH_CUDA_WIRE_Q8, NULL, &refused, NULL, 0, 0, 32, 1),
                     0);
    assert_int_equal(lh_cuda_pack_wire(NULL, LH_CUDA_WIRE_F16, NULL, &refused, NULL, 0, 3, 0, 1),
                     0);
    assert_int_equal(emulated_launches(), launches);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_shape),       cmocka_unit_test(test_numbers_of_all_sizes),
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_ties),
        cmocka_unit_test(test_what_is_refused), cmocka_unit_test(test_nothing_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
