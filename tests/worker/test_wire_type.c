/* Wire types: the f16 conversion against the definition, exponents, and what cannot be stored. */
#include "worker/api/wire_type.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* binary16 to a number, by its definition. */
static double half_value(uint32_t half) {
    double sign = half & 0x8000u ? -1 : 1;
    uint32_t exponent = half >> 10 & 31u, fraction = half & 1023u;
    return sign * (exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25));
}

static void encode_one(float value, uint16_t *half, uint8_t *exponent) {
    uint8_t bytes[3];
    assert_true(lh_wire_encode(LH_WIRE_F16, &value, 1, 1, bytes));
    memcpy(half, bytes, 2);
    *exponent = bytes[2];
}

static float decode_one(uint16_t half, uint8_t exponent) {
    uint8_t bytes[3];
    memcpy(bytes, &half, 2);
    bytes[2] = exponent;
    float value;
    assert_true(lh_wire_decode(LH_WIRE_F16, bytes, 1, 1, &value));
    return value;
}

static void test_every_half_round_trips(void **state) {
    (void)state;
    for (uint32_t half = 0; half < 0x10000u; half++) {
        if ((half & 0x7c00u) == 0x7c00u) {
            continue;
        }
        float value = decode_one((uint16_t)half, 0);
        assert_true((double)value == half_value(half));
        assert_int_equal(signbit(value) != 0, half >> 15);
        uint16_t again;
        uint8_t exponent;
        encode_one(value, &again, &exponent);
        assert_int_equal(again, half);
        assert_int_equal(exponent, 0);
    }
}

/* Between neighbours: below the middle goes down, above goes up, the middle goes to the even one. */
static void test_rounding_is_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t half = 0; half < 0x7bffu; half++) {
        float middle = (float)((half_value(half) + half_value(half + 1)) / 2); /* exact in binary32 */
        uint16_t got;
        uint8_t exponent;
        encode_one(middle, &got, &exponent);
        assert_int_equal(got, half + (half & 1u));
        encode_one(nextafterf(middle, 0), &got, &exponent);
        assert_int_equal(got, half);
        encode_one(-nextafterf(middle, INFINITY), &got, &exponent);
        assert_int_equal(got, 0x8000u | (half + 1));
    }
}

static void test_exponent_is_the_smallest_that_fits(void **state) {
    (void)state;
    struct {
        float value;
        int exponent;
    } rows[] = {{0, 0},
                {65504, 0},
                {-65504, 0},
                {nextafterf(65504, INFINITY), 1},
                {65536, 1},
                {131008, 1},
                {131072, 2},
                {1e30f, 84},
                {0x1.ffcp127f, 112}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint16_t half;
        uint8_t exponent;
        encode_one(rows[i].value, &half, &exponent);
        assert_int_equal(exponent, rows[i].exponent);
        double stored = fabs((double)rows[i].value);
        assert_true(ldexp(stored, -exponent) <= 65504.0);
        assert_true(exponent == 0 || ldexp(stored, 1 - exponent) > 65504.0);
        assert_true(fabs((double)decode_one(half, exponent) - (double)rows[i].value) <= stored * 0x1p-11);
    }
}

static void test_what_cannot_be_stored_is_refused(void **state) {
    (void)state;
    float bad[] = {NAN, INFINITY, -INFINITY};
    uint8_t bytes[8];
    for (size_t i = 0; i < 3; i++) {
        assert_false(lh_wire_encode(LH_WIRE_F32, &bad[i], 1, 1, bytes));
        assert_false(lh_wire_encode(LH_WIRE_F16, &bad[i], 1, 1, bytes));
    }
    float huge = FLT_MAX;
    assert_true(lh_wire_encode(LH_WIRE_F32, &huge, 1, 1, bytes));
    assert_false(lh_wire_encode(LH_WIRE_F16, &huge, 1, 1, bytes));
    float value;
    assert_false(lh_wire_decode(LH_WIRE_F16, (const uint8_t[]){0x00, 0x7c, 0}, 1, 1, &value));
    assert_false(lh_wire_decode(LH_WIRE_F16, (const uint8_t[]){0x01, 0xfc, 0}, 1, 1, &value));
    assert_false(lh_wire_decode(LH_WIRE_F16, (const uint8_t[]){0x00, 0x3c, 113}, 1, 1, &value));
    assert_true(lh_wire_decode(LH_WIRE_F16, (const uint8_t[]){0xff, 0x7b, 112}, 1, 1, &value));
    assert_true(value == 0x1.ffcp127f);
}

/* What arrives does not depend on the cut: rows and whole blocks of columns on their own give the same
 * values. */
static void test_values_do_not_depend_on_the_cut(void **state) {
    (void)state;
    enum { rows = 3, columns = 100 };
    float values[rows][columns], whole[rows][columns];
    uint32_t seed = 1;
    for (int i = 0; i < rows * columns; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t bits = (seed & 0x807fffffu) | (100u + (seed >> 9) % 50u) << 23;
        values[i / columns][i % columns] = float_of(bits);
    }
    uint8_t bytes[sizeof(values)];
    assert_true(lh_wire_encode(LH_WIRE_F16, &values[0][0], rows, columns, bytes));
    assert_true(lh_wire_decode(LH_WIRE_F16, bytes, rows, columns, &whole[0][0]));
    uint32_t bounds[] = {0, 32, 96, 100};
    for (int row = 0; row < rows; row++) {
        for (int i = 0; i < 3; i++) {
            uint32_t count = bounds[i + 1] - bounds[i];
            float part[columns];
            assert_true(lh_wire_encode(LH_WIRE_F16, &values[row][bounds[i]], 1, count, bytes));
            assert_true(lh_wire_decode(LH_WIRE_F16, bytes, 1, count, part));
            assert_memory_equal(part, &whole[row][bounds[i]], count * sizeof(float));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half_round_trips),
        cmocka_unit_test(test_rounding_is_to_nearest_even),
        cmocka_unit_test(test_exponent_is_the_smallest_that_fits),
        cmocka_unit_test(test_what_cannot_be_stored_is_refused),
        cmocka_unit_test(test_values_do_not_depend_on_the_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
