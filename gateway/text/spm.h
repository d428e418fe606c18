/* SentencePiece's byte-pair encoding (arXiv:1808.06226): pieces of a text are joined as long as the
 * two together are a token, the token with the highest score first, the leftmost among equals.
 * There are no words: a space is a character like any other. A character that no token holds
 * becomes its bytes' tokens ("<0xE2>"), or the unknown token. O(n log n) in the text. Read-only
 * after creation: any thread. */
#pragma once

#include "common/base/status.h"
#include "common/base/text_buffer.h"
#include "common/gguf/gguf.h"
#include "gateway/text/merge_list.h"
#include "gateway/text/tokens.h"
#include "gateway/text/vocabulary.h"

#include <stdbool.h>

/* A longer normal token is refused: every step looks for as many bytes. Real ones have up to 48. */
#define LH_SPM_TOKEN_BYTES_MAX 512

typedef struct lh_spm lh_spm;

/* Reads tokenizer.ggml.scores, .add_space_prefix (true where it is absent) and .unknown_token_id.
 * The vocabulary must outlive it. LH_ERR_MALFORMED: scores that are missing, too few, or no finite
 * number; some, but not all, of the 256 byte tokens, or one twice; neither byte tokens nor an
 * unknown token. LH_ERR_LIMIT: a normal token is too long. LH_ERR_NO_MEMORY. */
lh_status lh_spm_create(const lh_gguf *gguf, const lh_vocabulary *vocabulary, lh_spm **spm,
                        lh_error *error);
void lh_spm_destroy(lh_spm *spm);

/* Scratch for one thread. An empty one is {0}. */
typedef struct lh_spm_work {
    lh_merge_list list;
    lh_text_buffer text;
} lh_spm_work;

void lh_spm_work_reset(lh_spm_work *work);

/* Appends the tokens of text[length], valid UTF-8. `begins`: nothing or a special token is in front
 * of it; there the models that want one get a space. U+2581, which the vocabularies write for a
 * space, counts as one. LH_ERR_LIMIT: 2 GiB; LH_ERR_NO_MEMORY: some tokens may have been appended.
 */
lh_status lh_spm_encode(const lh_spm *spm, lh_spm_work *work, const char *text, size_t length,
                        bool begins, lh_tokens *tokens, lh_error *error);
