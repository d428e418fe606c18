/* The weights of a stage, repacked for the kernels, in one block of memory.
 * Thread: loading on the compute thread; read-only afterwards. */
#pragma once

#include "common/base/status.h"
#include "common/model/model.h"
#include "kernels/kernels.h"
#include "worker/compute/stage/division.h"
#include "worker/compute/stage/ops.h"
#include "worker/compute/stage/rope_table.h"
#include "worker/compute/tensor_source.h"

/* What an architecture lacks is NULL. Of a member of several (division.h) heads, KV heads, the
 * feed-forward width and, of the outputs of attn_output and down, the width are its own. */
typedef struct lh_layer {
    lh_layer_kind kind;
    lh_layer_kind angles; /* whose q and k are rotated by */
    bool is_rotated;
    const float *attn_norm;                      /* [width] */
    lh_matrix q;                                 /* [heads * head_dim][width] */
    lh_matrix k, v;                              /* [kv_heads * head_dim][width] */
    lh_matrix q_a;                               /* [query_rank][width] */
    const float *q_a_norm;                       /* [query_rank] */
    lh_matrix q_b;                               /* [heads * head_dim][query_rank] */
    lh_matrix kv_a;                              /* [rank + rope_dims][width] */
    const float *kv_a_norm;                      /* [rank] */
    lh_expert_matrices k_b;                      /* [rank][head_dim - rope_dims] of each head */
    lh_expert_matrices v_b;                      /* [value_dim][rank] of each head */
    const float *q_bias;                         /* [heads * head_dim] */
    const float *k_bias, *v_bias;                /* [kv_heads * head_dim] */
    const float *q_norm, *k_norm;                /* [head_dim] */
    const float *attn_sinks;                     /* [heads] */
    lh_matrix attn_output;                       /* [width][heads * head_dim or value_dim] */
    const float *attn_output_bias;               /* [width] */
    const float *attn_post_norm;                 /* [width] */
    const float *ffn_norm;                       /* [width] */
    lh_matrix gate, up;                          /* [feed_forward_width][width] */
    lh_matrix down;                              /* [width][feed_forward_width] */
    const float *ffn_post_norm;                  /* [width] */
    lh_matrix router;                            /* [experts][width] */
    const float *router_bias;                    /* [experts] */
    const float *router_logit_bias;              /* [experts] */
    const float *experts_gate_bias;              /* [experts][expert_width] */
    const float *experts_up_bias;                /* [experts][expert_width] */
    const float *experts_down_bias;              /* [experts][width] */
    lh_expert_matrices experts_gate, experts_up; /* [expert_width][width] each */
    lh_expert_matrices experts_down;             /* [width][expert_width] each */
    lh_matrix shared_router;                     /* [1][width] */
    lh_matrix shared_gate, shared_up;            /* [shared_expert_width][width] */
    lh_matrix shared_down;                       /* [width][shared_expert_width] */
} lh_layer;

typedef struct lh_parameters {
    lh_matrix embedding; /* [vocabulary][width]; first stage */
    /* [the member's tokens][width]; last stage; of the embedding's data when tied and both here */
    lh_matrix head;
    const float *output_norm; /* [width]; last stage */
    lh_rope_table rope;
    uint32_t layer_count;
    lh_layer *layers; /* [layer_count] */
    void *memory;
    size_t memory_bytes;
} lh_parameters;

typedef struct lh_load_progress {
    void (*on_progress)(void *context, uint64_t done, uint64_t total); /* may be NULL */
    void *context;
} lh_load_progress;

/* Bytes that lh_parameters_load would hold. LH_ERR_LIMIT as there. */
lh_status lh_parameters_count(const lh_gguf *gguf, const lh_model_config *config,
                              lh_layer_range range, const lh_division *division, size_t *bytes,
                              lh_error *error);
/* What lh_parameters_load reads of a tensor: slices[], which may be the whole of it; how many. */
uint32_t lh_parameters_slices(const lh_model_config *config, lh_layer_range range,
                              const lh_division *division, lh_tensor_role role,
                              const lh_gguf_tensor *tensor,
                              lh_tensor_slice slices[LH_TENSOR_PARTS_MAX]);
/* Loads and repacks what the range needs and the division leaves to the member, for sequences of up
 * to `context` positions; the config is the whole model's. Threads of the pool pack rows of one
 * tensor together. Errors: those of the source, LH_ERR_NO_MEMORY, LH_ERR_LIMIT (sizes overflow),
 * LH_ERR_MALFORMED (a factor of the rotation). On an error nothing is held. */
lh_status lh_parameters_load(const lh_gguf *gguf, const lh_model_config *config,
                             lh_layer_range range, const lh_division *division, uint32_t context,
                             const lh_weight_source *source, const lh_compute *compute,
                             const lh_load_progress *progress, lh_parameters *weights,
                             lh_error *error);
void lh_parameters_reset(lh_parameters *weights, const lh_compute *compute);
