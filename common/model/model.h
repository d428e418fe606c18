/* What a model is, read from GGUF metadata, and the tensors that a range of its layers needs.
 * Architectures are rows of a table (architecture.c): a new one is a row (names, features), not a
 * copy of the layer. Thread: read-only after loading, any. */
#pragma once

#include "common/base/dtype.h"
#include "common/base/status.h"
#include "common/gguf/gguf.h"

#include <stdbool.h>
#include <stdint.h>

/* Layers that see all positions, and layers that see a window of the last ones. */
typedef enum lh_layer_kind { LH_LAYER_FULL, LH_LAYER_WINDOW, LH_LAYER_KINDS } lh_layer_kind;

/* What the gate of the feed-forward part goes through. */
typedef enum lh_gate {
    LH_GATE_SILU,
    LH_GATE_GELU,
    LH_GATE_SWIGLU_CLAMPED /* with bounds, and up + 1: kernels.h's swiglu_mul */
} lh_gate;

/* Groups of experts. */
#define LH_EXPERT_GROUPS_MAX 64u

/* How a router's logits become the experts' shares of a row: of all of them, or, once these are
 * chosen, of those that the row goes through. */
typedef enum lh_routing {
    LH_ROUTING_SOFTMAX,
    LH_ROUTING_SIGMOID,
    LH_ROUTING_SOFTMAX_OF_CHOSEN
} lh_routing;

/* How angles grow: position * base^(-2i / dims) / factor, stretched by dimension with YaRN. */
typedef struct lh_rope_scaling {
    double base, factor;
    double magnitude;            /* of cos and sin, besides what YaRN does to them */
    bool is_yarn;                /* the betas are for it */
    double beta_fast, beta_slow; /* turns within the original context */
    uint32_t original_context;   /* of the training before the scaling */
    /* attention's scale grows by 1 + this * ln(factor), squared, and cos and sin do not; 0: cos and
     * sin grow by YaRN's 1 + ln(factor) / 10 */
    double attention_growth;
} lh_rope_scaling;

/* Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): what is kept of a position is one
 * latent row, of which the heads' keys and values are made, and one rotated key for all heads. A
 * head's query has head_dim dimensions, the last rope_dims of which are rotated. */
typedef struct lh_latent_shape {
    uint32_t rank;       /* of the row that is kept; 0: keys and values are kept, head by head */
    uint32_t query_rank; /* of the row that queries are made of; 0: of the layer's own row */
    uint32_t value_dim;  /* of a head */
} lh_latent_shape;

typedef struct lh_model_config {
    uint32_t layers, width, feed_forward_width, heads, kv_heads, head_dim, vocabulary, context;
    lh_latent_shape latent;
    uint32_t rope_dims;    /* rotated dimensions of a head */
    bool rope_interleaved; /* pairs (2i, 2i + 1), as GGUF's `llama` stores them */
    lh_rope_scaling rope[LH_LAYER_KINDS];
    /* positions that a layer with a window sees, its own included; 0: there are none */
    uint32_t window;
    uint32_t window_period;  /* where there are: of so many layers the last one sees all */
    bool windows_turn_alike; /* layers with a window are rotated as the others: by rope[FULL] */
    uint32_t rope_period;    /* of so many layers the last one is not rotated; 0: all are */
    lh_gate gate;
    float rms_epsilon;
    float embedding_scale, attention_scale;
    float residual_scale; /* of what attention and feed-forward add to a row */
    float logit_scale;    /* of the logits */
    /* A mixture of experts: so many feed-forward parts of expert_width, of which each row goes
     * through experts_used; 0: there is one, which is dense. */
    uint32_t experts, experts_used, expert_width;
    uint32_t leading_dense; /* so many layers, the first ones, are dense in a mixture, too */
    /* A row goes through experts of so many groups alone, which are equal in size; 1 and 1: all. */
    uint32_t expert_groups, expert_groups_used;
    uint32_t
        shared_expert_width; /* of the one that all rows go through besides; 0: there is none */
    lh_routing routing;
    bool experts_normalized;  /* the shares of those that are used add up to 1 */
    float experts_scale;      /* of the shares, after that */
    bool norms_whole_rows;    /* the norms of q and k: all heads of a row together */
    bool norms_are_late;      /* they come behind the rotation */
    uint64_t roles;           /* which tensors there are: lh_model_has */
    uint32_t drafting_layers; /* behind the others, in the file alone: nothing here needs them */
} lh_model_config;

