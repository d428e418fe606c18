/* Text to token ids and back, from a GGUF's vocabulary alone: byte-level BPE (arXiv:1508.07909) with the pre-tokenizer that
 * tokenizer.ggml.pre names. Linear time in the text. Read-only after creation: any thread. */
#pragma once

#include "common/gguf.h"
#include "common/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lh_tokenizer lh_tokenizer;

/* LH_ERR_UNSUPPORTED: tokenizer.ggml.model or .pre is not one of ours (named); LH_ERR_MALFORMED. */
lh_status lh_tokenizer_create(const lh_gguf *gguf, lh_tokenizer **tokenizer, lh_error *error);
void lh_tokenizer_destroy(lh_tokenizer *tokenizer);

uint32_t lh_tokenizer_vocabulary(const lh_tokenizer *tokenizer);
/* -1 where the model has none. */
int64_t lh_tokenizer_bos(const lh_tokenizer *tokenizer);
bool lh_tokenizer_adds_bos(const lh_tokenizer *tokenizer);
/* Tokens that end a generation (eos, eot, eom and the chat template's end of turn): static list of the tokenizer. */
const uint32_t *lh_tokenizer_stop_tokens(const lh_tokenizer *tokenizer, uint32_t *count);

/* A growing array of token ids. The caller frees `ids` with free(). */
typedef struct lh_tokens {
    uint32_t *ids;
    size_t count, capacity;
} lh_tokens;

/* Appends the tokens of text[length], valid UTF-8 (LH_ERR_MALFORMED otherwise). Special tokens are recognised only with
 * parse_special, that is in templates; a user's "<|im_end|>" is plain text. LH_ERR_NO_MEMORY. */
lh_status lh_tokenizer_encode(const lh_tokenizer *tokenizer, const char *text, size_t length, bool parse_special,
                              lh_tokens *tokens, lh_error *error);

/* The bytes of one token (may be a part of a character); "" for control tokens. Lives as long as the tokenizer.
 * LH_ERR_LIMIT: the id is not in the vocabulary. */
lh_status lh_tokenizer_token_bytes(const lh_tokenizer *tokenizer, uint32_t token, const char **bytes, size_t *length);
/* The same, but control tokens give their names ("<|im_end|>"), as logprobs show them. */
lh_status lh_tokenizer_token_name(const lh_tokenizer *tokenizer, uint32_t token, const char **bytes, size_t *length);
