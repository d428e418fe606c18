/* Memory of one frame: its head, and behind it the payload, which begins where a line of the cache
 * does, so that one write sends both and one read takes both. Thread: the owner's. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lh_mesh_frame_memory {
    uint8_t *memory; /* aligned; NULL: none yet */
    size_t capacity; /* of a payload */
} lh_mesh_frame_memory;

/* Room for a payload of so many bytes; the first `kept` bytes of the frame stay. What is given of
 * the memory before is not valid any more. LH_ERR_NO_MEMORY: it is as it was. */
lh_status lh_mesh_frame_memory_reserve(lh_mesh_frame_memory *frame, size_t payload_bytes,
                                       size_t kept, lh_error *error);
/* Where head and payload begin, of a frame that has been reserved. */
uint8_t *lh_mesh_frame_memory_head(const lh_mesh_frame_memory *frame);
uint8_t *lh_mesh_frame_memory_payload(const lh_mesh_frame_memory *frame);
