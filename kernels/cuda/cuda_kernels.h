/* The kernels of kernels.h on a GPU: the same bits.
 *
 * A function that carries the name of one in lh_kernels computes what is written there, with the
 * same arguments, of which every pointer to an array is one of the device; what a struct of them
 * points to lies there, too (lh_matrix.data and lh_activations.data as on the CPU, byte for byte).
 * It enqueues its work on `stream` and returns: 0, or the CUDA runtime's error number, and then
 * nothing was enqueued. Spans that are empty, and no rows, are nothing to do.
 *
 * Angles of RoPE come from the host. No kernel sums floats with atomics or cuts a sum of them into
 * parts that meet in an order of chance.
 *
 * Thread: the one that drives the stream. */
#pragma once

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The CUDA runtime's stream; NULL: its default one. */
typedef struct CUstream_st *lh_cuda_stream;

int lh_cuda_pack_activations(lh_cuda_stream stream, const lh_activations *packed, lh_span columns,
                             const float *x, size_t stride, const float *gain, float *squares);
/* pack_activations with the sum of squares, which starts from zero where the columns do; and where
 * they end the row, rms_scale. */
int lh_cuda_norm_activations(lh_cuda_stream stream, const lh_activations *packed, lh_span columns,
                             const float *x, size_t stride, const float *gain, float *squares,
                             float *scale, float epsilon);

/* One of several products of the same rows: y[rows][out]. */
typedef struct lh_cuda_product {
    float *y;
    size_t y_stride;
    lh_matrix w;
    lh_span out;
    const float *bias; /* [outputs]: added where there is a scale; NULL: none */
} lh_cuda_product;

/* Of one call of lh_cuda_products. */
#define LH_CUDA_PRODUCTS_MAX 8u

/* `matmul` for each product, over the inputs `in` of x; then, where scale[rows] is not NULL,
 * scale_rows, or scale_add_rows where there is a bias. No two write to the same place.
 *
 * Where the weights are quantized, how products are laid over threads depends on the number of
 * rows: one, up to 64, or more. Either way the fold is in block order. Up to 64 rows, and of float
 * weights always, those of one type are one launch (of up to 4): a small matrix alone leaves most
 * of a large GPU idle. */
int lh_cuda_products(lh_cuda_stream stream, const lh_cuda_product *products, uint32_t count,
                     const lh_activations *x, lh_span in, bool continues, const float *scale);
int lh_cuda_scale_rows(lh_cuda_stream stream, float *y, size_t stride, uint32_t rows,
                       lh_span columns, const float *scale);
int lh_cuda_scale_add_rows(lh_cuda_stream stream, float *y, size_t stride, uint32_t rows,
                           lh_span columns, const float *scale, const float *bias);
int lh_cuda_add_rows(lh_cuda_stream stream, float *y, size_t stride, uint32_t rows, lh_span columns,
                     const float *scale, const float *bias);
int lh_cuda_norm_heads(lh_cuda_stream stream, float *x, size_t stride, uint32_t rows,
                       uint32_t heads, uint32_t head_dim, const float *gain, float epsilon);
int lh_cuda_norm_add(lh_cuda_stream stream, float *y, const float *x, size_t stride, uint32_t rows,
                     uint32_t width, const float *gain, float epsilon);
int lh_cuda_silu_mul(lh_cuda_stream stream, float *y, const float *gate, const float *up,
                     size_t stride, uint32_t rows, lh_span columns);
int lh_cuda_gelu_mul(lh_cuda_stream stream, float *y, const float *gate, const float *up,
                     size_t stride, uint32_t rows, lh_span columns);
int lh_cuda_swiglu_mul(lh_cuda_stream stream, float *y, const float *gate, const float *up,
                       size_t stride, uint32_t rows, lh_span columns);
int lh_cuda_rope(lh_cuda_stream stream, float *x, size_t stride, uint32_t rows, uint32_t heads,
                 uint32_t head_dim, uint32_t rotated, bool interleaved, const float *cosine,
                 const float *sine);

/* y[row][c] = y[row][c] * factor for c in columns. */
int lh_cuda_scale(lh_cuda_stream stream, float *y, size_t stride, uint32_t rows, lh_span columns,
                  float factor);

/* y[count][inputs] (row stride y_stride): the rows ids[count] of a packed matrix as lh_matrix_row
 * dequantizes them; ids lie on the device and are below w->outputs. */
int lh_cuda_matrix_rows(lh_cuda_stream stream, float *y, size_t y_stride, const lh_matrix *w,
                        const uint32_t *ids, uint32_t count);

