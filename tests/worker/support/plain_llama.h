/* The llama forward pass written down as plainly as possible, in double, without a cache: an
 * independent judge of the stage. */
#pragma once

#include "common/model/model.h"

#include <stddef.h>

/* An F32 file. logits[count][vocabulary]. Aborts when out of memory or a tensor is not F32. */
void plain_llama_logits(const void *file, size_t length, const lh_model_config *config,
                        const uint32_t *tokens, uint32_t count, double *logits);
