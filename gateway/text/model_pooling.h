/* How a model's file says that the hidden states of a text become its embedding. Thread: any. */
#pragma once

#include "common/gguf/gguf.h"

typedef enum lh_model_pooling_kind {
    LH_MODEL_POOLS_MEAN, /* also where the file says nothing */
    LH_MODEL_POOLS_FIRST,
    LH_MODEL_POOLS_LAST,
    LH_MODEL_POOLS_OTHERWISE /* it ranks, or what a later writer means: no embedding can be told */
} lh_model_pooling_kind;

typedef struct lh_model_pooling {
    lh_model_pooling_kind kind;
    bool appends_eos; /* texts end with the token that ends a sequence */
} lh_model_pooling;

/* Reads {architecture}.pooling_type and tokenizer.ggml.add_eos_token. */
lh_model_pooling lh_model_pooling_read(const lh_gguf *gguf);
