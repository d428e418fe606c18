/* Hyper-parameters from GGUF metadata. A parameter that is read is checked; one that would change
 * the arithmetic and that we do not honour is refused by name. The tensors are in
 * model_tensors.c. */
#include "common/model/model.h"

#include "common/model/architecture.h"
#include "common/model/metadata.h"
#include "common/model/model_experts.h"
#include "common/model/model_latent.h"
#include "common/model/model_rope.h"
#include "common/model/model_tensors.h"

#include <math.h>

/* Bounds keep every product of two or three sizes within 64 bits; the greatest published models are
 * far below. */
#define LAYERS_MAX       1024u
#define WIDTH_MAX        65536u
#define FEED_FORWARD_MAX (1u << 20)
#define HEADS_MAX        4096u
#define HEAD_DIM_MAX     1024u
#define CONTEXT_MAX      (1u << 24)

/* A parameter that we do not compute with is fine while it is absent or has the value that changes
 * nothing. */
typedef struct lh_refused_key {
    const char *suffix;
    double harmless;
} lh_refused_key;

static const lh_refused_key refused_keys[] = {
    {"attention.causal", 1},
    {"attention.clamp_kqv", 0},
    {"attention.max_alibi_bias", 0},
    {"attn_logit_softcapping", 0},
    {"final_logit_softcapping", 0},
    {"use_parallel_residual", 0},
    {"rope.scaling.yarn_ext_factor", 1},
    {"rope.scaling.yarn_attn_factor", 1},
    {"attention.temperature_scale", 0},
    {"rope.scaling.alpha", 0},
};

static lh_status refuse(const lh_metadata *metadata, const char *suffix, double value) {
    return lh_fail(metadata->error, LH_ERR_UNSUPPORTED,
                   "GGUF metadata: %s.%s = %g is not supported", metadata->architecture->name,
                   suffix, value);
}

static lh_status check_refused_keys(const lh_metadata *metadata, lh_model_config *config) {
    (void)config;
    for (size_t i = 0; i < sizeof refused_keys / sizeof refused_keys[0]; i++) {
        double value = 0;
        lh_status status = lh_metadata_number(metadata, refused_keys[i].suffix, &value);
        if (status == LH_ERR_NOT_FOUND || (status == LH_OK && value == refused_keys[i].harmless))
            continue;
        if (status != LH_OK)
            return status;
        return refuse(metadata, refused_keys[i].suffix, value);
    }
    return LH_OK;
}

/* key_length and value_length, where given, or width / heads. */
static lh_status read_head_dim(const lh_metadata *metadata, lh_model_config *config) {
    const char *name = metadata->architecture->name;
    uint32_t divided = config->width % config->heads == 0 ? config->width / config->heads : 0;
    uint32_t values;
    lh_status status = lh_metadata_count(metadata, "attention.key_length", HEAD_DIM_MAX, divided,
                                         &config->head_dim);
    if (status == LH_OK) {
        status = lh_metadata_count(metadata, "attention.value_length", HEAD_DIM_MAX,
                                   config->head_dim, &values);
    }
    if (status != LH_OK)
        return status;
    if (values != config->head_dim) {
        return lh_fail(metadata->error, LH_ERR_UNSUPPORTED,
                       "GGUF metadata: %s.attention.value_length = %u differs from key_length = %u",
                       name, values, config->head_dim);
    }
    if (config->head_dim % 2 != 0) {
        return lh_fail(metadata->error, LH_ERR_UNSUPPORTED,
                       "GGUF metadata: %s: a head of %u dimensions is odd", name, config->head_dim);
    }
    return LH_OK;
}

static lh_status read_kv_heads(const lh_metadata *metadata, lh_model_config *config) {
    lh_status status = lh_metadata_count(metadata, "attention.head_count_kv", HEADS_MAX,
                                         config->heads, &config->kv_heads);
    return status != LH_OK ? status : read_head_dim(metadata, config);
}

