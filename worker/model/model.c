/* Hyper-parameters from GGUF metadata. A parameter that is read is checked; one that would change the
 * arithmetic and that we do not honour is refused by name. The tensors are in model_tensors.c. */
#include "worker/model/model.h"

#include "worker/model/model_tensors.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bounds keep every product of two or three sizes within 64 bits; the greatest published models are far
 * below. */
#define LAYERS_MAX       1024u
#define WIDTH_MAX        65536u
#define FEED_FORWARD_MAX (1u << 20)
#define HEADS_MAX        4096u
#define HEAD_DIM_MAX     1024u
#define CONTEXT_MAX      (1u << 24)

typedef struct lh_architecture {
    const char *name; /* general.architecture, and the prefix of its keys */
    bool rope_interleaved;
} lh_architecture;

static const lh_architecture architectures[] = {
    {"llama", true},
};

/* A parameter that we do not compute with is fine while it is absent or has the value that changes nothing.
 */
typedef struct lh_refused_key {
    const char *suffix;
    double harmless;
} lh_refused_key;

static const lh_refused_key refused_keys[] = {
    {"expert_count", 0},
    {"attention.sliding_window", 0},
    {"attention.causal", 1},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attention.scale", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"logit_scale", 1},
    {"residual_scale", 1},
    {"embedding_scale", 1},
    {"use_parallel_residual", 0},
    {"rope.scaling.attn_factor", 1},
};

typedef struct lh_reader {
    const lh_gguf *gguf;
    const lh_architecture *architecture;
    lh_error *error;
} lh_reader;

#define KEY_BYTES 96

static const char *key_of(const lh_reader *reader, const char *suffix, char key[KEY_BYTES]) {
    snprintf(key, KEY_BYTES, "%s.%s", reader->architecture->name, suffix);
    return key;
}

/* Any number; LH_ERR_NOT_FOUND leaves no error message. */
static lh_status read_number(const lh_reader *reader, const char *suffix, double *value) {
    char key[KEY_BYTES];
    key_of(reader, suffix, key);
    uint64_t integer;
    bool flag;
    lh_status status = lh_gguf_get_f64(reader->gguf, key, value, reader->error);
    if (status != LH_ERR_MALFORMED) {
        return status;
    }
    if (lh_gguf_get_u64(reader->gguf, key, &integer, reader->error) == LH_OK) {
        *value = (double)integer;
        return LH_OK;
    }
    status = lh_gguf_get_bool(reader->gguf, key, &flag, reader->error);
    *value = flag;
    return status;
}

/* An integer in [1, maximum]. `fallback` stands for an absent key; 0: it must be there. */
static lh_status read_count(const lh_reader *reader, const char *suffix, uint32_t maximum, uint32_t fallback,
                            uint32_t *value) {
    char key[KEY_BYTES];
    uint64_t wide = fallback;
    lh_status status = lh_gguf_get_u64(reader->gguf, key_of(reader, suffix, key), &wide, reader->error);
    if (status == LH_ERR_NOT_FOUND && fallback == 0) {
        return lh_fail(reader->error, LH_ERR_MALFORMED, "GGUF metadata: %s is missing", key);
    }
    if (status != LH_OK && status != LH_ERR_NOT_FOUND) {
        return status;
    }
    if (wide == 0 || wide > maximum) {
        return lh_fail(reader->error, LH_ERR_LIMIT, "GGUF metadata: %s = %llu is not in 1..%u", key,
                       (unsigned long long)wide, maximum);
    }
    *value = (uint32_t)wide;
    return LH_OK;
}

/* A positive, finite number. `fallback` as above. */
static lh_status read_positive(const lh_reader *reader, const char *suffix, double fallback, double *value) {
    double number = fallback;
    lh_status status = read_number(reader, suffix, &number);
    if (status == LH_ERR_NOT_FOUND && fallback == 0) {
        return lh_fail(reader->error, LH_ERR_MALFORMED, "GGUF metadata: %s.%s is missing",
                       reader->architecture->name, suffix);
    }
    if (status != LH_OK && status != LH_ERR_NOT_FOUND) {
        return status;
    }
    if (!(number > 0) || !isfinite(number)) {
        return lh_fail(reader->error, LH_ERR_MALFORMED, "GGUF metadata: %s.%s = %g is not a positive number",
                       reader->architecture->name, suffix, number);
    }
    *value = number;
    return LH_OK;
}

