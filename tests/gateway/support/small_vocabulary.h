/* Small vocabularies of a test's own, to change at will, and the GGUF that says so. */
#pragma once

#include "common/gguf/gguf.h"

#include <stdbool.h>
#include <stdint.h>

#define SMALL_TOKENS_MAX 512
#define SMALL_MERGES_MAX 128

/* What a file says. Texts are the caller's, and must live until it is written. */
typedef struct small_vocabulary {
    const char *model, *pre; /* NULL: the key is not there */
    const char *tokens[SMALL_TOKENS_MAX];
    int32_t types[SMALL_TOKENS_MAX];
    size_t token_count, type_count; /* no types: the key is not there */
    const char *merges[SMALL_MERGES_MAX];
    size_t merge_count;
    float scores[SMALL_TOKENS_MAX];
    size_t score_count;                  /* 0: the key is not there */
    bool without_tokens, without_merges; /* the key is not there */
    int64_t bos, eos, eot, eom, unknown; /* -1: not there */
    int add_bos, add_space;              /* -1: not there */
} small_vocabulary;

/* Tokens 0 .. 255 are the bytes, in GPT-2's alphabet; no merges. */
small_vocabulary small_vocabulary_of_bytes(void);
/* The same and 256 "he", 257 "ll", 258 "hell", 259 "hello", 260 " w", with the merges for them in
 * this order; then 261 <s> control, 262 <s>x control, 263 [ud] user-defined, 264 <unk> unknown, 265
 * <x> unused, 266 two spaces, user-defined. */
small_vocabulary small_vocabulary_rich(void);

/* SentencePiece's: 0 .. 255 are the byte tokens; 256 <unk> unknown, 257 <s> control, 258 [ud]
 * user-defined, 259 three spaces, user-defined; no scores yet. */
small_vocabulary small_vocabulary_spm(void);
/* A normal token of SentencePiece's, with its score. */
void small_vocabulary_piece(small_vocabulary *vocabulary, const char *text, float score);

/* Types are GGUF's numbers. */
void small_vocabulary_add(small_vocabulary *vocabulary, const char *text, int32_t type);
void small_vocabulary_merge(small_vocabulary *vocabulary, const char *merge);

/* The file, parsed. Aborts when it cannot be. */
typedef struct small_gguf {
    lh_gguf *gguf;
    uint8_t *bytes;
} small_gguf;

small_gguf small_vocabulary_open(const small_vocabulary *vocabulary);
void small_gguf_close(small_gguf *opened);
