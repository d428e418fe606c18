/* Pages promised per stage. */
#include "gateway/kv_ledger.h"

static uint64_t pages_for(const lh_kv_stage *stage, uint32_t positions) {
    return ((uint64_t)positions + stage->page_positions - 1) / stage->page_positions;
}

uint64_t lh_kv_ledger_positions(const lh_kv_ledger *ledger) {
    uint64_t least = ledger->stage_count == 0 ? 0 : UINT64_MAX;
    for (uint32_t i = 0; i < ledger->stage_count; i++) {
        const lh_kv_stage *stage = &ledger->stages[i];
        uint64_t positions;
        if (__builtin_mul_overflow(stage->pages_total, (uint64_t)stage->page_positions, &positions))
            positions = UINT64_MAX;
        if (positions < least)
            least = positions;
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
