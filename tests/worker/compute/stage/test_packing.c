/* Parts of a tensor, packed where they lie and through a device's memory of the host: every byte at
 * its place, whatever fits at once; and what fails. */
#include "worker/compute/stage/packing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PARTS 40u
/* Of each part in either array: some of them are more than one put_memory holds. */
static const size_t each[] = {(size_t)700 << 10, 1000};

typedef struct device {
    lh_compute compute;
    uint8_t *memory;
    size_t asked, puts, longest;
} device;

static void *put_memory(const lh_compute *compute, size_t bytes) {
    device *d = compute->queue;
    assert_true(bytes <= LH_PUT_BYTES_MAX);
    d->asked++;
    d->longest = bytes > d->longest ? bytes : d->longest;
    memset(d->memory, 0xee, LH_PUT_BYTES_MAX);
    return d->memory;
}

static void put_filled(const lh_compute *compute, void *to, const void *filled, size_t bytes) {
    device *d = compute->queue;
    d->puts++;
    memcpy(to, filled, bytes);
}

static size_t offset(const void *context, uint32_t array, uint32_t part) {
    const size_t *bytes = context;
    return part * bytes[array];
}

static uint8_t byte_of(uint32_t array, uint32_t part, size_t i) {
    return (uint8_t)(array * 101 + part * 7 + i % 251);
}

static lh_status pack(const void *context, uint32_t part, void *const *places, uint8_t *scratch,
                      lh_error *error) {
    const size_t *bytes = context;
    (void)error;
    for (uint32_t array = 0; array < 2; array++) {
        for (size_t i = 0; i < bytes[array]; i++)
            scratch[i] = byte_of(array, part, i);
        memcpy(places[array], scratch, bytes[array]);
    }
    return LH_OK;
}

static lh_status refuse(const void *context, uint32_t part, void *const *places, uint8_t *scratch,
                        lh_error *error) {
    return part == 25 ? lh_fail(error, LH_ERR_CORRUPT, "part 25 is no good")
                      : pack(context, part, places, scratch, error);
}

/* A packing of `bytes` for each part, on the host or on a device of two threads. */
static lh_status run(bool is_host, const size_t bytes[2],
                     lh_status (*function)(const void *, uint32_t, void *const *, uint8_t *,
                                           lh_error *),
                     device *d, uint8_t *arrays[2], lh_error *error) {
    static const lh_gguf_tensor tensor = {.name = {"blk.0.ffn_up.weight", 19}};
    static lh_ops ops;
    lh_thread_pool *pool;
    assert_int_equal(lh_thread_pool_create(2, &pool, error), LH_OK);
    ops = (lh_ops){.is_host = is_host, .put_memory = put_memory, .put_filled = put_filled};
    *d = (device){.compute = {.pool = pool, .ops = &ops, .queue = d},
                  .memory = malloc(LH_PUT_BYTES_MAX)};
    const size_t scratch_bytes = bytes[0];
    uint8_t *scratch = malloc(2 * scratch_bytes);
    for (uint32_t i = 0; i < 2; i++)
        arrays[i] = malloc(PARTS * bytes[i]);
    const lh_packing packing = {.compute = &d->compute,
                                .tensor = &tensor,
                                .scratch = scratch,
                                .scratch_bytes = scratch_bytes,
                                .parts = PARTS,
                                .array_count = 2,
                                .arrays = {arrays[0], arrays[1]},
                                .context = bytes,
                                .offset = offset,
                                .pack = function};
    lh_status status = lh_packing_run(&packing, error);
    free(scratch);
    free(d->memory);
    lh_thread_pool_destroy(pool);
    return status;
}

static void release(uint8_t *arrays[2]) {
    free(arrays[0]);
    free(arrays[1]);
}

static void test_every_byte_is_at_its_place(void **state) {
    (void)state;
    for (int is_host = 0; is_host < 2; is_host++) {
        device d;
        uint8_t *arrays[2];
        lh_error error;
        assert_int_equal(run(is_host != 0, each, pack, &d, arrays, &error), LH_OK);
        for (uint32_t array = 0; array < 2; array++)
            for (uint32_t part = 0; part < PARTS; part++)
                for (size_t i = 0; i < each[array]; i++)
                    if (arrays[array][part * each[array] + i] != byte_of(array, part, i))
                        fail_msg("byte %zu of part %u of array %u", i, part, array);
        /* 11 parts are less than 8 MiB, 12 are not */
        assert_int_equal(d.asked, is_host ? 0 : 4);
        assert_int_equal(d.puts, is_host ? 0 : 8);
        assert_true(d.longest <= LH_PUT_BYTES_MAX);
        release(arrays);
    }
}

static void test_what_fails_is_told_and_ends_it(void **state) {
    (void)state;
    for (int is_host = 0; is_host < 2; is_host++) {
        device d;
        uint8_t *arrays[2];
        lh_error error;
        assert_int_equal(run(is_host != 0, each, refuse, &d, arrays, &error), LH_ERR_CORRUPT);
        assert_string_equal(error.message, "part 25 is no good");
        assert_int_equal(d.puts, is_host ? 0 : 4); /* of the turns before */
        release(arrays);
    }
}

static void test_a_part_that_no_device_takes_at_once(void **state) {
    (void)state;
    static const size_t long_ones[] = {LH_PUT_BYTES_MAX, 1};
    device d;
    uint8_t *arrays[2];
    lh_error error;
    assert_int_equal(run(false, long_ones, pack, &d, arrays, &error), LH_ERR_LIMIT);
    assert_string_equal(error.message,
                        "rows of GGUF tensor blk.0.ffn_up.weight are too long for a GPU");
    assert_int_equal(d.asked, 0);
    release(arrays);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_byte_is_at_its_place),
        cmocka_unit_test(test_what_fails_is_told_and_ends_it),
        cmocka_unit_test(test_a_part_that_no_device_takes_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
