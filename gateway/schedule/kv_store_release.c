/* What is given up: cached blocks when room is short, and the releases that tell the workers. */
#include "gateway/schedule/kv_holding.h"

#include <assert.h>

/* Where some blocks have to go, so many go at once: each release is a record in a step, and a block alone is soon
 * followed by the next. */
#define EVICTED_AT_ONCE 8u

static void uncache(lh_kv_store *store, lh_kv_holding *holding) {
    if (!holding->is_cached)
        return;
    holding->is_cached = false;
    TAILQ_REMOVE(&store->cached, holding, cached);
    store->figures.cached--;
}

/* One that is still to be sent takes more along. */
void lh_kv_store_shorten(lh_kv_store *store, lh_kv_holding *holding, uint32_t keep) {
    assert(!holding->is_live && holding->leaving != LH_KV_RELEASING && keep < lh_kv_holding_kept(holding));
    assert(keep >= holding->pinned_blocks);
    for (uint32_t i = keep; i < lh_kv_holding_kept(holding); i++)
        lh_kv_block_leave(&store->blocks, holding->blocks[i]);
    lh_prefix_index_withdraw(store->index, &holding->entry, keep);
    if (keep == 0)
        uncache(store, holding);
    holding->keep = keep;
    if (holding->leaving == LH_KV_TO_RELEASE)
        return;
    holding->leaving = LH_KV_TO_RELEASE;
    TAILQ_INSERT_TAIL(&store->releases, holding, releases);
    store->figures.releasing++;
}

/* Blocks at its end that are its alone; those before them are shared. */
static uint32_t own_blocks(const lh_kv_holding *holding) {
    uint32_t end = lh_kv_holding_kept(holding), first = end;
    while (first > holding->pinned_blocks && holding->blocks[first - 1]->holders == 1)
        first--;
    return end - first;
}

/* Gives up about as many of its blocks as wanted, from its end: how many. What is left when they were its last own ones is others', and goes with
 * them. */
static uint32_t cut(lh_kv_store *store, lh_kv_holding *holding, uint64_t wanted) {
    uint32_t own = own_blocks(holding), kept = lh_kv_holding_kept(holding);
    uint64_t least = wanted > EVICTED_AT_ONCE ? wanted : EVICTED_AT_ONCE;
    uint32_t count = own < least ? own : (uint32_t)least;
    uint32_t keep = count == own && holding->pins == 0 ? 0 : kept - count;
    if (keep < kept)
        lh_kv_store_shorten(store, holding, keep);
    store->figures.evicted_blocks += count;
    return count;
}

void lh_kv_store_make_room(lh_kv_store *store, uint64_t blocks) {
    uint64_t room = lh_kv_ledger_blocks_free(&store->ledger) + store->ledger.blocks_returning;
    lh_kv_holding *holding = TAILQ_FIRST(&store->cached);
    while (holding && room < blocks) {
        lh_kv_holding *next = TAILQ_NEXT(holding, cached);
        if (holding->leaving != LH_KV_RELEASING)
            room += cut(store, holding, blocks - room);
        holding = next;
    }
}

bool lh_kv_store_next_release(lh_kv_store *store, lh_step_class step_class, lh_step_release *release,
                              lh_kv_holding **holding) {
    lh_kv_holding *next;
    TAILQ_FOREACH(next, &store->releases, releases) {
        if (step_class == LH_STEP_PREFILL || next->prefill_flights == 0)
            break;
    }
    if (!next)
        return false;
    TAILQ_REMOVE(&store->releases, next, releases);
    next->leaving = LH_KV_RELEASING;
    *release =
        (lh_step_release){.sequence = next->number, .keep = next->keep * store->ledger.block_positions};
    *holding = next;
    return true;
}

void lh_kv_store_released(lh_kv_store *store, lh_kv_holding *holding) {
    assert(holding->leaving == LH_KV_RELEASING);
    for (uint32_t i = holding->keep; i < holding->block_count; i++)
        lh_kv_block_drop(&store->blocks, holding->blocks[i]);
    holding->block_count = holding->keep;
    holding->leaving = LH_KV_STAYS;
    store->figures.releasing--;
    store->figures.ending -= holding->is_ending;
    holding->is_ending = false;
    store->revision++;
    lh_kv_store_forget_if_unneeded(store, holding);
}
