/* The memory that steps compute in, all of it allocated at start. An activation buffer belongs to
 * one step from begin to end; the scratch belongs to the stage, since only one step at a time is
 * between its layers. Rows of h and branch follow each other; those of q, k, v, attended, gate and
 * up are lh_row_stride apart. Thread: the compute thread. */
#pragma once

#include "common/base/status.h"
#include "common/model/model.h"
#include "worker/compute/stage/division.h"
#include "worker/compute/stage/experts.h"
#include "worker/compute/stage/ops.h"
#include "worker/compute/stage/parameters.h"
#include "worker/compute/stage/row_norms.h"

typedef struct lh_activation_buffer {
    float *h;         /* [rows][width]: the activation, the residual stream */
    lh_packed normed; /* [rows][width]: h * gain */
    float *squares;   /* [rows][16]: sum of squares of h, in lanes */
    float *q;         /* [rows][heads][head_dim] */
    float *k, *v;     /* [rows][kv_heads][head_dim]; latent: k[rows][rank + rope_dims], no v */
    float *q_a;       /* [rows][query_rank], where queries are made of such rows */
    /* [rows][rope_dims / 2]; of the kinds that there are */
    float *cosine[LH_LAYER_KINDS], *sine[LH_LAYER_KINDS];
} lh_activation_buffer;

typedef struct lh_scratch {
    float *scale; /* [rows]: 1 / rms */
    lh_whole_rows whole_rows;
    /* [rows][heads][head_dim or value_dim], behind as many floats as columns come before the
     * member's own: so the columns have the numbers that they have in the packed rows */
    float *attended;
    lh_packed attended_packed; /* of all members */
    float *gate;               /* [rows][feed_forward_width], likewise */
    float *up;                 /* [rows][feed_forward_width] */
    lh_packed gated_packed;    /* of all members */
    /* [rows][width]: what attention or feed-forward adds to h, before its norm; NULL: no such
     * norm */
    float *branch;
    float *branch_gain; /* [widest]: residual_scale for each column; NULL: 1 */
    lh_experts experts; /* of a mixture; gate, up and gated_packed are of its dense layers */
    lh_attention attention;
    void *latent;             /* instead of it, where attention is latent: the device's */
    lh_packed latent_queries; /* [rows][query_rank], where queries are made of such rows */
} lh_scratch;

/* rows: the most of one step. The packed forms are those that the matrices in `weights` read,
 * `activations` where they are quantized. LH_ERR_NO_MEMORY. */
lh_status lh_activation_buffer_init(lh_activation_buffer *buffer, const lh_model_config *config,
                                    const lh_parameters *weights, const lh_compute *compute,
                                    uint32_t rows, lh_error *error);
void lh_activation_buffer_reset(lh_activation_buffer *buffer, const lh_compute *compute);
/* context: positions of one sequence; the config is the member's. */
lh_status lh_scratch_init(lh_scratch *scratch, const lh_model_config *config,
                          const lh_division *division, const lh_parameters *weights,
                          const lh_compute *compute, uint32_t rows, uint32_t context,
                          lh_error *error);
void lh_scratch_reset(lh_scratch *scratch, const lh_compute *compute);