/* Where keys and values of a row go: the pages of its sequence that hold its position, where a
 * layer's part of them begins `offset` bytes in. */
typedef struct lh_cuda_kv_place {
    void *key_page, *value_page;
    uint32_t position;
} lh_cuda_kv_place;

/* What turns keys before they are stored; as in `rope`. */
typedef struct lh_cuda_rotation {
    uint32_t rotated; /* 0: nothing is */
    bool interleaved;
    const float *cosine, *sine;
} lh_cuda_rotation;

/* Writes keys[rows][kv_heads][key_dim], rotated first (what `keys` holds stays), and
 * values[rows][kv_heads][value_dim] (row strides given) to places[rows], `offset` bytes further:
 * what `rope` and `kv_store` write. The rows may be of any sequences, no two of one position. */
int lh_cuda_kv_store(lh_cuda_stream stream, const lh_kv_shape *shape,
                     const lh_cuda_kv_place *places, size_t offset, uint32_t rows,
                     const float *keys, size_t key_stride, const float *values, size_t value_stride,
                     lh_cuda_rotation rotation);

/* A row of attention: its position, and where the pages of its sequence lie, arrays on the device
 * as those of lh_kv_view. Rows whose value_pages are one array are of one sequence. */
typedef struct lh_cuda_attention_row {
    void *const *key_pages; /* latent attention has none */
    void *const *value_pages;
    uint32_t position;
} lh_cuda_attention_row;

typedef struct lh_cuda_attention_rows {
    const lh_cuda_attention_row *rows; /* [count], on the device */
    uint32_t count;
    uint32_t context; /* above all their positions */
    size_t offset;    /* of the layer's part of a page, from each page's address */
} lh_cuda_attention_rows;

/* What `attention` of kernels.h computes, for all KV heads and for rows of any sequences, each at
 * its own position: y[rows][heads][value_dim] of q[rows][heads][key_dim], which are different
 * arrays. sinks[heads] on the device; NULL: none. The two functions give the same bits:
 *   lh_cuda_attention         few rows and what they have to read: a block of threads for each row,
 *                             KV head and block of keys. scratch: 8-byte aligned, of
 *                             lh_cuda_attention_scratch_bytes
 *   lh_cuda_prompt_attention  rows that follow each other in one sequence, or in some, those of one
 *                             side by side: a block of threads for 32 rows and heads */
int lh_cuda_attention(lh_cuda_stream stream, float *y, size_t y_stride, const float *q,
                      size_t q_stride, const lh_kv_shape *shape, uint32_t group,
                      const lh_cuda_attention_rows *rows, uint32_t window, float scale,
                      const float *sinks, void *scratch);
int lh_cuda_prompt_attention(lh_cuda_stream stream, float *y, size_t y_stride, const float *q,
                             size_t q_stride, const lh_kv_shape *shape, uint32_t group,
                             const lh_cuda_attention_rows *rows, uint32_t window, float scale,
                             const float *sinks);

/* What `latent_attention` computes, likewise: y[rows][heads][rank] of q[rows][heads][width], width
 * being the value_dim of the shape. */
int lh_cuda_latent_attention(lh_cuda_stream stream, float *y, size_t y_stride, const float *q,
                             size_t q_stride, const lh_kv_shape *shape, uint32_t rank,
                             uint32_t heads, const lh_cuda_attention_rows *rows, float scale,
                             void *scratch);
int lh_cuda_latent_prompt_attention(lh_cuda_stream stream, float *y, size_t y_stride,
                                    const float *q, size_t q_stride, const lh_kv_shape *shape,
                                    uint32_t rank, uint32_t heads,
                                    const lh_cuda_attention_rows *rows, float scale);

/* Scratch of lh_cuda_attention, and of lh_cuda_latent_attention with its rank for value_dim and
 * LH_ATTENTION_ALL for its window. `heads` are all query heads, `context` is that of the rows. */
size_t lh_cuda_attention_scratch_bytes(uint32_t rows, uint32_t heads, uint32_t value_dim,
                                       uint32_t context, uint32_t window);

/* ---- The wire ---- */

/* The wire types of common/protocol/wire_type.h that pack: what leaves a stage travels so. */
typedef enum lh_cuda_wire { LH_CUDA_WIRE_F16, LH_CUDA_WIRE_Q8 } lh_cuda_wire;