static lh_status find_architecture(lh_reader *reader) {
    lh_text name;
    lh_status status = lh_gguf_get_text(reader->gguf, "general.architecture", &name, reader->error);
    if (status == LH_ERR_NOT_FOUND) {
        return lh_fail(reader->error, LH_ERR_MALFORMED, "GGUF metadata: general.architecture is missing");
    }
    if (status != LH_OK) {
        return status;
    }
    for (size_t i = 0; i < sizeof architectures / sizeof architectures[0]; i++) {
        const lh_architecture *row = &architectures[i];
        if (name.length == strlen(row->name) && memcmp(name.bytes, row->name, name.length) == 0) {
            reader->architecture = row;
            return LH_OK;
        }
    }
    return lh_fail(reader->error, LH_ERR_UNSUPPORTED,
                   "GGUF metadata: general.architecture \"%.*s\" is not supported",
                   name.length < 64 ? (int)name.length : 64, name.bytes);
}

static lh_status check_refused_keys(const lh_reader *reader) {
    for (size_t i = 0; i < sizeof refused_keys / sizeof refused_keys[0]; i++) {
        double value = 0;
        lh_status status = read_number(reader, refused_keys[i].suffix, &value);
        if (status == LH_ERR_NOT_FOUND || (status == LH_OK && value == refused_keys[i].harmless)) {
            continue;
        }
        if (status != LH_OK) {
            return status;
        }
        return lh_fail(reader->error, LH_ERR_UNSUPPORTED, "GGUF metadata: %s.%s = %g is not supported",
                       reader->architecture->name, refused_keys[i].suffix, value);
    }
    return LH_OK;
}

/* key_length and value_length, where given, or width / heads. */
static lh_status read_head_dim(const lh_reader *reader, lh_model_config *config) {
    const char *name = reader->architecture->name;
    uint32_t divided = config->width % config->heads == 0 ? config->width / config->heads : 0;
    uint32_t values;
    lh_status status = read_count(reader, "attention.key_length", HEAD_DIM_MAX, divided, &config->head_dim);
    if (status == LH_OK) {
        status = read_count(reader, "attention.value_length", HEAD_DIM_MAX, config->head_dim, &values);
    }
    if (status != LH_OK) {
        return status;
    }
    if (values != config->head_dim) {
        return lh_fail(reader->error, LH_ERR_UNSUPPORTED,
                       "GGUF metadata: %s.attention.value_length = %u differs from key_length = %u", name,
                       values, config->head_dim);
    }
    if (config->head_dim % 2 != 0) {
        return lh_fail(reader->error, LH_ERR_UNSUPPORTED, "GGUF metadata: %s: a head of %u dimensions is odd",
                       name, config->head_dim);
    }
    return LH_OK;
}

static lh_status read_attention(const lh_reader *reader, lh_model_config *config) {
    lh_status status = read_count(reader, "attention.head_count", HEADS_MAX, 0, &config->heads);
    if (status == LH_OK) {
        status = read_count(reader, "attention.head_count_kv", HEADS_MAX, config->heads, &config->kv_heads);
    }
    if (status == LH_OK) {
        status = read_head_dim(reader, config);
    }
    if (status != LH_OK) {
        return status;
    }
    if (config->heads % config->kv_heads != 0) {
        return lh_fail(reader->error, LH_ERR_MALFORMED,
                       "GGUF metadata: %s.attention.head_count = %u is not a multiple of head_count_kv = %u",
                       reader->architecture->name, config->heads, config->kv_heads);
    }
    if ((uint64_t)config->heads * config->head_dim > WIDTH_MAX) {
        return lh_fail(reader->error, LH_ERR_LIMIT,
                       "GGUF metadata: %s: %u heads of %u are more than %u columns",
                       reader->architecture->name, config->heads, config->head_dim, WIDTH_MAX);
    }
    return LH_OK;
}

