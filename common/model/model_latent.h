/* What the metadata say of latent attention. For common/model/ alone. */
#pragma once

#include "common/model/metadata.h"

/* Sets head_dim, kv_heads and latent of a config that has heads. Errors as
 * lh_model_config_read. */
lh_status lh_model_read_latent(const lh_metadata *metadata, lh_model_config *config);
