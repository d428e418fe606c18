/* Cached prefixes in the order of their use. */
#include "gateway/kv/eviction.h"

#include <assert.h>

/* Each eviction is a record in a step, and the next one soon follows: so several blocks go at once,
 * where only one is needed. */
#define BLOCKS_AT_ONCE 8u

void lh_eviction_init(lh_eviction *eviction) {
    TAILQ_INIT(&eviction->cached);
    eviction->count = 0;
}

void lh_eviction_add(lh_eviction *eviction, lh_block_table *table) {
    assert(!table->is_live && !table->is_cached && lh_block_table_kept(table) > 0);
    table->is_cached = true;
    TAILQ_INSERT_TAIL(&eviction->cached, table, cached);
    eviction->count++;
}

void lh_eviction_touch(lh_eviction *eviction, lh_block_table *table) {
    if (!table->is_cached)
        return;
    TAILQ_REMOVE(&eviction->cached, table, cached);
    TAILQ_INSERT_TAIL(&eviction->cached, table, cached);
}

void lh_eviction_remove(lh_eviction *eviction, lh_block_table *table) {
    if (!table->is_cached)
        return;
    assert(eviction->count > 0);
    table->is_cached = false;
    TAILQ_REMOVE(&eviction->cached, table, cached);
    eviction->count--;
}

bool lh_eviction_may_free(const lh_block_table *table) {
    return table->is_cached && table->pins == 0 && table->truncation_state != LH_KV_TRUNCATING;
}

lh_block_table *lh_eviction_surplus(const lh_eviction *eviction, uint32_t max) {
    lh_block_table *table;
    if (eviction->count <= max)
        return NULL;
    TAILQ_FOREACH(table, &eviction->cached, cached) {
        if (lh_eviction_may_free(table))
            break;
    }
    return table;
}

/* Blocks at its end that are its alone; those before them are shared. */
static uint32_t own_blocks(const lh_block_table *table) {
    uint32_t end = lh_block_table_kept(table), first = end;
    while (first > table->pinned_blocks && table->blocks[first - 1]->holders == 1)
        first--;
    return end - first;
}

/* What is left when its last own blocks go is others', and goes with them. */
static lh_eviction_choice cut(lh_block_table *table, uint64_t wanted) {
    uint32_t own = own_blocks(table);
    uint64_t least = wanted > BLOCKS_AT_ONCE ? wanted : BLOCKS_AT_ONCE;
    uint32_t blocks = own < least ? own : (uint32_t)least;
    bool is_freed = blocks == own && table->pins == 0;
    uint32_t keep = is_freed ? 0 : lh_block_table_kept(table) - blocks;
    return (lh_eviction_choice){table, keep, blocks};
}

bool lh_eviction_choose(const lh_eviction *eviction, uint64_t wanted, lh_eviction_choice *choice) {
    lh_block_table *table;
    TAILQ_FOREACH(table, &eviction->cached, cached) {
        if (table->truncation_state == LH_KV_TRUNCATING)
            continue;
        *choice = cut(table, wanted);
        if (choice->keep < lh_block_table_kept(table))
            return true;
    }
    return false;
}