/* Which part of a model: layers [first, last), with the embedding and the head where first == 0 and
 * last == layers. */
typedef struct lh_layer_range {
    uint32_t first, last;
} lh_layer_range;

/* Every tensor of a model; those from LH_TENSOR_LAYER_FIRST on are there once for each layer. */
typedef enum lh_tensor_role {
    LH_TENSOR_EMBEDDING,    /* [vocabulary][width] */
    LH_TENSOR_ROPE_FACTORS, /* [rope_dims / 2], F32; optional: divisors of the angles */
    /* [rope_dims / 2], F32; optional: divisors where the context that is served is longer than the
     * original one, and where it is not */
    LH_TENSOR_ROPE_LONG_FACTORS,
    LH_TENSOR_ROPE_SHORT_FACTORS,
    LH_TENSOR_OUTPUT_NORM, /* [width], F32 */
    LH_TENSOR_HEAD,        /* [vocabulary][width]; optional: tied to the embedding */
    LH_TENSOR_LAYER_FIRST,
    LH_TENSOR_ATTN_NORM = LH_TENSOR_LAYER_FIRST, /* [width], F32 */
    LH_TENSOR_ATTN_Q,                            /* [heads * head_dim][width] */
    LH_TENSOR_ATTN_K,                            /* [kv_heads * head_dim][width] */
    LH_TENSOR_ATTN_V,                            /* [kv_heads * head_dim][width] */
    LH_TENSOR_ATTN_QKV,       /* the rows of q, then those of k and v; optional: instead of them */
    LH_TENSOR_ATTN_Q_A,       /* [query_rank][width]; as up to V_B, of latent attention */
    LH_TENSOR_ATTN_Q_A_NORM,  /* [query_rank], F32 */
    LH_TENSOR_ATTN_Q_B,       /* [heads * head_dim][query_rank] */
    LH_TENSOR_ATTN_KV_A,      /* [rank + rope_dims][width]: the latent row, the rotated key */
    LH_TENSOR_ATTN_KV_A_NORM, /* [rank], F32: of the latent row */
    /* Of the latent row, for each head: [head_dim - rope_dims] of its key, [value_dim] of its
     * value. */
    LH_TENSOR_ATTN_KV_B, /* [heads * (head_dim - rope_dims + value_dim)][rank]; or the two below */
    LH_TENSOR_ATTN_K_B,  /* [heads][rank][head_dim - rope_dims]: turned over */
    LH_TENSOR_ATTN_V_B,  /* [heads][value_dim][rank] */
    LH_TENSOR_ATTN_OUTPUT,      /* [width][heads * head_dim]; latent: [width][heads * value_dim] */
    LH_TENSOR_ATTN_Q_BIAS,      /* [heads * head_dim], F32; by architecture, as up to POST_NORM */
    LH_TENSOR_ATTN_K_BIAS,      /* [kv_heads * head_dim], F32 */
    LH_TENSOR_ATTN_V_BIAS,      /* [kv_heads * head_dim], F32 */
    LH_TENSOR_ATTN_QKV_BIAS,    /* those of q, then of k and v; optional: instead of them */
    LH_TENSOR_ATTN_OUTPUT_BIAS, /* [width], F32 */
    LH_TENSOR_ATTN_SINKS,       /* [heads], F32: scores without a value */
    /* [head_dim], F32: each head's own norm, before the rotation; or [heads * head_dim] */
    LH_TENSOR_ATTN_Q_NORM,
    LH_TENSOR_ATTN_K_NORM,     /* [head_dim], F32; or [kv_heads * head_dim] */
    LH_TENSOR_ATTN_POST_NORM,  /* [width], F32: before attention's result is added */
    LH_TENSOR_FFN_NORM,        /* [width], F32 */
    LH_TENSOR_FFN_NORM_BEHIND, /* the same, where its name is that of ATTN_POST_NORM */
    LH_TENSOR_FFN_GATE,        /* [feed_forward_width][width] */
    LH_TENSOR_FFN_UP,          /* [feed_forward_width][width] */
    LH_TENSOR_FFN_GATE_UP,     /* the rows of the gate, then those of up; by architecture */
    LH_TENSOR_FFN_DOWN,        /* [width][feed_forward_width] */
    LH_TENSOR_FFN_POST_NORM,   /* [width], F32; by architecture: before the result is added */
    LH_TENSOR_ROUTER,      /* [experts][width], F32; as all that follow, of mixtures of experts */
    LH_TENSOR_ROUTER_BIAS, /* [experts], F32; optional: added to the shares to choose by */
    LH_TENSOR_ROUTER_LOGIT_BIAS, /* [experts], F32; by architecture, as the other biases */
    LH_TENSOR_EXPERTS_GATE_BIAS, /* [experts][expert_width], F32 */
    LH_TENSOR_EXPERTS_UP_BIAS,   /* [experts][expert_width], F32 */
    LH_TENSOR_EXPERTS_DOWN_BIAS, /* [experts][width], F32 */
    LH_TENSOR_EXPERTS_GATE,      /* [experts][expert_width][width] */
    LH_TENSOR_EXPERTS_UP,        /* [experts][expert_width][width] */
    LH_TENSOR_EXPERTS_DOWN,      /* [experts][width][expert_width] */
    LH_TENSOR_SHARED_ROUTER, /* [1][width], F32; by architecture: the shared expert's own share */
    LH_TENSOR_SHARED_GATE,   /* [shared_expert_width][width] */
    LH_TENSOR_SHARED_UP,     /* [shared_expert_width][width] */
    LH_TENSOR_SHARED_DOWN,   /* [width][shared_expert_width] */
    LH_TENSOR_ROLES
} lh_tensor_role;

