/* A tree whose nodes are found by a hash table: by parent, scope and tokens. A node lasts as long
 * as an entry stands at it or below it. */
#include "gateway/kv/prefix_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FIRST_BUCKETS 256u

struct lh_prefix_node {
    lh_prefix_node *parent; /* NULL: of the first block */
    lh_prefix_node *first_child, *previous_sibling, *next_sibling;
    lh_prefix_node *chain; /* in its bucket */
    uint64_t hash;
    lh_prefix_scope scope;
    lh_prefix_entry *entries;
    uint32_t tokens[]; /* [block_tokens] */
};

struct lh_prefix_index {
    uint32_t block_tokens;
    size_t bucket_count; /* a power of two */
    size_t node_count;
    lh_prefix_node **buckets;
};

/* ---- Life ---- */

lh_status lh_prefix_index_create(lh_prefix_index **index, lh_error *error) {
    lh_prefix_index *made = calloc(1, sizeof *made);
    if (made)
        made->buckets = calloc(FIRST_BUCKETS, sizeof(lh_prefix_node *));
    if (!made || !made->buckets) {
        free(made);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the index of prefixes");
    }
    made->bucket_count = FIRST_BUCKETS;
    *index = made;
    return LH_OK;
}

void lh_prefix_index_reset(lh_prefix_index *index, uint32_t block_tokens) {
    for (size_t i = 0; i < index->bucket_count; i++)
        while (index->buckets[i]) {
            lh_prefix_node *next = index->buckets[i]->chain;
            free(index->buckets[i]);
            index->buckets[i] = next;
        }
    index->node_count = 0;
    index->block_tokens = block_tokens;
}

void lh_prefix_index_destroy(lh_prefix_index *index) {
    if (!index)
        return;
    lh_prefix_index_reset(index, 0);
    free(index->buckets);
    free(index);
}

/* ---- Nodes ---- */

/* The table stays as it is where there is no memory for a larger one. */
static void grow(lh_prefix_index *index) {
    size_t count = index->bucket_count * 2;
    lh_prefix_node **buckets = calloc(count, sizeof(lh_prefix_node *));
    if (!buckets)
        return;
    for (size_t i = 0; i < index->bucket_count; i++)
        for (lh_prefix_node *node = index->buckets[i], *next; node; node = next) {
            next = node->chain;
            node->chain = buckets[node->hash & (count - 1)];
            buckets[node->hash & (count - 1)] = node;
        }
    free(index->buckets);
    index->buckets = buckets;
    index->bucket_count = count;
}

static bool is_same(lh_prefix_scope a, lh_prefix_scope b) {
    return a.tenant == b.tenant && a.salt == b.salt;
}

/* Scopes that get the same seed only share buckets. */
static uint64_t seed_of(lh_prefix_scope scope) {
    return scope.tenant ^ scope.salt * 0x9e3779b97f4a7c15u;
}

static uint64_t hash_of(const lh_prefix_index *index, const lh_prefix_node *parent,
                        lh_prefix_scope scope, const uint32_t *tokens) {
    return XXH3_64bits_withSeed(tokens, index->block_tokens * sizeof *tokens,
                                parent ? parent->hash : seed_of(scope));
}

static lh_prefix_node *find_child(const lh_prefix_index *index, const lh_prefix_node *parent,
                                  lh_prefix_scope scope, const uint32_t *tokens) {
    uint64_t hash = hash_of(index, parent, scope, tokens);
    lh_prefix_node *node = index->buckets[hash & (index->bucket_count - 1)];
    while (node && !(node->hash == hash && node->parent == parent && is_same(node->scope, scope) &&
                     memcmp(node->tokens, tokens, index->block_tokens * sizeof *tokens) == 0))
        node = node->chain;
    return node;
}

