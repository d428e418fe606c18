/* A walk through the trie of tokens from a place in the automaton: which tokens can be read from
 * there. What a byte does at a set of places is worked out once in a walk, so that most nodes of
 * the trie cost one look into a table (an automaton made deterministic as far as it is needed).
 *
 * A walk may know less of the stacks than there is: then tokens whose reading comes to the end of
 * what is known are undecided, and are collected (as XGrammar does, arXiv:2411.15100). Since counts
 * beyond the longest token's bytes cannot make a difference to a token, they are taken as one.
 *
 * Thread: the owner's. */
#pragma once

#include "common/base/status.h"
#include "gateway/constrain/closure.h"
#include "gateway/constrain/stack_copier.h"
#include "gateway/constrain/token_trie.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lh_byte_walk lh_byte_walk;

/* The automaton, the closure (scratch that is the walk's while one of its functions runs) and the
 * trie must outlive it. LH_ERR_NO_MEMORY. */
lh_status lh_byte_walk_create(const lh_automaton *automaton, lh_closure *closure,
                              const lh_token_trie *trie, lh_byte_walk **walk, lh_error *error);
void lh_byte_walk_destroy(lh_byte_walk *walk);

/* The walks of one mask come next, until this is called again: they may take so long together. */
void lh_byte_walk_open(lh_byte_walk *walk);
/* What they have looked at since. */
size_t lh_byte_walk_work(const lh_byte_walk *walk);

/* Begins at these places, whose stacks are in `pool` and of which so much is known
 * (stack_copier.h), and gives in *key what they are, as far as they are known: equal keys, equal
 * walks. LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_byte_walk_begin(lh_byte_walk *walk, const lh_stack_pool *pool, const lh_places *places,
                             uint32_t depth, lh_stack_hash *key, lh_error *error);

/* Parts of the trie that are undecided: all below a node, but not the node itself. */
typedef struct lh_undecided {
    uint32_t *nodes; /* [count]: ascending, none in another's subtree */
    uint8_t *paths;  /* the bytes from the root to each, one after the other */
    size_t count, capacity, path_bytes, path_capacity;
    size_t covered; /* nodes in these parts */
} lh_undecided;

/* An empty one is {0}. */
void lh_undecided_reset(lh_undecided *undecided);

/* Sets the bits of all tokens that can be read, but for those undecided, which are appended.
 * words[(vocabulary + 63) / 64]. LH_ERR_LIMIT: too many ways to read a token; LH_ERR_NO_MEMORY. */
lh_status lh_byte_walk_run(lh_byte_walk *walk, uint64_t *words, lh_undecided *undecided,
                           lh_error *error);
/* Sets the bits of those tokens in the undecided parts that can be read. The walk has begun with
 * all of the stacks. The errors are the same. */
lh_status lh_byte_walk_decide(lh_byte_walk *walk, const lh_undecided *undecided, uint64_t *words,
                              lh_error *error);
