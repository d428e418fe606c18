/* What is left when a chain has broken and its workers keep their caches.
 *
 * What a holding has `written` has been around the ring: it is on every worker, and nothing takes it away. Beyond that a worker may have
 * some positions and another one none. So everything is cut back to there, on both sides at once, by the roll call. A page that a
 * second holding shares has been written, too, or that one would not be sound.
 *
 * Where the first stages are new and only the last ones have kept their caches, a holding stands there with its positions, and is written anew
 * on the first ones. What is shared or cached would have to be told apart there, so it goes. */
#include "gateway/schedule/kv_holding.h"

#include <assert.h>

/* What others may find in it is no more than what is there. */
static void cut_to_written(lh_kv_store *store, lh_kv_holding *holding) {
    uint32_t blocks = holding->written / store->ledger.block_positions;
    if (holding->entry.blocks > blocks)
        lh_prefix_index_withdraw(store->index, &holding->entry, blocks);
    if (!holding->is_live && lh_kv_holding_kept(holding) > blocks)
        lh_kv_store_shorten(store, holding, blocks);
}

void lh_kv_store_break(lh_kv_store *store) {
    lh_kv_holding *holding, *next;
    for (holding = LIST_FIRST(&store->holdings); holding; holding = next) {
        next = LIST_NEXT(holding, all);
        assert(holding->flights == 0 && holding->prefill_flights == 0);
        if (holding->leaving == LH_KV_RELEASING) {
            holding->leaving = LH_KV_TO_RELEASE;
            TAILQ_INSERT_TAIL(&store->releases, holding, releases);
        }
        cut_to_written(store, holding);
    }
    store->revision++;
}

bool lh_kv_holding_is_sound(const lh_kv_holding *holding) {
    return holding->is_sent && holding->written > 0;
}

/* Those that are not to be sent any more, since a roll call does not name them. */
static void finish_releases(lh_kv_store *store) {
    lh_kv_holding *holding;
    while ((holding = TAILQ_FIRST(&store->releases))) {
        TAILQ_REMOVE(&store->releases, holding, releases);
        holding->leaving = LH_KV_RELEASING;
        lh_kv_store_released(store, holding);
    }
}

/* Up to the end of the last block that it shares. */
static uint32_t surely_written(const lh_kv_store *store, const lh_kv_holding *holding) {
    uint32_t blocks = holding->block_count;
    while (blocks > 0 && holding->blocks[blocks - 1]->holders == 1)
        blocks--;
    uint32_t shared = blocks * store->ledger.block_positions;
    return shared > holding->written ? shared : holding->written;
}

bool lh_kv_store_move_to(lh_kv_store *store, const lh_kv_ledger *chain) {
    lh_kv_ledger moved = *chain, *ledger = &store->ledger;
    lh_kv_ledger_measure(&moved);
    uint64_t held = ledger->blocks_live + ledger->blocks_cached + ledger->blocks_returning;
    if (moved.block_positions != ledger->block_positions || moved.blocks_total < held)
        return false;
    moved.blocks_live = ledger->blocks_live;
    moved.blocks_cached = ledger->blocks_cached;
    moved.blocks_returning = ledger->blocks_returning;
    *ledger = moved;
    return true;
}

void lh_kv_store_drop_cached(lh_kv_store *store) {
    lh_kv_holding *holding;
    while ((holding = TAILQ_FIRST(&store->cached)))
        lh_kv_store_shorten(store, holding, 0);
    finish_releases(store);
}

bool lh_kv_store_resume(lh_kv_store *store, lh_kv_holding *holding, uint32_t length) {
    assert(holding->is_live && lh_kv_holding_is_sound(holding));
    finish_releases(store);
    uint32_t positions = surely_written(store, holding);
    if (positions >= length)
        return false;
    holding->written = holding->standing = positions;
    return true;
}

bool lh_kv_store_restart(lh_kv_store *store, lh_kv_holding *holding) {
    assert(holding->is_live && lh_kv_holding_is_sound(holding));
    finish_releases(store);
    bool is_alone = true;
    for (uint32_t i = 0; i < holding->block_count; i++)
        is_alone &= holding->blocks[i]->holders == 1;
    lh_prefix_index_withdraw(store->index, &holding->entry, 0);
    holding->standing = holding->written;
    holding->written = 0;
    return is_alone;
}

uint32_t lh_kv_holding_standing(const lh_kv_holding *holding) {
    return holding->standing;
}

static lh_step_release name(const lh_kv_store *store, const lh_kv_holding *holding) {
    uint32_t positions =
        holding->is_live ? holding->standing : holding->block_count * store->ledger.block_positions;
    return (lh_step_release){.sequence = holding->number, .keep = positions};
}

uint32_t lh_kv_store_call_roll(lh_kv_store *store, lh_step_release *roll, uint32_t max) {
    lh_kv_holding *holding, *before;
    uint32_t count = 0;
    finish_releases(store);
    LIST_FOREACH(holding, &store->holdings, all) {
        if (holding->is_live) {
            assert(count < max);
            roll[count++] = name(store, holding);
        }
    }
    for (holding = TAILQ_LAST(&store->cached, lh_kv_holding_queue); holding; holding = before) {
        before = TAILQ_PREV(holding, lh_kv_holding_queue, cached);
        if (count < max)
            roll[count++] = name(store, holding);
        else
            lh_kv_store_shorten(store, holding, 0);
    }
    finish_releases(store);
    return count;
}
