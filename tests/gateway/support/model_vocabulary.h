/* The vocabulary of a real model, as tokenizers with any pre-tokenizer. */
#pragma once

#include "gateway/text/tokenizer.h"

/* Opens the model that an environment variable names (LONGHAUL_TEST_MODEL); NULL, with a word on
 * standard output, when it is not set or the file is not there. */
typedef struct model_vocabulary model_vocabulary;
model_vocabulary *model_vocabulary_open(const char *variable);
void model_vocabulary_close(model_vocabulary *model);

const lh_gguf *model_vocabulary_gguf(const model_vocabulary *model);

typedef struct model_vocabulary_options {
    const char *pre;          /* tokenizer.ggml.pre */
    const char *const *extra; /* control tokens that follow the model's own: [extra_count] */
    size_t extra_count;
    const char *bos, *eos; /* the texts of these tokens, or NULL */
    bool add_bos;
} model_vocabulary_options;

/* A tokenizer of the model's tokens and merges, but for the options. Aborts on failure. */
lh_tokenizer *model_vocabulary_tokenizer(const model_vocabulary *model,
                                         model_vocabulary_options options);
