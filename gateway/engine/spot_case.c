/* The table of the header. */
#include "gateway/engine/spot_case.h"

#include <assert.h>
#include <stdlib.h>

const char *lh_spot_verdict_name(lh_spot_verdict verdict) {
    static const char *const names[] = {"open", "agreed", "wrong", "undecided", "dropped"};
    return names[verdict];
}

void lh_spot_case_init(lh_spot_case *spot, lh_answer_record *record, uint32_t chain,
                       int64_t now_us) {
    *spot = (lh_spot_case){.record = record, .since_us = now_us, .count = 1};
    spot->opinions[0] = (lh_spot_opinion){chain, record->epoch, record->draws};
}

void lh_spot_case_reset(lh_spot_case *spot) {
    for (uint32_t i = 1; i < spot->count; i++)
        free(spot->opinions[i].draws);
    lh_answer_record_destroy(spot->record);
    *spot = (lh_spot_case){0};
}

bool lh_spot_case_asks(const lh_spot_case *spot, uint32_t chain, bool has_third) {
    uint32_t first = spot->opinions[0].chain, second = spot->opinions[1].chain;
    switch (spot->count) {
    case 1:
        return chain != first;
    case 2:
        return has_third ? chain != first && chain != second : chain == first;
    default:
        return chain == second;
    }
}

void lh_spot_case_add(lh_spot_case *spot, const lh_spot_opinion *opinion) {
    assert(spot->count < LH_SPOT_OPINIONS_MAX);
    spot->opinions[spot->count++] = *opinion;
}

uint32_t lh_spot_case_difference(const lh_spot_case *spot, uint32_t a, uint32_t b) {
    const uint64_t *of_a = spot->opinions[a].draws, *of_b = spot->opinions[b].draws;
    uint32_t i = 0;
    while (i < spot->record->draw_count && of_a[i] == of_b[i])
        i++;
    return i;
}

static bool are_same(const lh_spot_case *spot, uint32_t a, uint32_t b) {
    return lh_spot_case_difference(spot, a, b) == spot->record->draw_count;
}

static lh_spot_verdict judge_third(const lh_spot_case *spot, uint32_t *wrong) {
    bool is_first = are_same(spot, 0, 2),
         is_again = spot->opinions[2].chain == spot->opinions[0].chain;
    *wrong = is_first ? 1 : 0;
    if (is_again)
        return is_first ? LH_SPOT_OPEN : LH_SPOT_WRONG;
    return is_first || are_same(spot, 1, 2) ? LH_SPOT_WRONG : LH_SPOT_UNDECIDED;
}

lh_spot_verdict lh_spot_case_judge(const lh_spot_case *spot, uint32_t *wrong) {
    *wrong = 0;
    switch (spot->count) {
    case 1:
        return LH_SPOT_OPEN;
    case 2:
        return are_same(spot, 0, 1) ? LH_SPOT_AGREED : LH_SPOT_OPEN;
    case 3:
        return judge_third(spot, wrong);
    default:
        *wrong = 1;
        return are_same(spot, 1, 3) ? LH_SPOT_UNDECIDED : LH_SPOT_WRONG;
    }
}
