/* How a block table gets blocks and gives them back. */
#include "gateway/kv/block_table.h"

#include "common/base/arithmetic.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

static bool reserve(lh_block_table *table, uint64_t capacity) {
    lh_kv_block **list =
        capacity <= UINT32_MAX ? realloc(table->blocks, capacity * sizeof *list) : NULL;
    if (!list)
        return false;
    table->blocks = list;
    table->block_capacity = (uint32_t)capacity;
    return true;
}

lh_block_table *lh_block_table_create(uint64_t number, lh_prefix_scope scope, uint64_t blocks) {
    lh_block_table *table = calloc(1, sizeof *table);
    if (!table || !reserve(table, blocks)) {
        free(table);
        return NULL;
    }
    table->number = number;
    table->scope = scope;
    table->is_live = true;
    return table;
}

void lh_block_table_destroy(lh_block_table *table) {
    free(table->blocks);
    free(table);
}

lh_block_table *lh_block_table_of(lh_prefix_entry *entry) {
    return (lh_block_table *)(void *)((char *)entry - offsetof(lh_block_table, entry));
}

/* ---- Blocks ---- */

bool lh_block_table_grow(lh_block_table *table, lh_block_pool *pool, uint64_t blocks) {
    assert(table->is_live);
    if (blocks > table->block_capacity && !reserve(table, blocks + blocks / 2))
        return false;
    while (table->block_count < blocks) {
        lh_kv_block *block = lh_block_pool_allocate(pool);
        if (!block)
            return false;
        table->blocks[table->block_count++] = block;
    }
    return true;
}

/* No worker has heard that it holds them. */
static void drop_unsent(lh_block_table *table, lh_block_pool *pool, uint32_t count) {
    assert(!table->is_sent && count <= table->block_count);
    for (uint32_t i = 0; i < count; i++) {
        lh_block_pool_retire(pool, table->blocks[i]);
        lh_block_pool_release(pool, table->blocks[i]);
        lh_block_pool_free(pool, table->blocks[i]);
    }
}

void lh_block_table_fork(lh_block_table *table, lh_block_pool *pool, lh_block_table *source,
                         uint32_t blocks) {
    assert(!table->source && blocks > 0 && blocks <= lh_block_table_kept(source));
    assert(blocks <= table->block_capacity);
    drop_unsent(table, pool, lh_min_u32(blocks, table->block_count));
    for (uint32_t i = 0; i < blocks; i++) {
        table->blocks[i] = source->blocks[i];
        lh_block_pool_share(pool, table->blocks[i]);
    }
    table->block_count = lh_max_u32(blocks, table->block_count);
    table->shared = blocks;
    table->source = source;
    source->pins++;
    source->pinned_blocks = lh_max_u32(blocks, source->pinned_blocks);
}

/* While it is pinned the source keeps blocks, so nobody has to look whether its record is needed.
 */
void lh_block_table_unpin_source(lh_block_table *table) {
    lh_block_table *source = table->source;
    table->source = NULL;
    if (!source)
        return;
    assert(source->pins > 0 && table->shared <= source->pinned_blocks);
    assert(!lh_block_table_is_unneeded(source) && source->block_count > 0);
    if (--source->pins == 0)
        source->pinned_blocks = 0;
}

void lh_block_table_retire(lh_block_table *table, lh_block_pool *pool) {
    assert(table->is_live && table->is_sent && !table->source);
    table->is_live = false;
    for (uint32_t i = 0; i < table->block_count; i++)
        lh_block_pool_retire(pool, table->blocks[i]);
}

void lh_block_table_abandon(lh_block_table *table, lh_block_pool *pool) {
    assert(table->is_live && !table->source);
    drop_unsent(table, pool, table->block_count);
    table->is_live = false;
    table->block_count = 0;
}

bool lh_block_table_is_sound(const lh_block_table *table) {
    return table->is_sent && table->written > 0;
}

bool lh_block_table_is_unneeded(const lh_block_table *table) {
    return !table->is_live && table->block_count == 0 && table->inflight_steps == 0 &&
           table->pins == 0;
}

/* ---- Steps ---- */

void lh_block_table_launch(lh_block_table *table, lh_step_class step_class) {
    table->inflight_steps++;
    table->inflight_prefill += step_class == LH_STEP_PREFILL;
}

void lh_block_table_pass(lh_block_table *table, lh_step_class step_class) {
    bool is_prefill = step_class == LH_STEP_PREFILL;
    assert(table->inflight_prefill >= is_prefill);
    table->inflight_prefill -= is_prefill;
}

void lh_block_table_land(lh_block_table *table, bool has_passed, lh_step_class step_class) {
    if (!has_passed)
        lh_block_table_pass(table, step_class);
    assert(table->inflight_steps > table->inflight_prefill);
    table->inflight_steps--;
}

/* ---- Truncation ---- */

uint32_t lh_block_table_kept(const lh_block_table *table) {
    return table->truncation_state == LH_KV_STAYS ? table->block_count : table->keep;
}

void lh_block_table_truncate(lh_block_table *table, lh_block_pool *pool, uint32_t keep) {
    uint32_t kept = lh_block_table_kept(table);
    assert(!table->is_live && table->truncation_state != LH_KV_TRUNCATING);
    assert(keep < kept && keep >= table->pinned_blocks);
    for (uint32_t i = keep; i < kept; i++)
        lh_block_pool_release(pool, table->blocks[i]);
    table->keep = keep;
    table->truncation_state = LH_KV_TO_TRUNCATE;
}

void lh_block_table_finish_truncation(lh_block_table *table, lh_block_pool *pool) {
    assert(table->truncation_state == LH_KV_TRUNCATING && table->keep < table->block_count);
    for (uint32_t i = table->keep; i < table->block_count; i++)
        lh_block_pool_free(pool, table->blocks[i]);
    table->block_count = table->keep;
    table->truncation_state = LH_KV_STAYS;
}
