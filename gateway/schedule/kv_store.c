/* Holdings: how they begin, grow, and what their steps do to them. */
#include "gateway/schedule/kv_store.h"

#include "gateway/schedule/kv_holding.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define HOLDING_OF(pointer) ((lh_kv_holding *)(void *)((char *)(pointer)-offsetof(lh_kv_holding, entry)))

/* ---- Life -------------------------------------------------------------------------------------------------------- */

lh_status lh_kv_store_create(const lh_kv_store_options *options, lh_kv_store **store, lh_error *error) {
    lh_kv_store *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the table of KV pages");
    lh_status status = lh_prefix_index_create(&made->index, error);
    if (status != LH_OK) {
        free(made);
        return status;
    }
    made->options = *options;
    made->blocks.ledger = &made->ledger;
    LIST_INIT(&made->holdings);
    TAILQ_INIT(&made->cached);
    TAILQ_INIT(&made->releases);
    *store = made;
    return LH_OK;
}

static void free_holding(lh_kv_holding *holding) {
    LIST_REMOVE(holding, all);
    free(holding->blocks);
    free(holding);
}

/* Each block once, by its last holder. */
static void forget_everything(lh_kv_store *store) {
    while (!LIST_EMPTY(&store->holdings)) {
        lh_kv_holding *holding = LIST_FIRST(&store->holdings);
        for (uint32_t i = 0; i < holding->block_count; i++)
            if (--holding->blocks[i]->holders == 0)
                free(holding->blocks[i]);
        free_holding(holding);
    }
    TAILQ_INIT(&store->cached);
    TAILQ_INIT(&store->releases);
    store->figures.cached = store->figures.releasing = store->figures.ending = 0;
}

void lh_kv_store_destroy(lh_kv_store *store) {
    if (!store)
        return;
    forget_everything(store);
    lh_kv_blocks_reset(&store->blocks);
    lh_prefix_index_destroy(store->index);
    free(store);
}

void lh_kv_store_reset(lh_kv_store *store, const lh_kv_ledger *chain) {
    forget_everything(store);
    store->ledger = *chain;
    lh_kv_ledger_measure(&store->ledger);
    lh_prefix_index_reset(store->index, store->ledger.block_positions);
    store->revision++;
}

void lh_kv_store_forget_if_unneeded(lh_kv_store *store, lh_kv_holding *holding) {
    (void)store;
    if (!holding->is_live && holding->block_count == 0 && holding->flights == 0 && holding->pins == 0)
        free_holding(holding);
}

const lh_kv_ledger *lh_kv_store_ledger(const lh_kv_store *store) {
    return &store->ledger;
}

lh_kv_store_figures lh_kv_store_current_figures(const lh_kv_store *store) {
    return store->figures;
}

uint64_t lh_kv_store_revision(const lh_kv_store *store) {
    return store->revision;
}

uint64_t lh_kv_holding_number(const lh_kv_holding *holding) {
    return holding->number;
}

uint32_t lh_kv_holding_blocks(const lh_kv_holding *holding) {
    return holding->block_count;
}

uint32_t lh_kv_holding_written(const lh_kv_holding *holding) {
    return holding->written;
}

void lh_kv_holding_note_written(lh_kv_holding *holding, uint32_t positions) {
    if (positions > holding->written)
        holding->written = positions;
}

bool lh_kv_holding_is_pinned(const lh_kv_holding *holding) {
    return holding->pins > 0;
}

/* ---- Begin ------------------------------------------------------------------------------------------------------- */

static void pin(lh_kv_holding *source, uint32_t blocks) {
    source->pins++;
    if (blocks > source->pinned_blocks)
        source->pinned_blocks = blocks;
}

/* Of a holding whose first rows have not been sent: it forks from nobody any more. */
static void unpin_source(lh_kv_store *store, lh_kv_holding *holding) {
    lh_kv_holding *source = holding->source;
    holding->source = NULL;
    if (!source)
        return;
    if (--source->pins == 0)
        source->pinned_blocks = 0;
    lh_kv_store_forget_if_unneeded(store, source);
}

/* Whole blocks before the last token that somebody has, whose entry it tells; NULL: none. */
static uint32_t find_blocks(const lh_kv_store *store, lh_prefix_scope scope, const uint32_t *tokens,
                            uint32_t length, lh_prefix_entry **entry) {
    *entry = NULL;
    if (!store->options.keeps_prefixes || store->ledger.block_positions == 0)
        return 0;
    return lh_prefix_index_find(store->index, scope, tokens, (length - 1) / store->ledger.block_positions,
                                entry);
}

uint32_t lh_kv_store_cached_positions(const lh_kv_store *store, lh_prefix_scope scope, const uint32_t *tokens,
                                      uint32_t length) {
    lh_prefix_entry *entry;
    return find_blocks(store, scope, tokens, length, &entry) * store->ledger.block_positions;
}

