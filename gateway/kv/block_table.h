/* A block table: what one number on the wire holds in the KV caches of the chain.
 *
 *     live --retire--> ended: keeps its first blocks (cached) or none
 *
 *              truncate                launch_truncation       finish_truncation
 *     STAYS ------------> TO_TRUNCATE ---------> TRUNCATING --------------> STAYS
 *                          ^ |     ^                   |
 *                 truncate +-+     +----- it breaks ---+
 *
 * A truncation takes the blocks from `keep` on; with 0 it frees the table. A table that
 * others are to fork from is pinned: those blocks of it stay.
 *
 * For the files of this room; others hold the pointer and ask the store. Thread: one at a time. */
#pragma once

#include "common/protocol/step.h"
#include "gateway/kv/block_pool.h"
#include "gateway/kv/prefix_index.h"

#include <sys/queue.h>

typedef enum lh_truncation_state {
    LH_KV_STAYS,
    LH_KV_TO_TRUNCATE,
    LH_KV_TRUNCATING
} lh_truncation_state;

typedef struct lh_block_table lh_block_table;
struct lh_block_table {
    uint64_t number;
    lh_prefix_scope scope;
    lh_kv_block **blocks; /* [block_count] */
    uint32_t block_count, block_capacity;
    uint32_t shared;  /* blocks that it began with */
    uint32_t written; /* positions that are surely on the whole chain */
    /* resync.c: positions under which the last KV resync lists it while it is live */
    uint32_t standing;
    bool is_live;
    bool is_private; /* nothing of it is shared, and nothing stays cached */
    bool is_sent;    /* rows of it have been sent */
    bool is_cached;  /* eviction.c: not live, and keeps blocks */
    lh_prefix_entry entry;

    lh_block_table *source; /* what it forks from until its first rows are sent; NULL: nothing */
    uint32_t pins;          /* tables that are to fork from this one */
    uint32_t pinned_blocks; /* the most blocks that one of them shares */

    uint32_t inflight_steps;   /* that have rows of it or fork from it */
    uint32_t inflight_prefill; /* of these, prefill steps that the chain has not computed */

    lh_truncation_state truncation_state;
    uint32_t keep;
    bool is_ending; /* it was live when the truncation was made */

    LIST_ENTRY(lh_block_table) all;
    TAILQ_ENTRY(lh_block_table) cached;      /* eviction.c */
    TAILQ_ENTRY(lh_block_table) truncations; /* to be sent */
};

LIST_HEAD(lh_block_tables, lh_block_table);
TAILQ_HEAD(lh_block_table_queue, lh_block_table);

/* A live one without blocks, and room for so many. NULL: no memory. */
lh_block_table *lh_block_table_create(uint64_t number, lh_prefix_scope scope, uint64_t blocks);
/* The record alone: what it holds is the caller's matter. */
void lh_block_table_destroy(lh_block_table *table);
lh_block_table *lh_block_table_of(lh_prefix_entry *entry);

/* ---- Blocks ---- */

/* It has so many blocks at least. False: none is free, or no memory; it keeps what it got. */
bool lh_block_table_grow(lh_block_table *table, lh_block_pool *pool, uint64_t blocks);
/* Not sent yet, and forking from nothing: its first `blocks` blocks are the source's now, which is
 * pinned. What it had in their place is free. */
void lh_block_table_fork(lh_block_table *table, lh_block_pool *pool, lh_block_table *source,
                         uint32_t blocks);
/* It is not to fork any more: its source, where it has one, is unpinned. */
void lh_block_table_unpin_source(lh_block_table *table);
/* The sequence has ended; the workers have heard of it. */
void lh_block_table_retire(lh_block_table *table, lh_block_pool *pool);
/* The same where no worker has: its blocks are free at once. */
void lh_block_table_abandon(lh_block_table *table, lh_block_pool *pool);
/* Whether some positions of a live one are surely on every worker. */
bool lh_block_table_is_sound(const lh_block_table *table);
/* Nothing needs its record: it has no blocks, and no step and no fork refers to it. */
bool lh_block_table_is_unneeded(const lh_block_table *table);

/* ---- Steps ---- */

/* A step with rows of it, or that forks from it, goes out. */
void lh_block_table_launch(lh_block_table *table, lh_step_class step_class);
/* The whole chain has computed the step. */
void lh_block_table_pass(lh_block_table *table, lh_step_class step_class);
/* The step is no longer under way. */
void lh_block_table_land(lh_block_table *table, bool has_passed, lh_step_class step_class);

/* ---- Truncation ---- */

/* Blocks that it will have when its truncation is through. */
uint32_t lh_block_table_kept(const lh_block_table *table);
/* Not live, no truncation of it on its way, keep < lh_block_table_kept: the blocks from `keep` on
 * are to go. A truncation that is still to be sent takes more along. */
void lh_block_table_truncate(lh_block_table *table, lh_block_pool *pool, uint32_t keep);
/* The chain has taken the truncation that was on its way. */
void lh_block_table_finish_truncation(lh_block_table *table, lh_block_pool *pool);
