/* Text to token ids and back, from a GGUF's vocabulary alone: byte-level BPE (arXiv:1508.07909)
 * with the pre-tokenizer that tokenizer.ggml.pre names, or SentencePiece's BPE (spm.h). Time is as
 * good as linear in the text. Read-only after creation: any thread. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"
#include "gateway/text/fill_marks.h"
#include "gateway/text/tokens.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_tokenizer lh_tokenizer;

/* Keeps nothing of `gguf`. LH_ERR_UNSUPPORTED: tokenizer.ggml.model or .pre is not one of ours
 * (named); LH_ERR_MALFORMED names the entry; LH_ERR_LIMIT; LH_ERR_NO_MEMORY. A file without .pre is
 * taken as "default", with a warning. */
lh_status lh_tokenizer_create(const lh_gguf *gguf, lh_tokenizer **tokenizer, lh_error *error);
void lh_tokenizer_destroy(lh_tokenizer *tokenizer);

uint32_t lh_tokenizer_vocabulary(const lh_tokenizer *tokenizer);
/* -1 where the model has none. */
int64_t lh_tokenizer_bos(const lh_tokenizer *tokenizer);
int64_t lh_tokenizer_eos(const lh_tokenizer *tokenizer);
int64_t lh_tokenizer_pad(const lh_tokenizer *tokenizer);
/* Whether the model has all marks to fill something in between two texts (fill_marks.h). */
bool lh_tokenizer_fills(const lh_tokenizer *tokenizer);
/* One of them, where it has them. */
uint32_t lh_tokenizer_fill_mark(const lh_tokenizer *tokenizer, lh_fill_mark mark);
/* The caller puts bos in front of a text that begins a sequence; encode does not. (A file's wish
 * for eos behind every text is for training, and ignored: an answer goes on from the text.) */
bool lh_tokenizer_adds_bos(const lh_tokenizer *tokenizer);
/* Tokens that end a generation (eos, eot, eom and the chat template's end of turn): static list of
 * the tokenizer. */
const uint32_t *lh_tokenizer_stop_tokens(const lh_tokenizer *tokenizer, uint32_t *count);

/* Appends the tokens of text[length], valid UTF-8 (LH_ERR_MALFORMED otherwise). Special tokens are
 * recognised only with parse_special, that is in templates; a user's "<|im_end|>" is plain text.
 * (Tokens of the type "user-defined" are text, and are found in either.) LH_ERR_LIMIT: 2 GiB of
 * text; LH_ERR_NO_MEMORY. On failure some tokens may have been appended. */
lh_status lh_tokenizer_encode(const lh_tokenizer *tokenizer, const char *text, size_t length,
                              bool parse_special, lh_tokens *tokens, lh_error *error);

typedef struct lh_text_segment {
    const char *text;
    size_t length;
    bool parse_special;
} lh_text_segment;

/* The same for a text put together from segments: tokens may cross from one into the next, as they
 * would in the whole text, but special tokens must lie in segments with parse_special. */
lh_status lh_tokenizer_encode_segments(const lh_tokenizer *tokenizer,
                                       const lh_text_segment *segments, size_t count,
                                       lh_tokens *tokens, lh_error *error);

/* Whether text is cut into words before it is divided into tokens: none crosses their borders. */
bool lh_tokenizer_has_words(const lh_tokenizer *tokenizer);

/* Appends the tokens of text[length] as a part of an answer: nothing is put in front of it, no
 * special token is recognised, and no character is composed with another, so that the tokens' bytes
 * are the text. is_open: the text will go on, and of a tokenizer with words only those are divided
 * that stay as they are, whatever follows. The errors are those of lh_tokenizer_encode. */
lh_status lh_tokenizer_encode_inside(const lh_tokenizer *tokenizer, const char *text, size_t length,
                                     bool is_open, lh_tokens *tokens, lh_error *error);

/* The bytes of one token (may be a part of a character); "" for control tokens. Lives as long as
 * the tokenizer. LH_ERR_LIMIT: the id is not in the vocabulary. */
lh_status lh_tokenizer_token_bytes(const lh_tokenizer *tokenizer, uint32_t token,
                                   const char **bytes, size_t *length);
/* The same, but control tokens give their names ("<|im_end|>"), as logprobs show them. */
lh_status lh_tokenizer_token_name(const lh_tokenizer *tokenizer, uint32_t token, const char **bytes,
                                  size_t *length);
