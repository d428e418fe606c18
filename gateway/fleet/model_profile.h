/* What the planner and the fleet need to know of a model: how many bytes each layer holds, and how
 * many of them a row meets, taken from the tensors that a stage of it would load (common/model): so
 * a model that workers cannot compute has no profile. Thread: read-only after reading, any. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"

#include <stdint.h>

typedef struct lh_model_profile {
    uint32_t layers, context, width, vocabulary;
    uint64_t *layer_bytes; /* [layers], owned */
    /* [layers], owned: of them, what one row is multiplied with, which is less where it goes to
     * some of many experts; NULL: all */
    uint64_t *row_bytes;
    uint64_t embedding_bytes; /* the first stage holds them too */
    /* the last stage holds them too; a tied head counts the embedding again */
    uint64_t head_bytes;
} lh_model_profile;

/* Errors are those of lh_model_config_read, which refuses by name what workers cannot compute. */
lh_status lh_model_profile_read(const lh_gguf *gguf, lh_model_profile *profile, lh_error *error);
void lh_model_profile_reset(lh_model_profile *profile);
