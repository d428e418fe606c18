/* Block tables from their beginning to their end, and the truncations that tell the workers. */
#include "gateway/kv/kv_store.h"

#include "common/base/arithmetic.h"
#include "gateway/kv/eviction.h"
#include "gateway/kv/resync.h"

#include <assert.h>
#include <stdlib.h>

struct lh_kv_store {
    lh_kv_store_options options;
    lh_block_pool pool;
    lh_prefix_index *index;
    lh_eviction eviction;
    struct lh_block_tables tables;
    struct lh_block_table_queue truncations; /* to be sent */
    uint64_t private_blocks; /* of live tables that are: they come back before others are evicted */
    uint64_t revision;
    lh_kv_store_figures figures; /* but for `cached` */
};

/* ---- Life ---- */

static void forget(lh_block_table *table) {
    LIST_REMOVE(table, all);
    lh_block_table_destroy(table);
}

static void forget_if_unneeded(lh_block_table *table) {
    if (lh_block_table_is_unneeded(table))
        forget(table);
}

/* Each block once, by its last holder. */
static void forget_everything(lh_kv_store *store) {
    while (!LIST_EMPTY(&store->tables)) {
        lh_block_table *table = LIST_FIRST(&store->tables);
        for (uint32_t i = 0; i < table->block_count; i++)
            if (--table->blocks[i]->holders == 0)
                free(table->blocks[i]);
        forget(table);
    }
    lh_eviction_init(&store->eviction);
    TAILQ_INIT(&store->truncations);
    store->figures.truncating = store->figures.ending = 0;
}

lh_status lh_kv_store_create(const lh_kv_store_options *options, lh_kv_store **store,
                             lh_error *error) {
    lh_kv_store *made = calloc(1, sizeof *made);
    lh_status status =
        made ? lh_prefix_index_create(&made->index, error)
             : lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the table of KV pages");
    if (status != LH_OK) {
        free(made);
        return status;
    }
    made->options = *options;
    forget_everything(made);
    *store = made;
    return LH_OK;
}

void lh_kv_store_destroy(lh_kv_store *store) {
    if (!store)
        return;
    forget_everything(store);
    lh_block_pool_reset(&store->pool);
    lh_prefix_index_destroy(store->index);
    free(store);
}

void lh_kv_store_reset(lh_kv_store *store, const lh_kv_ledger *chain) {
    forget_everything(store);
    store->pool.ledger = *chain;
    store->private_blocks = 0;
    lh_kv_ledger_measure(&store->pool.ledger);
    lh_prefix_index_reset(store->index, store->pool.ledger.block_positions);
    store->revision++;
}

/* ---- Figures ---- */

const lh_kv_ledger *lh_kv_store_ledger(const lh_kv_store *store) {
    return &store->pool.ledger;
}

lh_kv_store_figures lh_kv_store_current_figures(const lh_kv_store *store) {
    lh_kv_store_figures figures = store->figures;
    figures.cached = store->eviction.count;
    return figures;
}

uint64_t lh_kv_store_revision(const lh_kv_store *store) {
    return store->revision;
}

uint64_t lh_block_table_number(const lh_block_table *table) {
    return table->number;
}

uint32_t lh_block_table_blocks(const lh_block_table *table) {
    return table->block_count;
}

void lh_block_table_note_written(lh_block_table *table, uint32_t positions) {
    table->written = lh_max_u32(positions, table->written);
}

bool lh_block_table_is_pinned(const lh_block_table *table) {
    return table->pins > 0;
}

uint32_t lh_kv_store_shared_positions(const lh_kv_store *store, const lh_block_table *table) {
    return table->shared * store->pool.ledger.block_positions;
}

/* ---- Truncate and free ---- */

/* To its first `keep` blocks, fewer than it keeps now; 0: it is freed. */
static void truncate(lh_kv_store *store, lh_block_table *table, uint32_t keep) {
    bool is_queued = table->truncation_state == LH_KV_TO_TRUNCATE;
    lh_block_table_truncate(table, &store->pool, keep);
    lh_prefix_index_withdraw(store->index, &table->entry, keep);
    if (keep == 0)
        lh_eviction_remove(&store->eviction, table);
    if (is_queued)
        return;
    TAILQ_INSERT_TAIL(&store->truncations, table, truncations);
    store->figures.truncating++;
}