static lh_status read_attention(const lh_metadata *metadata, lh_model_config *config) {
    lh_status status =
        lh_metadata_count(metadata, "attention.head_count", HEADS_MAX, 0, &config->heads);
    if (status == LH_OK) {
        status = metadata->architecture->is_latent ? lh_model_read_latent(metadata, config)
                                                   : read_kv_heads(metadata, config);
    }
    if (status != LH_OK)
        return status;
    if (config->heads % config->kv_heads != 0) {
        return lh_fail(
            metadata->error, LH_ERR_MALFORMED,
            "GGUF metadata: %s.attention.head_count = %u is not a multiple of head_count_kv = %u",
            metadata->architecture->name, config->heads, config->kv_heads);
    }
    if ((uint64_t)config->heads * config->head_dim > WIDTH_MAX) {
        return lh_fail(metadata->error, LH_ERR_LIMIT,
                       "GGUF metadata: %s: %u heads of %u are more than %u columns",
                       metadata->architecture->name, config->heads, config->head_dim, WIDTH_MAX);
    }
    return LH_OK;
}

/* attention.scale where it is given and not 0; otherwise what the architecture takes. */
static lh_status read_attention_scale(const lh_metadata *metadata, lh_model_config *config) {
    double scale = 0;
    lh_status status = lh_metadata_number(metadata, "attention.scale", &scale);
    if (status != LH_OK && status != LH_ERR_NOT_FOUND)
        return status;
    if (scale < 0 || !isfinite(scale))
        return refuse(metadata, "attention.scale", scale);
    bool per_width = config->layers == metadata->architecture->per_width_layers;
    float per = per_width ? (float)(config->width / config->heads) : (float)config->head_dim;
    config->attention_scale = scale > 0 ? (float)scale : 1.0f / sqrtf(per);
    return LH_OK;
}

/* Scales that some architectures have, each 1 where it is not given; the metadata divide the logits
 * by theirs. */
static lh_status read_scales(const lh_metadata *metadata, lh_model_config *config) {
    const struct {
        const char *suffix;
        float *scale;
        bool divides;
    } scales[] = {{"embedding_scale", &config->embedding_scale, false},
                  {"residual_scale", &config->residual_scale, false},
                  {"logit_scale", &config->logit_scale, true}};
    config->residual_scale = config->logit_scale = 1;
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) {
        double scale = 1;
        lh_status status = lh_metadata_positive(
            metadata, scales[i].suffix, metadata->architecture->requires_scales ? 0 : 1, &scale);
        if (status != LH_OK)
            return status;
        if (scale == 1)
            continue;
        if (!metadata->architecture->has_scales)
            return refuse(metadata, scales[i].suffix, scale);
        *scales[i].scale = (float)(scales[i].divides ? 1 / scale : scale);
    }
    return LH_OK;
}

/* The period of an array that says of each layer whether it has a window; 0: it has none. */
static uint32_t period_of(const bool *has_window, uint32_t layers) {
    for (uint32_t period = 1; period <= layers + 1; period++) {
        bool fits = true;
        for (uint32_t i = 0; i < layers && fits; i++)
            fits = has_window[i] == ((i + 1) % period != 0);
        if (fits)
            return period;
    }
    return 0;
}

/* A number, an array with a flag for each layer, or nothing: the architecture's own. */
static lh_status read_window_period(const lh_metadata *metadata, lh_model_config *config) {
    static const char suffix[] = "attention.sliding_window_pattern";
    char key[LH_METADATA_KEY_BYTES];
    bool has_window[LAYERS_MAX];
    size_t count;
    double number;
    lh_error *error = metadata->error;
    lh_metadata_key(metadata, suffix, key);
    config->window_period = metadata->architecture->window_period;
    if (lh_metadata_number(metadata, suffix, &number) == LH_ERR_NOT_FOUND)
        return LH_OK;
    if (lh_gguf_get_array(metadata->gguf, key, &count, error) != LH_OK)
        return lh_metadata_count(metadata, suffix, LAYERS_MAX, 0, &config->window_period);
    if (count < config->layers)
        return lh_fail(error, LH_ERR_MALFORMED, "GGUF metadata: %s has %zu elements for %u layers",
                       key, count, config->layers);
    lh_status status = lh_gguf_array_bool(metadata->gguf, key, has_window, config->layers, error);
    if (status != LH_OK)
        return status;
    config->window_period = period_of(has_window, config->layers);
    return config->window_period > 0
               ? LH_OK
               : lh_fail(error, LH_ERR_UNSUPPORTED,
                         "GGUF metadata: %s: windows are supported where each n-th layer has none",
                         key);
}

