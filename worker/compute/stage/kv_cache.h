/* The KV cache of a stage: pages of LH_KV_PAGE_POSITIONS positions, drawn from one budget, held by
 * sequences. A page that is full may be held by several (a fork); it is free when none holds it.
 * What a row of them is, the model says and the type of their numbers (lh_kv_shape). The pages are
 * one mapping made at start, so that there is no allocation later and pages that were never used
 * cost no memory.
 * Thread: the compute thread; the counters may be read by any. */
#pragma once

#include "common/base/status.h"
#include "kernels/kernels.h"

#include <stdbool.h>

typedef struct lh_compute lh_compute; /* ops.h */
typedef struct lh_kv_cache lh_kv_cache;
typedef struct lh_kv_sequence lh_kv_sequence;

/* A page here is the keys and values of 64 positions in all `layers` of the stage, in the memory
 * that `compute` (which outlives the cache) works on. LH_ERR_INVALID: the budget does not hold one
 * page. LH_ERR_NO_MEMORY, LH_ERR_LIMIT (sizes overflow). */
lh_status lh_kv_cache_create(const lh_compute *compute, uint32_t layers, const lh_kv_shape *shape,
                             uint32_t context, size_t budget_bytes, lh_kv_cache **cache,
                             lh_error *error);
/* No sequence may be pinned. NULL is allowed. */
void lh_kv_cache_destroy(lh_kv_cache *cache);
/* So many pages from now on, at least 1, where there were more. While no sequence is there. */
void lh_kv_cache_limit(lh_kv_cache *cache, size_t pages);
size_t lh_kv_cache_pages_total(const lh_kv_cache *cache);
size_t lh_kv_cache_pages_free(const lh_kv_cache *cache);
size_t lh_kv_cache_page_bytes(const lh_kv_cache *cache);
/* Sequences that are known by their number: freed ones that are still pinned do not count. */
size_t lh_kv_cache_sequences(const lh_kv_cache *cache);

/* NULL when there is none. */
lh_kv_sequence *lh_kv_cache_find(lh_kv_cache *cache, uint64_t sequence);
/* Makes room for positions [0, positions), creating the sequence where it is new; the length stays.
 * LH_ERR_BUSY: no free page (what the sequence had, it keeps; a new one is not created);
 * LH_ERR_LIMIT: over the context; LH_ERR_NO_MEMORY. */
lh_status lh_kv_cache_reserve(lh_kv_cache *cache, uint64_t sequence, uint32_t positions,
                              lh_kv_sequence **out, lh_error *error);
/* A new sequence of so many positions, all written, whose pages are the source's: the two share
 * them. Nothing is copied, and neither writes to them again. LH_ERR_INVALID: the sequence is there
 * already; there is no such source; positions are 0, no whole pages, or more than the source has
 * written. LH_ERR_NO_MEMORY. */
lh_status lh_kv_cache_fork(lh_kv_cache *cache, uint64_t sequence, uint64_t source,
                           uint32_t positions, lh_error *error);
/* Shortens to the whole pages of the first `length` positions; where they hold none (0 above all),
 * or a step still has the sequence pinned, forgets the number: its pages go at once, or with the
 * last pin. What is shorter already stays; a sequence that is not there is no error. */
void lh_kv_cache_truncate(lh_kv_cache *cache, uint64_t sequence, uint32_t length);
void lh_kv_cache_free_all(lh_kv_cache *cache);

/* The sequence goes on from exactly its first `positions`, and lh_kv_cache_free_unnamed leaves
 * it alone. No step has it pinned. LH_ERR_INVALID: it is not there, or fewer are written, or
 * positions is 0. */
lh_status lh_kv_cache_name(lh_kv_cache *cache, uint64_t sequence, uint32_t positions,
                           lh_error *error);
/* Forgets all sequences that have not been named since this was last called. */
void lh_kv_cache_free_unnamed(lh_kv_cache *cache);

/* While a sequence is pinned its pages stay. The last unpin frees the pages of a freed sequence and
 * one of length 0. */
void lh_kv_sequence_pin(lh_kv_sequence *sequence);
void lh_kv_cache_unpin(lh_kv_cache *cache, lh_kv_sequence *sequence);
/* Shortens to `positions` and frees the pages beyond. */
void lh_kv_sequence_shorten(lh_kv_cache *cache, lh_kv_sequence *sequence, uint32_t positions);

bool lh_kv_sequence_is_freed(const lh_kv_sequence *sequence);
/* Positions that steps which began have reserved; and of these, the ones that finished steps have
 * written. */
uint32_t lh_kv_sequence_length(const lh_kv_sequence *sequence);
void lh_kv_sequence_set_length(lh_kv_sequence *sequence, uint32_t positions);
uint32_t lh_kv_sequence_written(const lh_kv_sequence *sequence);
void lh_kv_sequence_set_written(lh_kv_sequence *sequence, uint32_t positions);
/* Valid while the sequence is pinned and not shortened; layers are counted from the first of the
 * stage. */
lh_kv_view lh_kv_sequence_view(const lh_kv_sequence *sequence, uint32_t layer);
