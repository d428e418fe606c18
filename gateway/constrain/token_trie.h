/* The bytes of all tokens as a trie, laid out in the order of a walk that goes deep first: what
 * follows a node is its first child, or else what comes after its subtree. Read-only after
 * creation: any thread. */
#pragma once

#include "common/base/status.h"
#include "gateway/text/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A longer token is refused. The longest of real vocabularies have 128 to 512 bytes. */
#define LH_TOKEN_TRIE_DEPTH_MAX 1024

typedef struct lh_token_node {
    uint32_t end;   /* the first node behind the subtree */
    uint32_t first; /* in lh_token_trie.tokens: those that end here, up to the next node's first */
    uint16_t depth; /* bytes from the root, > 0 */
    uint8_t byte;   /* the last of them */
} lh_token_node;

/* Has all tokens that have bytes, but those that end a generation. */
typedef struct lh_token_trie {
    uint32_t vocabulary;  /* tokens, also those that have no bytes */
    size_t node_count;    /* the root is none of them */
    lh_token_node *nodes; /* [node_count + 1]; the last has only `first`, to end the one before */
    uint32_t *tokens;     /* in the order of their bytes */
    size_t token_count;
    uint32_t depth_max; /* bytes of the longest token, > 0 */
} lh_token_trie;

/* Keeps nothing of the tokenizer. LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_token_trie_create(const lh_tokenizer *tokenizer, lh_token_trie **trie,
                               lh_error *error);
void lh_token_trie_destroy(lh_token_trie *trie);

/* Whether a token begins with these bytes and goes on behind them. */
bool lh_token_trie_goes_on(const lh_token_trie *trie, const char *bytes, size_t length);
