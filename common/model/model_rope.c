/* The full layers' scaling is what the file says; layers with a window have a base of their own and
 * no scaling, since what they see is near, or turn as the others do: by architecture. */
#include "common/model/model_rope.h"

#include <string.h>

static bool text_is(lh_text text, const char *expected) {
    return text.length == strlen(expected) && memcmp(text.bytes, expected, text.length) == 0;
}

/* rope.scaling.factor, or its older name. */
static lh_status read_factor(const lh_metadata *metadata, double *factor) {
    lh_status status = lh_metadata_positive(metadata, "rope.scale_linear", 1, factor);
    return status != LH_OK ? status
                           : lh_metadata_positive(metadata, "rope.scaling.factor", *factor, factor);
}

/* The further a dimension turns within the context of the training, the less YaRN stretches it: not
 * at all from beta_fast turns on, fully up to beta_slow. */
static lh_status read_yarn(const lh_metadata *metadata, lh_rope_scaling *scaling) {
    scaling->is_yarn = true;
    lh_status status =
        lh_metadata_positive(metadata, "rope.scaling.yarn_beta_fast", 32, &scaling->beta_fast);
    if (status == LH_OK) {
        status =
            lh_metadata_positive(metadata, "rope.scaling.yarn_beta_slow", 1, &scaling->beta_slow);
    }
    if (status == LH_OK && (scaling->beta_fast < scaling->beta_slow || scaling->base <= 1)) {
        return lh_fail(metadata->error, LH_ERR_MALFORMED,
                       "GGUF metadata: %s: YaRN with beta_fast = %g, beta_slow = %g, base = %g",
                       metadata->architecture->name, scaling->beta_fast, scaling->beta_slow,
                       scaling->base);
    }
    return status;
}

/* Where attention is latent, its scale may have YaRN's growth instead of cos and sin. */
static lh_status read_attention_growth(const lh_metadata *metadata, lh_rope_scaling *scaling) {
    static const char suffix[] = "rope.scaling.yarn_log_multiplier";
    double growth = 0;
    lh_status status = lh_metadata_number(metadata, suffix, &growth);
    if (status != LH_OK && status != LH_ERR_NOT_FOUND)
        return status;
    bool is_sound = growth >= 0 && growth <= 1;
    if (!is_sound || (growth != 0 && !metadata->architecture->is_latent)) {
        return lh_fail(metadata->error, LH_ERR_UNSUPPORTED,
                       "GGUF metadata: %s.%s = %g is not supported", metadata->architecture->name,
                       suffix, growth);
    }
    scaling->attention_growth = scaling->is_yarn && scaling->factor > 1 ? growth : 0;
    return LH_OK;
}

static lh_status read_scaling(const lh_metadata *metadata, uint32_t context,
                              lh_rope_scaling *scaling) {
    char key[LH_METADATA_KEY_BYTES];
    double attn_factor;
    lh_text type = {"linear", 6}; /* without a type, a factor that is given counts */
    lh_status status =
        lh_gguf_get_text(metadata->gguf, lh_metadata_key(metadata, "rope.scaling.type", key), &type,
                         metadata->error);
    if (status != LH_OK && status != LH_ERR_NOT_FOUND)
        return status;
    bool none = text_is(type, "none"), yarn = text_is(type, "yarn");
    /* where an architecture has long and short factors, they are all that scales */
    if ((metadata->architecture->optional & LH_ROLE_BIT(LH_TENSOR_ROPE_LONG_FACTORS)) != 0)
        none = none || text_is(type, "longrope");
    if (!none && !yarn && !text_is(type, "linear")) {
        return lh_fail(metadata->error, LH_ERR_UNSUPPORTED,
                       "GGUF metadata: %s \"%.*s\" is not supported (none, linear and yarn are)",
                       key, type.length < 64 ? (int)type.length : 64, type.bytes);
    }
    status = none ? LH_OK : read_factor(metadata, &scaling->factor);
    if (status == LH_OK) {
        status = lh_metadata_count(metadata, "rope.scaling.original_context_length", UINT32_MAX,
                                   context, &scaling->original_context);
    }
    if (status == LH_OK && yarn)
        status = read_yarn(metadata, scaling);
    if (status == LH_OK)
        status = read_attention_growth(metadata, scaling);
    if (status == LH_OK)
        status = lh_metadata_positive(metadata, "rope.scaling.attn_factor", 1, &attn_factor);
    if (status == LH_OK)
        scaling->magnitude *= attn_factor;
    return status;
}

/* Sections of the rotated dimensions, each for a coordinate of what an image shows, are alike in
 * text. Where pairs would be (2i, 2i + 1), a file with sections has them apart. */
static lh_status check_sections(const lh_metadata *metadata) {
    static const char suffix[] = "rope.dimension_sections";
    double ignored;
    if (!metadata->architecture->rope_interleaved ||
        lh_metadata_number(metadata, suffix, &ignored) == LH_ERR_NOT_FOUND)
        return LH_OK;
    return lh_fail(metadata->error, LH_ERR_UNSUPPORTED,
                   "GGUF metadata: %s.%s is not supported (a model that sees images)",
                   metadata->architecture->name, suffix);
}

static lh_status read_dims(const lh_metadata *metadata, lh_model_config *config) {
    lh_status status = lh_metadata_count(metadata, "rope.dimension_count", config->head_dim,
                                         config->head_dim, &config->rope_dims);
    if (status == LH_OK && config->rope_dims % 2 != 0) {
        return lh_fail(metadata->error, LH_ERR_MALFORMED,
                       "GGUF metadata: %s.rope.dimension_count = %u is odd",
                       metadata->architecture->name, config->rope_dims);
    }
    return status;
}

/* LH_WINDOW_ROPE_OWN: a base, and no scaling; otherwise there is nothing to say. */
static lh_status read_window_rope(const lh_metadata *metadata, lh_model_config *config) {
    const lh_architecture *architecture = metadata->architecture;
    double full = config->rope[LH_LAYER_FULL].base, base = architecture->window_rope_base;
    double *own = &config->rope[LH_LAYER_WINDOW].base;
    lh_status status =
        lh_metadata_positive(metadata, "rope.freq_base_swa", base > 0 ? base : full, own);
    if (architecture->window_rope == LH_WINDOW_ROPE_OWN || status != LH_OK)
        return status;
    if (*own != full) {
        return lh_fail(metadata->error, LH_ERR_UNSUPPORTED,
                       "GGUF metadata: %s.rope.freq_base_swa = %g is not supported where "
                       "rope.freq_base is %g",
                       architecture->name, *own, full);
    }
    config->windows_turn_alike = true;
    if (architecture->window_rope == LH_WINDOW_ROPE_ONLY)
        config->rope_period = config->window_period;
    return LH_OK;
}

lh_status lh_model_read_rope(const lh_metadata *metadata, lh_model_config *config) {
    const lh_architecture *architecture = metadata->architecture;
    lh_rope_scaling *full = &config->rope[LH_LAYER_FULL], *window = &config->rope[LH_LAYER_WINDOW];
    *full = *window = (lh_rope_scaling){.factor = 1, .magnitude = 1};
    config->rope_interleaved = architecture->rope_interleaved;
    lh_status status = check_sections(metadata);
    if (status == LH_OK)
        status = read_dims(metadata, config);
    if (status == LH_OK)
        status = lh_metadata_positive(metadata, "rope.freq_base", 10000, &full->base);
    if (status == LH_OK)
        status = read_scaling(metadata, config->context, full);
    config->rope_period = architecture->rope_period;
    if (status == LH_OK && config->window > 0)
        status = read_window_rope(metadata, config);
    return status;
}
