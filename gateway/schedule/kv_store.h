/* What the gateway has put into the KV caches of the chain: which sequence holds which blocks, on all workers alike, what of
 * it may be shared, and what is given up. Workers only obey, so this is the whole truth about their pages.
 *
 * A holding is what one number on the wire holds. It is live while its sequence runs. What it leaves then is kept as long as nobody
 * needs the room: its whole blocks are a cached prefix. New sequences of the same scope that begin with the same tokens
 * begin by sharing these blocks (a fork, PROTOCOL.md) and compute the rest:
 *
 *     holding 7   [ a ][ b ][ c ][ d ]~       live: may be shared from as soon as the rows of a block are sent
 *     holding 9   [ a ][ b ][ e ]             cached: shares a and b with 7
 *     holding 12  [ a ][ b ][ e ][ f          live: forked from 9, which is then covered by it and may go
 *
 * Cached ones are given up least recently used first, each from its end, when blocks are short or few are left free. One whose tokens another
 * one has, too, is given up at once. Giving up is a release: it travels to the workers, and its blocks are free when the whole
 * chain has taken it.
 *
 * Order on the wire (decode steps overtake prefill steps): a fork is in its sequence's first step, a prefill step. So a release
 * of a holding that has rows in prefill steps under way, or that such a step forks from, must go in a prefill step, too: it says which.
 * A holding that a sequence is to fork from, whose first step has not been sent, is pinned and keeps those blocks.
 *
 * When the chain breaks, nobody knows how far its steps had come; but what had been around the ring is on every worker. Where
 * the workers keep their caches, the next epoch begins with a roll call: it names all that goes on, with exactly so many positions, and the workers
 * forget the rest, so that both sides agree again before anything is computed (kv_store_roll.c).
 *
 * Thread: one at a time. */
#pragma once

#include "gateway/schedule/kv_block.h"
#include "gateway/schedule/prefix_index.h"
#include "worker/api/step.h"

typedef struct lh_kv_store lh_kv_store;
typedef struct lh_kv_holding lh_kv_holding;

typedef struct lh_kv_store_options {
    bool keeps_prefixes; /* else nothing is cached or shared */
    uint32_t cached_max; /* holdings: a worker has a table for each */
} lh_kv_store_options;

typedef struct lh_kv_store_figures {
    uint32_t releasing;        /* holdings whose release is to be sent or on its way */
    uint32_t ending;           /* of these, that were live when it was made */
    uint32_t cached;           /* holdings */
    uint64_t shared_positions; /* since start: that sequences did not have to compute */
    uint64_t forks;            /* since start */
    uint64_t evicted_blocks;   /* since start: cached ones that were given up */
} lh_kv_store_figures;

lh_status lh_kv_store_create(const lh_kv_store_options *options, lh_kv_store **store, lh_error *error);
/* NULL is allowed. */
void lh_kv_store_destroy(lh_kv_store *store);

/* A chain with empty KV caches; all holdings are gone, pointers to them too. stage_count 0: none. */
void lh_kv_store_reset(lh_kv_store *store, const lh_kv_ledger *chain);
const lh_kv_ledger *lh_kv_store_ledger(const lh_kv_store *store);
lh_kv_store_figures lh_kv_store_current_figures(const lh_kv_store *store);
/* Changes with everything that may make a lh_kv_store_begin possible that was not. */
uint64_t lh_kv_store_revision(const lh_kv_store *store);

/* ---- Live holdings ----------------------------------------------------------------------------------------------- */

/* Blocks for a sequence of these tokens under this number, which no holding has had on this chain; its first ones shared where that is possible, but never the last token's, which is always to be
 * computed. NULL: they are short, or with them fewer than `spare` would be left free; then cached ones have been given
 * up for it. */
lh_kv_holding *lh_kv_store_begin(lh_kv_store *store, uint64_t number, lh_prefix_scope scope,
                                 const uint32_t *tokens, uint32_t length, uint64_t spare);
/* How many of its first positions a sequence with these tokens would share, were it begun now. 0 without a chain. */
uint32_t lh_kv_store_cached_positions(const lh_kv_store *store, lh_prefix_scope scope, const uint32_t *tokens,
                                      uint32_t length);
/* Before its first rows are sent: shares more, where more has been sent by others meanwhile. */
void lh_kv_store_share_more(lh_kv_store *store, lh_kv_holding *holding, const uint32_t *tokens,
                            uint32_t length);
