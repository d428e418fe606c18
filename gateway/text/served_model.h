/* The model that this gateway serves, as the API sees it. Read-only after start: any thread. */
#pragma once

#include "gateway/text/chat_template.h"
#include "gateway/text/model_pooling.h"
#include "gateway/text/sampling_defaults.h"
#include "gateway/text/tokenizer.h"

typedef struct lh_served_model {
    const char *id;          /* "SmolLM2-135M-Instruct.Q4_1" */
    const char *aliases;     /* further names, as model_aliases.h has them; NULL: none */
    const char *fingerprint; /* "fp_" and 16 hex: build, model digest and numeric mode */
    int64_t created;         /* Unix seconds: the file's modification time */
    uint32_t context;        /* that requests may have at most: the model's own, or less */
    uint32_t trained_context, vocabulary, width;
    lh_model_pooling pooling;
    lh_sampling_defaults sampling; /* of requests that do not say */
    const lh_tokenizer *tokenizer;
    /* NULL: the file has none that we know, and chat_refusal says why */
    const lh_chat_template *chat_template;
    const char *chat_refusal;
    /* What is told of its file, which it points into. */
    lh_text architecture;     /* "llama" */
    uint64_t file_bytes;      /* all parts of it */
    uint64_t parameters;      /* numbers in its tensors */
    const char *quantization; /* the type of most of its bytes: "Q4_K"; static; NULL: none */
    const char *digest;       /* SHA-256 of its header, in hex; NULL: none */
} lh_served_model;
