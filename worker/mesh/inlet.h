/* The frames of one other member, as their bytes come: whole ones wait until they are taken, two at
 * most, while the one before them is still with whoever took it. So what two gathers are under way
 * for has room, and no window of a member that is ahead stays shut.
 *
 * Memory alone: no sockets. Thread: the owner's. */
#pragma once

#include "common/base/status.h"
#include "worker/mesh/frame_head.h"
#include "worker/mesh/frame_memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LH_MESH_INLET_FRAMES 2u /* that wait */

typedef struct lh_mesh_inlet {
    uint32_t payload_bytes_max;
    /* in turns: the taken one, those that wait, the one that is coming */
    lh_mesh_frame_memory memories[LH_MESH_INLET_FRAMES + 1];
    lh_mesh_frame_head heads[LH_MESH_INLET_FRAMES + 1];
    uint32_t next;    /* of them: the frame that is taken next */
    uint32_t waiting; /* whole frames, from it on */
    size_t length;    /* of head and payload of the one behind them, that have come */
} lh_mesh_inlet;

/* All zeros, but for payload_bytes_max, is an empty inlet. */
void lh_mesh_inlet_reset(lh_mesh_inlet *inlet);

/* Where the next bytes go, and how many there may be: 0 while as many frames wait as can. expected:
 * the bytes of the payload where they are known, so that head and payload come in one read; 0: they
 * are not. LH_ERR_NO_MEMORY. */
lh_status lh_mesh_inlet_next(lh_mesh_inlet *inlet, size_t expected, uint8_t **bytes, size_t *length,
                             lh_error *error);
/* So many have come there. LH_ERR_LIMIT: a payload of more than payload_bytes_max;
 * LH_ERR_MALFORMED: of fewer than were expected. */
lh_status lh_mesh_inlet_advance(lh_mesh_inlet *inlet, size_t bytes, lh_error *error);

/* Whether so much of the next frame has come that its head can be judged: then it is there. */
const lh_mesh_frame_head *lh_mesh_inlet_head(const lh_mesh_inlet *inlet);
bool lh_mesh_inlet_is_whole(const lh_mesh_inlet *inlet);
/* The whole frame's payload, 64-byte aligned: it stays until the next one is taken. */
const void *lh_mesh_inlet_take(lh_mesh_inlet *inlet);
