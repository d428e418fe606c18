/* What one sequence has on the chain: its block table, and how far its history has been sent there.
 *
 *     0          computed          length
 *     |   sent   |     pending     |         as a rule
 *     0   computed   restored      length
 *     | sent | again |   pending   |         the last stages kept their caches: the positions up to
 *                                            `restored` are sent again, to the first stages alone
 *
 * Only this file changes the fields; everyone may read them. Thread: one at a time. */
#pragma once

#include "gateway/kv/kv_store.h"

typedef struct lh_sequence_kv {
    /* NULL: none. A sequence that waits has one only where it keeps something of a broken chain. */
    lh_block_table *table;
    /* block tables so far: each has a number of its own on the wire */
    uint32_t tables;
    /* positions that are on the chain or on their way: shared ones, then those that were sent */
    uint32_t computed;
    /* positions that the last stages have and the first ones are to get again; 0: none */
    uint32_t restored;
    /* the most positions that were ever sent */
    uint32_t reached;
    /* rows have been sent since it got its block table */
    bool is_begun;
    /* its very first rows have been sent; of the positions before them, nothing was computed */
    bool is_cache_known;
    uint32_t cached_tokens;
} lh_sequence_kv;

/* A block table for all tokens, sharing as many positions as are there already where `shares` says
 * so. False: blocks are short, or fewer than `spare` would be left (lh_kv_store_begin). */
bool lh_sequence_kv_begin(lh_sequence_kv *kv, lh_kv_store *store, uint64_t sequence,
                          lh_prefix_scope scope, const uint32_t *tokens, uint32_t length,
                          bool shares, uint64_t spare);
/* The same for so many positions, alone: it shares nothing, nobody shares anything of it, nothing
 * is evicted for it and nothing of it stays. */
bool lh_sequence_kv_begin_private(lh_sequence_kv *kv, lh_kv_store *store, uint64_t sequence,
                                  uint32_t positions);
/* Before its first rows are sent: shares what others have sent meanwhile. Returns whether that is
 * more than before. */
bool lh_sequence_kv_share_more(lh_sequence_kv *kv, lh_kv_store *store, const uint32_t *tokens,
                               uint32_t length);
/* Blocks for its next rows. False: too few are free. */
bool lh_sequence_kv_grow(lh_sequence_kv *kv, lh_kv_store *store, uint32_t rows);
/* Whether its next rows are for the first stages alone. */
bool lh_sequence_kv_is_restoring(const lh_sequence_kv *kv);
/* How many of its next rows have been sent before, after a break or a preemption. */
uint32_t lh_sequence_kv_replayed(const lh_sequence_kv *kv, uint32_t rows);
/* Its next rows go out in a step. Returns the block table that they fork from; NULL: none. */
lh_block_table *lh_sequence_kv_send(lh_sequence_kv *kv, lh_kv_store *store, const uint32_t *tokens,
                                    uint32_t rows, lh_step_class step_class);
/* It has nothing on the chain any more; what is written of it stays cached. */
void lh_sequence_kv_leave(lh_sequence_kv *kv, lh_kv_store *store);

/* ---- When the chain breaks: after lh_kv_store_break ---- */

/* It keeps what is surely on every worker, or leaves where nothing is. */
void lh_sequence_kv_break(lh_sequence_kv *kv, lh_kv_store *store);
/* The store is about to be reset, and the block table with it. */
void lh_sequence_kv_drop(lh_sequence_kv *kv);
/* It goes on from what all workers have (lh_kv_store_resume); or the first stages are new, and get
 * again what the last ones have (lh_kv_store_restart). False: it cannot. */
bool lh_sequence_kv_resume(lh_sequence_kv *kv, lh_kv_store *store, uint32_t length);
bool lh_sequence_kv_restart(lh_sequence_kv *kv, lh_kv_store *store);
