/* Bytes of each layer, from the tensors of a stage that has all layers. */
#include "gateway/fleet/model_profile.h"

#include "common/base/arithmetic.h"
#include "common/model/model_widths.h"

#include <assert.h>
#include <string.h>

typedef struct adding {
    const lh_model_config *config;
    lh_model_profile *profile;
} adding;

/* Without overflow: it is at most the file's size. */
static uint64_t share_of_row(const lh_model_config *config, lh_tensor_role role, uint64_t bytes) {
    return lh_model_is_of_experts(role) ? bytes / config->experts * config->experts_used : bytes;
}

/* lh_tensor_visitor */
static lh_status add_tensor(void *context, lh_tensor_role role, uint32_t layer,
                            const lh_gguf_tensor *tensor, lh_error *error) {
    const adding *to = context;
    (void)error;
    if (role >= LH_TENSOR_LAYER_FIRST) {
        to->profile->layer_bytes[layer] += tensor->bytes;
        to->profile->row_bytes[layer] += share_of_row(to->config, role, tensor->bytes);
    } else if (role == LH_TENSOR_EMBEDDING) {
        to->profile->embedding_bytes += tensor->bytes;
    } else {
        to->profile->head_bytes += tensor->bytes;
    }
    return LH_OK;
}

/* What attention and feed-forward give, as the int8 that the next product reads (36 bytes for 32
 * values), what both add to h, as floats, and where norms are over all heads, q and k as floats. */
static uint64_t gather_row_bytes(const lh_model_config *config) {
    uint64_t head_values = config->latent.rank > 0 ? config->latent.value_dim : config->head_dim,
             gated = config->experts > 0 ? (uint64_t)config->experts_used * config->expert_width +
                                               config->shared_expert_width
                                         : config->feed_forward_width,
             normed = config->norms_whole_rows
                          ? ((uint64_t)config->heads + config->kv_heads) * config->head_dim
                          : 0;
    return (config->heads * head_values + gated) * 36 / 32 +
           sizeof(float) * (2 * (uint64_t)config->width + normed);
}

static lh_model_kv_rows kv_rows(const lh_model_config *config) {
    if (config->latent.rank > 0)
        return (lh_model_kv_rows){1, 0, lh_model_key_width(config), true};
    return (lh_model_kv_rows){config->kv_heads, config->head_dim, config->head_dim, false};
}

lh_status lh_model_profile_read(const lh_gguf *gguf, lh_model_profile *profile, lh_error *error) {
    lh_model_config config;
    *profile = (lh_model_profile){0};
    lh_status status = lh_model_config_read(gguf, &config, error);
    if (status != LH_OK)
        return status;
    *profile =
        (lh_model_profile){.layers = config.layers,
                           .context = config.context,
                           .width = config.width,
                           .vocabulary = config.vocabulary,
                           .gather_row_bytes = gather_row_bytes(&config),
                           .kv_rows = kv_rows(&config),
                           .layer_gathers = LH_LAYER_GATHERS + (config.norms_whole_rows ? 1 : 0)};
    assert(config.layers <= LH_MAP_LAYERS_MAX);
    adding to = {&config, profile};
    lh_model_visit_tensors(gguf, &config, (lh_layer_range){0, config.layers}, add_tensor, &to,
                           error);
    if (!lh_model_has(&config, LH_TENSOR_HEAD))
        profile->head_bytes += profile->embedding_bytes;
    return LH_OK;
}

/* As workers lay rows out (kernels/kernels.h, lh_kv_row_bytes). */
static uint64_t row_bytes(const char *kv_type, uint64_t dim) {
    if (strcmp(kv_type, "q8") == 0)
        return dim + (dim + 31) / 32 * sizeof(float);
    return dim * (strcmp(kv_type, "f16") == 0 ? sizeof(uint16_t) : sizeof(float));
}

void lh_model_profile_want_kv(lh_model_profile *profile, const char *kv_type, uint32_t positions,
                              uint32_t sequences) {
    const lh_model_kv_rows *rows = &profile->kv_rows;
    const uint32_t usual = lh_min_u32(profile->context, LH_KV_USUAL_POSITIONS);
    profile->kv =
        (lh_kv_need){.position_bytes = rows->heads * (row_bytes(kv_type, rows->key_dim) +
                                                      row_bytes(kv_type, rows->value_dim)),
                     .heads = rows->is_shared ? 0 : rows->heads,
                     .pages = lh_kv_need_pages(positions > 0 ? positions : usual, sequences)};
}
