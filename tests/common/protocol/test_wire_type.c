/* Wire types: each conversion against its definition in PROTOCOL.md, and what cannot be stored. */
#include "common/protocol/wire_type.h"
#include "tests/support/failing_malloc.h"

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
    return sign *
           (exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25));
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
        if ((half & 0x7c00u) == 0x7c00u)
            continue;
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

/* Between neighbours: below the middle goes down, above goes up, the middle goes to the even one.
 */
static void test_rounding_is_to_nearest_even(void **state) {
    (void)state;
    for (uint32_t half = 0; half < 0x7bffu; half++) {
        /* exact in binary32 */
        float middle = (float)((half_value(half) + half_value(half + 1)) / 2);
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
        assert_true(fabs((double)decode_one(half, exponent) - (double)rows[i].value) <=
                    stored * 0x1p-11);
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

/* ---- q8 ---- */

typedef struct q8_block {
    int8_t quotients[32];
    uint16_t scale;
} q8_block;

static q8_block encode_q8(const float *values, uint32_t count) {
    uint8_t bytes[34] = {0};
    q8_block block = {0};
    assert_true(lh_wire_encode(LH_WIRE_Q8, values, 1, count, bytes));
    memcpy(block.quotients, bytes, count);
    memcpy(&block.scale, bytes + count, 2);
    return block;
}

static bool decode_q8(int quotient, uint32_t scale, float *value) {
    const uint8_t bytes[3] = {(uint8_t)quotient, (uint8_t)scale, (uint8_t)(scale >> 8)};
    return lh_wire_decode(LH_WIRE_Q8, bytes, 1, 1, value);
}

/* A scale's number by the definition. */
static double scale_value(uint32_t scale) {
    return scale & 0x8000u ? (double)float_of((scale & 0x7fffu) << 16) : half_value(scale);
}

/* The scale by the definition: from all that are allowed, the least one that is not less. */
static uint32_t expected_scale(float greatest) {
    float least = greatest / 127;
    if (least == 0)
        return 0;
    bool is_half = least >= 0x1p-14f && least <= 65504.0f;
    uint32_t scale = is_half ? 0x400 : 0x8000;
    while (scale_value(scale) < (double)least)
        scale++;
    return scale;
}

static int expected_quotient(float value, uint32_t scale) {
    return scale == 0 ? 0 : (int)nearbyint((double)(value / (float)scale_value(scale)));
}

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Values whose greatest lies near 2^exponent. */
static void fill_random(float *values, uint32_t count, int exponent, uint32_t *seed) {
    for (uint32_t i = 0; i < count; i++) {
        double value = ((double)next_random(seed) - 0x800000) / 0x800000;
        values[i] = (float)ldexp(value, exponent);
    }
}

static float greatest_of(const float *values, uint32_t count) {
    float greatest = 0;
    for (uint32_t i = 0; i < count; i++)
        greatest = fmaxf(greatest, fabsf(values[i]));
    return greatest;
}

/* Blocks of every magnitude, those where the scale changes its kind among them, and of every
 * length. */
static void test_q8_is_as_defined(void **state) {
    (void)state;
    uint32_t seed = 7;
    for (int exponent = -149; exponent <= 127; exponent++) {
        for (uint32_t count = 1; count <= 32; count++) {
            float values[32];
            fill_random(values, count, exponent, &seed);
            q8_block block = encode_q8(values, count);
            float greatest = greatest_of(values, count);
            assert_int_equal(block.scale, expected_scale(greatest));
            for (uint32_t i = 0; i < count; i++) {
                float arrived;
                assert_int_equal(block.quotients[i], expected_quotient(values[i], block.scale));
                assert_in_range(block.quotients[i] + 127, 0, 254);
                assert_true(decode_q8(block.quotients[i], block.scale, &arrived));
                double error = fabs((double)arrived - (double)values[i]);
                assert_true(error <= (double)greatest / 252 || greatest < 0x1p-118f);
            }
        }
    }
}

static void test_q8_scales_at_their_bounds(void **state) {
    (void)state;
    const struct {
        float greatest;
        uint32_t scale;
    } rows[] = {
        {0, 0},
        {-0.0f, 0},
        {127, 0x3c00},
        {nextafterf(127, INFINITY), 0x3c01}, /* up, however little is missing */
        {127 * 0x1p-14f, 0x0400},
        {nextafterf(127 * 0x1p-14f, 0), 0x8000 | 0x3880},
        {127 * 65504.0f, 0x7bff},
        {nextafterf(127 * 65504.0f, INFINITY), 0x8000 | 0x4780},
        {127 * 255 * 0x1p113f, 0xfbff}, /* the greatest of all */
        {FLT_TRUE_MIN, 0},              /* a 127th of it rounds to nothing */
        {64 * FLT_TRUE_MIN, 0x8001},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        q8_block block = encode_q8(&rows[i].greatest, 1);
        assert_int_equal(block.scale, rows[i].scale);
        assert_int_equal(block.scale, expected_scale(fabsf(rows[i].greatest)));
    }
    uint8_t bytes[3];
    float over = nextafterf(127 * 255 * 0x1p113f, INFINITY);
    assert_false(lh_wire_encode(LH_WIRE_Q8, &over, 1, 1, bytes));
}

static void test_q8_rounds_to_nearest_even(void **state) {
    (void)state;
    const float values[] = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -126.5f, 0.49f, 125.5f, -0.0f};
    const int expected[] = {127, 0, 2, 2, 0, -2, -126, 0, 126, 0};
    q8_block block = encode_q8(values, 10);
    for (int i = 0; i < 10; i++)
        assert_int_equal(block.quotients[i], expected[i]);
}

/* All that a receiver may be sent: every scale with the least and the greatest quotient. */
static void test_q8_takes_every_finite_scale(void **state) {
    (void)state;
    for (uint32_t scale = 0; scale < 0x10000u; scale++) {
        for (int quotient = -128; quotient <= 127; quotient += 51) {
            float value = NAN;
            bool taken = decode_q8(quotient, scale, &value);
            assert_int_equal(taken, (scale & 0x7fffu) <= 0x7bffu);
            assert_true(!taken ||
                        (double)value == (double)((float)scale_value(scale) * (float)quotient));
            assert_true(!taken || isfinite(value));
        }
    }
}

/* What has come over one hop goes over the next one as it is. */
static void test_q8_again_changes_nothing(void **state) {
    (void)state;
    uint32_t seed = 3;
    for (int exponent = -6; exponent <= 22; exponent++) {
        float values[32], once[32], twice[32];
        uint8_t bytes[34];
        fill_random(values, 32, exponent, &seed);
        assert_true(lh_wire_encode(LH_WIRE_Q8, values, 1, 32, bytes));
        assert_true(lh_wire_decode(LH_WIRE_Q8, bytes, 1, 32, once));
        assert_true(lh_wire_encode(LH_WIRE_Q8, once, 1, 32, bytes));
        assert_true(lh_wire_decode(LH_WIRE_Q8, bytes, 1, 32, twice));
        assert_memory_equal(once, twice, sizeof(once));
    }
}

/* ---- All types ---- */

static void test_names_and_numbers(void **state) {
    (void)state;
    static const char *const names[] = {"f32", "f16", "q8"};
    lh_wire_type wire = LH_WIRE_F32;
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(lh_wire_from_number(i, &wire));
        assert_int_equal(wire, i);
        assert_string_equal(lh_wire_name(wire), names[i]);
        assert_true(lh_wire_parse(names[i], &wire));
        assert_int_equal(wire, i);
    }
    assert_false(lh_wire_from_number(3, &wire));
    assert_false(lh_wire_from_number(UINT32_MAX, &wire));
    assert_false(lh_wire_parse("", &wire));
    assert_false(lh_wire_parse("q80", &wire));
    assert_false(lh_wire_parse("auto", &wire));
    assert_int_equal(wire, LH_WIRE_Q8);
}

