/* The KV cache of a stage: pages of LH_KV_PAGE_POSITIONS positions, drawn from one budget, held by sequences.
 * Values are f32: an exact store keeps the fidelity figures simple; pages are allocated at start.
 * Thread: the compute thread; the counters may be read by any. */
#pragma once

#include "common/status.h"
#include "kernels/kernels.h"

typedef struct lh_kv_cache lh_kv_cache;
typedef struct lh_kv_sequence lh_kv_sequence;

/* A page here is the keys and values of 64 positions in all `layers` of the stage. LH_ERR_INVALID: the budget does
 * not hold one page. */
lh_status lh_kv_cache_create(uint32_t layers, uint32_t kv_heads, uint32_t head_dim, uint32_t context,
                             size_t budget_bytes, lh_kv_cache **cache, lh_error *error);
void lh_kv_cache_destroy(lh_kv_cache *cache);
size_t lh_kv_cache_pages_total(const lh_kv_cache *cache);
size_t lh_kv_cache_pages_free(const lh_kv_cache *cache);
size_t lh_kv_cache_page_bytes(const lh_kv_cache *cache);
size_t lh_kv_cache_sequences(const lh_kv_cache *cache);

/* NULL when there is none. */
lh_kv_sequence *lh_kv_cache_find(lh_kv_cache *cache, uint64_t sequence);
/* Makes room for positions [0, positions), creating the sequence where it is new. LH_ERR_BUSY: no free page (what the
 * sequence had, it keeps); LH_ERR_LIMIT: over the context. */
lh_status lh_kv_cache_reserve(lh_kv_cache *cache, uint64_t sequence, uint32_t positions, lh_kv_sequence **out,
                              lh_error *error);
void lh_kv_cache_release(lh_kv_cache *cache, uint64_t sequence);
/* Positions that have been reserved or written so far by steps that began. */
uint32_t lh_kv_sequence_length(const lh_kv_sequence *sequence);
void lh_kv_sequence_set_length(lh_kv_sequence *sequence, uint32_t positions);
lh_kv_view lh_kv_sequence_view(const lh_kv_sequence *sequence, uint32_t layer);
