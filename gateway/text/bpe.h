/* Byte-pair encoding of one word: adjacent symbols are merged in the order of the merges' ranks,
 * the leftmost first among equals, until no pair is in the list. O(n log n) in the length of the
 * word. Read-only after creation: any thread. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"
#include "gateway/text/merge_list.h"
#include "gateway/text/tokens.h"
#include "gateway/text/vocabulary.h"

#include <stdbool.h>

typedef struct lh_bpe lh_bpe;

/* Reads tokenizer.ggml.merges. The vocabulary must outlive it. whole_words: a word that is a token
 * is that token, whatever the merges say ("ignore_merges"). LH_ERR_MALFORMED names the entry: no
 * two parts, a part or the result is not in the vocabulary, the same pair twice. LH_ERR_NO_MEMORY.
 */
lh_status lh_bpe_create(const lh_gguf *gguf, const lh_vocabulary *vocabulary, bool whole_words,
                        lh_bpe **bpe, lh_error *error);
void lh_bpe_destroy(lh_bpe *bpe);

/* Appends the tokens of word[length]; `list` is scratch. A byte that the vocabulary lacks is
 * dropped, as the `tokenizers` library does: vocabularies that lack some lack those that occur in
 * no UTF-8, or next to never. LH_ERR_LIMIT: a word of 2 GiB; LH_ERR_NO_MEMORY. */
lh_status lh_bpe_encode_word(const lh_bpe *bpe, lh_merge_list *list, const char *word,
                             size_t length, lh_tokens *tokens, lh_error *error);