static void test_bytes_of_a_row(void **state) {
    (void)state;
    const struct {
        uint32_t columns;
        size_t bytes[3];
    } rows[] = {{576, {2304, 1170, 612}}, {32, {128, 65, 34}}, {33, {132, 68, 37}}, {1, {4, 3, 3}}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (uint32_t wire = 0; wire < 3; wire++) {
            assert_int_equal(lh_wire_bytes((lh_wire_type)wire, 1, rows[i].columns),
                             rows[i].bytes[wire]);
            assert_int_equal(lh_wire_bytes((lh_wire_type)wire, 7, rows[i].columns),
                             7 * rows[i].bytes[wire]);
        }
    }
    assert_int_equal(lh_wire_bytes(LH_WIRE_F32, LH_STEP_ROWS_MAX, LH_STEP_WIDTH_MAX),
                     (size_t)1 << 31);
}

/* A value that is not finite is found wherever it stands, also behind a full block. */
static void test_no_value_that_is_not_finite(void **state) {
    (void)state;
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    float values[40] = {0};
    uint8_t bytes[sizeof(values) + 8];
    for (uint32_t wire = 0; wire < 3; wire++) {
        for (uint32_t i = 0; i < 40; i++) {
            for (uint32_t k = 0; k < 4; k++) {
                values[i] = bad[k];
                assert_false(lh_wire_encode((lh_wire_type)wire, values, 1, 40, bytes));
            }
            values[i] = 0;
        }
        assert_true(lh_wire_encode((lh_wire_type)wire, values, 1, 40, bytes));
    }
    float arrived;
    assert_false(lh_wire_decode(LH_WIRE_F32, (const uint8_t *)&bad[0], 1, 1, &arrived));
    assert_false(lh_wire_decode(LH_WIRE_F32, (const uint8_t *)&bad[3], 1, 1, &arrived));
}

