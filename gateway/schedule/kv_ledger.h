/* The pages of KV cache that the sequences of a chain have been promised, worker by worker. The gateway
 * admits a sequence only when every worker of the chain can hold all the positions that it may come to; so no
 * worker ever runs out. Thread: one at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LH_KV_STAGES_MAX 64u

typedef struct lh_kv_stage {
    uint32_t page_positions; /* > 0 */
    uint64_t pages_total, pages_promised;
} lh_kv_stage;

typedef struct lh_kv_ledger {
    uint32_t stage_count; /* 0: no chain, nothing fits */
    lh_kv_stage stages[LH_KV_STAGES_MAX];
} lh_kv_ledger;

/* Positions that one sequence may have on an empty chain; 0 without a chain. */
uint64_t lh_kv_ledger_positions(const lh_kv_ledger *ledger);
/* The same for the pages that are not promised. */
uint64_t lh_kv_ledger_positions_free(const lh_kv_ledger *ledger);
/* Promises pages for so many positions on every stage; false (and nothing changed) where they are short. */
bool lh_kv_ledger_promise(lh_kv_ledger *ledger, uint32_t positions);
void lh_kv_ledger_give_back(lh_kv_ledger *ledger, uint32_t positions);
