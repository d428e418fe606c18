/* A trie. Nodes are chained by sibling; the first byte has a table of its own, since most text ends
 * there. */
#include "gateway/text/special_tokens.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#define NO_NODE 0 /* node 0 is the root, which is nobody's child */

typedef struct node {
    uint32_t child, sibling;
    int32_t token; /* that ends here, or -1 */
    char byte;
    bool anywhere; /* a user-defined token */
} node;

struct lh_special_tokens {
    node *nodes; /* [capacity] */
    uint32_t count, capacity;
    uint32_t first[256]; /* children of the root */
};

static uint32_t find_child(const lh_special_tokens *special, uint32_t parent, char byte) {
    if (parent == 0)
        return special->first[(uint8_t)byte];
    uint32_t child = special->nodes[parent].child;
    while (child != NO_NODE && special->nodes[child].byte != byte)
        child = special->nodes[child].sibling;
    return child;
}

static uint32_t add_child(lh_special_tokens *special, uint32_t parent, char byte) {
    assert(special->count < special->capacity);
    uint32_t child = special->count++;
    special->nodes[child] = (node){.token = -1, .byte = byte};
    if (parent == 0) {
        special->first[(uint8_t)byte] = child;
    } else {
        special->nodes[child].sibling = special->nodes[parent].child;
        special->nodes[parent].child = child;
    }
    return child;
}

static lh_status add_token(lh_special_tokens *special, lh_text text, uint32_t token, bool anywhere,
                           lh_error *error) {
    uint32_t at = 0;
    for (size_t i = 0; i < text.length; i++) {
        uint32_t child = find_child(special, at, text.bytes[i]);
        at = child != NO_NODE ? child : add_child(special, at, text.bytes[i]);
    }
    if (special->nodes[at].token >= 0)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "tokenizer.ggml.tokens[%u] is the same as tokens[%d]", token,
                       special->nodes[at].token);
    special->nodes[at].token = (int32_t)token;
    special->nodes[at].anywhere = anywhere;
    return LH_OK;
}

static bool is_special(const lh_vocabulary *vocabulary, uint32_t token) {
    lh_token_type type = lh_vocabulary_type(vocabulary, token);
    return (type == LH_TOKEN_CONTROL || type == LH_TOKEN_UNKNOWN ||
            type == LH_TOKEN_USER_DEFINED) &&
           lh_vocabulary_name(vocabulary, token).length > 0;
}

static lh_status add_all(lh_special_tokens *special, const lh_vocabulary *vocabulary,
                         lh_error *error) {
    lh_status status = LH_OK;
    for (uint32_t token = 0; token < lh_vocabulary_count(vocabulary) && !status; token++)
        if (is_special(vocabulary, token))
            status =
                add_token(special, lh_vocabulary_name(vocabulary, token), token,
                          lh_vocabulary_type(vocabulary, token) == LH_TOKEN_USER_DEFINED, error);
    return status;
}

/* Room for every byte of every name, at worst. */
static lh_status count_nodes(const lh_vocabulary *vocabulary, size_t *nodes, lh_error *error) {
    *nodes = 1;
    for (uint32_t token = 0; token < lh_vocabulary_count(vocabulary); token++) {
        size_t length = lh_vocabulary_name(vocabulary, token).length;
        if (!is_special(vocabulary, token))
            continue;
        if (length > LH_SPECIAL_TOKEN_BYTES_MAX)
            return lh_fail(error, LH_ERR_LIMIT,
                           "special token tokenizer.ggml.tokens[%u] has %zu bytes, more than %d",
                           token, length, LH_SPECIAL_TOKEN_BYTES_MAX);
        *nodes += length;
    }
    return *nodes > UINT32_MAX ? lh_fail(error, LH_ERR_LIMIT, "too many special tokens") : LH_OK;
}

lh_status lh_special_tokens_create(const lh_vocabulary *vocabulary, lh_special_tokens **special,
                                   lh_error *error) {
    size_t nodes;
    lh_status status = count_nodes(vocabulary, &nodes, error);
    if (status)
        return status;
    lh_special_tokens *made = calloc(1, sizeof *made);
    if (made)
        made->nodes = calloc(nodes, sizeof *made->nodes);
    if (!made || !made->nodes) {
        lh_special_tokens_destroy(made);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for the special tokens");
    }
    made->count = 1;
    made->capacity = (uint32_t)nodes;
    made->nodes[0].token = -1;
    if ((status = add_all(made, vocabulary, error))) {
        lh_special_tokens_destroy(made);
        return status;
    }
    *special = made;
    return LH_OK;
}

void lh_special_tokens_destroy(lh_special_tokens *special) {
    if (!special)
        return;
    free(special->nodes);
    free(special);
}

int64_t lh_special_tokens_match(const lh_special_tokens *special, const char *text, size_t length,
                                size_t control_length, size_t *size) {
    int64_t found = -1;
    uint32_t at = 0;
    for (size_t i = 0; i < length; i++) {
        at = find_child(special, at, text[i]);
        if (at == NO_NODE)
            break;
        if (special->nodes[at].token >= 0 && (special->nodes[at].anywhere || i < control_length)) {
            found = special->nodes[at].token;
            *size = i + 1;
        }
    }
    return found;
}
