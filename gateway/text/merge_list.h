/* The symbols of a word, joined pair by pair until none of the pairs can be joined: the pair of the
 * lowest rank first, the leftmost among equals. Both kinds of byte-pair encoding work on it (bpe.h,
 * spm.h): they differ in what ranks a pair. O(n log n) in the number of symbols. Thread: the
 * owner's. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

#define LH_MERGE_NEVER   UINT32_MAX /* the rank of a pair that is not to be joined */
#define LH_MERGE_NOWHERE UINT32_MAX /* the position before the first symbol, and after the last */

typedef struct lh_merge_symbol {
    uint32_t token;          /* the owner's */
    uint32_t previous, next; /* positions */
    /* of the pair that begins here: its rank, and the token that it becomes */
    uint32_t rank, joined;
} lh_merge_symbol;

/* Grows to the longest word. An empty one is {0}. */
typedef struct lh_merge_list {
    lh_merge_symbol *symbols; /* [capacity]; positions may be left out */
    uint64_t *heap;
    size_t capacity, heap_count;
} lh_merge_list;

void lh_merge_list_reset(lh_merge_list *list);

/* Room for a word of `length` positions; what was there is lost. LH_ERR_LIMIT: 2 GiB;
 * LH_ERR_NO_MEMORY. */
lh_status lh_merge_list_reserve(lh_merge_list *list, size_t length, lh_error *error);

/* The rank of the pair of symbols that begins at `position`, and in *joined the token that it
 * becomes; LH_MERGE_NEVER. */
typedef uint32_t (*lh_merge_rank)(const void *source, const lh_merge_list *list, uint32_t position,
                                  uint32_t *joined);

/* Joins the symbols. The caller has set token, previous and next of each; the first is at position
 * 0, and stays there. */
void lh_merge_list_run(lh_merge_list *list, lh_merge_rank rank_of, const void *source);
