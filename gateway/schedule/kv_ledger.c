/* Pages promised per stage. */
#include "gateway/schedule/kv_ledger.h"

static uint64_t pages_for(const lh_kv_stage *stage, uint32_t positions) {
    return ((uint64_t)positions + stage->page_positions - 1) / stage->page_positions;
}

static uint64_t positions_in(const lh_kv_stage *stage, uint64_t pages) {
    uint64_t positions;
    return __builtin_mul_overflow(pages, (uint64_t)stage->page_positions, &positions) ? UINT64_MAX
                                                                                      : positions;
}

uint64_t lh_kv_ledger_positions(const lh_kv_ledger *ledger) {
    uint64_t least = ledger->stage_count == 0 ? 0 : UINT64_MAX;
    for (uint32_t i = 0; i < ledger->stage_count; i++) {
        uint64_t positions = positions_in(&ledger->stages[i], ledger->stages[i].pages_total);
        least = positions < least ? positions : least;
    }
    return least;
}

uint64_t lh_kv_ledger_positions_free(const lh_kv_ledger *ledger) {
    uint64_t least = ledger->stage_count == 0 ? 0 : UINT64_MAX;
    for (uint32_t i = 0; i < ledger->stage_count; i++) {
        const lh_kv_stage *stage = &ledger->stages[i];
        uint64_t positions = positions_in(stage, stage->pages_total - stage->pages_promised);
        least = positions < least ? positions : least;
    }
    return least;
}

bool lh_kv_ledger_promise(lh_kv_ledger *ledger, uint32_t positions) {
    if (ledger->stage_count == 0)
        return false;
    for (uint32_t i = 0; i < ledger->stage_count; i++) {
        const lh_kv_stage *stage = &ledger->stages[i];
        if (pages_for(stage, positions) > stage->pages_total - stage->pages_promised)
            return false;
    }
    for (uint32_t i = 0; i < ledger->stage_count; i++)
        ledger->stages[i].pages_promised += pages_for(&ledger->stages[i], positions);
    return true;
}

void lh_kv_ledger_give_back(lh_kv_ledger *ledger, uint32_t positions) {
    for (uint32_t i = 0; i < ledger->stage_count; i++)
        ledger->stages[i].pages_promised -= pages_for(&ledger->stages[i], positions);
}
