/* The vocabulary of the real model that LONGHAUL_TEST_MODEL names, as tokenizers with any pre-tokenizer. */
#pragma once

#include "gateway/tokenizer.h"

/* Opens the model; NULL, with a word on standard output, when the variable is not set or the file is not
 * there. */
typedef struct model_vocabulary model_vocabulary;
model_vocabulary *model_vocabulary_open(void);
void model_vocabulary_close(model_vocabulary *model);

const lh_gguf *model_vocabulary_gguf(const model_vocabulary *model);

/* The tokenizer of the model's tokens and merges, then `extra` control tokens (with the next ids), with this
 * tokenizer.ggml.pre. Aborts on failure. */
lh_tokenizer *model_vocabulary_tokenizer(const model_vocabulary *model, const char *pre,
                                         const char *const *extra, size_t extra_count);