/* Reads and checks the hyper-parameters and that every tensor is there with the shape and type that
 * they ask for; a tensor or a parameter that the computation would not honour is refused. Errors
 * name the key or tensor: LH_ERR_MALFORMED, LH_ERR_UNSUPPORTED (architecture, rope scaling, type,
 * tensor), LH_ERR_LIMIT, LH_ERR_NO_MEMORY. */
lh_status lh_model_config_read(const lh_gguf *gguf, lh_model_config *config, lh_error *error);

/* In some layer, where it is one of a layer's. */
bool lh_model_has(const lh_model_config *config, lh_tensor_role role);
bool lh_model_layer_has(const lh_model_config *config, lh_tensor_role role, uint32_t layer);
lh_layer_kind lh_model_layer_kind(const lh_model_config *config, uint32_t layer);
bool lh_model_layer_is_rotated(const lh_model_config *config, uint32_t layer);
/* Whether the layer's feed-forward part is a mixture of experts. */
bool lh_model_layer_is_mixture(const lh_model_config *config, uint32_t layer);

/* The tensor of a role; `layer` counts from the first of the model and is not read for the others.
 * NULL: not there (after lh_model_config_read: just where lh_model_layer_has says so). */
const lh_gguf_tensor *lh_model_tensor(const lh_gguf *gguf, lh_tensor_role role, uint32_t layer);
/* Whether the role's tensor is a matrix; else it is a vector, or one for each expert, of F32. */
bool lh_model_is_matrix(lh_tensor_role role);
/* Whether it is a matrix for each expert, one after the other; or one for each head. */
bool lh_model_is_of_experts(lh_tensor_role role);
bool lh_model_is_of_heads(lh_tensor_role role);

/* What lies in a tensor: itself, or the tensors of several roles, whose rows (a vector's elements)
 * follow each other. */
typedef struct lh_tensor_part {
    lh_tensor_role role;
    uint64_t first, count; /* rows; where it is no matrix, elements */
} lh_tensor_part;
#define LH_TENSOR_PARTS_MAX 3u
/* Returns how many there are. */
uint32_t lh_model_tensor_parts(const lh_model_config *config, lh_tensor_role role,
                               lh_tensor_part parts[LH_TENSOR_PARTS_MAX]);

/* Calls visit for each tensor that the range needs, in the order of the layers; `layer` is as in
 * lh_model_tensor. Stops at the first status that is not LH_OK and returns it. */
typedef lh_status lh_tensor_visitor(void *context, lh_tensor_role role, uint32_t layer,
                                    const lh_gguf_tensor *tensor, lh_error *error);
lh_status lh_model_visit_tensors(const lh_gguf *gguf, const lh_model_config *config,
                                 lh_layer_range range, lh_tensor_visitor *visit, void *context,
                                 lh_error *error);
