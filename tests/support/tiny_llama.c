/* The keys and tensor names of GGUF's `llama` architecture. */
#include "tests/support/tiny_llama.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char chatml[] = "{% for message in messages %}{{'<|im_start|>' + message['role'] + "
                             "'\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if "
                             "add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

tiny_llama tiny_llama_default(void) {
    return (tiny_llama){.layers = 2,
                        .width = 64,
                        .feed_forward_width = 128,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_dim = 16,
                        .context = 256,
                        .vocabulary = 288,
                        .type = LH_DTYPE_Q4_1,
                        .embedding_type = LH_DTYPE_Q8_0,
                        .head_tied = true,
                        .seed = 1};
}

/* The printable character that stands for a byte in a byte-level vocabulary, as UTF-8. */
static void byte_character(unsigned byte, char out[3]) {
    unsigned code = byte, unprintable = 0;
    for (unsigned i = 0; i <= byte; i++)
        unprintable += !((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || (i >= 174 && i <= 255));
    if (!((byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174))
        code = 256 + unprintable - 1;
    if (code < 0x80) {
        out[0] = (char)code;
        out[1] = 0;
    } else {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        out[2] = 0;
    }
}

static void write_vocabulary(gguf_writer *writer, uint32_t vocabulary) {
    enum { NORMAL = 1, CONTROL = 3 };
    static const char *const controls[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    char(*names)[24] = calloc(vocabulary, sizeof *names);
    const char **tokens = calloc(vocabulary, sizeof *tokens);
    int32_t *types = calloc(vocabulary, sizeof *types);
    assert(names && tokens && types && vocabulary >= TINY_LLAMA_VOCABULARY_MIN);
    for (uint32_t i = 0; i < vocabulary; i++) {
        tokens[i] = names[i];
        types[i] = NORMAL;
        if (i < 3) {
            snprintf(names[i], sizeof names[i], "%s", controls[i]);
            types[i] = CONTROL;
        } else if (i < 259) {
            byte_character(i - 3, names[i]);
        } else {
            snprintf(names[i], sizeof names[i], "<filler%u>", i);
        }
    }
    gguf_writer_text(writer, "tokenizer.ggml.model", "gpt2");
    gguf_writer_text(writer, "tokenizer.ggml.pre", "smollm");
    gguf_writer_text_array(writer, "tokenizer.ggml.tokens", tokens, vocabulary);
    gguf_writer_i32_array(writer, "tokenizer.ggml.token_type", types, vocabulary);
    gguf_writer_text_array(writer, "tokenizer.ggml.merges", NULL, 0);
    gguf_writer_u32(writer, "tokenizer.ggml.bos_token_id", 1);
    gguf_writer_u32(writer, "tokenizer.ggml.eos_token_id", 2);
    gguf_writer_bool(writer, "tokenizer.ggml.add_bos_token", false);
    gguf_writer_text(writer, "tokenizer.chat_template", chatml);
    free(types);
    free(tokens);
    free(names);
}

static void add_experts(tiny_llama *model) {
    bool is_qwen2 = strcmp(model->architecture, "qwen2moe") == 0,
         is_gpt_oss = strcmp(model->architecture, "gpt-oss") == 0;
    model->experts = 7;
    model->experts_used = 3;
    model->expert_width = 96;
    model->shared_width = is_qwen2 || strcmp(model->architecture, "granitemoe") == 0 ? 64 : 0;
    model->has_shared_router = is_qwen2;
    model->has_biases = is_qwen2 || is_gpt_oss;
    model->has_sinks = is_gpt_oss;
    model->window = is_gpt_oss ? 12 : 0;
    model->has_head_norms = strcmp(model->architecture, "qwen3moe") == 0;
    model->has_row_norms = strcmp(model->architecture, "olmoe") == 0;
}

/* As V3 is: queries of a rank of their own, groups of experts, a dense layer before them. */
static void add_latent(tiny_llama *model) {
    model->experts = 8;
    model->experts_used = 3;
    model->expert_width = 96;
    model->shared_width = 64;
    model->expert_groups = 4;
    model->leading_dense = 1;
    model->latent_rank = 32;
    model->query_rank = 64;
}

tiny_llama tiny_llama_of(const char *architecture) {
    bool is_gemma = strcmp(architecture, "gemma3") == 0,
         is_olmo = strcmp(architecture, "olmo2") == 0,
         is_exaone = strcmp(architecture, "exaone4") == 0,
         is_glm = strcmp(architecture, "glm4") == 0;
    tiny_llama model = tiny_llama_default();
    model.architecture = architecture;
    model.has_biases = strcmp(architecture, "qwen2") == 0;
    model.has_head_norms = is_gemma || is_exaone || strcmp(architecture, "qwen3") == 0;
    model.has_row_norms = is_olmo;
    model.has_post_norms = is_gemma || is_olmo || is_exaone || is_glm;
    model.lacks_pre_norms = is_olmo || is_exaone;
    model.is_qkv_fused = strcmp(architecture, "phi3") == 0;
    model.is_up_fused = model.is_qkv_fused || is_glm;
    if (strstr(architecture, "moe") || strcmp(architecture, "gpt-oss") == 0)
        add_experts(&model);
    if (strcmp(architecture, "deepseek2") == 0)
        add_latent(&model);
    if (is_gemma) {
        model.layers = model.window_period = 3;
        model.window = 12;
    }
    return model;
}

tiny_llama tiny_llama_wide(tiny_llama model) {
    model.width = 192;
    model.heads = 12;
    model.kv_heads = 4;
    model.head_dim = 32;
    model.feed_forward_width = 352;
    return model;
}

static const char *architecture_of(const tiny_llama *m) {
    return m->architecture ? m->architecture : "llama";
}

static const char *key_of(char key[64], const tiny_llama *m, const char *suffix) {
    snprintf(key, 64, "%s.%s", architecture_of(m), suffix);
    return key;
}

static uint32_t head_dim_of(const tiny_llama *m) {
    return m->latent_rank > 0 ? TINY_LATENT_KEY + TINY_LATENT_ROTATED : m->head_dim;
}

/* Older files say how long a head's key and value are, newer ones of the row that is kept. */
static uint32_t key_length_of(const tiny_llama *m) {
    bool is_newer = m->latent_rank > 0 && !m->has_whole_kv;
    return is_newer ? m->latent_rank + TINY_LATENT_ROTATED : head_dim_of(m);
}

static uint32_t value_length_of(const tiny_llama *m) {
    bool is_newer = m->latent_rank > 0 && !m->has_whole_kv;
    return is_newer ? m->latent_rank : m->latent_rank > 0 ? TINY_LATENT_VALUE : m->head_dim;
}

static void write_config(gguf_writer *writer, const tiny_llama *m) {
    const struct {
        const char *suffix;
        uint32_t value;
    } counts[] = {
        {"block_count", m->layers},
        {"context_length", m->context},
        {"embedding_length", m->width},
        {"feed_forward_length", m->feed_forward_width},
        {"attention.head_count", m->heads},
        {"attention.head_count_kv", m->kv_heads},
        {"attention.key_length", key_length_of(m)},
        {"attention.value_length", value_length_of(m)},
        {"attention.key_length_mla", m->latent_rank > 0 && !m->has_whole_kv ? head_dim_of(m) : 0},
        {"attention.value_length_mla",
         m->latent_rank > 0 && !m->has_whole_kv ? TINY_LATENT_VALUE : 0},
        {"attention.kv_lora_rank", m->latent_rank},
        {"attention.q_lora_rank", m->query_rank},
        {"attention.sliding_window", m->window},
        {"attention.sliding_window_pattern", m->window_period},
        {"rope.dimension_count", m->latent_rank > 0 ? TINY_LATENT_ROTATED : m->head_dim},
        {"expert_count", m->experts},
        {"expert_used_count", m->experts_used},
        {"expert_feed_forward_length", m->expert_width},
        {"expert_shared_feed_forward_length", m->shared_width},
        {"leading_dense_block_count", m->leading_dense},
        {"expert_group_count", m->expert_groups},
        {"expert_group_used_count", m->expert_groups / 2},
        {"vocab_size", m->vocabulary},
    };
    char key[64];
    gguf_writer_text(writer, "general.architecture", architecture_of(m));
    gguf_writer_text(writer, "general.name", "tiny llama");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i].value > 0)
            gguf_writer_u32(writer, key_of(key, m, counts[i].suffix), counts[i].value);
    gguf_writer_f32(writer, key_of(key, m, "rope.freq_base"), 10000.0f);
    gguf_writer_f32(writer, key_of(key, m, "attention.layer_norm_rms_epsilon"), 1e-5f);
}

static const char *layer_name(char name[64], uint32_t layer, const char *part) {
    snprintf(name, 64, "blk.%u.%s.weight", layer, part);
    return name;
}

static void write_bias(gguf_writer *w, uint32_t layer, const char *part, uint64_t outputs) {
    char name[64];
    snprintf(name, sizeof name, "blk.%u.%s.bias", layer, part);
    gguf_writer_tensor(w, name, LH_DTYPE_F32, 1, &outputs, 1.0f);
}

/* What gpt-oss has. */
static void write_sinks_and_biases(gguf_writer *w, const tiny_llama *m, uint32_t layer) {
    static const char *const parts[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
    const uint64_t heads = m->heads;
    char name[64];
    gguf_writer_tensor(w, layer_name(name, layer, "attn_sinks"), LH_DTYPE_F32, 1, &heads, 1.0f);
    write_bias(w, layer, "attn_output", m->width);
    write_bias(w, layer, "ffn_gate_inp", m->experts);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "blk.%u.%s.bias", layer, parts[i]);
        gguf_writer_tensor(w, name, LH_DTYPE_F32, 2,
                           (const uint64_t[]){i == 2 ? m->width : m->expert_width, m->experts},
                           1.0f);
    }
}

