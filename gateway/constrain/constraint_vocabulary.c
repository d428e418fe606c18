/* A tokenizer and its trie. */
#include "gateway/constrain/constraint_vocabulary.h"

#include <stdlib.h>

struct lh_constraint_vocabulary {
    const lh_tokenizer *tokenizer;
    lh_token_trie *trie;
};

lh_status lh_constraint_vocabulary_create(const lh_tokenizer *tokenizer,
                                          lh_constraint_vocabulary **vocabulary, lh_error *error) {
    lh_constraint_vocabulary *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for a trie of tokens");
    made->tokenizer = tokenizer;
    lh_status status = lh_token_trie_create(tokenizer, &made->trie, error);
    if (status) {
        lh_constraint_vocabulary_destroy(made);
        return status;
    }
    *vocabulary = made;
    return LH_OK;
}

void lh_constraint_vocabulary_destroy(lh_constraint_vocabulary *vocabulary) {
    if (!vocabulary)
        return;
    lh_token_trie_destroy(vocabulary->trie);
    free(vocabulary);
}

const lh_tokenizer *lh_constraint_vocabulary_tokenizer(const lh_constraint_vocabulary *vocabulary) {
    return vocabulary->tokenizer;
}

const lh_token_trie *lh_constraint_vocabulary_trie(const lh_constraint_vocabulary *vocabulary) {
    return vocabulary->trie;
}
