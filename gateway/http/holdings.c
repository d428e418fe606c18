/* A hash table with linear probing (Knuth, volume 3, 6.4, algorithms L and R): at most half full, a
 * slot that becomes free is filled by those behind it that would otherwise be lost. */
#include "gateway/http/holdings.h"

#include <assert.h>
#include <stdlib.h>

lh_status lh_holdings_init(lh_holdings *holdings, uint32_t owners_max, lh_error *error) {
    assert(owners_max > 0 && owners_max <= UINT32_MAX / 8);
    uint32_t count = 2;
    while (count < 2 * owners_max)
        count *= 2;
    *holdings = (lh_holdings){.slots = calloc(count, sizeof *holdings->slots),
                              .slot_count = count,
                              .owners_max = owners_max};
    return holdings->slots
               ? LH_OK
               : lh_fail(error, LH_ERR_NO_MEMORY, "no memory to count what %u hold", owners_max);
}

void lh_holdings_reset(lh_holdings *holdings) {
    free(holdings->slots);
    *holdings = (lh_holdings){0};
}

/* Neighbouring addresses are spread over the table: the multiplier is 2^64 divided by the golden
 * ratio. */
static uint32_t home_of(const lh_holdings *holdings, uint64_t owner) {
    return (uint32_t)(owner * 0x9e3779b97f4a7c15u >> 32) & (holdings->slot_count - 1);
}

/* The owner's slot, or the free one where it belongs. */
static uint32_t find(const lh_holdings *holdings, uint64_t owner) {
    uint32_t slot = home_of(holdings, owner);
    while (holdings->slots[slot].amount && holdings->slots[slot].owner != owner)
        slot = (slot + 1) & (holdings->slot_count - 1);
    return slot;
}

void lh_holdings_add(lh_holdings *holdings, uint64_t owner, uint64_t amount) {
    if (!amount)
        return;
    lh_holding *holding = &holdings->slots[find(holdings, owner)];
    if (!holding->amount) {
        assert(holdings->owners < holdings->owners_max);
        holdings->owners++;
        holding->owner = owner;
    }
    holding->amount += amount;
}

/* Whether what lives at `home` and stands in `slot` would not be found once `gap` is free. */
static bool is_cut_off(const lh_holdings *holdings, uint32_t home, uint32_t gap, uint32_t slot) {
    uint32_t mask = holdings->slot_count - 1;
    return ((slot - home) & mask) >= ((slot - gap) & mask);
}

static void free_slot(lh_holdings *holdings, uint32_t gap) {
    uint32_t mask = holdings->slot_count - 1;
    holdings->slots[gap].amount = 0;
    for (uint32_t slot = (gap + 1) & mask; holdings->slots[slot].amount; slot = (slot + 1) & mask) {
        if (!is_cut_off(holdings, home_of(holdings, holdings->slots[slot].owner), gap, slot))
            continue;
        holdings->slots[gap] = holdings->slots[slot];
        holdings->slots[slot].amount = 0;
        gap = slot;
    }
}

void lh_holdings_take(lh_holdings *holdings, uint64_t owner, uint64_t amount) {
    if (!amount)
        return;
    uint32_t slot = find(holdings, owner);
    assert(holdings->slots[slot].amount >= amount);
    holdings->slots[slot].amount -= amount;
    if (holdings->slots[slot].amount)
        return;
    holdings->owners--;
    free_slot(holdings, slot);
}

uint64_t lh_holdings_of(const lh_holdings *holdings, uint64_t owner) {
    return holdings->slots[find(holdings, owner)].amount;
}
