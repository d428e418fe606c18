/* Tokens sorted by their bytes stand in the order of the walk. */
#include "gateway/constrain/token_trie.h"

#include "common/base/arithmetic.h"
#include "common/base/growing_array.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *bytes;
    size_t length;
    uint32_t token;
} entry;

static int compare_entries(const void *a, const void *b) {
    const entry *x = a, *y = b;
    size_t shared = x->length < y->length ? x->length : y->length;
    int order = memcmp(x->bytes, y->bytes, shared);
    if (order)
        return order;
    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

static bool is_stop_token(const lh_tokenizer *tokenizer, uint32_t token) {
    uint32_t count;
    const uint32_t *stops = lh_tokenizer_stop_tokens(tokenizer, &count);
    for (uint32_t i = 0; i < count; i++)
        if (stops[i] == token)
            return true;
    return false;
}

static lh_status read_entries(const lh_tokenizer *tokenizer, entry *entries, size_t *count,
                              lh_error *error) {
    uint32_t vocabulary = lh_tokenizer_vocabulary(tokenizer);
    *count = 0;
    for (uint32_t token = 0; token < vocabulary; token++) {
        entry *read = &entries[*count];
        lh_status status = lh_tokenizer_token_bytes(tokenizer, token, &read->bytes, &read->length);
        if (status)
            return lh_fail(error, status, "token %u has no bytes to be read", token);
        if (read->length > LH_TOKEN_TRIE_DEPTH_MAX)
            return lh_fail(error, LH_ERR_LIMIT, "token %u has %zu bytes, more than %u", token,
                           read->length, LH_TOKEN_TRIE_DEPTH_MAX);
        read->token = token;
        *count += read->length > 0 && !is_stop_token(tokenizer, token);
    }
    return LH_OK;
}

static size_t shared_prefix(const entry *a, const entry *b) {
    size_t at = 0;
    while (at < a->length && at < b->length && a->bytes[at] == b->bytes[at])
        at++;
    return at;
}

/* The nodes on the way from the root to the last token; they end where another way begins. */
typedef struct way {
    uint32_t nodes[LH_TOKEN_TRIE_DEPTH_MAX];
    size_t length;
} way;

static void shorten(lh_token_trie *trie, way *open, size_t length) {
    while (open->length > length)
        trie->nodes[open->nodes[--open->length]].end = (uint32_t)trie->node_count;
}

/* All nodes; the tokens' own order is that of the entries. */
static lh_status fill_nodes(lh_token_trie *trie, const entry *entries, size_t count,
                            lh_error *error) {
    size_t capacity = 0;
    way open = {.length = 0};
    for (size_t i = 0; i < count; i++) {
        shorten(trie, &open, i > 0 ? shared_prefix(&entries[i - 1], &entries[i]) : 0);
        if (!lh_growing_array_reserve(&trie->nodes, &capacity,
                                      trie->node_count + entries[i].length + 1,
                                      sizeof *trie->nodes))
            return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a trie of tokens");
        while (open.length < entries[i].length) {
            trie->nodes[trie->node_count] =
                (lh_token_node){.first = (uint32_t)i,
                                .depth = (uint16_t)(open.length + 1),
                                .byte = (uint8_t)entries[i].bytes[open.length]};
            open.nodes[open.length++] = (uint32_t)trie->node_count++;
        }
        trie->tokens[i] = entries[i].token;
        trie->depth_max = lh_max_u32(trie->depth_max, (uint32_t)entries[i].length);
    }
    shorten(trie, &open, 0);
    if (count > 0)
        trie->nodes[trie->node_count] = (lh_token_node){.first = (uint32_t)count};
    trie->token_count = count;
    return LH_OK;
}

lh_status lh_token_trie_create(const lh_tokenizer *tokenizer, lh_token_trie **trie,
                               lh_error *error) {
    lh_token_trie *made = calloc(1, sizeof *made);
    uint32_t vocabulary = lh_tokenizer_vocabulary(tokenizer);
    entry *entries = calloc((size_t)vocabulary + 1, sizeof *entries);
    size_t count = 0;
    lh_status status = LH_OK;
    if (made)
        made->tokens = calloc((size_t)vocabulary + 1, sizeof *made->tokens);
    if (!made || !entries || !made->tokens)
        status = lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a trie of tokens");
    else
        status = read_entries(tokenizer, entries, &count, error);
    if (!status) {
        made->vocabulary = vocabulary;
        made->depth_max = 1;
        qsort(entries, count, sizeof *entries, compare_entries);
        status = fill_nodes(made, entries, count, error);
    }
    free(entries);
    if (status) {
        lh_token_trie_destroy(made);
        return status;
    }
    *trie = made;
    return LH_OK;
}

void lh_token_trie_destroy(lh_token_trie *trie) {
    if (!trie)
        return;
    free(trie->tokens);
    free(trie->nodes);
    free(trie);
}

bool lh_token_trie_goes_on(const lh_token_trie *trie, const char *bytes, size_t length) {
    size_t at = 0, end = trie->node_count, depth = 0;
    while (depth < length && at < end) {
        if (trie->nodes[at].byte != (uint8_t)bytes[depth]) {
            at = trie->nodes[at].end;
            continue;
        }
        end = trie->nodes[at].end;
        at++;
        depth++;
    }
    return depth == length && at < end;
}
