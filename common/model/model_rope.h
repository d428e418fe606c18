/* How positions become angles, from the metadata: base, and linear or YaRN scaling
 * (arXiv:2309.00071). NTK scaling is a greater base, which converters write as such. For
 * common/model/ alone. */
#pragma once

#include "common/model/metadata.h"

/* Sets rope_dims, rope_interleaved and rope[] of a config that has head_dim, context and window.
 * Errors as lh_model_config_read. */
lh_status lh_model_read_rope(const lh_metadata *metadata, lh_model_config *config);
