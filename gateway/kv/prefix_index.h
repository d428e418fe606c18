/* Which block tables on the chain begin with the same tokens: a tree of blocks of tokens for each
 * scope. An entry stands for a table, at the node of its last whole block; so all tables at a node
 * or below it have the node's tokens in the KV caches, and any of them may be shared from.
 *
 * A node is found by the hash of its tokens and of where it hangs, and believed when the tokens are
 * the same: two prompts whose hashes collide never get each other's pages. The scope is part of the
 * node, from the first block on: no tenant can find, or time, what another one's prompts have left;
 * with a salt, nor can one user of a tenant find another one's.
 *
 * Thread: one at a time. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

typedef struct lh_prefix_index lh_prefix_index;
typedef struct lh_prefix_node lh_prefix_node;

/* Within which prefixes are shared. */
typedef struct lh_prefix_scope {
    uint64_t tenant, salt; /* salt: by which a tenant keeps its requests apart; 0: it does not */
} lh_prefix_scope;

/* Embedded in the block table; zeroed: nowhere. */
typedef struct lh_prefix_entry lh_prefix_entry;
struct lh_prefix_entry {
    lh_prefix_node *node; /* NULL: nowhere */
    LIST_ENTRY(lh_prefix_entry) beside;
    uint32_t blocks; /* of tokens, from the first on */
};

lh_status lh_prefix_index_create(lh_prefix_index **index, lh_error *error);
/* NULL is allowed. Entries must not be used afterwards. */
void lh_prefix_index_destroy(lh_prefix_index *index);
/* Empties it; blocks have so many tokens from then on. Entries must not be used again. */
void lh_prefix_index_reset(lh_prefix_index *index, uint32_t block_tokens);

/* How many of the first blocks_max blocks of these tokens the longest match in the scope has;
 * *entry is one that has them, NULL where there is none. */
uint32_t lh_prefix_index_find(const lh_prefix_index *index, lh_prefix_scope scope,
                              const uint32_t *tokens, uint32_t blocks_max, lh_prefix_entry **entry);
/* Moves the entry on to so many blocks (no fewer than it has) of these tokens, of which its own are
 * the first. Without memory it stays on the way. */
void lh_prefix_index_advance(lh_prefix_index *index, lh_prefix_entry *entry, lh_prefix_scope scope,
                             const uint32_t *tokens, uint32_t blocks);
/* Moves it back to fewer blocks; 0: nowhere. */
void lh_prefix_index_withdraw(lh_prefix_index *index, lh_prefix_entry *entry, uint32_t blocks);
/* Whether another entry has all the tokens that this one has. */
bool lh_prefix_index_is_covered(const lh_prefix_entry *entry);
/* The first of the entries that stand at the same node, itself among them; their `beside` goes on.
 * The entry is somewhere. */
lh_prefix_entry *lh_prefix_index_beside(const lh_prefix_entry *entry);
