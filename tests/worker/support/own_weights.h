/* A model's file as a member of a team would have it that fetched no more than it needs. */
#pragma once

#include "worker/compute/stage/parameters.h"

#include <stddef.h>

/* A copy of file[length] in which, of the tensors' data, only that is right which
 * lh_parameters_slices names; malloc'd. NULL: there is no such division, which is the stage's to
 * say. Aborts when out of memory. */
uint8_t *own_weights(const uint8_t *file, size_t length, const lh_gguf *gguf,
                     const lh_model_config *config, lh_layer_range range,
                     const lh_membership *membership);
