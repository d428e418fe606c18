/* A stage's orders (worker/compute/stage/stage_order.h) as bytes, from the first member of a team
 * to the others.
 *
 *   u32 kind, u32 step, then what the kind has:      little-endian
 *     BEGIN, TAKE_MASKS      a manifest frame of the step format (common/protocol/PROTOCOL.md)
 *     ACCEPT                 u32 first row, rows, first column, columns; zeros up to byte 64; the
 *                            values, f32
 *     TRUNCATE, RESYNC_KV    u64 sequence, u32 length: once, or as often as there are bytes
 *     all others             nothing
 *
 * A batch that ends here has a hop limit of 1 in its manifest. Thread: any. */
#pragma once

#include "common/protocol/step.h"
#include "common/protocol/step_frame.h"
#include "worker/compute/stage/stage_order.h"

/* Before the values of a shard, so that they are aligned as the frame is. */
#define LH_ORDER_SHARD_HEAD_BYTES 64u
/* The most that an order with a manifest has, and any but one with a shard. */
#define LH_ORDER_MANIFEST_BYTES_MAX (8u + LH_STEP_FRAME_HEAD_BYTES + LH_STEP_MANIFEST_BYTES_MAX)

/* Of an order as bytes. */
size_t lh_order_bytes(const lh_stage_order *order);
/* bytes[lh_order_bytes], 64-byte aligned. LH_ERR_LIMIT: a count is over what a manifest holds. */
lh_status lh_order_encode(const lh_stage_order *order, uint8_t *bytes, lh_error *error);

/* An order that has come. Zeroed, it is none. */
typedef struct lh_decoded_order {
    lh_stage_order order; /* its pointers are into what follows, and into the bytes */
    lh_batch batch;
    lh_stage_shard shard;
    lh_step_masks masks;
    void *memory; /* malloc'd, or NULL: what batch, masks and sequences point to */
} lh_decoded_order;

/* Of `length` bytes, 64-byte aligned, which outlive the order; of a shard its values lie in them.
 * The memory is the caller's to free; NULL after an error. LH_ERR_MALFORMED: no such order, or cut;
 * LH_ERR_NO_MEMORY, and the errors of lh_step_decode_manifest_frame. */
lh_status lh_order_decode(const uint8_t *bytes, size_t length, lh_decoded_order *decoded,
                          lh_error *error);
