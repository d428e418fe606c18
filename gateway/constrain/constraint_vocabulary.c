/* A tokenizer and its trie. */
#include "gateway/constrain/constraint_vocabulary.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

struct lh_constraint_vocabulary {
    atomic_uint holders;
    const lh_tokenizer *tokenizer;
    lh_token_trie *trie;
};

lh_status lh_constraint_vocabulary_create(const lh_tokenizer *tokenizer,
                                          lh_constraint_vocabulary **vocabulary, lh_error *error) {
    lh_constraint_vocabulary *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a trie of tokens");
    atomic_init(&made->holders, 1);
    made->tokenizer = tokenizer;
    lh_status status = lh_token_trie_create(tokenizer, &made->trie, error);
    if (status) {
        lh_constraint_vocabulary_release(made);
        return status;
    }
    *vocabulary = made;
    return LH_OK;
}

/* What is counted is no part of what it says. */
static lh_constraint_vocabulary *counted(const lh_constraint_vocabulary *vocabulary) {
    return (lh_constraint_vocabulary *)(uintptr_t)vocabulary;
}

const lh_constraint_vocabulary *
lh_constraint_vocabulary_acquire(const lh_constraint_vocabulary *vocabulary) {
    atomic_fetch_add(&counted(vocabulary)->holders, 1);
    return vocabulary;
}

void lh_constraint_vocabulary_release(const lh_constraint_vocabulary *vocabulary) {
    if (!vocabulary || atomic_fetch_sub(&counted(vocabulary)->holders, 1) > 1)
        return;
    lh_token_trie_destroy(vocabulary->trie);
    free(counted(vocabulary));
}

const lh_tokenizer *lh_constraint_vocabulary_tokenizer(const lh_constraint_vocabulary *vocabulary) {
    return vocabulary->tokenizer;
}

const lh_token_trie *lh_constraint_vocabulary_trie(const lh_constraint_vocabulary *vocabulary) {
    return vocabulary->trie;
}
