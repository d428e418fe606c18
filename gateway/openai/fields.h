/* Every field of a request body that this API knows, and what it does with it: so that a field that
 * it knows but cannot honour is refused by name, one that changes nothing is taken, and one that
 * nobody knows is counted. Thread: any. */
#pragma once

#include "gateway/openai/body_reader.h"

#include <stddef.h>

typedef enum lh_openai_endpoint {
    LH_OPENAI_CHAT = 1,
    LH_OPENAI_COMPLETIONS = 2,
    LH_OPENAI_RESPONSES = 4,
    LH_OPENAI_MESSAGES = 8, /* Anthropic's */
    LH_OPENAI_EMBEDDINGS = 16,
    /* Ollama's: /api/chat, generate, embed, and embeddings, which is an elder form of that. */
    LH_OPENAI_OLLAMA_CHAT = 32,
    LH_OPENAI_OLLAMA_GENERATE = 64,
    LH_OPENAI_OLLAMA_EMBED = 128,
    LH_OPENAI_OLLAMA_EMBEDDINGS = 256,
    LH_OPENAI_OLLAMA_RAW = 512,     /* what generate is where no template is wanted */
    LH_OPENAI_OLLAMA_OPTIONS = 1024 /* no endpoint, but the object of that name in their bodies */
} lh_openai_endpoint;

/* Whether it takes a conversation: all do but those of prompts. */
static inline bool lh_openai_is_chat(lh_openai_endpoint endpoint) {
    return !(endpoint & (LH_OPENAI_COMPLETIONS | LH_OPENAI_EMBEDDINGS | LH_OPENAI_OLLAMA_EMBED |
                         LH_OPENAI_OLLAMA_EMBEDDINGS | LH_OPENAI_OLLAMA_RAW));
}

/* Walks the body's fields, or draws them; how many of them are in no table, which strict makes
 * errors. Ranges and types of the fields that are honoured are their parsers' business. */
size_t lh_openai_fields_check(const lh_body_reader *body, lh_openai_endpoint endpoint, bool strict);
