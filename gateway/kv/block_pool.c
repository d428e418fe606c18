/* Where a block stands follows from its three counts; the ledger changes with them. */
#include "gateway/kv/block_pool.h"

#include <assert.h>
#include <stdlib.h>

void lh_block_pool_reset(lh_block_pool *pool) {
    while (pool->spares) {
        lh_kv_block *next = pool->spares->next;
        free(pool->spares);
        pool->spares = next;
    }
}

/* NULL: it is free. */
static uint64_t *figure_of(lh_block_pool *pool, const lh_kv_block *block) {
    if (block->holders == 0)
        return NULL;
    if (block->live > 0)
        return &pool->ledger.blocks_live;
    return block->releasing == block->holders ? &pool->ledger.blocks_returning
                                              : &pool->ledger.blocks_cached;
}

static void change(lh_block_pool *pool, lh_kv_block *block, int holders, int live, int releasing) {
    uint64_t *before = figure_of(pool, block);
    block->holders += (uint32_t)holders;
    block->live += (uint32_t)live;
    block->releasing += (uint32_t)releasing;
    assert(block->live <= block->holders && block->releasing <= block->holders - block->live);
    uint64_t *after = figure_of(pool, block);
    assert(!before || *before > 0);
    if (before)
        --*before;
    if (after)
        ++*after;
}

lh_kv_block *lh_block_pool_allocate(lh_block_pool *pool) {
    if (lh_kv_ledger_blocks_free(&pool->ledger) == 0)
        return NULL;
    lh_kv_block *block = pool->spares;
    if (block)
        pool->spares = block->next;
    else
        block = malloc(sizeof *block);
    if (!block)
        return NULL;
    *block = (lh_kv_block){0};
    change(pool, block, 1, 1, 0);
    return block;
}

void lh_block_pool_share(lh_block_pool *pool, lh_kv_block *block) {
    assert(block->holders > block->releasing);
    change(pool, block, 1, 1, 0);
}

void lh_block_pool_retire(lh_block_pool *pool, lh_kv_block *block) {
    change(pool, block, 0, -1, 0);
}

void lh_block_pool_release(lh_block_pool *pool, lh_kv_block *block) {
    change(pool, block, 0, 0, 1);
}

void lh_block_pool_free(lh_block_pool *pool, lh_kv_block *block) {
    change(pool, block, -1, 0, -1);
    if (block->holders > 0)
        return;
    block->next = pool->spares;
    pool->spares = block;
}
