/* What a model is, read from GGUF metadata, and the tensors that a range of its layers needs. Architectures
 * are rows of a table in model.c: a new one is a row (names, features), not a copy of the layer. Thread:
 * read-only after loading, any. */
#pragma once

#include "common/dtype.h"
#include "common/gguf.h"
#include "common/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct lh_model_config {
    uint32_t layers, width, feed_forward_width, heads, kv_heads, head_dim, vocabulary, context;
    uint32_t rope_dims;                   /* rotated dimensions of a head */
    bool rope_interleaved;                /* pairs (2i, 2i + 1), as GGUF's `llama` stores them */
    bool rope_factors;                    /* angle i is divided by element i of rope_freqs.weight as well */
    double rope_base, rope_linear_factor; /* angle = position / factor * base^(-2i / dims) */
    float rms_epsilon;
    bool head_tied; /* the output head is token_embd.weight */
} lh_model_config;

/* Which part of a model: layers [first, last), with the embedding and the head where first == 0 and
 * last == layers. */
typedef struct lh_layer_range {
    uint32_t first, last;
} lh_layer_range;

/* Every tensor of a model; those from LH_TENSOR_LAYER_FIRST on are there once for each layer. */
typedef enum lh_tensor_role {
    LH_TENSOR_EMBEDDING,    /* [vocabulary][width] */
    LH_TENSOR_ROPE_FACTORS, /* [rope_dims / 2], F32; optional */
    LH_TENSOR_OUTPUT_NORM,  /* [width], F32 */
    LH_TENSOR_HEAD,         /* [vocabulary][width]; optional: tied to the embedding */
    LH_TENSOR_LAYER_FIRST,
    LH_TENSOR_ATTN_NORM = LH_TENSOR_LAYER_FIRST, /* [width], F32 */
    LH_TENSOR_ATTN_Q,                            /* [heads * head_dim][width] */
    LH_TENSOR_ATTN_K,                            /* [kv_heads * head_dim][width] */
    LH_TENSOR_ATTN_V,                            /* [kv_heads * head_dim][width] */
    LH_TENSOR_ATTN_OUTPUT,                       /* [width][heads * head_dim] */
    LH_TENSOR_FFN_NORM,                          /* [width], F32 */
    LH_TENSOR_FFN_GATE,                          /* [feed_forward_width][width] */
    LH_TENSOR_FFN_UP,                            /* [feed_forward_width][width] */
    LH_TENSOR_FFN_DOWN,                          /* [width][feed_forward_width] */
    LH_TENSOR_ROLES
} lh_tensor_role;

/* Reads and checks the hyper-parameters and that every tensor is there with the shape and type that they ask
 * for; a tensor or a parameter that the computation would not honour is refused. Errors name the key or
 * tensor: LH_ERR_MALFORMED, LH_ERR_UNSUPPORTED (architecture, rope scaling, type, tensor), LH_ERR_LIMIT,
 * LH_ERR_NO_MEMORY. */
lh_status lh_model_config_read(const lh_gguf *gguf, lh_model_config *config, lh_error *error);

/* The tensor of a role; `layer` counts from the first of the model and is not read for the others. NULL: not
 * there (after lh_model_config_read only the optional ones can be). */
const lh_gguf_tensor *lh_model_tensor(const lh_gguf *gguf, lh_tensor_role role, uint32_t layer);
/* Rows and row length that the role has in this model; a vector has one row. */
void lh_model_tensor_shape(const lh_model_config *config, lh_tensor_role role, uint64_t *rows,
                           uint64_t *columns);

/* Whether the range needs a role; every range needs those of its layers. */
bool lh_model_range_needs(const lh_model_config *config, lh_layer_range range, lh_tensor_role role);

/* Calls visit for each tensor that the range needs, in the order of the file's layers. Stops at the first
 * status that is not LH_OK and returns it. */
typedef lh_status lh_tensor_visitor(void *context, const lh_gguf_tensor *tensor, lh_error *error);
lh_status lh_model_visit_tensors(const lh_gguf *gguf, const lh_model_config *config, lh_layer_range range,
                                 lh_tensor_visitor *visit, void *context, lh_error *error);
