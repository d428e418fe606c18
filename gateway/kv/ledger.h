/* The KV caches of a chain's workers, counted in blocks: the least number of positions that is
 * whole pages on every stage. The gateway knows them exactly (kv_store.h), so a worker never runs
 * out. Plain data; thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LH_KV_STAGES_MAX 64u

typedef struct lh_kv_stage {
    uint32_t page_positions; /* > 0 */
    uint64_t pages_total;
} lh_kv_stage;

typedef struct lh_kv_ledger {
    uint32_t stage_count; /* 0: no chain, nothing fits */
    lh_kv_stage stages[LH_KV_STAGES_MAX];
    /* lh_kv_ledger_measure: */
    uint32_t block_positions; /* 0: no chain */
    uint64_t blocks_total;    /* what the smallest stage holds */
    /* Kept by the block pool. A block is held by a sequence that runs, or else cached, or on its
     * way back, or free. */
    uint64_t blocks_live, blocks_cached, blocks_returning;
} lh_kv_ledger;

/* From the stages, with nothing held. Page sizes that have no common multiple within 2^24 positions
 * leave no blocks. */
void lh_kv_ledger_measure(lh_kv_ledger *ledger);
/* The chain has the stages of `chain` now, and holds what it held. False: their pages make other
 * blocks, or too few of them; nothing has changed. */
bool lh_kv_ledger_move(lh_kv_ledger *ledger, const lh_kv_ledger *chain);
/* Blocks for so many positions. There is a chain. */
uint64_t lh_kv_ledger_blocks_for(const lh_kv_ledger *ledger, uint32_t positions);
uint64_t lh_kv_ledger_blocks_free(const lh_kv_ledger *ledger);
/* Pages of a stage that so many blocks take. */
uint64_t lh_kv_ledger_pages(const lh_kv_ledger *ledger, uint32_t stage, uint64_t blocks);
/* Positions that one sequence may have on an empty chain; 0 without a chain. */
uint64_t lh_kv_ledger_positions(const lh_kv_ledger *ledger);
/* The same beside the sequences that run: what is cached would make room. */
uint64_t lh_kv_ledger_positions_free(const lh_kv_ledger *ledger);
