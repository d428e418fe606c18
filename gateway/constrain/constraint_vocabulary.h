/* A tokenizer's tokens, as constraints need them: a trie of their bytes. Made once for a tokenizer
 * (some 100 ms and 20 MB for 262,144 tokens). Read-only after creation: any thread. */
#pragma once

#include "common/base/status.h"
#include "gateway/constrain/token_trie.h"
#include "gateway/text/tokenizer.h"

typedef struct lh_constraint_vocabulary lh_constraint_vocabulary;

/* The tokenizer must outlive it. The caller holds one reference, each constraint another one.
 * LH_ERR_LIMIT: a token of more than 1,024 bytes; LH_ERR_NO_MEMORY. */
lh_status lh_constraint_vocabulary_create(const lh_tokenizer *tokenizer,
                                          lh_constraint_vocabulary **vocabulary, lh_error *error);
/* Another reference. Any thread. */
const lh_constraint_vocabulary *
lh_constraint_vocabulary_acquire(const lh_constraint_vocabulary *vocabulary);
/* NULL is allowed. Any thread. */
void lh_constraint_vocabulary_release(const lh_constraint_vocabulary *vocabulary);

const lh_tokenizer *lh_constraint_vocabulary_tokenizer(const lh_constraint_vocabulary *vocabulary);
const lh_token_trie *lh_constraint_vocabulary_trie(const lh_constraint_vocabulary *vocabulary);
