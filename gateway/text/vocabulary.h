/* The tokens of a GGUF's vocabulary: type, bytes and name of each, and the way back from bytes to
 * an id. Read-only after creation: any thread. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"

#include <stddef.h>
#include <stdint.h>

typedef enum lh_token_type { /* GGUF's numbers */
                             LH_TOKEN_NORMAL = 1,
                             LH_TOKEN_UNKNOWN = 2,
                             LH_TOKEN_CONTROL = 3,
                             LH_TOKEN_USER_DEFINED = 4,
                             LH_TOKEN_UNUSED = 5,
                             LH_TOKEN_BYTE = 6
} lh_token_type;

/* How the file writes the bytes of a token. */
typedef enum lh_spelling {
    LH_SPELLING_BYTE_LEVEL,   /* in GPT-2's alphabet, a character for each byte */
    LH_SPELLING_SENTENCEPIECE /* as UTF-8, with U+2581 for a space */
} lh_spelling;

typedef struct lh_vocabulary lh_vocabulary;

/* Reads tokenizer.ggml.tokens and .token_type; copies what it keeps. LH_ERR_MALFORMED names the
 * entry: empty vocabulary, lists of different length, unknown type, a normal token that is not in
 * the spelling or is there twice. Of a file without .token_type all tokens are normal but for the
 * bytes of SentencePiece's; normal tokens that are marks (end_tokens.h), or that eos, eot or eom
 * name, are taken as control unless a merge makes them: both with a warning. LH_ERR_LIMIT,
 * LH_ERR_NO_MEMORY. */
lh_status lh_vocabulary_create(const lh_gguf *gguf, lh_spelling spelling,
                               lh_vocabulary **vocabulary, lh_error *error);
void lh_vocabulary_destroy(lh_vocabulary *vocabulary);

uint32_t lh_vocabulary_count(const lh_vocabulary *vocabulary);

/* For token < count. Texts live as long as the vocabulary; every one is followed by a NUL that is
 * not counted. */
lh_token_type lh_vocabulary_type(const lh_vocabulary *vocabulary, uint32_t token);
/* What the token adds to an answer: nothing for control, unknown and unused tokens. */
lh_text lh_vocabulary_bytes(const lh_vocabulary *vocabulary, uint32_t token);
/* The same, but control, unknown and unused tokens give the text they have in the file:
 * "<|im_end|>". */
lh_text lh_vocabulary_name(const lh_vocabulary *vocabulary, uint32_t token);

/* The normal token of these bytes, or -1. */
int64_t lh_vocabulary_find(const lh_vocabulary *vocabulary, const char *bytes, size_t length);
