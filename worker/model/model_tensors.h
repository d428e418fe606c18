/* The tensor list of a file against what its hyper-parameters ask for: the second half of
 * lh_model_config_read. */
#pragma once

#include "worker/model/model.h"

/* Sets the vocabulary, head_tied and rope_factors of a config that has all else. Errors as
 * lh_model_config_read. */
lh_status lh_model_check_tensors(const lh_gguf *gguf, lh_model_config *config, lh_error *error);
