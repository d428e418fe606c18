/* What the gateway has put into the KV caches of the chain: which sequence holds which blocks, on
 * all workers alike, what of them may be shared, and what is evicted. Workers only obey, so this is
 * the whole truth about their pages.
 *
 * A block table is what one number on the wire holds. It is live while its sequence runs. After
 * that its whole blocks stay as a cached prefix, as long as there is room. New sequences of the
 * same scope that begin with the same tokens share these blocks (a fork, PROTOCOL.md) and compute
 * the rest:
 *
 *     block table 7   [ a ][ b ][ c ][ d ]~   live: its blocks may be shared once they are sent
 *     block table 9   [ a ][ b ][ e ]         cached: shares a and b with 7
 *     block table 12  [ a ][ b ][ e ][ f      live: forked from 9, which it covers, so 9 may go
 *
 * Cached tables are evicted least recently used first, each from its end, when blocks are short or
 * few are left free (eviction.h). One whose tokens another table has, too, is freed at once. To
 * truncate or free a table takes a truncation: a record that travels to the workers in a step. The
 * blocks are free when the whole chain has taken that step.
 *
 * Order on the wire (decode steps overtake prefill steps): a fork is in its sequence's first step,
 * a prefill step. So a truncation of a block table that has rows in prefill steps under way, or
 * that such a step forks from, must go in a prefill step, too. A block table that a sequence is to
 * fork from, whose first step has not been sent, is pinned and keeps those blocks.
 *
 * When the chain breaks, nobody knows how far its steps had come; but what had been around the ring
 * is on every worker. Where the workers keep their caches, the next epoch begins with a KV resync
 * (resync.h): a list of all tables that go on, and with how many positions. The workers forget the
 * rest, so that both sides agree again before anything is computed.
 *
 * Thread: one at a time. */
#pragma once

#include "common/protocol/step.h"
#include "gateway/kv/ledger.h"
#include "gateway/kv/prefix_index.h"

typedef struct lh_kv_store lh_kv_store;
typedef struct lh_block_table lh_block_table;

typedef struct lh_kv_store_options {
    bool keeps_prefixes; /* else nothing is cached or shared */
    uint32_t cached_max; /* block tables: a worker has a table for each */
} lh_kv_store_options;

typedef struct lh_kv_store_figures {
    uint32_t truncating;       /* block tables whose truncation is to be sent or on its way */
    uint32_t ending;           /* of these, that were live when it was made */
    uint32_t cached;           /* block tables */
    uint64_t shared_positions; /* since start: positions that sequences did not have to compute */
    uint64_t forks;            /* since start */
    uint64_t evicted_blocks;   /* since start */
} lh_kv_store_figures;

lh_status lh_kv_store_create(const lh_kv_store_options *options, lh_kv_store **store,
                             lh_error *error);
/* NULL is allowed. */
void lh_kv_store_destroy(lh_kv_store *store);

/* A chain with empty KV caches; all block tables are gone, pointers to them too. stage_count 0:
 * none. */
void lh_kv_store_reset(lh_kv_store *store, const lh_kv_ledger *chain);
const lh_kv_ledger *lh_kv_store_ledger(const lh_kv_store *store);
lh_kv_store_figures lh_kv_store_current_figures(const lh_kv_store *store);
/* Changes with everything that may let a lh_kv_store_begin succeed that did not. */
uint64_t lh_kv_store_revision(const lh_kv_store *store);

/* ---- Live block tables ---- */

/* A block table for a sequence of these tokens. No other one on this chain has had the number. Its
 * first blocks are shared where that is possible and `shares` says so, but never the last token's,
 * which is always to be computed. NULL: blocks are short, or fewer than `spare` would be left free;
 * then cached ones are being evicted for it. Or no memory. It is the caller's until
 * lh_kv_store_free. */
lh_block_table *lh_kv_store_begin(lh_kv_store *store, uint64_t number, lh_prefix_scope scope,
                                  const uint32_t *tokens, uint32_t length, bool shares,
                                  uint64_t spare);
/* The same of so many positions that share nothing, and of which nothing will be shared or stay
 * cached. NULL: so many blocks are not free, or no memory; nothing is evicted for it. */
lh_block_table *lh_kv_store_begin_private(lh_kv_store *store, uint64_t number, uint32_t positions);
/* How many of its first positions a sequence with these tokens would share, were it begun now. 0
 * without a chain. */
