/* Blocks of the chain's KV caches as objects, each held by one sequence on the workers or shared by several; and the
 * ledger's figures, which follow from them. A block is free again when the last holder's release has been taken by the
 * whole chain. Thread: one at a time. */
#pragma once

#include "gateway/schedule/kv_ledger.h"

typedef struct lh_kv_block lh_kv_block;
struct lh_kv_block {
    uint32_t holders;  /* sequences on the workers, live or not */
    uint32_t live;     /* of these, that still run */
    uint32_t leaving;  /* of these, whose release is on its way */
    lh_kv_block *next; /* in the list of spares */
};

typedef struct lh_kv_blocks {
    lh_kv_ledger *ledger;
    lh_kv_block *spares; /* records for reuse */
} lh_kv_blocks;

/* Frees the spares. */
void lh_kv_blocks_reset(lh_kv_blocks *blocks);
/* A free one, for a live holder. NULL: none is free, or no memory. */
lh_kv_block *lh_kv_block_take(lh_kv_blocks *blocks);
/* One more live holder. */
void lh_kv_block_share(lh_kv_blocks *blocks, lh_kv_block *block);
/* A live holder has ended. */
void lh_kv_block_retire(lh_kv_blocks *blocks, lh_kv_block *block);
/* A holder that is not live gives it up: its release is to be sent. */
void lh_kv_block_leave(lh_kv_blocks *blocks, lh_kv_block *block);
/* The release has been taken. */
void lh_kv_block_drop(lh_kv_blocks *blocks, lh_kv_block *block);