/* What only some architectures have. */
static void write_layer_options(gguf_writer *w, const tiny_llama *m, uint32_t layer) {
    char name[64];
    if (m->has_biases) {
        write_bias(w, layer, "attn_q", (uint64_t)m->heads * m->head_dim);
        write_bias(w, layer, "attn_k", (uint64_t)m->kv_heads * m->head_dim);
        write_bias(w, layer, "attn_v", (uint64_t)m->kv_heads * m->head_dim);
    }
    if (m->has_head_norms) {
        gguf_writer_gain(w, layer_name(name, layer, "attn_q_norm"), m->head_dim, 0.5f);
        gguf_writer_gain(w, layer_name(name, layer, "attn_k_norm"), m->head_dim, 0.5f);
    }
    if (m->has_row_norms) {
        gguf_writer_gain(w, layer_name(name, layer, "attn_q_norm"), m->heads * m->head_dim, 0.5f);
        gguf_writer_gain(w, layer_name(name, layer, "attn_k_norm"), m->kv_heads * m->head_dim,
                         0.5f);
    }
    if (m->has_sinks)
        write_sinks_and_biases(w, m, layer);
    if (m->has_post_norms) {
        gguf_writer_gain(w, layer_name(name, layer, "post_attention_norm"), m->width, 0.5f);
        gguf_writer_gain(w, layer_name(name, layer, "post_ffw_norm"), m->width, 0.5f);
    }
}

