/* A sequence's block table and how far it has come. */
#include "gateway/kv/sequence_kv.h"

#include "common/base/arithmetic.h"
#include "gateway/kv/block_table.h"

#include <assert.h>

/* A number that it had before may still stand for a cached prefix on the workers. */
static uint64_t next_number(const lh_sequence_kv *kv, uint64_t sequence) {
    assert(!kv->table && kv->computed == 0 && !kv->is_begun && sequence < (uint64_t)1 << 40);
    return sequence + ((uint64_t)kv->tables << 40);
}

bool lh_sequence_kv_begin_private(lh_sequence_kv *kv, lh_kv_store *store, uint64_t sequence,
                                  uint32_t positions) {
    kv->table = lh_kv_store_begin_private(store, next_number(kv, sequence), positions);
    kv->tables += kv->table != NULL;
    return kv->table;
}

bool lh_sequence_kv_begin(lh_sequence_kv *kv, lh_kv_store *store, uint64_t sequence,
                          lh_prefix_scope scope, const uint32_t *tokens, uint32_t length,
                          bool shares, uint64_t spare) {
    uint64_t number = next_number(kv, sequence);
    kv->table = lh_kv_store_begin(store, number, scope, tokens, length, shares, spare);
    if (!kv->table)
        return false;
    kv->tables++;
    kv->computed = lh_kv_store_shared_positions(store, kv->table);
    assert(kv->computed < length);
    return true;
}

bool lh_sequence_kv_share_more(lh_sequence_kv *kv, lh_kv_store *store, const uint32_t *tokens,
                               uint32_t length) {
    assert(kv->table && !kv->is_begun);
    lh_kv_store_share_more(store, kv->table, tokens, length);
    uint32_t before = kv->computed;
    kv->computed = lh_kv_store_shared_positions(store, kv->table);
    assert(kv->computed >= before && kv->computed < length);
    return kv->computed > before;
}

bool lh_sequence_kv_grow(lh_sequence_kv *kv, lh_kv_store *store, uint32_t rows) {
    assert(kv->table);
    return lh_kv_store_grow(store, kv->table, kv->computed + rows);
}

bool lh_sequence_kv_is_restoring(const lh_sequence_kv *kv) {
    return kv->computed < kv->restored;
}

uint32_t lh_sequence_kv_replayed(const lh_sequence_kv *kv, uint32_t rows) {
    uint32_t first = kv->computed;
    return kv->reached > first ? lh_min_u32(kv->reached - first, rows) : 0;
}

lh_block_table *lh_sequence_kv_send(lh_sequence_kv *kv, lh_kv_store *store, const uint32_t *tokens,
                                    uint32_t rows, lh_step_class step_class) {
    assert(kv->table && rows > 0);
    assert(!lh_sequence_kv_is_restoring(kv) || kv->computed + rows <= kv->restored);
    if (!kv->is_cache_known)
        kv->cached_tokens = kv->computed;
    kv->is_cache_known = kv->is_begun = true;
    kv->computed += rows;
    kv->reached = lh_max_u32(kv->reached, kv->computed);
    return lh_kv_store_send(store, kv->table, tokens, kv->computed, step_class);
}

void lh_sequence_kv_leave(lh_sequence_kv *kv, lh_kv_store *store) {
    if (kv->table)
        lh_kv_store_free(store, kv->table);
    lh_sequence_kv_drop(kv);
}

void lh_sequence_kv_drop(lh_sequence_kv *kv) {
    kv->table = NULL;
    kv->computed = kv->restored = 0;
    kv->is_begun = false;
}

void lh_sequence_kv_break(lh_sequence_kv *kv, lh_kv_store *store) {
    if (kv->table && lh_block_table_is_sound(kv->table))
        kv->computed = kv->table->written;
    else
        lh_sequence_kv_leave(kv, store);
}

bool lh_sequence_kv_resume(lh_sequence_kv *kv, lh_kv_store *store, uint32_t length) {
    if (!lh_kv_store_resume(store, kv->table, length))
        return false;
    kv->computed = kv->table->written;
    kv->restored = 0;
    assert(kv->computed < length);
    return true;
}

bool lh_sequence_kv_restart(lh_sequence_kv *kv, lh_kv_store *store) {
    if (!lh_kv_store_restart(store, kv->table))
        return false;
    kv->computed = 0;
    kv->restored = kv->table->standing;
    return true;
}
