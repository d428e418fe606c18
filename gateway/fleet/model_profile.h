/* What the planner and the fleet need to know of a model: how many bytes each layer holds, taken
 * from the GGUF's tensor list. No architecture is known here: "blk.N." tensors belong to layer N,
 * the rest to the ends. Thread: read-only after reading, any. */
#pragma once

#include "common/base/status.h"
#include "common/gguf/gguf.h"

#include <stdint.h>

#define LH_MODEL_LAYERS_MAX 1024u

typedef struct lh_model_profile {
    uint32_t layers, context, width, vocabulary;
    uint64_t *layer_bytes;    /* [layers], owned */
    uint64_t embedding_bytes; /* the first stage holds them too */
    /* the last stage holds them too; a tied head counts the embedding again */
    uint64_t head_bytes;
} lh_model_profile;

/* LH_ERR_MALFORMED (a key or tensor is missing or does not fit, named), LH_ERR_UNSUPPORTED (a
 * tensor type that we do not hold), LH_ERR_LIMIT (more than LH_MODEL_LAYERS_MAX layers),
 * LH_ERR_NO_MEMORY. */
lh_status lh_model_profile_read(const lh_gguf *gguf, lh_model_profile *profile, lh_error *error);
void lh_model_profile_reset(lh_model_profile *profile);