static lh_status read_window(const lh_metadata *metadata, lh_model_config *config) {
    static const char key[] = "attention.sliding_window";
    uint32_t period = metadata->architecture->window_period;
    double window = 0;
    lh_status status = lh_metadata_number(metadata, key, &window);
    if (status == LH_ERR_NOT_FOUND || (status == LH_OK && window == 0))
        return LH_OK;
    if (status != LH_OK)
        return status;
    if (period == 0)
        return refuse(metadata, key, window);
    status = lh_metadata_count(metadata, key, UINT32_MAX, 0, &config->window);
    return status != LH_OK ? status : read_window_period(metadata, config);
}

/* The layers that predict tokens further on come last in the file, and are counted with the others.
 */
static lh_status read_layers(const lh_metadata *metadata, lh_model_config *config) {
    static const char suffix[] = "nextn_predict_layers";
    double drafting = 0;
    lh_status status = lh_metadata_count(metadata, "block_count", LAYERS_MAX, 0, &config->layers);
    if (status == LH_OK)
        status = lh_metadata_number(metadata, suffix, &drafting);
    if (status == LH_ERR_NOT_FOUND || (status == LH_OK && drafting == 0))
        return LH_OK;
    if (status == LH_OK) {
        status =
            lh_metadata_count(metadata, suffix, config->layers - 1, 0, &config->drafting_layers);
    }
    config->layers -= config->drafting_layers;
    return status;
}

static lh_status read_sizes(const lh_metadata *metadata, lh_model_config *config) {
    double epsilon = 0;
    lh_status status = read_layers(metadata, config);
    if (status == LH_OK)
        status = lh_metadata_count(metadata, "embedding_length", WIDTH_MAX, 0, &config->width);
    if (status == LH_OK) {
        status = lh_metadata_count(metadata, "feed_forward_length", FEED_FORWARD_MAX, 0,
                                   &config->feed_forward_width);
    }
    if (status == LH_OK)
        status = lh_metadata_count(metadata, "context_length", CONTEXT_MAX, 0, &config->context);
    if (status == LH_OK) {
        status = lh_metadata_positive(metadata, "attention.layer_norm_rms_epsilon", 0, &epsilon);
        config->rms_epsilon = (float)epsilon;
    }
    config->gate = metadata->architecture->gate;
    config->norms_whole_rows = metadata->architecture->norms_whole_rows;
    config->norms_are_late = metadata->architecture->norms_are_late;
    config->embedding_scale =
        metadata->architecture->embedding_scaled ? sqrtf((float)config->width) : 1;
    return status;
}

/* vocab_size, where it is given, against the embedding's rows. */
static lh_status check_vocabulary(const lh_metadata *metadata, lh_model_config *config) {
    uint32_t vocabulary;
    lh_status status =
        lh_metadata_count(metadata, "vocab_size", UINT32_MAX, config->vocabulary, &vocabulary);
    if (status == LH_OK && vocabulary != config->vocabulary) {
        return lh_fail(metadata->error, LH_ERR_MALFORMED,
                       "GGUF metadata: %s.vocab_size = %u, but token_embd.weight has %u rows",
                       metadata->architecture->name, vocabulary, config->vocabulary);
    }
    return status;
}

lh_status lh_model_config_read(const lh_gguf *gguf, lh_model_config *out, lh_error *error) {
    lh_model_config config = {0};
    lh_error ignored;
    lh_metadata metadata = {.gguf = gguf, .error = error ? error : &ignored};
    lh_status status = lh_architecture_find(gguf, &metadata.architecture, metadata.error);
    static lh_status (*const readers[])(const lh_metadata *, lh_model_config *) = {
        check_refused_keys,     read_sizes,           lh_model_read_experts, read_scales,
        read_attention,         read_attention_scale, read_window,           lh_model_read_rope,
        lh_model_check_tensors, check_vocabulary,
    };
    for (size_t i = 0; i < sizeof readers / sizeof readers[0] && status == LH_OK; i++)
        status = readers[i](&metadata, &config);
    if (status == LH_OK)
        *out = config;
    return status;
}

lh_layer_kind lh_model_layer_kind(const lh_model_config *config, uint32_t layer) {
    return config->window > 0 && (layer + 1) % config->window_period != 0 ? LH_LAYER_WINDOW
                                                                          : LH_LAYER_FULL;
}

bool lh_model_layer_is_rotated(const lh_model_config *config, uint32_t layer) {
    return config->rope_period == 0 || (layer + 1) % config->rope_period != 0;
}
