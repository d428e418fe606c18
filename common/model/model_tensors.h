/* The tensor list of a file against what its hyper-parameters ask for: the second half of
 * lh_model_config_read. */
#pragma once

#include "common/model/metadata.h"

/* Sets the vocabulary and the roles of a config that has all else. Errors are those of
 * lh_model_config_read. */
lh_status lh_model_check_tensors(const lh_metadata *metadata, lh_model_config *config);
