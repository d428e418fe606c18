/* Widths of a layer that follow from others. Thread: any. */
#pragma once

#include "common/model/model.h"

/* Numbers that a layer makes of a row for the keys of the KV cache: of all KV heads; or the latent
 * row and its key, which are all that is kept of it. */
uint32_t lh_model_key_width(const lh_model_config *config);
/* Numbers that attention makes of a row, all heads together. */
uint32_t lh_model_attended_width(const lh_model_config *config);
