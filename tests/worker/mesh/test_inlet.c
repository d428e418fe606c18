/* Frames that come in pieces of any length. */
#include "worker/mesh/inlet.h"

#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { PAYLOAD_MAX = 500 };

static uint32_t random_below(uint32_t bound) {
    static uint64_t number = 2463534242u;
    number ^= number << 13;
    number ^= number >> 7;
    number ^= number << 17;
    return (uint32_t)(number >> 20) % bound;
}

static size_t make_frame(uint8_t *bytes, uint64_t number, uint32_t payload_bytes) {
    const lh_mesh_frame_head head = {LH_MESH_FRAME_GATHER, 1, number, payload_bytes};
    lh_mesh_frame_head_encode(&head, bytes);
    memset(bytes + LH_MESH_HEAD_BYTES, (int)number, payload_bytes);
    return LH_MESH_HEAD_BYTES + payload_bytes;
}

/* As a socket would that has `left` bytes. */
static size_t give_some(lh_mesh_inlet *inlet, const uint8_t *from, size_t left, size_t expected) {
    uint8_t *to;
    size_t wanted;
    assert_int_equal(lh_mesh_inlet_next(inlet, expected, &to, &wanted, NULL), LH_OK);
    size_t length = wanted < left ? wanted : left;
    length = length > 0 ? 1 + random_below((uint32_t)length) : 0;
    memcpy(to, from, length);
    assert_int_equal(lh_mesh_inlet_advance(inlet, length, NULL), LH_OK);
    return length;
}

/* A frame and the bytes of it. */
typedef struct given_frame {
    uint8_t bytes[LH_MESH_HEAD_BYTES + PAYLOAD_MAX];
    uint32_t payload_bytes;
} given_frame;

static void give_frame(lh_mesh_inlet *inlet, uint64_t number, given_frame *frame) {
    frame->payload_bytes = random_below(PAYLOAD_MAX + 1);
    size_t length = make_frame(frame->bytes, number, frame->payload_bytes), given = 0;
    while (given < length)
        given += give_some(inlet, frame->bytes + given, length - given,
                           number % 3 ? frame->payload_bytes : 0); /* known beforehand, or not */
}

static void frames_wait_while_the_one_before_is_used(void **state) {
    (void)state;
    lh_mesh_inlet inlet = {.payload_bytes_max = PAYLOAD_MAX};
    given_frame frames[4]; /* frame n is in n % 4 */
    const uint8_t *before = NULL;
    uint64_t given = 0;
    for (uint64_t n = 0; n < 500; n++) {
        const uint64_t wait = 1 + random_below(LH_MESH_INLET_FRAMES);
        for (; given < n + wait; given++)
            give_frame(&inlet, given, &frames[given % 4]);
        assert_true(lh_mesh_inlet_is_whole(&inlet));
        if (given == n + LH_MESH_INLET_FRAMES)
            assert_int_equal(give_some(&inlet, frames[0].bytes, 0, 0), 0); /* no place for more */
        const given_frame *frame = &frames[n % 4], *last = &frames[(n + 3) % 4];
        if (before)
            assert_memory_equal(before, last->bytes + LH_MESH_HEAD_BYTES, last->payload_bytes);
        assert_true(lh_mesh_inlet_head(&inlet)->number == n);
        before = lh_mesh_inlet_take(&inlet);
        assert_int_equal((uintptr_t)before % 64, 0);
        assert_memory_equal(before, frame->bytes + LH_MESH_HEAD_BYTES, frame->payload_bytes);
        assert_true(lh_mesh_inlet_is_whole(&inlet) == (given > n + 1));
    }
    lh_mesh_inlet_reset(&inlet);
}

static void a_length_is_not_believed(void **state) {
    (void)state;
    lh_mesh_inlet inlet = {.payload_bytes_max = PAYLOAD_MAX};
    uint8_t head[LH_MESH_HEAD_BYTES], *to;
    size_t wanted;
    lh_error error;
    lh_mesh_frame_head_encode(&(lh_mesh_frame_head){1, 1, 0, PAYLOAD_MAX + 1}, head);
    assert_int_equal(lh_mesh_inlet_next(&inlet, 0, &to, &wanted, NULL), LH_OK);
    assert_int_equal(wanted, LH_MESH_HEAD_BYTES);
    memcpy(to, head, wanted);
    assert_int_equal(lh_mesh_inlet_advance(&inlet, wanted, &error), LH_ERR_LIMIT);
    assert_non_null(strstr(error.message, "501 bytes, where 500"));
    lh_mesh_inlet_reset(&inlet);
    /* Shorter than expected: the bytes behind it are another frame's. */
    lh_mesh_frame_head_encode(&(lh_mesh_frame_head){1, 1, 0, 10}, head);
    assert_int_equal(lh_mesh_inlet_next(&inlet, 100, &to, &wanted, NULL), LH_OK);
    assert_int_equal(wanted, LH_MESH_HEAD_BYTES + 100);
    memcpy(to, head, sizeof head);
    memset(to + sizeof head, 0, 100);
    assert_int_equal(lh_mesh_inlet_advance(&inlet, wanted, &error), LH_ERR_MALFORMED);
    lh_mesh_inlet_reset(&inlet);
}

static void what_has_come_stays_without_memory(void **state) {
    (void)state;
    lh_mesh_inlet inlet = {.payload_bytes_max = PAYLOAD_MAX};
    uint8_t frame[LH_MESH_HEAD_BYTES + PAYLOAD_MAX], *to;
    size_t wanted, length = make_frame(frame, 7, 300), given = 0;
    while (!lh_mesh_inlet_head(&inlet))
        given += give_some(&inlet, frame + given, length - given, 0);
    failing_malloc_arm(1);
    assert_int_equal(lh_mesh_inlet_next(&inlet, 0, &to, &wanted, NULL), LH_ERR_NO_MEMORY);
    assert_true(failing_malloc_disarm());
    while (given < length)
        given += give_some(&inlet, frame + given, length - given, 0);
    assert_memory_equal(lh_mesh_inlet_take(&inlet), frame + LH_MESH_HEAD_BYTES, 300);
    lh_mesh_inlet_reset(&inlet);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_wait_while_the_one_before_is_used),
        cmocka_unit_test(a_length_is_not_believed),
        cmocka_unit_test(what_has_come_stays_without_memory),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