static void bound_cached(lh_kv_store *store, uint32_t max) {
    for (lh_block_table *table; (table = lh_eviction_surplus(&store->eviction, max));)
        truncate(store, table, 0);
}

void lh_kv_store_make_room(lh_kv_store *store, uint64_t blocks) {
    const lh_kv_ledger *ledger = &store->pool.ledger;
    uint64_t room =
        lh_kv_ledger_blocks_free(ledger) + ledger->blocks_returning + store->private_blocks;
    lh_eviction_choice choice;
    while (room < blocks && lh_eviction_choose(&store->eviction, blocks - room, &choice)) {
        truncate(store, choice.table, choice.keep);
        room += choice.blocks;
        store->figures.evicted_blocks += choice.blocks;
    }
}

static void launch_truncation(lh_kv_store *store, lh_block_table *table) {
    assert(table->truncation_state == LH_KV_TO_TRUNCATE);
    TAILQ_REMOVE(&store->truncations, table, truncations);
    table->truncation_state = LH_KV_TRUNCATING;
}

bool lh_kv_store_next_truncation(lh_kv_store *store, lh_step_class step_class,
                                 lh_step_truncation *truncation, lh_block_table **table) {
    lh_block_table *next;
    TAILQ_FOREACH(next, &store->truncations, truncations) {
        if (step_class == LH_STEP_PREFILL || next->inflight_prefill == 0)
            break;
    }
    if (!next)
        return false;
    launch_truncation(store, next);
    *truncation = (lh_step_truncation){.sequence = next->number,
                                       .length = next->keep * store->pool.ledger.block_positions};
    *table = next;
    return true;
}

void lh_kv_store_finish_truncation(lh_kv_store *store, lh_block_table *table) {
    lh_block_table_finish_truncation(table, &store->pool);
    assert(store->figures.truncating > 0 && store->figures.ending >= table->is_ending);
    store->figures.truncating--;
    store->figures.ending -= table->is_ending;
    table->is_ending = false;
    store->revision++;
    forget_if_unneeded(table);
}

/* ---- Begin ---- */

/* Whole blocks before the last token that some table has, whose entry is returned; NULL: none. */
static uint32_t find_blocks(const lh_kv_store *store, lh_prefix_scope scope, const uint32_t *tokens,
                            uint32_t length, lh_prefix_entry **entry) {
    uint32_t block_positions = store->pool.ledger.block_positions;
    assert(length > 0);
    *entry = NULL;
    if (!store->options.keeps_prefixes || block_positions == 0)
        return 0;
    return lh_prefix_index_find(store->index, scope, tokens, (length - 1) / block_positions, entry);
}

uint32_t lh_kv_store_cached_positions(const lh_kv_store *store, lh_prefix_scope scope,
                                      const uint32_t *tokens, uint32_t length) {
    lh_prefix_entry *entry;
    return find_blocks(store, scope, tokens, length, &entry) * store->pool.ledger.block_positions;
}

static lh_block_table *find_source(lh_kv_store *store, lh_prefix_scope scope,
                                   const uint32_t *tokens, uint32_t length, uint32_t *blocks) {
    lh_prefix_entry *entry;
    *blocks = find_blocks(store, scope, tokens, length, &entry);
    if (!entry)
        return NULL;
    lh_block_table *source = lh_block_table_of(entry);
    lh_eviction_touch(&store->eviction, source);
    return source;
}

/* No worker has heard of it. */
static void abandon(lh_kv_store *store, lh_block_table *table) {
    lh_block_table_abandon(table, &store->pool);
    store->revision++;
    forget(table);
}

