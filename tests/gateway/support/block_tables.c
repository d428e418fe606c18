/* A pool, and the tables that were made from it. */
#include "tests/gateway/support/block_tables.h"

#include <assert.h>

lh_block_pool block_tables_pool;
static struct lh_block_tables all;
static uint64_t count;

void block_tables_start(uint64_t blocks) {
    block_tables_pool = (lh_block_pool){.ledger = {.stage_count = 1, .stages = {{16, blocks}}}};
    lh_kv_ledger_measure(&block_tables_pool.ledger);
    LIST_INIT(&all);
    count = 0;
}

static void end(lh_block_table *table) {
    if (table->is_live && table->is_sent)
        lh_block_table_retire(table, &block_tables_pool);
    else if (table->is_live)
        lh_block_table_abandon(table, &block_tables_pool);
    if (table->truncation_state != LH_KV_TRUNCATING && lh_block_table_kept(table) > 0)
        lh_block_table_truncate(table, &block_tables_pool, 0);
    if (table->truncation_state != LH_KV_STAYS) {
        table->truncation_state = LH_KV_TRUNCATING;
        lh_block_table_finish_truncation(table, &block_tables_pool);
    }
}

void block_tables_end(void) {
    lh_block_table *table;
    LIST_FOREACH(table, &all, all) {
        lh_block_table_unpin_source(table);
    }
    while ((table = LIST_FIRST(&all))) {
        LIST_REMOVE(table, all);
        while (table->block_count > 0)
            end(table);
        lh_block_table_destroy(table);
    }
    assert(lh_kv_ledger_blocks_free(&block_tables_pool.ledger) ==
           block_tables_pool.ledger.blocks_total);
    lh_block_pool_reset(&block_tables_pool);
}

static lh_block_table *create(uint32_t blocks) {
    lh_block_table *table = lh_block_table_create(++count, (lh_prefix_scope){0}, blocks);
    assert(table);
    LIST_INSERT_HEAD(&all, table, all);
    return table;
}

lh_block_table *block_table_grown(uint32_t blocks) {
    lh_block_table *table = create(blocks);
    bool has_grown = lh_block_table_grow(table, &block_tables_pool, blocks);
    assert(has_grown);
    return table;
}

lh_block_table *block_table_ended(uint32_t blocks) {
    lh_block_table *table = block_table_grown(blocks);
    table->is_sent = true;
    lh_block_table_retire(table, &block_tables_pool);
    return table;
}

lh_block_table *block_table_forked(lh_block_table *source, uint32_t blocks, uint32_t more) {
    lh_block_table *table = create(blocks + more);
    lh_block_table_fork(table, &block_tables_pool, source, blocks);
    bool has_grown = lh_block_table_grow(table, &block_tables_pool, blocks + more);
    assert(has_grown);
    table->is_sent = true;
    lh_block_table_unpin_source(table);
    return table;
}