static lh_prefix_node *make_child(lh_prefix_index *index, lh_prefix_node *parent,
                                  lh_prefix_scope scope, const uint32_t *tokens) {
    size_t bytes = index->block_tokens * sizeof *tokens;
    lh_prefix_node *node = calloc(1, sizeof *node + bytes);
    if (!node)
        return NULL;
    if (index->node_count++ >= index->bucket_count)
        grow(index);
    node->parent = parent;
    node->scope = scope;
    node->hash = hash_of(index, parent, scope, tokens);
    memcpy(node->tokens, tokens, bytes);
    lh_prefix_node **bucket = &index->buckets[node->hash & (index->bucket_count - 1)];
    node->chain = *bucket;
    *bucket = node;
    if (!parent)
        return node;
    node->next_sibling = parent->first_child;
    if (parent->first_child)
        parent->first_child->previous_sibling = node;
    parent->first_child = node;
    return node;
}

static void remove_node(lh_prefix_index *index, lh_prefix_node *node) {
    assert(!node->entries && !node->first_child && index->node_count > 0);
    lh_prefix_node **link = &index->buckets[node->hash & (index->bucket_count - 1)];
    while (*link != node)
        link = &(*link)->chain;
    *link = node->chain;
    if (node->previous_sibling)
        node->previous_sibling->next_sibling = node->next_sibling;
    else if (node->parent)
        node->parent->first_child = node->next_sibling;
    if (node->next_sibling)
        node->next_sibling->previous_sibling = node->previous_sibling;
    index->node_count--;
    free(node);
}

static void prune(lh_prefix_index *index, lh_prefix_node *node) {
    while (node && !node->entries && !node->first_child) {
        lh_prefix_node *parent = node->parent;
        remove_node(index, node);
        node = parent;
    }
}

/* ---- Entries ---- */

static void detach(lh_prefix_entry *entry) {
    if (!entry->node)
        return;
    assert(entry->previous ? entry->previous->next == entry : entry->node->entries == entry);
    if (entry->previous)
        entry->previous->next = entry->next;
    else
        entry->node->entries = entry->next;
    if (entry->next)
        entry->next->previous = entry->previous;
    entry->previous = entry->next = NULL;
}

static void move(lh_prefix_index *index, lh_prefix_entry *entry, lh_prefix_node *node,
                 uint32_t blocks) {
    lh_prefix_node *left = entry->node;
    assert((node != NULL) == (blocks > 0) && node != left);
    detach(entry);
    entry->node = node;
    entry->blocks = blocks;
    if (node) {
        entry->next = node->entries;
        if (entry->next)
            entry->next->previous = entry;
        node->entries = entry;
    }
    prune(index, left);
}

uint32_t lh_prefix_index_find(const lh_prefix_index *index, lh_prefix_scope scope,
                              const uint32_t *tokens, uint32_t blocks_max,
                              lh_prefix_entry **entry) {
    const lh_prefix_node *node = NULL, *deeper;
    uint32_t blocks = 0;
    *entry = NULL;
    for (; blocks < blocks_max; blocks++) {
        deeper = find_child(index, node, scope, tokens + (size_t)blocks * index->block_tokens);
        if (!deeper)
            break;
        node = deeper;
    }
    while (node && !node->entries)
        node = node->first_child;
    if (node)
        *entry = node->entries;
    return blocks;
}

void lh_prefix_index_advance(lh_prefix_index *index, lh_prefix_entry *entry, lh_prefix_scope scope,
                             const uint32_t *tokens, uint32_t blocks) {
    while (entry->blocks < blocks) {
        const uint32_t *block = tokens + (size_t)entry->blocks * index->block_tokens;
        lh_prefix_node *node = find_child(index, entry->node, scope, block);
        if (!node)
            node = make_child(index, entry->node, scope, block);
        if (!node)
            return;
        move(index, entry, node, entry->blocks + 1);
    }
}

void lh_prefix_index_withdraw(lh_prefix_index *index, lh_prefix_entry *entry, uint32_t blocks) {
    lh_prefix_node *node = entry->node;
    if (blocks >= entry->blocks)
        return;
    for (uint32_t i = entry->blocks; i > blocks; i--)
        node = node->parent;
    move(index, entry, node, blocks);
}

bool lh_prefix_index_is_covered(const lh_prefix_entry *entry) {
    const lh_prefix_node *node = entry->node;
    return node && (node->first_child || node->entries != entry || entry->next);
}

lh_prefix_entry *lh_prefix_index_beside(const lh_prefix_entry *entry) {
    assert(entry->node);
    return entry->node->entries;
}
