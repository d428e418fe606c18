/* What the metadata say of a mixture of experts. For common/model/ alone. */
#pragma once

#include "common/model/metadata.h"

/* Sets what a config that has all sizes says of experts; all 0 where there are none. Errors as
 * lh_model_config_read. */
lh_status lh_model_read_experts(const lh_metadata *metadata, lh_model_config *config);
