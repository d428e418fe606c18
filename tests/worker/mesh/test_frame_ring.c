/* Frames for several readers, each of whom is somewhere else. */
#include "worker/mesh/frame_ring.h"

#include "tests/support/failing_malloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { READERS = 3, FRAMES = 2000, PAYLOAD_MAX = 700 };

static uint32_t random_below(uint32_t bound) {
    static uint64_t number = 88172645463325252u;
    number ^= number << 13;
    number ^= number >> 7;
    number ^= number << 17;
    return (uint32_t)(number >> 20) % bound;
}

/* What a frame's payload is made of, so that a reader can tell. */
static uint8_t content(uint64_t frame, size_t offset) {
    return (uint8_t)(frame * 31 + offset * 7);
}

static lh_status write_frame(lh_mesh_frame_ring *ring, uint64_t number) {
    size_t length = 1 + random_below(PAYLOAD_MAX);
    void *payload;
    lh_mesh_frame_head head = {LH_MESH_FRAME_GATHER, 1, number, 0};
    lh_status status = lh_mesh_frame_ring_open(ring, length, &payload, NULL);
    if (status != LH_OK)
        return status;
    assert_int_equal((uintptr_t)payload % 64, 0);
    for (size_t i = 0; i < length; i++)
        ((uint8_t *)payload)[i] = content(number, i);
    lh_mesh_frame_ring_seal(ring, &head);
    assert_int_equal(head.payload_bytes, length);
    return LH_OK;
}

/* A reader puts the bytes that it has had together again. */
typedef struct reading {
    uint64_t frame;
    uint8_t bytes[LH_MESH_HEAD_BYTES + PAYLOAD_MAX];
    size_t length;
} reading;

static void check_frame(const reading *r) {
    lh_mesh_frame_head head;
    lh_mesh_frame_head_decode(r->bytes, &head);
    assert_true(head.number == r->frame);
    assert_int_equal(head.payload_bytes, r->length - LH_MESH_HEAD_BYTES);
    for (size_t i = 0; i < head.payload_bytes; i++)
        assert_int_equal(r->bytes[LH_MESH_HEAD_BYTES + i], content(r->frame, i));
}

/* Some of what there is, a frame at most. */
static void read_some(lh_mesh_frame_ring *ring, uint32_t number, reading *r) {
    const uint8_t *bytes;
    size_t left = lh_mesh_frame_ring_next(ring, number, &bytes);
    if (left == 0)
        return;
    size_t length = 1 + random_below((uint32_t)left);
    memcpy(r->bytes + r->length, bytes, length);
    r->length += length;
    lh_mesh_frame_ring_advance(ring, number, length);
    if (length < left)
        return;
    check_frame(r);
    r->frame++;
    r->length = 0;
}

static void each_reader_has_every_byte_once(void **state) {
    (void)state;
    lh_mesh_frame_ring *ring;
    reading readings[READERS] = {0};
    uint64_t written = 0, refused = 0;
    assert_int_equal(lh_mesh_frame_ring_create(READERS, &ring, NULL), LH_OK);
    while (readings[0].frame < FRAMES || readings[1].frame < FRAMES || readings[2].frame < FRAMES) {
        uint32_t what = random_below(READERS + 1);
        if (what < READERS) {
            read_some(ring, what, &readings[what]);
        } else if (written < FRAMES) {
            lh_status status = write_frame(ring, written);
            assert_true(status == LH_OK || status == LH_AGAIN);
            written += status == LH_OK;
            refused += status == LH_AGAIN;
        }
    }
    assert_true(refused > 0);
    assert_true(lh_mesh_frame_ring_is_empty(ring));
    lh_mesh_frame_ring_destroy(ring);
}

static void the_slowest_reader_keeps_its_frames(void **state) {
    (void)state;
    lh_mesh_frame_ring *ring;
    reading slow = {0}, quick = {0};
    uint64_t written = 0;
    assert_int_equal(lh_mesh_frame_ring_create(2, &ring, NULL), LH_OK);
    while (write_frame(ring, written) == LH_OK) {
        written++;
        while (quick.frame < written)
            read_some(ring, 0, &quick);
    }
    assert_true(written >= 4); /* those that members may be apart */
    assert_false(lh_mesh_frame_ring_is_empty(ring));
    while (slow.frame < 1)
        read_some(ring, 1, &slow);
    assert_int_equal(write_frame(ring, written), LH_OK);
    assert_int_equal(write_frame(ring, written + 1), LH_AGAIN);
    while (slow.frame < written + 1)
        read_some(ring, 1, &slow);
    lh_mesh_frame_ring_destroy(ring);
}

static void is_as_it_was_without_memory(void **state) {
    (void)state;
    lh_mesh_frame_ring *ring;
    reading r = {0};
    failing_malloc_arm(1);
    assert_int_equal(lh_mesh_frame_ring_create(1, &ring, NULL), LH_ERR_NO_MEMORY);
    assert_int_equal(lh_mesh_frame_ring_create(1, &ring, NULL), LH_OK);
    failing_malloc_arm(1);
    assert_int_equal(write_frame(ring, 0), LH_ERR_NO_MEMORY);
    assert_true(failing_malloc_disarm());
    assert_int_equal(write_frame(ring, 0), LH_OK);
    while (r.frame < 1)
        read_some(ring, 0, &r);
    lh_mesh_frame_ring_destroy(ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reader_has_every_byte_once),
        cmocka_unit_test(the_slowest_reader_keeps_its_frames),
        cmocka_unit_test(is_as_it_was_without_memory),
    };
    return cmocka_run_group_tests(tests, failing_malloc_note, failing_malloc_check);
}
