/* Eviction: the block tables whose sequences have ended but whose blocks are kept as cached
 * prefixes, least recently used first, and which of them give up blocks when these are short. It
 * decides; the store does it. Thread: one at a time. */
#pragma once

#include "gateway/kv/block_table.h"

typedef struct lh_eviction {
    struct lh_block_table_queue cached; /* least recently used first */
    uint32_t count;
} lh_eviction;

typedef struct lh_eviction_choice {
    lh_block_table *table;
    uint32_t keep;   /* it is to be truncated to so many blocks; 0: freed */
    uint32_t blocks; /* that come back: its own; what others share does not */
} lh_eviction_choice;

/* Empty. What was cached is not touched. */
void lh_eviction_init(lh_eviction *eviction);
/* An ended table that keeps blocks is the one most recently used. */
void lh_eviction_add(lh_eviction *eviction, lh_block_table *table);
/* Somebody shares its blocks: so is one that is cached. Others are left alone. */
void lh_eviction_touch(lh_eviction *eviction, lh_block_table *table);
/* It is cached no longer, where it was. */
void lh_eviction_remove(lh_eviction *eviction, lh_block_table *table);

/* Whether a table is cached and can be freed now: nobody is to fork from it, and no truncation of
 * it is on its way. */
bool lh_eviction_may_free(const lh_block_table *table);
/* The least recently used one that can be freed where more than `max` are cached; else NULL. */
lh_block_table *lh_eviction_surplus(const lh_eviction *eviction, uint32_t max);
/* The least recently used one that has something to give up, of which at least `wanted` blocks are
 * to come back if it has so many, from its end. False: none has. */
bool lh_eviction_choose(const lh_eviction *eviction, uint64_t wanted, lh_eviction_choice *choice);