lh_block_table *lh_kv_store_begin(lh_kv_store *store, uint64_t number, lh_prefix_scope scope,
                                  const uint32_t *tokens, uint32_t length, bool shares,
                                  uint64_t spare) {
    uint32_t shared = 0;
    lh_block_table *source = shares ? find_source(store, scope, tokens, length, &shared) : NULL;
    const lh_kv_ledger *ledger = &store->pool.ledger;
    uint64_t blocks = lh_kv_ledger_blocks_for(ledger, length), wanted = blocks - shared + spare;
    if (wanted > lh_kv_ledger_blocks_free(ledger)) {
        lh_kv_store_make_room(store, wanted);
        return NULL;
    }
    lh_block_table *table = lh_block_table_create(number, scope, blocks);
    if (!table)
        return NULL;
    LIST_INSERT_HEAD(&store->tables, table, all);
    if (source)
        lh_block_table_fork(table, &store->pool, source, shared);
    if (lh_block_table_grow(table, &store->pool, blocks))
        return table;
    lh_block_table_unpin_source(table);
    abandon(store, table);
    return NULL;
}

lh_block_table *lh_kv_store_begin_private(lh_kv_store *store, uint64_t number, uint32_t positions) {
    const lh_kv_ledger *ledger = &store->pool.ledger;
    uint64_t blocks = lh_kv_ledger_blocks_for(ledger, positions);
    if (blocks > lh_kv_ledger_blocks_free(ledger))
        return NULL;
    lh_block_table *table = lh_block_table_create(number, (lh_prefix_scope){0}, blocks);
    if (!table)
        return NULL;
    table->is_private = true;
    LIST_INSERT_HEAD(&store->tables, table, all);
    if (lh_block_table_grow(table, &store->pool, blocks)) {
        store->private_blocks += table->block_count;
        return table;
    }
    abandon(store, table);
    return NULL;
}

void lh_kv_store_share_more(lh_kv_store *store, lh_block_table *table, const uint32_t *tokens,
                            uint32_t length) {
    uint32_t shared;
    lh_block_table *source = find_source(store, table->scope, tokens, length, &shared);
    if (shared <= table->shared)
        return;
    lh_block_table_unpin_source(table);
    lh_block_table_fork(table, &store->pool, source, shared);
    store->revision++;
}

bool lh_kv_store_grow(lh_kv_store *store, lh_block_table *table, uint32_t positions) {
    uint64_t blocks = lh_kv_ledger_blocks_for(&store->pool.ledger, positions);
    return lh_block_table_grow(table, &store->pool, blocks);
}

/* ---- Steps ---- */

/* Cached tables that stand where this one is about to go on from: it has all that they have. */
static void free_covered(lh_kv_store *store, const lh_block_table *table) {
    if (!table->entry.node)
        return;
    lh_prefix_entry *entry = lh_prefix_index_beside(&table->entry);
    while (entry) {
        lh_block_table *other = lh_block_table_of(entry);
        entry = LIST_NEXT(entry, beside);
        if (lh_eviction_may_free(other))
            truncate(store, other, 0);
    }
}

static void make_findable(lh_kv_store *store, lh_block_table *table, const uint32_t *tokens,
                          uint32_t positions) {
    uint32_t blocks = positions / store->pool.ledger.block_positions;
    assert(blocks <= table->block_count);
    if (!store->options.keeps_prefixes || table->is_private || blocks <= table->entry.blocks)
        return;
    store->revision++;
    for (uint32_t reached = table->entry.blocks; reached < blocks; reached++) {
        free_covered(store, table);
        lh_prefix_index_advance(store->index, &table->entry, table->scope, tokens, reached + 1);
    }
}

lh_block_table *lh_kv_store_send(lh_kv_store *store, lh_block_table *table, const uint32_t *tokens,
                                 uint32_t positions, lh_step_class step_class) {
    lh_block_table *source = table->source;
    assert(table->is_live && (table->is_sent || step_class == LH_STEP_PREFILL));
    table->is_sent = true;
    lh_block_table_launch(table, step_class);
    if (source) {
        lh_block_table_launch(source, LH_STEP_PREFILL);
        store->figures.forks++;
        store->figures.shared_positions += lh_kv_store_shared_positions(store, table);
        lh_block_table_unpin_source(table);
    }
    make_findable(store, table, tokens, positions);
    return source;
}

void lh_kv_store_pass(lh_block_table *table, lh_block_table *source, uint32_t positions,
                      lh_step_class step_class) {
    lh_block_table_note_written(table, positions);
    lh_block_table_pass(table, step_class);
    if (source)
        lh_block_table_pass(source, LH_STEP_PREFILL);
}

