/* Frames of a shard that a device has packed are those of its values, also where it is too large
 * for one frame; what cannot be packed is refused in the same words. */
#include "worker/serve/frames.h"

#include "common/protocol/wire_type.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static float *some_values(size_t count) {
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i * 2654435761u % 1000003) / 1000 - 500;
    return values;
}

static void check(lh_wire_type wire, uint32_t rows, uint32_t columns) {
    float *values = some_values((size_t)rows * columns);
    uint8_t *packed = malloc(lh_wire_bytes(wire, rows, columns));
    assert_non_null(packed);
    assert_true(lh_wire_encode(wire, values, rows, columns, packed));
    lh_stage_shard shard = {3, rows, 64, columns, values, NULL};
    void *expected, *frames;
    size_t expected_bytes, bytes;
    assert_int_equal(lh_frames_of_shard(wire, &shard, &expected, &expected_bytes, NULL), LH_OK);
    shard.values = NULL;
    shard.packed = packed;
    assert_int_equal(lh_frames_of_shard(wire, &shard, &frames, &bytes, NULL), LH_OK);
    assert_int_equal(bytes, expected_bytes);
    assert_memory_equal(frames, expected, bytes);
    free(frames);
    free(expected);
    free(packed);
    free(values);
}

static void test_packed_shards(void **state) {
    (void)state;
    for (lh_wire_type wire = LH_WIRE_F16; wire <= LH_WIRE_Q8; wire++) {
        check(wire, 1, 1);
        check(wire, 7, 61);
        check(wire, 700, 8192); /* 2 or 3 frames */
    }
}

static void test_what_cannot_be_packed(void **state) {
    (void)state;
    float values[64] = {[40] = NAN};
    lh_stage_shard shard = {5, 2, 32, 32, values, NULL};
    void *bytes = NULL;
    size_t length;
    lh_error expected, error;
    assert_int_equal(lh_frames_of_shard(LH_WIRE_Q8, &shard, &bytes, &length, &expected),
                     LH_ERR_INVALID);
    shard.values = NULL;
    assert_int_equal(lh_frames_of_shard(LH_WIRE_Q8, &shard, &bytes, &length, &error),
                     LH_ERR_INVALID);
    assert_string_equal(error.message, expected.message);
    assert_null(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_shards),
        cmocka_unit_test(test_what_cannot_be_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