/* Of so many experts. */
static void write_feed_forward(gguf_writer *w, const tiny_llama *m, uint32_t layer,
                               const char *suffix, uint64_t wide, uint64_t experts) {
    const uint64_t up[] = {m->width, wide, experts}, down[] = {wide, m->width, experts};
    uint32_t dimensions = experts > 1 ? 3 : 2;
    static const char *const parts[] = {"ffn_gate", "ffn_up", "ffn_down"};
    for (int i = m->is_up_fused ? 2 : 0; i < 3; i++) {
        char part[32], name[64];
        snprintf(part, sizeof part, "%s%s", parts[i], suffix);
        gguf_writer_tensor(w, layer_name(name, layer, part), m->type, dimensions,
                           i == 2 ? down : up, 0.2f);
    }
}

static void write_mixture(gguf_writer *w, const tiny_llama *m, uint32_t layer) {
    char name[64];
    gguf_writer_matrix(w, layer_name(name, layer, "ffn_gate_inp"), LH_DTYPE_F32, m->width,
                       m->experts, 0.5f);
    write_feed_forward(w, m, layer, "_exps", m->expert_width, m->experts);
    if (m->shared_width > 0)
        write_feed_forward(w, m, layer, "_shexp", m->shared_width, 1);
    if (m->has_shared_router)
        gguf_writer_tensor(w, layer_name(name, layer, "ffn_gate_inp_shexp"), LH_DTYPE_F32, 1,
                           (const uint64_t[]){m->width}, 0.5f);
}

