/* The head of every frame from one member of a mesh to another; its payload follows.
 *
 *   u32 kind, u32 epoch, u64 number, u32 payload bytes      little-endian, 20 bytes
 *
 * Who reads a frame knows beforehand what must come, by its kind and number: a head that differs
 * ends the mesh. Thread: any. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

#define LH_MESH_HEAD_BYTES 20u

typedef enum lh_mesh_frame_kind {
    LH_MESH_FRAME_GATHER = 1, /* to all others, of a length that they know */
    LH_MESH_FRAME_ORDER = 2   /* of the first member, of any length up to a bound */
} lh_mesh_frame_kind;

typedef struct lh_mesh_frame_head {
    uint32_t kind; /* lh_mesh_frame_kind, once it has been checked */
    uint32_t epoch;
    uint64_t number; /* of its kind and sender: the sender's and the reader's own count */
    uint32_t payload_bytes;
} lh_mesh_frame_head;

void lh_mesh_frame_head_encode(const lh_mesh_frame_head *head, uint8_t bytes[LH_MESH_HEAD_BYTES]);
void lh_mesh_frame_head_decode(const uint8_t bytes[LH_MESH_HEAD_BYTES], lh_mesh_frame_head *head);

/* Whether what has come is what is wanted: the same kind, epoch and number, and as many bytes; of
 * an order, so many at most. LH_ERR_STALE: of another epoch; LH_ERR_MALFORMED: of another length;
 * LH_ERR_PROTOCOL: another frame; the message says what came in place of what. */
lh_status lh_mesh_frame_head_check(const lh_mesh_frame_head *came, const lh_mesh_frame_head *wanted,
                                   lh_error *error);
