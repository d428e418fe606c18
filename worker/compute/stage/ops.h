/* The operations of a layer on whole activation buffers, each divided over the thread pool: a
 * product by spans of outputs, attention by KV head and block of rows, or of keys where rows are
 * few, the rest by rows or columns. How the work is divided never shows in the result: every output
 * element, or partial result that kernels.h knows, is computed whole, by one thread, in the order
 * spelled out there. Thread: the compute thread. */
#pragma once

#include "common/model/model.h"
#include "kernels/kernels.h"
#include "worker/compute/stage/attention_partials.h"
#include "worker/compute/stage/position_run.h"
#include "worker/compute/thread_pool.h"

/* What every operation needs. */
typedef struct lh_compute {
    const lh_kernels *kernels;
    lh_thread_pool *pool;
    lh_activation_kind activations; /* Q8 or Q16: of quantized matrices */
} lh_compute;

#define LH_ACTIVATION_KINDS 3u /* of lh_activation_kind */

/* Activations [rows][width] in each form that the matrices behind them read. */
typedef struct lh_packed {
    uint32_t width;
    void *data[LH_ACTIVATION_KINDS]; /* by kind; NULL: nobody reads it */
} lh_packed;

/* Packs columns of x[rows][width], whose rows are `stride` apart. gain and squares as in kernels.h;
 * either may be NULL. */
void lh_op_pack(const lh_compute *compute, const lh_packed *packed, uint32_t rows, lh_span columns,
                const float *x, size_t stride, const float *gain, float *squares);

/* One product of several that read the same activations: y[rows][outputs], the columns `out` and
 * the rows `rows` of it and of the activations. */
typedef struct lh_product {
    lh_matrix matrix;
    float *y;
    size_t stride;
    lh_span out, rows;
    const float *bias; /* [outputs]; NULL: none */
} lh_product;

/* y += x W^T over the input columns `in`. Without `continues` the sums start from zero where `in`
 * begins at column 0; with it they go on from what y holds (a residual). Where scale[rows] is not
 * NULL, y is multiplied by it afterwards, and the bias is added where there is one. */
void lh_op_products(const lh_compute *compute, const lh_product *products, uint32_t count,
                    const lh_packed *x, lh_span in, bool continues, const float *scale);

typedef struct lh_rope {
    uint32_t dims;
    bool interleaved;
    const float *cosine, *sine; /* [rows][dims / 2] */
} lh_rope;

/* Rotates x[rows][heads][head_dim] in place; rows lh_row_stride apart. */
void lh_op_rope(const lh_compute *compute, const lh_rope *rope, float *x, uint32_t rows,
                uint32_t heads, uint32_t head_dim);

/* Norms each head of x[rows][heads][head_dim] in place; rows lh_row_stride apart. */
void lh_op_norm_heads(const lh_compute *compute, float *x, uint32_t rows, uint32_t heads,
                      uint32_t head_dim, const float *gain, float epsilon);

/* y += norm(x), both [rows][width]. */
void lh_op_norm_add(const lh_compute *compute, float *y, const float *x, uint32_t rows,
                    uint32_t width, const float *gain, float epsilon);

/* gate = f(gate) * up, both [rows][width]; rows lh_row_stride apart. Where shares[rows] is not
 * NULL, the rows are multiplied by it afterwards. */
void lh_op_gate(const lh_compute *compute, lh_gate function, float *gate, const float *up,
                const float *shares, uint32_t rows, uint32_t width);

/* y += bias[width] in each row of y[rows][width]. */
void lh_op_add_bias(const lh_compute *compute, float *y, uint32_t rows, uint32_t width,
                    const float *bias);

/* ---- Experts ---- */

/* Row slots[i] of x goes to row i of y; both have the same width, and x has the kinds of y. */
void lh_op_gather(const lh_compute *compute, const lh_packed *y, const lh_packed *x,
                  const uint32_t *slots, uint32_t count);

/* A matrix for each expert or head, one after the other. */
typedef struct lh_expert_matrices {
    lh_matrix first;
    size_t each_bytes;
} lh_expert_matrices;

static inline lh_matrix lh_expert_matrix(const lh_expert_matrices *matrices, uint32_t expert) {
    lh_matrix matrix = matrices->first;
    matrix.data = (char *)matrix.data + expert * matrices->each_bytes;
    return matrix;
}

/* Slots [first, first + count), which are rows that go through one expert. */
typedef struct lh_expert_group {
    uint32_t expert, first, count;
} lh_expert_group;

/* Rows of a group that are summed at a time. */
#define LH_EXPERT_SUM_ROWS 64u

/* What an expert adds besides, times the share of the slot. */
typedef struct lh_expert_biases {
    const float *biases; /* [experts][width]; NULL: nothing */
    const float *shares; /* [slots] */
} lh_expert_biases;

/* h[row][out] += x[slot] W[expert]^T, and then share[slot] * bias[expert], for the slots of all
 * groups, in the order of groups: row slots[i] for slot i, ascending within a group.
 * h[rows][width]. scratch: for each thread [LH_EXPERT_SUM_ROWS][lh_row_stride(width)]. */
void lh_op_expert_sum(const lh_compute *compute, const lh_expert_matrices *matrices,
                      lh_expert_biases biases, const lh_expert_group *groups, uint32_t count,
                      const lh_packed *x, const uint32_t *slots, float *h, uint32_t width,
                      lh_span out, float *scratch);

/* Writes keys and values [rows][kv_heads][head_dim], rows lh_row_stride apart, of one layer into
 * the pages. */
void lh_op_kv_store(const lh_compute *compute, const lh_position_run *runs, uint32_t count,
                    uint32_t layer, const float *keys, const float *values);

typedef struct lh_attention {
    uint32_t heads, kv_heads, head_dim;
    float scale;
    void *scratch; /* threads * scratch_bytes */
    size_t scratch_bytes;
    lh_attention_partials partials;
} lh_attention;

/* Rows of a run that one call of the kernel takes; the caller cuts longer runs. */
#define LH_ATTENTION_ROWS 16u

/* y[rows][heads][head_dim] = attention of q over the last `window` positions in the pages of one
 * layer; rows of both lh_row_stride apart. sinks[heads]; NULL: none. */
void lh_op_attention(const lh_compute *compute, const lh_attention *attention,
                     const lh_position_run *runs, uint32_t count, uint32_t layer, uint32_t window,
                     const float *sinks, const float *q, float *y);