static lh_kv_holding *find_source(lh_kv_store *store, lh_prefix_scope scope, const uint32_t *tokens,
                                  uint32_t length, uint32_t *blocks) {
    lh_prefix_entry *entry;
    *blocks = find_blocks(store, scope, tokens, length, &entry);
    if (!entry)
        return NULL;
    lh_kv_holding *source = HOLDING_OF(entry);
    if (source->is_cached) {
        TAILQ_REMOVE(&store->cached, source, cached);
        TAILQ_INSERT_TAIL(&store->cached, source, cached);
    }
    return source;
}

/* NULL: no memory. */
static lh_kv_holding *make_holding(lh_kv_store *store, uint64_t number, lh_prefix_scope scope,
                                   uint64_t blocks) {
    lh_kv_holding *holding = blocks <= UINT32_MAX ? calloc(1, sizeof *holding) : NULL;
    if (!holding)
        return NULL;
    holding->block_capacity = (uint32_t)blocks;
    holding->blocks = malloc(blocks * sizeof(lh_kv_block *));
    if (!holding->blocks) {
        free(holding);
        return NULL;
    }
    holding->scope = scope;
    holding->number = number;
    holding->is_live = true;
    LIST_INSERT_HEAD(&store->holdings, holding, all);
    return holding;
}

static void share(lh_kv_store *store, lh_kv_holding *holding, lh_kv_holding *source, uint32_t blocks) {
    for (uint32_t i = 0; i < blocks; i++) {
        lh_kv_block_share(&store->blocks, source->blocks[i]);
        holding->blocks[i] = source->blocks[i];
    }
    holding->shared = blocks;
    holding->source = source;
    if (source)
        pin(source, blocks);
}

/* The workers have never heard of it. */
static void drop_unsent(lh_kv_store *store, lh_kv_holding *holding, uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; i++) {
        lh_kv_block_retire(&store->blocks, holding->blocks[i]);
        lh_kv_block_leave(&store->blocks, holding->blocks[i]);
        lh_kv_block_drop(&store->blocks, holding->blocks[i]);
    }
    store->revision++;
}

lh_kv_holding *lh_kv_store_begin(lh_kv_store *store, uint64_t number, lh_prefix_scope scope,
                                 const uint32_t *tokens, uint32_t length, uint64_t spare) {
    uint32_t shared;
    lh_kv_holding *source = find_source(store, scope, tokens, length, &shared);
    uint64_t blocks = lh_kv_ledger_blocks_for(&store->ledger, length), wanted = blocks - shared + spare;
    if (wanted > lh_kv_ledger_blocks_free(&store->ledger)) {
        lh_kv_store_make_room(store, wanted);
        return NULL;
    }
    lh_kv_holding *holding = make_holding(store, number, scope, blocks);
    if (!holding)
        return NULL;
    share(store, holding, source, shared);
    holding->block_count = shared;
    if (lh_kv_store_grow(store, holding, length))
        return holding;
    drop_unsent(store, holding, 0, holding->block_count);
    unpin_source(store, holding);
    free_holding(holding);
    return NULL;
}

void lh_kv_store_share_more(lh_kv_store *store, lh_kv_holding *holding, const uint32_t *tokens,
                            uint32_t length) {
    uint32_t shared;
    assert(!holding->is_sent);
    lh_kv_holding *source = find_source(store, holding->scope, tokens, length, &shared);
    if (shared <= holding->shared)
        return;
    lh_kv_holding *before = holding->source;
    drop_unsent(store, holding, 0, shared);
    share(store, holding, source, shared);
    if (before) {
        holding->source = before;
        unpin_source(store, holding);
        holding->source = source;
    }
}

uint32_t lh_kv_store_shared_positions(const lh_kv_store *store, const lh_kv_holding *holding) {
    return holding->shared * store->ledger.block_positions;
}

static bool make_room_in(lh_kv_holding *holding, uint64_t blocks) {
    if (blocks <= holding->block_capacity)
        return true;
    uint64_t capacity = blocks + blocks / 2;
    lh_kv_block **list =
        capacity <= UINT32_MAX ? realloc(holding->blocks, capacity * sizeof(lh_kv_block *)) : NULL;
    if (!list)
        return false;
    holding->blocks = list;
    holding->block_capacity = (uint32_t)capacity;
    return true;
}

bool lh_kv_store_grow(lh_kv_store *store, lh_kv_holding *holding, uint32_t positions) {
    uint64_t blocks = lh_kv_ledger_blocks_for(&store->ledger, positions);
    if (!make_room_in(holding, blocks))
        return false;
    while (holding->block_count < blocks) {
        lh_kv_block *block = lh_kv_block_take(&store->blocks);
        if (!block)
            return false;
        holding->blocks[holding->block_count++] = block;
    }
    return true;
}

/* ---- Steps ------------------------------------------------------------------------------------------------------- */

