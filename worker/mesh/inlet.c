/* Pieces of memory that change places. */
#include "worker/mesh/inlet.h"

#include <assert.h>
#include <stdlib.h>

enum { MEMORIES = LH_MESH_INLET_FRAMES + 1 };

void lh_mesh_inlet_reset(lh_mesh_inlet *inlet) {
    for (uint32_t i = 0; i < MEMORIES; i++)
        free(inlet->memories[i].memory);
    *inlet = (lh_mesh_inlet){.payload_bytes_max = inlet->payload_bytes_max};
}

/* Of the frame that is coming. */
static uint32_t coming(const lh_mesh_inlet *inlet) {
    return (inlet->next + inlet->waiting) % MEMORIES;
}

static bool has_coming_head(const lh_mesh_inlet *inlet) {
    return inlet->length >= LH_MESH_HEAD_BYTES;
}

const lh_mesh_frame_head *lh_mesh_inlet_head(const lh_mesh_inlet *inlet) {
    return inlet->waiting > 0 || has_coming_head(inlet) ? &inlet->heads[inlet->next] : NULL;
}

bool lh_mesh_inlet_is_whole(const lh_mesh_inlet *inlet) {
    return inlet->waiting > 0;
}

lh_status lh_mesh_inlet_next(lh_mesh_inlet *inlet, size_t expected, uint8_t **bytes, size_t *length,
                             lh_error *error) {
    lh_mesh_frame_memory *memory = &inlet->memories[coming(inlet)];
    size_t payload_bytes =
        has_coming_head(inlet) ? inlet->heads[coming(inlet)].payload_bytes : expected;
    *length = 0;
    if (inlet->waiting == LH_MESH_INLET_FRAMES)
        return LH_OK;
    lh_status status = lh_mesh_frame_memory_reserve(memory, payload_bytes, inlet->length, error);
    if (status != LH_OK)
        return status;
    *bytes = lh_mesh_frame_memory_head(memory) + inlet->length;
    *length = LH_MESH_HEAD_BYTES + payload_bytes - inlet->length;
    return LH_OK;
}

static lh_status judge_head(lh_mesh_inlet *inlet, lh_error *error) {
    lh_mesh_frame_head *head = &inlet->heads[coming(inlet)];
    lh_mesh_frame_head_decode(lh_mesh_frame_memory_head(&inlet->memories[coming(inlet)]), head);
    if (head->payload_bytes > inlet->payload_bytes_max)
        return lh_fail(error, LH_ERR_LIMIT, "a frame of %u bytes, where %u is the most",
                       head->payload_bytes, inlet->payload_bytes_max);
    if (inlet->length > LH_MESH_HEAD_BYTES + head->payload_bytes)
        return lh_fail(error, LH_ERR_MALFORMED, "a frame of %u bytes, where more were expected",
                       head->payload_bytes);
    return LH_OK;
}

lh_status lh_mesh_inlet_advance(lh_mesh_inlet *inlet, size_t bytes, lh_error *error) {
    const bool had_head = has_coming_head(inlet);
    inlet->length += bytes;
    if (!has_coming_head(inlet))
        return LH_OK;
    lh_status status = had_head ? LH_OK : judge_head(inlet, error);
    if (status == LH_OK &&
        inlet->length == LH_MESH_HEAD_BYTES + inlet->heads[coming(inlet)].payload_bytes) {
        inlet->waiting++;
        inlet->length = 0;
    }
    return status;
}

const void *lh_mesh_inlet_take(lh_mesh_inlet *inlet) {
    const lh_mesh_frame_memory *taken = &inlet->memories[inlet->next];
    assert(lh_mesh_inlet_is_whole(inlet));
    inlet->next = (inlet->next + 1) % MEMORIES;
    inlet->waiting--;
    return lh_mesh_frame_memory_payload(taken);
}
