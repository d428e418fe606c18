/* The frames that a member sends to all others: written once, and kept until the last of the others
 * has had its last byte. Each of them may be at another place.
 *
 * Places are used in turn. A gather's place is free again before its turn comes without anybody
 * having waited for it: who opens number n + 4 has taken n + 2 of all others, so that they have
 * taken n (worker/compute/stage/gather.h). Only the first member, whose orders lie between, may
 * find the ring full.
 *
 * Memory alone: no sockets. Thread: the owner's. */
#pragma once

#include "common/base/status.h"
#include "worker/mesh/frame_head.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_mesh_frame_ring lh_mesh_frame_ring;

/* readers: the other members, 1 or more. LH_ERR_NO_MEMORY. */
lh_status lh_mesh_frame_ring_create(uint32_t readers, lh_mesh_frame_ring **ring, lh_error *error);
/* NULL is allowed. */
void lh_mesh_frame_ring_destroy(lh_mesh_frame_ring *ring);

/* Where the next frame's payload goes: 64-byte aligned, of uncertain content; the caller's until it
 * seals. LH_AGAIN: the frame whose place it would take has not gone to all; LH_ERR_NO_MEMORY. */
lh_status lh_mesh_frame_ring_open(lh_mesh_frame_ring *ring, size_t payload_bytes, void **payload,
                                  lh_error *error);
/* Whether the next one has a place. */
bool lh_mesh_frame_ring_has_room(const lh_mesh_frame_ring *ring);
/* The frame that was opened earliest, of those that are not sealed, is complete. The head gets the
 * bytes that it was opened with. */
void lh_mesh_frame_ring_seal(lh_mesh_frame_ring *ring, lh_mesh_frame_head *head);

/* The next bytes for a reader, of one frame; 0: it has had all. */
size_t lh_mesh_frame_ring_next(const lh_mesh_frame_ring *ring, uint32_t reader,
                               const uint8_t **bytes);
/* So many of them are on their way. */
void lh_mesh_frame_ring_advance(lh_mesh_frame_ring *ring, uint32_t reader, size_t bytes);
/* Whether every reader has had all that was sealed. */
bool lh_mesh_frame_ring_is_empty(const lh_mesh_frame_ring *ring);
