/* Places, which the frames take in turn. */
#include "worker/mesh/frame_ring.h"

#include "worker/mesh/frame_memory.h"

#include <assert.h>
#include <stdlib.h>

/* Four gathers, and as many orders as come before a member is waited for. */
enum { PLACES = 8 };

typedef struct place {
    lh_mesh_frame_memory frame;
    uint32_t payload_bytes;
} place;

/* Frames are counted from 0: frame n is in place n % PLACES. */
typedef struct reader {
    uint64_t frame; /* its next bytes are of this one */
    size_t offset;  /* what it has had of it */
} reader;

struct lh_mesh_frame_ring {
    place places[PLACES];
    uint64_t opened, sealed; /* frames; sealed <= opened */
    uint32_t reader_count;
    reader readers[];
};

lh_status lh_mesh_frame_ring_create(uint32_t readers, lh_mesh_frame_ring **ring, lh_error *error) {
    assert(readers > 0);
    *ring = calloc(1, sizeof **ring + readers * sizeof(reader));
    if (!*ring)
        return lh_fail(error, LH_ERR_NO_MEMORY, "mesh: out of memory");
    (*ring)->reader_count = readers;
    return LH_OK;
}

void lh_mesh_frame_ring_destroy(lh_mesh_frame_ring *ring) {
    for (uint32_t i = 0; ring && i < PLACES; i++)
        free(ring->places[i].frame.memory);
    free(ring);
}

/* The oldest frame that somebody has not had whole. */
static uint64_t oldest(const lh_mesh_frame_ring *ring) {
    uint64_t frame = ring->sealed;
    for (uint32_t i = 0; i < ring->reader_count; i++)
        if (ring->readers[i].frame < frame)
            frame = ring->readers[i].frame;
    return frame;
}

bool lh_mesh_frame_ring_has_room(const lh_mesh_frame_ring *ring) {
    return ring->opened - oldest(ring) < PLACES;
}

lh_status lh_mesh_frame_ring_open(lh_mesh_frame_ring *ring, size_t payload_bytes, void **payload,
                                  lh_error *error) {
    place *p = &ring->places[ring->opened % PLACES];
    if (!lh_mesh_frame_ring_has_room(ring))
        return LH_AGAIN;
    assert(payload_bytes <= UINT32_MAX);
    lh_status status = lh_mesh_frame_memory_reserve(&p->frame, payload_bytes, 0, error);
    if (status != LH_OK)
        return status;
    p->payload_bytes = (uint32_t)payload_bytes;
    ring->opened++;
    *payload = lh_mesh_frame_memory_payload(&p->frame);
    return LH_OK;
}

void lh_mesh_frame_ring_seal(lh_mesh_frame_ring *ring, lh_mesh_frame_head *head) {
    place *p = &ring->places[ring->sealed % PLACES];
    assert(ring->sealed < ring->opened);
    head->payload_bytes = p->payload_bytes;
    lh_mesh_frame_head_encode(head, lh_mesh_frame_memory_head(&p->frame));
    ring->sealed++;
}

size_t lh_mesh_frame_ring_next(const lh_mesh_frame_ring *ring, uint32_t number,
                               const uint8_t **bytes) {
    const reader *r = &ring->readers[number];
    const place *p = &ring->places[r->frame % PLACES];
    assert(number < ring->reader_count);
    if (r->frame == ring->sealed)
        return 0;
    *bytes = lh_mesh_frame_memory_head(&p->frame) + r->offset;
    return LH_MESH_HEAD_BYTES + p->payload_bytes - r->offset;
}

void lh_mesh_frame_ring_advance(lh_mesh_frame_ring *ring, uint32_t number, size_t bytes) {
    reader *r = &ring->readers[number];
    size_t length = LH_MESH_HEAD_BYTES + ring->places[r->frame % PLACES].payload_bytes;
    assert(r->frame < ring->sealed && bytes <= length - r->offset);
    r->offset += bytes;
    if (r->offset == length) {
        r->offset = 0;
        r->frame++;
    }
}

bool lh_mesh_frame_ring_is_empty(const lh_mesh_frame_ring *ring) {
    return oldest(ring) == ring->sealed;
}
