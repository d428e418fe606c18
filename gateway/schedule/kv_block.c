/* Where a block stands follows from its three counts; the ledger changes with them. */
#include "gateway/schedule/kv_block.h"

#include <assert.h>
#include <stdlib.h>

void lh_kv_blocks_reset(lh_kv_blocks *blocks) {
    while (blocks->spares) {
        lh_kv_block *next = blocks->spares->next;
        free(blocks->spares);
        blocks->spares = next;
    }
}

/* NULL: it is free. */
static uint64_t *figure_of(const lh_kv_blocks *blocks, const lh_kv_block *block) {
    lh_kv_ledger *ledger = blocks->ledger;
    if (block->holders == 0)
        return NULL;
    if (block->live > 0)
        return &ledger->blocks_live;
    return block->leaving == block->holders ? &ledger->blocks_returning : &ledger->blocks_cached;
}

static void change(lh_kv_blocks *blocks, lh_kv_block *block, int holders, int live, int leaving) {
    uint64_t *before = figure_of(blocks, block);
    block->holders += (uint32_t)holders;
    block->live += (uint32_t)live;
    block->leaving += (uint32_t)leaving;
    assert(block->live + block->leaving <= block->holders);
    uint64_t *after = figure_of(blocks, block);
    if (before)
        --*before;
    if (after)
        ++*after;
}

lh_kv_block *lh_kv_block_take(lh_kv_blocks *blocks) {
    if (lh_kv_ledger_blocks_free(blocks->ledger) == 0)
        return NULL;
    lh_kv_block *block = blocks->spares;
    if (block)
        blocks->spares = block->next;
    else
        block = malloc(sizeof *block);
    if (!block)
        return NULL;
    *block = (lh_kv_block){0};
    change(blocks, block, 1, 1, 0);
    return block;
}

void lh_kv_block_share(lh_kv_blocks *blocks, lh_kv_block *block) {
    change(blocks, block, 1, 1, 0);
}

void lh_kv_block_retire(lh_kv_blocks *blocks, lh_kv_block *block) {
    change(blocks, block, 0, -1, 0);
}

void lh_kv_block_leave(lh_kv_blocks *blocks, lh_kv_block *block) {
    change(blocks, block, 0, 0, 1);
}

void lh_kv_block_drop(lh_kv_blocks *blocks, lh_kv_block *block) {
    change(blocks, block, -1, 0, -1);
    if (block->holders > 0)
        return;
    block->next = blocks->spares;
    blocks->spares = block;
}