uint32_t lh_kv_store_cached_positions(const lh_kv_store *store, lh_prefix_scope scope,
                                      const uint32_t *tokens, uint32_t length);
/* Before its first rows are sent: shares more blocks where others have sent more meanwhile. */
void lh_kv_store_share_more(lh_kv_store *store, lh_block_table *table, const uint32_t *tokens,
                            uint32_t length);
/* It has blocks for so many positions. False: none is free, or no memory. */
bool lh_kv_store_grow(lh_kv_store *store, lh_block_table *table, uint32_t positions);
/* The sequence has ended or is preempted. Its whole blocks that the chain is known to have computed
 * stay as a cached prefix, if no other table has them; the rest is freed. The pointer is valid
 * as long as steps of it are under way. */
void lh_kv_store_free(lh_kv_store *store, lh_block_table *table);

uint64_t lh_block_table_number(const lh_block_table *table);
/* Positions that it began with, since others had computed them. */
uint32_t lh_kv_store_shared_positions(const lh_kv_store *store, const lh_block_table *table);
/* Blocks that it has. */
uint32_t lh_block_table_blocks(const lh_block_table *table);
/* The whole chain has computed so many positions: the token that was sampled after them is here. */
void lh_block_table_note_written(lh_block_table *table, uint32_t positions);
/* Whether a sequence is to fork from it whose first step has not been sent. */
bool lh_block_table_is_pinned(const lh_block_table *table);

/* ---- Its steps ---- */

/* Rows of it up to `positions` go out with a step, the first ones with a prefill step. tokens: its
 * history. Returns the table that it forks from with these rows; else NULL. */
lh_block_table *lh_kv_store_send(lh_kv_store *store, lh_block_table *table, const uint32_t *tokens,
                                 uint32_t positions, lh_step_class step_class);
/* The whole chain has computed them (once for each send). */
void lh_kv_store_pass(lh_block_table *table, lh_block_table *source, uint32_t positions,
                      lh_step_class step_class);
/* The step is no longer under way, whether it has passed or not (once for each send). */
void lh_kv_store_land(lh_block_table *table, lh_block_table *source, bool has_passed,
                      lh_step_class step_class);

/* ---- Truncate and free ---- */

/* Evicts cached blocks until so many are free or on their way back, as far as there are any. */
void lh_kv_store_make_room(lh_kv_store *store, uint64_t blocks);
/* The next truncation that may go in a step of this class: it is on its way then. False: none. */
bool lh_kv_store_next_truncation(lh_kv_store *store, lh_step_class step_class,
                                 lh_step_truncation *truncation, lh_block_table **table);
/* The whole chain has taken the table's truncation. The table may be gone then. */
void lh_kv_store_finish_truncation(lh_kv_store *store, lh_block_table *table);

/* ---- When the chain breaks ---- */

/* After the last lh_kv_store_land; tables of which nothing was sent have been freed. Nothing that
 * was under way counts, and truncations are to be sent again. */
void lh_kv_store_break(lh_kv_store *store);
/* A sound block table, whose sequence has `length` tokens, goes on from what is surely written,
 * less than `length`; it keeps the blocks for more. False: it cannot, since it would write what
 * others share. */
bool lh_kv_store_resume(lh_kv_store *store, lh_block_table *table, uint32_t length);
/* The same where only the last workers have kept their caches: its positions stand there, and none
 * is written on the whole chain until it has been sent to the first ones again. False: it shares
 * blocks, so it cannot; then nothing of it counts. */
bool lh_kv_store_restart(lh_kv_store *store, lh_block_table *table);
/* Frees all that is cached. */
void lh_kv_store_drop_cached(lh_kv_store *store);
/* The chain has these stages now. False: their pages make other blocks, or too few of them; nothing
 * has changed. */
bool lh_kv_store_move_to(lh_kv_store *store, const lh_kv_ledger *chain);
/* The KV resync: lists all tables that go on, of which the live ones, at most `max`, have been
 * resumed or restarted. Returns how many, at most `max`: the least recently used of the cached ones
 * are freed. No truncation is to be sent any more, since the workers forget what is not listed. */
uint32_t lh_kv_store_resync(lh_kv_store *store, lh_step_truncation *resync, uint32_t max);