/* Bytes of x[rows][columns]: those of lh_wire_bytes. At most 3 for each number. */
size_t lh_cuda_wire_bytes(lh_cuda_wire wire, uint32_t rows, uint32_t columns);
/* bytes (2-byte aligned): what lh_wire_encode makes of x[rows][columns], whose rows lie `stride`
 * apart. *refused becomes 1 where that says false, and the bytes are undefined; else it stays as
 * it is. It may be memory of the host, of allocate_host. At most `blocks` blocks of threads do it,
 * however much there is: what computes meanwhile keeps the rest of the GPU. */
int lh_cuda_pack_wire(lh_cuda_stream stream, lh_cuda_wire wire, uint8_t *bytes, uint32_t *refused,
                      const float *x, size_t stride, uint32_t rows, uint32_t columns,
                      uint32_t blocks);

/* ---- Heads: a matrix for each, as latent attention has them ---- */

/* Packs x, whose rows are `stride` apart and their heads head_stride, head by head: row
 * head * rows + row of `packed`, which has heads * rows. */
int lh_cuda_pack_heads(lh_cuda_stream stream, const lh_activations *packed, const float *x,
                       size_t stride, size_t head_stride, uint32_t heads);
/* y[row][head] = x[row][head] W[head]^T; x as pack_heads gives it. The matrices lie one after the
 * other, `bytes` apart. */
int lh_cuda_head_products(lh_cuda_stream stream, float *y, size_t y_stride, size_t y_head_stride,
                          const lh_activations *x, const lh_matrix *first, size_t bytes,
                          uint32_t heads);
/* y[row][head][width] = x[row][head][width]. */
int lh_cuda_copy_heads(lh_cuda_stream stream, float *y, size_t y_stride, size_t y_head_stride,
                       const float *x, size_t x_stride, size_t x_head_stride, uint32_t rows,
                       uint32_t heads, uint32_t width);

/* ---- Draws ---- */

typedef struct lh_cuda_token_bias {
    uint32_t token;
    float bias;
} lh_cuda_token_bias;

typedef struct lh_cuda_token_count {
    uint32_t token;
    uint32_t prompt_count, output_count; /* times in the prompt, times generated */
} lh_cuda_token_count;

/* What is done to a row of logits before a draw, in this order. */
typedef struct lh_cuda_logit_changes {
    const uint64_t *mask; /* a bit for each token: 0 makes its logit -inf; NULL: none does */
    const lh_cuda_token_bias *biases;  /* [bias_count], distinct tokens: are added */
    const lh_cuda_token_count *counts; /* [count_count], distinct tokens: penalties apply to them */
    uint32_t bias_count, count_count;
    /* a logit of a token that has come is divided by the first one where it is positive, else
     * multiplied; of one that was generated, presence + frequency * output_count is subtracted */
    float repetition_penalty, presence_penalty, frequency_penalty;
} lh_cuda_logit_changes;

/* logits[rows][count] (row stride given) by changes[rows], which lie on the device. */
int lh_cuda_change_logits(lh_cuda_stream stream, float *logits, size_t stride, uint32_t rows,
                          uint32_t count, const lh_cuda_logit_changes *changes);

/* How a row's token is drawn. */
typedef struct lh_cuda_draw_row {
    float temperature;  /* 0: the greatest logit, the lowest of equals */
    uint32_t top_k;     /* 0: off */
    float top_p, min_p; /* 1 and 0: off */
    uint64_t seed, position;
} lh_cuda_draw_row;

/* Whether top-k, and top-p, is on in any row: the steps that find them are launched then. */
typedef struct lh_cuda_cuts {
    bool top_k, top_p;
} lh_cuda_cuts;

/* Of `scratch` below, which is 16-byte aligned. */
size_t lh_cuda_draw_scratch_bytes(uint32_t rows, uint32_t count);

/* tokens[rows] of logits[rows][count] (0 < count < 2^24) by draws[rows], which lie on the device:
 * what `draw` gives, and `draw_among` of what the cuts leave (worker/compute/stage/candidates.h).
 * UINT32_MAX: a logit is NaN or +inf, or all are -inf. Integers are added up by atomics: they have
 * the same sum in any order. */
int lh_cuda_draw(lh_cuda_stream stream, uint32_t *tokens, const float *logits, size_t stride,
                 uint32_t rows, uint32_t count, const lh_cuda_draw_row *draws, lh_cuda_cuts cuts,
                 void *scratch);

/* ---- Mixtures of experts: what worker/compute/stage/experts.h describes, without the host ---- */

/* What lh_cuda_route answers to more than it can do: the CUDA runtime's number of that. */
#define LH_CUDA_INVALID_VALUE 1

