/* Inside the store of KV blocks: a holding, for the files kv_store*.c alone. */
#pragma once

#include "gateway/schedule/kv_store.h"

#include <sys/queue.h>

struct lh_kv_holding {
    uint64_t number;
    lh_prefix_scope scope;
    lh_kv_block **blocks; /* [block_count] */
    uint32_t block_count, block_capacity;
    uint32_t shared;   /* blocks that it began with */
    uint32_t written;  /* positions */
    uint32_t standing; /* positions that the last roll call names it with, where it is live */
    bool is_live, is_sent;
    bool is_cached;        /* in the queue of those: not live, and keeps blocks */
    lh_kv_holding *source; /* until its first rows are sent; NULL: it forks from none */
    lh_prefix_entry entry; /* blocks that may be shared from */

    uint32_t pins, pinned_blocks; /* sequences that are to fork from it, and how far */
    uint32_t flights;             /* steps under way that have rows of it or fork from it */
    uint32_t prefill_flights;     /* of these, prefill steps that the chain has not computed */

    /* A release, one at a time: of the blocks from `keep` on. */
    enum { LH_KV_STAYS, LH_KV_TO_RELEASE, LH_KV_RELEASING } leaving;
    uint32_t keep;
    bool is_ending; /* it was live when the release was made */

    LIST_ENTRY(lh_kv_holding) all;
    TAILQ_ENTRY(lh_kv_holding) cached;   /* least recently used first */
    TAILQ_ENTRY(lh_kv_holding) releases; /* to be sent */
};

LIST_HEAD(lh_kv_holdings, lh_kv_holding);
TAILQ_HEAD(lh_kv_holding_queue, lh_kv_holding);

struct lh_kv_store {
    lh_kv_store_options options;
    lh_kv_ledger ledger;
    lh_kv_blocks blocks;
    lh_prefix_index *index;
    uint64_t revision;
    struct lh_kv_holdings holdings;
    struct lh_kv_holding_queue cached, releases;
    lh_kv_store_figures figures;
};

/* Blocks that it will have when its release is through. */
static inline uint32_t lh_kv_holding_kept(const lh_kv_holding *holding) {
    return holding->leaving == LH_KV_STAYS ? holding->block_count : holding->keep;
}

/* Blocks from `keep` on are to be released: there are some, the holding is not live, and no release of it is on its way. */
void lh_kv_store_shorten(lh_kv_store *store, lh_kv_holding *holding, uint32_t keep);
/* Frees the record where nothing needs it any more. */
void lh_kv_store_forget_if_unneeded(lh_kv_store *store, lh_kv_holding *holding);
