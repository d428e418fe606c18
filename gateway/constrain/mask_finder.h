/* The mask of a place in the grammar, found once and kept. It is made of two parts: what is decided
 * without looking far below on the stacks, which many places share, and what is left
 * (byte_walk.h). How far "far" is, is chosen by how much would be left.
 *
 * Thread: the owner's. */
#pragma once

#include "common/base/status.h"
#include "gateway/constrain/byte_walk.h"
#include "gateway/constrain/constraint.h"
#include "gateway/constrain/mask.h"

/* The masks that are kept, and the parts that are: beyond that, all are given up and found anew. */
#define LH_MASKS_BYTES_MAX LH_CONSTRAINT_CACHE_BYTES_MAX
#define LH_PARTS_BYTES_MAX (32u << 20)

typedef struct lh_mask_finder lh_mask_finder;

/* The walk, whose trie it is, and the tokens that end a generation must outlive it.
 * LH_ERR_NO_MEMORY. */
lh_status lh_mask_finder_create(const lh_automaton *automaton, lh_byte_walk *walk,
                                const lh_token_trie *trie, const uint32_t *stop_tokens,
                                uint32_t stop_count, lh_mask_finder **finder, lh_error *error);
void lh_mask_finder_destroy(lh_mask_finder *finder);

/* The caller gets a reference to *mask; *work: what was looked at to find it, also where it fails.
 * LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_mask_finder_find(lh_mask_finder *finder, const lh_stack_pool *pool,
                              const lh_places *places, const lh_mask **mask, size_t *work,
                              lh_error *error);