typedef enum lh_cuda_routing_kind {
    LH_CUDA_ROUTING_SOFTMAX,
    LH_CUDA_ROUTING_SIGMOID,
    LH_CUDA_ROUTING_SOFTMAX_OF_CHOSEN
} lh_cuda_routing_kind;

#define LH_CUDA_EXPERTS_MAX       1024u
#define LH_CUDA_EXPERTS_USED_MAX  32u
#define LH_CUDA_EXPERT_GROUPS_MAX 64u

typedef struct lh_cuda_routing {
    lh_cuda_routing_kind kind;
    uint32_t experts, used;
    uint32_t groups, groups_used; /* 1 and 1: all experts count */
    bool is_normalized;
    float scale;
    const float *bias; /* [experts]; NULL: none */
} lh_cuda_routing;

/* Slots [first, first + count), rows that go through one expert; count 0: none. */
typedef struct lh_cuda_expert_group {
    uint32_t expert, first, count;
} lh_cuda_expert_group;

/* Slots of a group at most: those of one expert are as many groups as they need. */
#define LH_CUDA_EXPERT_ROWS 16u

/* The most groups that `slots` slots make. */
static inline __attribute__((always_inline))
#ifdef __CUDACC__
__host__ __device__
#endif
    uint32_t
    lh_cuda_expert_groups(uint32_t experts, uint32_t slots) {
    const uint32_t begun = experts < slots ? experts : slots;
    return (uint32_t)((slots + (uint64_t)begun * (LH_CUDA_EXPERT_ROWS - 1)) / LH_CUDA_EXPERT_ROWS);
}

/* Where the rows of a step go, arrays of the device. A slot is one row at one expert; slots lie in
 * the order of experts, and of rows within one. */
typedef struct lh_cuda_experts {
    uint32_t *counts; /* [1 + used][experts] */
    /* of each row, [rows][used], in the order of its experts */
    uint32_t *chosen, *slots;
    float *shares;
    /* of each slot, [rows * used]; slot_scale is the scale of its row */
    uint32_t *rows;
    float *slot_shares, *slot_scale;
    lh_cuda_expert_group *groups; /* [lh_cuda_expert_groups(experts, rows * used)] */
    /* The same of the n-th expert of each row alone, [used][rows] and
     * [used][lh_cuda_expert_groups(experts, rows)]: what a sum over experts takes where there are
     * many rows. All NULL: it has at most LH_CUDA_EXPERT_SUM_ROWS, of quantized matrices. */
    uint32_t *nth_rows, *nth_slots;
    float *nth_shares;
    lh_cuda_expert_group *nth_groups;
} lh_cuda_experts;

#define LH_CUDA_EXPERT_SUM_ROWS 8u

/* logits[rows][experts] (row stride `stride`) become shares, and those decide: the choice and the
 * shares of lh_experts_choose where logits are finite, the slots of lh_experts_route, and all that
 * lh_cuda_experts has besides. */
int lh_cuda_route(lh_cuda_stream stream, const lh_cuda_experts *experts,
                  const lh_cuda_routing *routing, float *logits, size_t stride, const float *scale,
                  uint32_t rows);

/* A matrix for each expert, one after the other, `bytes` apart; biases[experts][outputs] or
 * NULL. */
typedef struct lh_cuda_expert_matrices {
    lh_matrix first;
    size_t bytes;
    const float *biases;
} lh_cuda_expert_matrices;

/* y[slot] = x[row of the slot] W[expert]^T, multiplied by slot_scale, for all slots of `rows` rows
 * at once; with biases fma(y, slot_scale, bias). */
int lh_cuda_expert_products(lh_cuda_stream stream, float *y, size_t y_stride,
                            const lh_activations *x, const lh_cuda_expert_matrices *w,
                            const lh_cuda_experts *experts, const lh_cuda_routing *routing,
                            uint32_t rows);
/* h[row][out] += x[slot] W[expert]^T and then share * bias[expert], for the experts of each row in
 * their order: what expert_sum of lh_ops computes. */
int lh_cuda_expert_sum(lh_cuda_stream stream, float *h, size_t h_stride, const lh_activations *x,
                       const lh_cuda_expert_matrices *w, lh_span out,
                       const lh_cuda_experts *experts, const lh_cuda_routing *routing,
                       uint32_t rows);
/* y[rows] = 1 / (1 + exp(-x[row])), rows of x `stride` apart: the shared expert's shares. */
int lh_cuda_sigmoid(lh_cuda_stream stream, float *y, const float *x, size_t stride, uint32_t rows);

#ifdef __cplusplus
}
#endif
