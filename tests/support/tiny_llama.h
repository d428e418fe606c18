/* A whole `llama` model, or one of another architecture, with random weights, small enough for a
 * unit test: hyper-parameters, tensors, a byte-level vocabulary and a ChatML template, so that a
 * stage, a tokenizer and a fleet can all run on it. */
#pragma once

#include "tests/support/gguf_writer.h"

typedef struct tiny_llama {
    uint32_t layers, width, feed_forward_width, heads, kv_heads, head_dim, context;
    /* >= TINY_LLAMA_VOCABULARY_MIN: 256 bytes, three control tokens, the rest are fillers */
    uint32_t vocabulary;
    lh_dtype type; /* of the layers' matrices */
    lh_dtype embedding_type;
    bool head_tied;
    uint64_t seed;
    const char *architecture; /* and what it has; NULL: llama, and nothing more */
    bool has_biases, has_head_norms, has_post_norms;
    uint32_t window, window_period; /* 0: no key for it */
    /* experts > 0: a mixture, with an expert that all rows go through where shared_width > 0 */
    uint32_t experts, experts_used, expert_width, shared_width;
    bool has_row_norms, has_shared_router;
    uint32_t leading_dense, expert_groups; /* half of the groups are used; 0: no key for them */
    /* latent_rank > 0: attention is latent; query_rank 0: queries are made of the layer's row */
    uint32_t latent_rank, query_rank;
    bool has_whole_kv; /* its matrix of keys and values is one */
    bool has_sinks;    /* and biases everywhere, and the second norm by another name */
    bool lacks_pre_norms;
    bool is_qkv_fused, is_up_fused; /* q, k, v in one tensor; gate and up in one */
} tiny_llama;

/* Of a head where attention is latent: its key, what is rotated besides, its value. */
enum { TINY_LATENT_KEY = 32, TINY_LATENT_ROTATED = 8, TINY_LATENT_VALUE = 24 };

#define TINY_LLAMA_VOCABULARY_MIN 259u

/* Two layers, 64 wide, 4 heads over 2 KV heads of 16, feed-forward 128, context 256, vocabulary
 * 288, Q4_1 and Q8_0, tied. */
tiny_llama tiny_llama_default(void);
/* The same as qwen2, qwen3, granite, phi3, glm4, olmo2, exaone4, smollm3, a mixture (qwen2moe,
 * qwen3moe, olmoe, granitemoe, gpt-oss: of 7 experts, 3 of which are used), or gemma3 (there with a
 * window of 12 positions in every layer but each third, of three layers). */
tiny_llama tiny_llama_of(const char *architecture);

/* The same, 192 wide and with 12 heads over 4 KV heads, so that most of several members
 * (division.h) have some heads of a KV head. */
tiny_llama tiny_llama_wide(tiny_llama model);

/* Tensors in the order in which llama.cpp's converter writes them. */
gguf_writer *tiny_llama_writer(const tiny_llama *model);
/* The file: malloc'd, the caller frees. */
uint8_t *tiny_llama_bytes(const tiny_llama *model, size_t *length);
void tiny_llama_save(const tiny_llama *model, const char *path);
