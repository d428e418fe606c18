/* Cuts text into the words that byte-pair encoding then works on, by the regular expressions that
 * tokenizer.ggml.pre names. Read-only after creation: any thread. */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct lh_pre_tokenizer lh_pre_tokenizer;

/* name[length] is the value of tokenizer.ggml.pre. LH_ERR_UNSUPPORTED: not one of ours (the message
 * lists them); LH_ERR_NO_MEMORY, LH_ERR_INTERNAL. */
lh_status lh_pre_tokenizer_create(const char *name, size_t length, lh_pre_tokenizer **pre,
                                  lh_error *error);
void lh_pre_tokenizer_destroy(lh_pre_tokenizer *pre);

/* What goes with an expression. */
typedef struct lh_pre_traits {
    bool whole_words; /* a word that is a token is that token, whatever the merges say */
    bool adds_bos;    /* a text begins with bos, where the file does not say */
    bool composes; /* the text is composed first (nfc.h), as tokenizer.json of Qwen 2 and 3 says */
} lh_pre_traits;

lh_pre_traits lh_pre_tokenizer_traits(const lh_pre_tokenizer *pre);

/* The scan of one text after another, for one thread. */
typedef struct lh_word_scan lh_word_scan;

/* `pre` must outlive the scan. LH_ERR_NO_MEMORY. */
lh_status lh_word_scan_create(const lh_pre_tokenizer *pre, lh_word_scan **scan, lh_error *error);
void lh_word_scan_destroy(lh_word_scan *scan);

/* Begins text[length], valid UTF-8, which must stay until the last word was taken. is_open: more
 * text will follow, and those words are the last of which it could not make others. */
void lh_word_scan_begin(lh_word_scan *scan, const char *text, size_t length, bool is_open);
/* The next word, in order and without gaps. LH_AGAIN: the text is used up; LH_ERR_NO_MEMORY;
 * LH_ERR_INTERNAL. */
lh_status lh_word_scan_next(lh_word_scan *scan, const char **word, size_t *length, lh_error *error);