void lh_kv_store_land(lh_block_table *table, lh_block_table *source, bool has_passed,
                      lh_step_class step_class) {
    lh_block_table_land(table, has_passed, step_class);
    forget_if_unneeded(table);
    if (!source)
        return;
    lh_block_table_land(source, has_passed, LH_STEP_PREFILL);
    forget_if_unneeded(source);
}

/* ---- End ---- */

/* How many blocks are worth keeping: whole ones that are written, and that no other table has. */
static uint32_t worth_keeping(lh_kv_store *store, lh_block_table *table) {
    uint32_t blocks =
        lh_min_u32(table->written / store->pool.ledger.block_positions, table->entry.blocks);
    lh_prefix_index_withdraw(store->index, &table->entry, lh_max_u32(blocks, table->pinned_blocks));
    if (table->pins > 0)
        return table->entry.blocks;
    return lh_prefix_index_is_covered(&table->entry) ? 0 : blocks;
}

void lh_kv_store_free(lh_kv_store *store, lh_block_table *table) {
    assert(table->is_live && table->truncation_state == LH_KV_STAYS);
    lh_block_table_unpin_source(table);
    store->private_blocks -= table->is_private ? table->block_count : 0;
    if (!table->is_sent) {
        abandon(store, table);
        return;
    }
    lh_block_table_retire(table, &store->pool);
    uint32_t keep = worth_keeping(store, table);
    if (keep > 0)
        lh_eviction_add(&store->eviction, table);
    if (keep < table->block_count) {
        table->is_ending = true;
        store->figures.ending++;
        truncate(store, table, keep);
    }
    store->revision++;
    bound_cached(store, store->options.cached_max);
}

/* ---- When the chain breaks ---- */

/* What others may find in it is no more than what is there. */
static void cut_to_written(lh_kv_store *store, lh_block_table *table) {
    uint32_t blocks = table->written / store->pool.ledger.block_positions;
    if (table->entry.blocks > blocks)
        lh_prefix_index_withdraw(store->index, &table->entry, blocks);
    if (!table->is_live && lh_block_table_kept(table) > blocks)
        truncate(store, table, blocks);
}

void lh_kv_store_break(lh_kv_store *store) {
    lh_block_table *table;
    LIST_FOREACH(table, &store->tables, all) {
        assert(table->inflight_steps == 0 && table->inflight_prefill == 0);
        if (table->truncation_state == LH_KV_TRUNCATING) {
            table->truncation_state = LH_KV_TO_TRUNCATE;
            TAILQ_INSERT_TAIL(&store->truncations, table, truncations);
        }
        cut_to_written(store, table);
    }
    store->revision++;
}

/* None has to be sent any more, since the KV resync does not list what they truncate. */
static void finish_truncations(lh_kv_store *store) {
    for (lh_block_table *table; (table = TAILQ_FIRST(&store->truncations));) {
        launch_truncation(store, table);
        lh_kv_store_finish_truncation(store, table);
    }
}

bool lh_kv_store_resume(lh_kv_store *store, lh_block_table *table, uint32_t length) {
    assert(lh_block_table_is_sound(table));
    finish_truncations(store);
    return lh_resync_resume(table, store->pool.ledger.block_positions, length);
}

bool lh_kv_store_restart(lh_kv_store *store, lh_block_table *table) {
    assert(lh_block_table_is_sound(table));
    finish_truncations(store);
    lh_prefix_index_withdraw(store->index, &table->entry, 0);
    return lh_resync_restart(table);
}

void lh_kv_store_drop_cached(lh_kv_store *store) {
    bound_cached(store, 0);
    assert(store->eviction.count == 0);
    finish_truncations(store);
}

bool lh_kv_store_move_to(lh_kv_store *store, const lh_kv_ledger *chain) {
    return lh_kv_ledger_move(&store->pool.ledger, chain);
}

uint32_t lh_kv_store_resync(lh_kv_store *store, lh_step_truncation *resync, uint32_t max) {
    finish_truncations(store);
    uint32_t live = lh_resync_list_live(&store->tables, resync, max);
    bound_cached(store, max - live);
    finish_truncations(store);
    return live + lh_resync_list_cached(&store->eviction.cached, store->pool.ledger.block_positions,
                                        resync + live, max - live);
}