/* rope.scaling.factor, or its older name. */
static lh_status read_linear_factor(const lh_reader *reader, double *factor) {
    lh_status status = read_positive(reader, "rope.scale_linear", 1, factor);
    return status != LH_OK ? status : read_positive(reader, "rope.scaling.factor", *factor, factor);
}

static lh_status read_rope_scaling(const lh_reader *reader, double *factor) {
    char key[KEY_BYTES];
    lh_text type = {"linear", 6}; /* without a type, a factor that is given counts */
    lh_status status =
        lh_gguf_get_text(reader->gguf, key_of(reader, "rope.scaling.type", key), &type, reader->error);
    if (status != LH_OK && status != LH_ERR_NOT_FOUND) {
        return status;
    }
    if (type.length == 4 && memcmp(type.bytes, "none", 4) == 0) {
        *factor = 1;
        return LH_OK;
    }
    if (type.length == 6 && memcmp(type.bytes, "linear", 6) == 0) {
        return read_linear_factor(reader, factor);
    }
    return lh_fail(reader->error, LH_ERR_UNSUPPORTED,
                   "GGUF metadata: %s \"%.*s\" is not supported (none and linear are)", key,
                   type.length < 64 ? (int)type.length : 64, type.bytes);
}

static lh_status read_rope(const lh_reader *reader, lh_model_config *config) {
    config->rope_interleaved = reader->architecture->rope_interleaved;
    lh_status status =
        read_count(reader, "rope.dimension_count", config->head_dim, config->head_dim, &config->rope_dims);
    if (status == LH_OK && config->rope_dims % 2 != 0) {
        status =
            lh_fail(reader->error, LH_ERR_MALFORMED, "GGUF metadata: %s.rope.dimension_count = %u is odd",
                    reader->architecture->name, config->rope_dims);
    }
    if (status == LH_OK) {
        status = read_positive(reader, "rope.freq_base", 10000, &config->rope_base);
    }
    if (status == LH_OK) {
        status = read_rope_scaling(reader, &config->rope_linear_factor);
    }
    return status;
}

static lh_status read_sizes(const lh_reader *reader, lh_model_config *config) {
    double epsilon = 0;
    lh_status status = read_count(reader, "block_count", LAYERS_MAX, 0, &config->layers);
    if (status == LH_OK) {
        status = read_count(reader, "embedding_length", WIDTH_MAX, 0, &config->width);
    }
    if (status == LH_OK) {
        status = read_count(reader, "feed_forward_length", FEED_FORWARD_MAX, 0, &config->feed_forward_width);
    }
    if (status == LH_OK) {
        status = read_count(reader, "context_length", CONTEXT_MAX, 0, &config->context);
    }
    if (status == LH_OK) {
        status = read_positive(reader, "attention.layer_norm_rms_epsilon", 0, &epsilon);
        config->rms_epsilon = (float)epsilon;
    }
    return status;
}

lh_status lh_model_config_read(const lh_gguf *gguf, lh_model_config *out, lh_error *error) {
    lh_model_config config = {0};
    lh_error ignored;
    lh_reader reader = {.gguf = gguf, .error = error != NULL ? error : &ignored};
    lh_status status = find_architecture(&reader);
    if (status == LH_OK) {
        status = check_refused_keys(&reader);
    }
    if (status == LH_OK) {
        status = read_sizes(&reader, &config);
    }
    if (status == LH_OK) {
        status = read_attention(&reader, &config);
    }
    if (status == LH_OK) {
        status = read_rope(&reader, &config);
    }
    if (status == LH_OK) {
        status = lh_model_check_tensors(gguf, &config, reader.error);
    }
    uint32_t vocabulary;
    if (status == LH_OK) {
        status = read_count(&reader, "vocab_size", UINT32_MAX, config.vocabulary, &vocabulary);
    }
    if (status == LH_OK && vocabulary != config.vocabulary) {
        status = lh_fail(error, LH_ERR_MALFORMED,
                         "GGUF metadata: %s.vocab_size = %u, but token_embd.weight has %u rows",
                         reader.architecture->name, vocabulary, config.vocabulary);
    }
    if (status == LH_OK) {
        *out = config;
    }
    return status;
}
