/* Packed activations on their way to another machine and back: whatever columns, the same bytes as
 * those that were packed there. */
#include "tests/kernels/support/arrays.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 3, WIDTH = 128 };

static lh_activations empty(lh_activation_kind kind) {
    const size_t bytes = lh_activations_bytes(kind, ROWS, WIDTH);
    lh_activations x = {kind, ROWS, WIDTH, test_alloc(bytes)};
    memset(x.data, 0xa5, bytes);
    return x;
}

/* Columns `columns`, through exactly as many bytes as they say. */
static void carry(const lh_activations *to, const lh_activations *from, lh_span columns) {
    void *bytes = test_alloc(lh_activations_encoded_bytes(from->kind, ROWS, columns));
    lh_activations_encode(bytes, from, columns);
    lh_activations_decode(to, columns, bytes);
    free(bytes);
}

static void check_carried(lh_activation_kind kind) {
    test_random random = {5};
    float *x = random_floats(&random, ROWS * WIDTH);
    x[7] = INFINITY;
    x[WIDTH + 40] = NAN;
    for (uint32_t c = 64; c < 96; c++)
        x[c] = 0;
    for (size_t isa = 0; lh_kernels_at(isa); isa++) {
        const lh_activations packed = pack_rows(lh_kernels_at(isa), kind, ROWS, WIDTH, x);
        const lh_activations carried = empty(kind);
        carry(&carried, &packed, (lh_span){32, 96});
        carry(&carried, &packed, (lh_span){96, WIDTH});
        carry(&carried, &packed, (lh_span){0, 32});
        assert_memory_equal(carried.data, packed.data, lh_activations_bytes(kind, ROWS, WIDTH));
        free(carried.data);
        free(packed.data);
    }
    free(x);
}

static void test_what_was_packed_arrives(void **state) {
    (void)state;
    check_carried(LH_ACTIVATION_F32);
    check_carried(LH_ACTIVATION_Q8);
    check_carried(LH_ACTIVATION_Q16);
}

static void test_a_block_takes_its_scale_and_its_bytes(void **state) {
    (void)state;
    const lh_span columns = {32, 128};
    assert_int_equal(lh_activations_encoded_bytes(LH_ACTIVATION_F32, 2, columns), 2 * 96 * 4);
    assert_int_equal(lh_activations_encoded_bytes(LH_ACTIVATION_Q8, 2, columns), 2 * 3 * 36);
    assert_int_equal(lh_activations_encoded_bytes(LH_ACTIVATION_Q16, 2, columns), 2 * 3 * 72);
}

/* Of a product that floats feed, the last columns may be any number. */
static void test_floats_may_end_inside_a_block(void **state) {
    (void)state;
    test_random random = {6};
    float *x = random_floats(&random, 2 * 40);
    const lh_activations packed = pack_rows(lh_kernels_at(0), LH_ACTIVATION_F32, 2, 40, x);
    float *values = test_alloc(2 * 40 * sizeof *values);
    const lh_activations carried = {LH_ACTIVATION_F32, 2, 40, values};
    uint8_t bytes[2 * 32 * sizeof(float)];
    for (uint32_t begin = 0; begin < 40; begin += 32) {
        const lh_span columns = {begin, begin + 32 < 40 ? begin + 32 : 40};
        lh_activations_encode(bytes, &packed, columns);
        lh_activations_decode(&carried, columns, bytes);
    }
    assert_same_floats(values, x, 2 * 40, "floats");
    free(values);
    free(packed.data);
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_packed_arrives),
        cmocka_unit_test(test_a_block_takes_its_scale_and_its_bytes),
        cmocka_unit_test(test_floats_may_end_inside_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