/* Cached ones where it stands have nothing any more that it will not have, too: it goes on from here. */
static void release_covered(lh_kv_store *store, const lh_kv_holding *holding) {
    if (!holding->entry.node)
        return;
    lh_prefix_entry *entry = lh_prefix_index_beside(&holding->entry);
    while (entry) {
        lh_kv_holding *other = HOLDING_OF(entry);
        entry = entry->next;
        if (other->is_cached && other->pins == 0 && other->leaving != LH_KV_RELEASING)
            lh_kv_store_shorten(store, other, 0);
    }
}

static void make_findable(lh_kv_store *store, lh_kv_holding *holding, const uint32_t *tokens,
                          uint32_t positions) {
    uint32_t blocks = positions / store->ledger.block_positions;
    if (!store->options.keeps_prefixes || blocks <= holding->entry.blocks)
        return;
    store->revision++;
    for (uint32_t reached = holding->entry.blocks; reached < blocks; reached++) {
        release_covered(store, holding);
        lh_prefix_index_advance(store->index, &holding->entry, holding->scope, tokens, reached + 1);
    }
}

lh_kv_holding *lh_kv_store_send(lh_kv_store *store, lh_kv_holding *holding, const uint32_t *tokens,
                                uint32_t positions, lh_step_class step_class) {
    lh_kv_holding *source = holding->source;
    bool is_prefill = step_class == LH_STEP_PREFILL;
    assert(holding->is_sent || is_prefill);
    holding->is_sent = true;
    holding->flights++;
    holding->prefill_flights += is_prefill;
    if (source) {
        source->flights++;
        source->prefill_flights++;
        store->figures.forks++;
        store->figures.shared_positions += lh_kv_store_shared_positions(store, holding);
        unpin_source(store, holding);
    }
    make_findable(store, holding, tokens, positions);
    return source;
}

void lh_kv_store_pass(lh_kv_store *store, lh_kv_holding *holding, lh_kv_holding *source, uint32_t positions,
                      lh_step_class step_class) {
    (void)store;
    lh_kv_holding_note_written(holding, positions);
    holding->prefill_flights -= step_class == LH_STEP_PREFILL;
    if (source)
        source->prefill_flights--;
}

void lh_kv_store_land(lh_kv_store *store, lh_kv_holding *holding, lh_kv_holding *source, bool has_passed,
                      lh_step_class step_class) {
    holding->flights--;
    holding->prefill_flights -= !has_passed && step_class == LH_STEP_PREFILL;
    lh_kv_store_forget_if_unneeded(store, holding);
    if (!source)
        return;
    source->flights--;
    source->prefill_flights -= !has_passed;
    lh_kv_store_forget_if_unneeded(store, source);
}

/* ---- End --------------------------------------------------------------------------------------------------------- */

/* The oldest cached ones make place for others. */
static void bound_cached(lh_kv_store *store) {
    lh_kv_holding *holding = TAILQ_FIRST(&store->cached);
    while (holding && store->figures.cached > store->options.cached_max) {
        lh_kv_holding *next = TAILQ_NEXT(holding, cached);
        if (holding->pins == 0 && holding->leaving != LH_KV_RELEASING)
            lh_kv_store_shorten(store, holding, 0);
        holding = next;
    }
}

/* How many blocks are worth keeping: whole ones that are written, and that nobody else has. */
static uint32_t worth_keeping(lh_kv_store *store, lh_kv_holding *holding, uint32_t written) {
    uint32_t blocks = written / store->ledger.block_positions;
    blocks = blocks < holding->entry.blocks ? blocks : holding->entry.blocks;
    lh_prefix_index_withdraw(store->index, &holding->entry,
                             blocks > holding->pinned_blocks ? blocks : holding->pinned_blocks);
    if (holding->pins > 0)
        return holding->entry.blocks;
    return lh_prefix_index_is_covered(&holding->entry) ? 0 : blocks;
}

void lh_kv_store_leave(lh_kv_store *store, lh_kv_holding *holding, uint32_t written) {
    assert(holding->is_live && holding->leaving == LH_KV_STAYS);
    unpin_source(store, holding);
    holding->is_live = false;
    if (!holding->is_sent) {
        drop_unsent(store, holding, 0, holding->block_count);
        free_holding(holding);
        return;
    }
    for (uint32_t i = 0; i < holding->block_count; i++)
        lh_kv_block_retire(&store->blocks, holding->blocks[i]);
    uint32_t keep = worth_keeping(store, holding, written);
    if (keep > 0) {
        holding->is_cached = true;
        TAILQ_INSERT_TAIL(&store->cached, holding, cached);
        store->figures.cached++;
    }
    if (keep < holding->block_count) {
        holding->is_ending = true;
        store->figures.ending++;
        lh_kv_store_shorten(store, holding, keep);
    }
    store->revision++;
    bound_cached(store);
}