static void write_latent(gguf_writer *w, const tiny_llama *m, uint32_t layer) {
    char name[64];
    const uint64_t queries = (uint64_t)m->heads * head_dim_of(m), rank = m->latent_rank;
    const uint64_t keys[] = {TINY_LATENT_KEY, rank, m->heads},
                   values[] = {rank, TINY_LATENT_VALUE, m->heads};
    if (m->query_rank > 0) {
        gguf_writer_matrix(w, layer_name(name, layer, "attn_q_a"), m->type, m->width, m->query_rank,
                           0.3f);
        gguf_writer_gain(w, layer_name(name, layer, "attn_q_a_norm"), m->query_rank, 0.5f);
        gguf_writer_matrix(w, layer_name(name, layer, "attn_q_b"), m->type, m->query_rank, queries,
                           0.3f);
    } else {
        gguf_writer_matrix(w, layer_name(name, layer, "attn_q"), m->type, m->width, queries, 0.3f);
    }
    gguf_writer_matrix(w, layer_name(name, layer, "attn_kv_a_mqa"), m->type, m->width,
                       rank + TINY_LATENT_ROTATED, 0.3f);
    gguf_writer_gain(w, layer_name(name, layer, "attn_kv_a_norm"), rank, 0.5f);
    if (m->has_whole_kv) {
        gguf_writer_matrix(w, layer_name(name, layer, "attn_kv_b"), m->type, rank,
                           m->heads * (uint64_t)(TINY_LATENT_KEY + TINY_LATENT_VALUE), 0.3f);
        return;
    }
    gguf_writer_tensor(w, layer_name(name, layer, "attn_k_b"), m->type, 3, keys, 0.3f);
    gguf_writer_tensor(w, layer_name(name, layer, "attn_v_b"), m->type, 3, values, 0.3f);
}

static void write_layer(gguf_writer *w, const tiny_llama *m, uint32_t layer) {
    char name[64];
    uint64_t query = (uint64_t)m->heads * m->head_dim, kv = (uint64_t)m->kv_heads * m->head_dim;
    if (!m->lacks_pre_norms)
        gguf_writer_gain(w, layer_name(name, layer, "attn_norm"), m->width, 0.5f);
    if (m->latent_rank > 0) {
        query = (uint64_t)m->heads * TINY_LATENT_VALUE;
        write_latent(w, m, layer);
    } else if (m->is_qkv_fused) {
        gguf_writer_matrix(w, layer_name(name, layer, "attn_qkv"), m->type, m->width,
                           query + 2 * kv, 0.3f);
    } else {
        gguf_writer_matrix(w, layer_name(name, layer, "attn_q"), m->type, m->width, query, 0.3f);
        gguf_writer_matrix(w, layer_name(name, layer, "attn_k"), m->type, m->width, kv, 0.3f);
        gguf_writer_matrix(w, layer_name(name, layer, "attn_v"), m->type, m->width, kv, 0.3f);
    }
    gguf_writer_matrix(w, layer_name(name, layer, "attn_output"), m->type, query, m->width, 0.2f);
    if (!m->lacks_pre_norms)
        gguf_writer_gain(w,
                         layer_name(name, layer, m->has_sinks ? "post_attention_norm" : "ffn_norm"),
                         m->width, 0.5f);
    if (m->is_up_fused)
        gguf_writer_matrix(w, layer_name(name, layer, "ffn_up"), m->type, m->width,
                           2 * (uint64_t)m->feed_forward_width, 0.2f);
    if (m->experts > 0 && layer >= m->leading_dense)
        write_mixture(w, m, layer);
    else
        write_feed_forward(w, m, layer, "", m->feed_forward_width, 1);
}

gguf_writer *tiny_llama_writer(const tiny_llama *model) {
    gguf_writer *writer = gguf_writer_create(model->seed);
    write_config(writer, model);
    write_vocabulary(writer, model->vocabulary);
    gguf_writer_matrix(writer, "token_embd.weight", model->embedding_type, model->width,
                       model->vocabulary, 1.0f);
    for (uint32_t i = 0; i < model->layers; i++) {
        write_layer(writer, model, i);
        write_layer_options(writer, model, i);
    }
    gguf_writer_gain(writer, "output_norm.weight", model->width, 0.5f);
    if (!model->head_tied)
        gguf_writer_matrix(writer, "output.weight", model->embedding_type, model->width,
                           model->vocabulary, 0.5f);
    return writer;
}

uint8_t *tiny_llama_bytes(const tiny_llama *model, size_t *length) {
    gguf_writer *writer = tiny_llama_writer(model);
    uint8_t *bytes = gguf_writer_finish(writer, length);
    gguf_writer_destroy(writer);
    return bytes;
}

void tiny_llama_save(const tiny_llama *model, const char *path) {
    gguf_writer *writer = tiny_llama_writer(model);
    gguf_writer_save(writer, path);
    gguf_writer_destroy(writer);
}