/* What arrives does not depend on the cut: rows and whole blocks of columns on their own give the
 * same values. */
static void check_cut(lh_wire_type wire) {
    enum { rows = 3, columns = 100 };
    float values[rows][columns], whole[rows][columns];
    uint32_t seed = 1;
    for (int i = 0; i < rows * columns; i++) {
        seed = seed * 1664525u + 1013904223u;
        uint32_t bits = (seed & 0x807fffffu) | (100u + (seed >> 9) % 50u) << 23;
        values[i / columns][i % columns] = float_of(bits);
    }
    uint8_t bytes[sizeof(values)];
    assert_true(lh_wire_encode(wire, &values[0][0], rows, columns, bytes));
    assert_true(lh_wire_decode(wire, bytes, rows, columns, &whole[0][0]));
    uint32_t bounds[] = {0, 32, 96, 100};
    for (int row = 0; row < rows; row++) {
        for (int i = 0; i < 3; i++) {
            uint32_t count = bounds[i + 1] - bounds[i];
            float part[columns];
            assert_true(lh_wire_encode(wire, &values[row][bounds[i]], 1, count, bytes));
            assert_true(lh_wire_decode(wire, bytes, 1, count, part));
            assert_memory_equal(part, &whole[row][bounds[i]], count * sizeof(float));
        }
    }
}

static void test_values_do_not_depend_on_the_cut(void **state) {
    (void)state;
    check_cut(LH_WIRE_F32);
    check_cut(LH_WIRE_F16);
    check_cut(LH_WIRE_Q8);
}

/* Rows of what was packed whole are what these rows give by themselves. */
static void test_rows_are_cut_out(void **state) {
    (void)state;
    enum { rows = 5, columns = 75 };
    float values[rows][columns];
    uint8_t whole[sizeof values], cut[sizeof values], alone[sizeof values];
    for (int i = 0; i < rows * columns; i++)
        values[i / columns][i % columns] = (float)(i * 37 % 101) - 50.5f;
    for (uint32_t wire = 0; wire < 3; wire++) {
        assert_true(lh_wire_encode((lh_wire_type)wire, values[0], rows, columns, whole));
        for (uint32_t first = 0; first < rows; first++)
            for (uint32_t count = 1; count <= rows - first; count++) {
                lh_wire_cut_rows((lh_wire_type)wire, whole, rows, columns, first, count, cut);
                assert_true(
                    lh_wire_encode((lh_wire_type)wire, values[first], count, columns, alone));
                assert_memory_equal(cut, alone, lh_wire_bytes((lh_wire_type)wire, count, columns));
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_half_round_trips),
        cmocka_unit_test(test_rounding_is_to_nearest_even),
        cmocka_unit_test(test_exponent_is_the_smallest_that_fits),
        cmocka_unit_test(test_what_cannot_be_stored_is_refused),
        cmocka_unit_test(test_q8_is_as_defined),
        cmocka_unit_test(test_q8_scales_at_their_bounds),
        cmocka_unit_test(test_q8_rounds_to_nearest_even),
        cmocka_unit_test(test_q8_takes_every_finite_scale),
        cmocka_unit_test(test_q8_again_changes_nothing),
        cmocka_unit_test(test_names_and_numbers),
        cmocka_unit_test(test_bytes_of_a_row),
        cmocka_unit_test(test_no_value_that_is_not_finite),
        cmocka_unit_test(test_values_do_not_depend_on_the_cut),
        cmocka_unit_test(test_rows_are_cut_out),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
