/* The head lies at the end of the line before the payload's first. */
#include "worker/mesh/frame_memory.h"

#include "worker/mesh/frame_head.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, HEAD_OFFSET = ALIGNMENT - LH_MESH_HEAD_BYTES };

lh_status lh_mesh_frame_memory_reserve(lh_mesh_frame_memory *frame, size_t payload_bytes,
                                       size_t kept, lh_error *error) {
    if (frame->memory && payload_bytes <= frame->capacity)
        return LH_OK;
    size_t capacity = (payload_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint8_t *memory = aligned_alloc(ALIGNMENT, ALIGNMENT + capacity);
    if (!memory)
        return lh_fail(error, LH_ERR_NO_MEMORY, "mesh: out of memory for a frame of %zu bytes",
                       payload_bytes);
    if (kept > 0)
        memcpy(memory + HEAD_OFFSET, frame->memory + HEAD_OFFSET, kept);
    free(frame->memory);
    *frame = (lh_mesh_frame_memory){memory, capacity};
    return LH_OK;
}

uint8_t *lh_mesh_frame_memory_head(const lh_mesh_frame_memory *frame) {
    return frame->memory + HEAD_OFFSET;
}

uint8_t *lh_mesh_frame_memory_payload(const lh_mesh_frame_memory *frame) {
    return frame->memory + ALIGNMENT;
}
