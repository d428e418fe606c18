/* What a model is, read from GGUF metadata, and the tensors that a range of its layers needs. Architectures are
 * rows of a table in model.c: a new one is a row (names, features), not a copy of the layer.
 * Thread: read-only after loading, any. */
#pragma once

#include "common/dtype.h"
#include "common/gguf.h"
#include "common/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_model_config {
    uint32_t layers, width, feed_forward_width, heads, kv_heads, head_dim, vocabulary, context;
    uint32_t rope_dims;      /* rotated dimensions of a head */
    bool rope_interleaved;   /* pairs (2i, 2i + 1), as GGUF's `llama` stores them */
    double rope_base, rope_linear_factor; /* angle = position / factor * base^(-2i / dims) */
    float rms_epsilon;
    bool head_tied; /* the output head is token_embd.weight */
} lh_model_config;

/* Which part of a model: layers [first, last), with the embedding and the head where first == 0 and
 * last == layers. */
typedef struct lh_layer_range {
    uint32_t first, last;
} lh_layer_range;

/* Reads and checks the hyper-parameters and that every tensor is there with the shape and type that they ask
 * for. Errors name the key or tensor: LH_ERR_MALFORMED, LH_ERR_UNSUPPORTED (architecture, rope scaling, type). */
lh_status lh_model_config_read(const lh_gguf *gguf, lh_model_config *config, lh_error *error);

/* Calls visit for each tensor that the range needs, in the order of the file's layers. Stops at the first status
 * that is not LH_OK and returns it. */
typedef lh_status lh_tensor_visitor(void *context, const lh_gguf_tensor *tensor, lh_error *error);
lh_status lh_model_visit_tensors(const lh_gguf *gguf, const lh_model_config *config, lh_layer_range range,
                                 lh_tensor_visitor *visit, void *context, lh_error *error);
