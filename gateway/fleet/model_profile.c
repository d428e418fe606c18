/* Bytes of each layer, from the tensors of a stage that has all layers. */
#include "gateway/fleet/model_profile.h"

#include "common/model/model.h"

#include <stdlib.h>

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

lh_status lh_model_profile_read(const lh_gguf *gguf, lh_model_profile *profile, lh_error *error) {
    lh_model_config config;
    *profile = (lh_model_profile){0};
    lh_status status = lh_model_config_read(gguf, &config, error);
    if (status != LH_OK)
        return status;
    *profile = (lh_model_profile){.layers = config.layers,
                                  .context = config.context,
                                  .width = config.width,
                                  .vocabulary = config.vocabulary,
                                  .layer_bytes = calloc(config.layers, sizeof(uint64_t)),
                                  .row_bytes = calloc(config.layers, sizeof(uint64_t))};
    if (!profile->layer_bytes || !profile->row_bytes) {
        lh_model_profile_reset(profile);
        return lh_fail(error, LH_ERR_NO_MEMORY, "no memory for %u layers", config.layers);
    }
    adding to = {&config, profile};
    lh_model_visit_tensors(gguf, &config, (lh_layer_range){0, config.layers}, add_tensor, &to,
                           error);
    if (!lh_model_has(&config, LH_TENSOR_HEAD))
        profile->head_bytes += profile->embedding_bytes;
    return LH_OK;
}

void lh_model_profile_reset(lh_model_profile *profile) {
    free(profile->row_bytes);
    free(profile->layer_bytes);
    *profile = (lh_model_profile){0};
}
