/* Blocks and the pages that they are made of. */
#include "gateway/kv/ledger.h"

#include <assert.h>

#define BLOCK_POSITIONS_MAX (1u << 24)

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

void lh_kv_ledger_measure(lh_kv_ledger *ledger) {
    uint64_t positions = ledger->stage_count > 0, least = UINT64_MAX;
    ledger->block_positions = 0;
    ledger->blocks_total = ledger->blocks_live = ledger->blocks_cached = ledger->blocks_returning =
        0;
    for (uint32_t i = 0; i < ledger->stage_count; i++) {
        uint32_t page = ledger->stages[i].page_positions;
        positions = positions / common_divisor(positions, page) * page;
        if (positions > BLOCK_POSITIONS_MAX)
            return;
    }
    for (uint32_t i = 0; i < ledger->stage_count; i++) {
        const lh_kv_stage *stage = &ledger->stages[i];
        uint64_t blocks = stage->pages_total / (positions / stage->page_positions);
        least = blocks < least ? blocks : least;
    }
    ledger->block_positions = (uint32_t)positions;
    ledger->blocks_total = ledger->stage_count > 0 ? least : 0;
}

static uint64_t blocks_held(const lh_kv_ledger *ledger) {
    return ledger->blocks_live + ledger->blocks_cached + ledger->blocks_returning;
}

bool lh_kv_ledger_move(lh_kv_ledger *ledger, const lh_kv_ledger *chain) {
    lh_kv_ledger moved = *chain;
    lh_kv_ledger_measure(&moved);
    if (moved.block_positions != ledger->block_positions ||
        moved.blocks_total < blocks_held(ledger))
        return false;
    moved.blocks_live = ledger->blocks_live;
    moved.blocks_cached = ledger->blocks_cached;
    moved.blocks_returning = ledger->blocks_returning;
    *ledger = moved;
    return true;
}

uint64_t lh_kv_ledger_blocks_for(const lh_kv_ledger *ledger, uint32_t positions) {
    assert(ledger->block_positions > 0);
    return ((uint64_t)positions + ledger->block_positions - 1) / ledger->block_positions;
}

uint64_t lh_kv_ledger_blocks_free(const lh_kv_ledger *ledger) {
    assert(blocks_held(ledger) <= ledger->blocks_total);
    return ledger->blocks_total - blocks_held(ledger);
}

uint64_t lh_kv_ledger_pages(const lh_kv_ledger *ledger, uint32_t stage, uint64_t blocks) {
    assert(stage < ledger->stage_count);
    return blocks * (ledger->block_positions / ledger->stages[stage].page_positions);
}

static uint64_t positions_in(const lh_kv_ledger *ledger, uint64_t blocks) {
    uint64_t positions;
    return __builtin_mul_overflow(blocks, (uint64_t)ledger->block_positions, &positions)
               ? UINT64_MAX
               : positions;
}

uint64_t lh_kv_ledger_positions(const lh_kv_ledger *ledger) {
    return positions_in(ledger, ledger->blocks_total);
}

uint64_t lh_kv_ledger_positions_free(const lh_kv_ledger *ledger) {
    return positions_in(ledger, ledger->blocks_total - ledger->blocks_live);
}