/* Makes room for so many positions. False: no block is free. */
bool lh_kv_store_grow(lh_kv_store *store, lh_kv_holding *holding, uint32_t positions);
/* The sequence has ended or is preempted: its whole blocks within the first `written` positions are cached, or what of them others lack. The
 * pointer is valid while steps of it are under way. */
void lh_kv_store_leave(lh_kv_store *store, lh_kv_holding *holding, uint32_t written);

uint64_t lh_kv_holding_number(const lh_kv_holding *holding);
/* Positions that it began with, as others had computed them. */
uint32_t lh_kv_store_shared_positions(const lh_kv_store *store, const lh_kv_holding *holding);
/* Blocks that it has. */
uint32_t lh_kv_holding_blocks(const lh_kv_holding *holding);
/* Positions that the whole chain is known to have computed. */
uint32_t lh_kv_holding_written(const lh_kv_holding *holding);
/* A token that was drawn after so many has come. */
void lh_kv_holding_note_written(lh_kv_holding *holding, uint32_t positions);
/* Whether a sequence is to fork from it whose first step has not been sent. */
bool lh_kv_holding_is_pinned(const lh_kv_holding *holding);

/* ---- Its steps --------------------------------------------------------------------------------------------------- */

/* Rows of it up to `positions` go out with a step. tokens: its history. Its source when it forks with them; else NULL. */
lh_kv_holding *lh_kv_store_send(lh_kv_store *store, lh_kv_holding *holding, const uint32_t *tokens,
                                uint32_t positions, lh_step_class step_class);
/* The whole chain has computed them (once for each send). */
void lh_kv_store_pass(lh_kv_store *store, lh_kv_holding *holding, lh_kv_holding *source, uint32_t positions,
                      lh_step_class step_class);
/* The step is no longer under way, after pass or without it (once for each send). */
void lh_kv_store_land(lh_kv_store *store, lh_kv_holding *holding, lh_kv_holding *source, bool has_passed,
                      lh_step_class step_class);

/* ---- Giving up --------------------------------------------------------------------------------------------------- */

/* Gives up cached blocks until so many are free or on their way back, as far as there are any. */
void lh_kv_store_make_room(lh_kv_store *store, uint64_t blocks);
/* The next release that may go in a step of this class: it is on its way then. False: none. */
bool lh_kv_store_next_release(lh_kv_store *store, lh_step_class step_class, lh_step_release *release,
                              lh_kv_holding **holding);
/* The whole chain has taken it. */
void lh_kv_store_released(lh_kv_store *store, lh_kv_holding *holding);

/* ---- When the chain breaks --------------------------------------------------------------------------------------- */

/* After the last lh_kv_store_land: of what was under way nothing counts. Releases that were are to be sent again. */
void lh_kv_store_break(lh_kv_store *store);
/* Whether something of a live holding is surely on every worker. */
bool lh_kv_holding_is_sound(const lh_kv_holding *holding);
/* After lh_kv_store_break: of a sound holding, whose sequence has `length` tokens, just what is surely written remains, less than `length`; the blocks for
 * more stay its own. False: it cannot go on from there, since it would write what others share. */
bool lh_kv_store_resume(lh_kv_store *store, lh_kv_holding *holding, uint32_t length);
/* The same, for workers of which only the last ones have what they had: its positions stand there (lh_kv_holding_standing), and none of them is written on
 * the whole chain until they have been sent to the first ones. False: it shares blocks, so it cannot; then nothing of it counts. */
bool lh_kv_store_restart(lh_kv_store *store, lh_kv_holding *holding);
uint32_t lh_kv_holding_standing(const lh_kv_holding *holding);
/* After lh_kv_store_break: what is cached goes. */
void lh_kv_store_drop_cached(lh_kv_store *store);
/* After lh_kv_store_break: the chain has these stages now. False: their pages make other blocks, or too few of them; nothing has changed. */
bool lh_kv_store_move_to(lh_kv_store *store, const lh_kv_ledger *chain);
/* All that goes on, as a roll call has it; live holdings have been resumed or restarted. At most `max` of them: the cached ones that have been
 * used least recently go. What was to be released is gone with it. Returns how many; live ones are at most max. */
uint32_t lh_kv_store_call_roll(lh_kv_store *store, lh_step_release *roll, uint32_t max);
