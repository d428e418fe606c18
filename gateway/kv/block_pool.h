/* The blocks of the chain's KV caches. A block is held by one sequence or shared by several, on all
 * workers alike, and is free again when the whole chain has taken the release of its last holder.
 * The ledger's figures follow from who holds what. Thread: one at a time. */
#pragma once

#include "gateway/kv/ledger.h"

typedef struct lh_kv_block lh_kv_block;
struct lh_kv_block {
    uint32_t holders;   /* block tables that have it, live or not */
    uint32_t live;      /* of these, whose sequence runs */
    uint32_t releasing; /* of these, whose release is to be sent or on its way */
    lh_kv_block *next;  /* in the list of spares */
};

typedef struct lh_block_pool {
    lh_kv_ledger ledger;
    lh_kv_block *spares; /* records for reuse */
} lh_block_pool;

/* Frees the spares. */
void lh_block_pool_reset(lh_block_pool *pool);
/* A free block, for a live holder. NULL: none is free, or no memory. */
lh_kv_block *lh_block_pool_allocate(lh_block_pool *pool);
/* One more live holder. */
void lh_block_pool_share(lh_block_pool *pool, lh_kv_block *block);
/* The sequence of a live holder has ended. */
void lh_block_pool_retire(lh_block_pool *pool, lh_kv_block *block);
/* A holder that is not live gives it up: its release is to be sent. */
void lh_block_pool_release(lh_block_pool *pool, lh_kv_block *block);
/* The chain has taken that release. */
void lh_block_pool_free(lh_block_pool *pool, lh_kv_block *block);
