/* Where attention is latent, keys and values are one row. */
#include "common/model/model_widths.h"

uint32_t lh_model_key_width(const lh_model_config *config) {
    return config->latent.rank > 0 ? config->latent.rank + config->rope_dims
                                   : config->kv_heads * config->head_dim;
}

uint32_t lh_model_attended_width(const lh_model_config *config) {
    return config->heads * (config->latent.rank > 0 ? config->latent.value_dim : config->head_dim);
}
