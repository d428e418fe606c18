/* A tree whose nodes are found by a hash table: by parent, scope and tokens. A node lasts as long
 * as an entry stands at it or below it. */
#include "gateway/kv/prefix_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define FIRST_BUCKETS 256u

LIST_HEAD(prefix_nodes, lh_prefix_node);

struct lh_prefix_node {
    lh_prefix_node *parent; /* NULL: of the first block */
    struct prefix_nodes children;
    LIST_ENTRY(lh_prefix_node) siblings; /* where there is a parent */
    LIST_ENTRY(lh_prefix_node) bucket;
    uint64_t hash;
    lh_prefix_scope scope;
    LIST_HEAD(, lh_prefix_entry) entries;
    uint32_t tokens[]; /* [block_tokens] */
};

struct lh_prefix_index {
    uint32_t block_tokens;
    size_t bucket_count; /* a power of two */
    size_t node_count;
    struct prefix_nodes *buckets;
};

/* ---- Life ---- */

lh_status lh_prefix_index_create(lh_prefix_index **index, lh_error *error) {
    lh_prefix_index *made = calloc(1, sizeof *made);
    if (made)
        made->buckets = calloc(FIRST_BUCKETS, sizeof *made->buckets);
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
        for (lh_prefix_node *node; (node = LIST_FIRST(&index->buckets[i]));) {
            LIST_REMOVE(node, bucket);
            free(node);
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
    struct prefix_nodes *buckets = calloc(count, sizeof *buckets);
    if (!buckets)
        return;
    for (size_t i = 0; i < index->bucket_count; i++)
        for (lh_prefix_node *node; (node = LIST_FIRST(&index->buckets[i]));) {
            LIST_REMOVE(node, bucket);
            LIST_INSERT_HEAD(&buckets[node->hash & (count - 1)], node, bucket);
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

static struct prefix_nodes *bucket_of(const lh_prefix_index *index, uint64_t hash) {
    return &index->buckets[hash & (index->bucket_count - 1)];
}

static lh_prefix_node *find_child(const lh_prefix_index *index, const lh_prefix_node *parent,
                                  lh_prefix_scope scope, const uint32_t *tokens) {
    uint64_t hash = hash_of(index, parent, scope, tokens);
    lh_prefix_node *node;
    LIST_FOREACH(node, bucket_of(index, hash), bucket) {
        if (node->hash == hash && node->parent == parent && is_same(node->scope, scope) &&
            memcmp(node->tokens, tokens, index->block_tokens * sizeof *tokens) == 0)
            break;
    }
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
    LIST_INSERT_HEAD(bucket_of(index, node->hash), node, bucket);
    if (parent)
        LIST_INSERT_HEAD(&parent->children, node, siblings);
    return node;
}

static void prune(lh_prefix_index *index, lh_prefix_node *node) {
    while (node && LIST_EMPTY(&node->entries) && LIST_EMPTY(&node->children)) {
        lh_prefix_node *parent = node->parent;
        assert(index->node_count > 0);
        index->node_count--;
        LIST_REMOVE(node, bucket);
        if (parent)
            LIST_REMOVE(node, siblings);
        free(node);
        node = parent;
    }
}

/* ---- Entries ---- */

static void move(lh_prefix_index *index, lh_prefix_entry *entry, lh_prefix_node *node,
                 uint32_t blocks) {
    lh_prefix_node *left = entry->node;
    assert((node != NULL) == (blocks > 0) && node != left);
    if (left)
        LIST_REMOVE(entry, beside);
    entry->node = node;
    entry->blocks = blocks;
    if (node)
        LIST_INSERT_HEAD(&node->entries, entry, beside);
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
    while (node && LIST_EMPTY(&node->entries))
        node = LIST_FIRST(&node->children);
    if (node)
        *entry = LIST_FIRST(&node->entries);
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
    return node && (!LIST_EMPTY(&node->children) || LIST_FIRST(&node->entries) != entry ||
                    LIST_NEXT(entry, beside));
}

lh_prefix_entry *lh_prefix_index_beside(const lh_prefix_entry *entry) {
    assert(entry->node);
    return LIST_FIRST(&entry->node->entries);
}
