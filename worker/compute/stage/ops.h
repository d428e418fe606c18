/* The operations of a layer on whole activation buffers, and the memory that they work on: lh_ops
 * is what a device must offer, and layer.c, head.c and stage_step.c compute with nothing else. On
 * CPUs (lh_cpu_ops) each is divided over the thread pool: a product by spans of outputs, attention
 * by KV head and block of rows, or of keys where rows are few, the rest by rows or columns. A GPU
 * (worker/compute/cuda) puts it into a queue and returns; what comes back to the host is waited for
 * by the operations that say so. How the work is divided never shows in the result, because every
 * output element is computed whole, in the order that kernels.h spells out.
 *
 * Arrays lie in the device's memory, but for what is told to be the host's. No operation but
 * `settle` tells an error: what fails on a device (it is lost, say) makes all that follows do
 * nothing, and is told there. Thread: the compute thread. */
#pragma once

#include "common/base/arithmetic.h"
#include "common/model/model.h"
#include "common/protocol/step_parts.h"
#include "kernels/kernels.h"
#include "worker/compute/stage/position_run.h"
#include "worker/compute/stage/rope_table.h"
#include "worker/compute/thread_pool.h"

typedef struct lh_ops lh_ops;
typedef struct lh_parameters lh_parameters; /* parameters.h */

/* What a stage will ask of a device. */
typedef struct lh_device_work {
    const lh_model_config *config; /* NULL: products alone */
    uint32_t rows;                 /* of a step */
    uint32_t context;              /* positions of a sequence */
    uint32_t drawn_rows;           /* of logits at a time; 0: the stage is not the last */
    bool is_fast;                  /* products may round (lh_stage_options) */
} lh_device_work;

/* Something else than the host's CPUs to compute on; the first member of what it is. */
typedef struct lh_device lh_device;
struct lh_device {
    const char *name; /* told instead of an instruction set: "cuda" */
    const lh_ops *ops;
    /* For lh_compute. LH_ERR_UNSUPPORTED: it does not compute such a model, or not so;
     * LH_ERR_NO_MEMORY, LH_ERR_UNAVAILABLE. */
    lh_status (*open)(const lh_device *device, const lh_device_work *work, void **queue,
                      lh_error *error);
    void (*close)(void *queue); /* NULL is allowed */
    /* Of its memory, now; -1: not known. */
    int64_t (*free_bytes)(const lh_device *device);
    /* What it takes of its memory for that, beside what is allocated of it: before the first step,
     * so that no step can lack it. */
    uint64_t (*work_bytes)(const lh_device *device, const lh_device_work *work);
};

/* What every operation needs. */
typedef struct lh_compute lh_compute;
struct lh_compute {
    const lh_kernels *kernels; /* of the host */
    lh_thread_pool *pool;
    lh_activation_kind activations; /* Q8 or Q16: of quantized matrices */
    const lh_ops *ops;
    void *queue; /* what the device opened; NULL: the host's CPUs */
};

#define LH_ACTIVATION_KINDS 3u /* of lh_activation_kind */

/* Activations [rows][width] in each form that the matrices behind them read. */
typedef struct lh_packed {
    uint32_t width;
    void *data[LH_ACTIVATION_KINDS]; /* by kind; NULL: nobody reads it */
} lh_packed;

/* Rows [begin, end) as activations of their own: rows lie one after the other. */
static inline lh_activations lh_packed_rows(const lh_packed *packed, lh_activation_kind kind,
                                            lh_span rows) {
    char *data = (char *)packed->data[kind];
    return (lh_activations){
        .kind = kind,
        .rows = rows.end - rows.begin,
        .width = packed->width,
        .data = data ? data + lh_activations_bytes(kind, rows.begin, packed->width) : NULL};
}

/* One product of several that read the same activations: y[rows][outputs], the columns `out` and
 * the rows `rows` of it and of the activations. */
typedef struct lh_product {
    lh_matrix matrix;
    float *y;
    size_t stride;
    lh_span out, rows;
    const float *bias; /* [outputs]; NULL: none */
} lh_product;

typedef struct lh_rope {
    uint32_t dims;
    bool interleaved;
    const float *cosine, *sine; /* [rows][dims / 2] */
} lh_rope;

typedef struct lh_attention {
    uint32_t heads, kv_heads, head_dim;
    uint32_t group;   /* heads that share a KV head; of the first and the last one perhaps fewer */
    uint32_t lacking; /* so many fewer of the first one: other members have them (division.h) */
    float scale;
    void *scratch; /* of open_attention */
} lh_attention;

/* The heads that share KV head `kv_head`. */
static inline lh_span lh_attention_heads_of(const lh_attention *attention, uint32_t kv_head) {
    const uint32_t begin = kv_head * attention->group, end = begin + attention->group;
    return (lh_span){begin < attention->lacking ? 0 : begin - attention->lacking,
                     lh_min_u32(end - attention->lacking, attention->heads)};
}

/* Rows of a run that one call of the kernel takes; the caller cuts longer runs. */
#define LH_ATTENTION_ROWS 16u

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

/* One product of slots, rows at one expert each. */
typedef struct lh_expert_product {
    const lh_expert_matrices *matrices;
    const float *biases; /* [experts][outputs]; NULL: none */
    float *y;
    size_t stride;
} lh_expert_product;

/* Columns of an activation h[rows][width] on their way to the host. */
typedef struct lh_outgoing {
    float *h;
    uint32_t rows, width;
    lh_span columns;
    float *host; /* [rows][columns], of allocate_host */
    /* as what they will travel on from there, and the device's memory of as many bytes as host, in
     * which it packs them so; F32 and NULL: they are to come as they are */
    lh_wire_type wire;
    void *packing;
} lh_outgoing;

/* Columns that have come to the host: one of the two, in lh_outgoing.host; or h itself. */
typedef struct lh_sent {
    float *values;         /* [rows][columns], which the host may change */
    const uint8_t *packed; /* what lh_wire_encode gives for them */
    /* packed, and a value is not finite or too large for the wire type: neither is there */
    bool is_refused;
} lh_sent;

/* How one row of logits is drawn from. */
typedef struct lh_drawn_row {
    const lh_sampling *sampling; /* wants no more than a token */
    const uint64_t *mask;        /* a bit for each token that may be drawn; NULL: all may */
} lh_drawn_row;

/* Of one put_memory. */
#define LH_PUT_BYTES_MAX ((size_t)8 << 20)

/* In place of a token: the row's logits are such that lh_sample refuses them. */
#define LH_NO_DRAW UINT32_MAX

/* By what steps are alike. */
typedef struct lh_repeat {
    const void *buffer; /* of their activations */
    uint32_t rows;
    uint32_t projected; /* columns over which the first projection has gone */
} lh_repeat;

/* What a device offers. */
struct lh_ops {
    /* ---- Memory ---- */

    /* 64-byte aligned; NULL: there is not so much left. */
    void *(*allocate)(const lh_compute *compute, size_t bytes);
    /* NULL is allowed. */
    void (*release)(const lh_compute *compute, void *memory);
    /* The host's memory, to which `send` copies. */
    void *(*allocate_host)(const lh_compute *compute, size_t bytes);
    void (*release_host)(const lh_compute *compute, void *memory);
    /* The device's memory is the host's: what is put there may as well be written. */
    bool is_host;
    /* Memory for a whole stage, weights or pages: where it `may_stay_empty`, what is never touched
     * may cost nothing. NULL: there is not so much. */
    void *(*map)(const lh_compute *compute, size_t bytes, bool may_stay_empty);
    void (*unmap)(const lh_compute *compute, void *memory, size_t bytes);
    /* From the host's memory, which is read during the call. */
    void (*put)(const lh_compute *compute, void *to, const void *from, size_t bytes);
    /* The same without a copy on the host: memory of it for at most LH_PUT_BYTES_MAX, which the
     * caller fills, on any threads, and then tells in pieces where they go; until something else is
     * put. NULL, both: is_host. */
    void *(*put_memory)(const lh_compute *compute, size_t bytes);
    void (*put_filled)(const lh_compute *compute, void *to, const void *filled, size_t bytes);
    /* As `put`, for `rows` rows of `bytes` each, which follow each other in `from` and are `stride`
     * bytes apart in `to`: before what is asked next, but a device may do it while it computes what
     * was asked before: which does not write there, and what it reads there no longer counts. */
    void (*put_rows)(const lh_compute *compute, void *to, size_t stride, const void *from,
                     size_t bytes, uint32_t rows);
    /* Within the device; the two may not overlap. */
    void (*copy)(const lh_compute *compute, void *to, const void *from, size_t bytes);
    /* Columns can be packed for the wire before they travel. */
    bool packs;
    /* Columns begin to travel to the host as soon as what was asked before is computed. The i-th of
     * a step, i < LH_STEP_COLUMN_SHARDS_MAX; several may be on their way. */
    void (*send)(const lh_compute *compute, uint32_t number, const lh_outgoing *outgoing);
    /* Waits for them; valid until the next operation on h. Nothing of it: the device has failed. */
    lh_sent (*sent)(const lh_compute *compute, uint32_t number, const lh_outgoing *outgoing);
    /* So many may be asked for before the first is waited for: 0 where an operation is done when it
     * returns. */
    uint32_t sends_ahead;
    /* Waits for all that was asked. LH_ERR_UNAVAILABLE: the device has failed, now or before. */
    lh_status (*settle)(const lh_compute *compute, lh_error *error);

    /* What is asked between the two is the same for all steps that repeat each other (lh_repeat),
     * but for what `locate` was told, which comes before, and what the buffers hold. True: a device
     * has kept it, and it is done: it is not to be asked again, nor is there an end_repeat. NULL:
     * nothing is kept. */
    bool (*begin_repeat)(const lh_compute *compute, const lh_repeat *repeat);
    void (*end_repeat)(const lh_compute *compute);

    /* ---- Arithmetic ---- */

    /* Packs columns of x[rows][width], whose rows are `stride` apart, times gain[width], which may
     * be NULL. */
    void (*pack)(const lh_compute *compute, const lh_packed *packed, uint32_t rows, lh_span columns,
                 const float *x, size_t stride, const float *gain);
    /* The same for a deferred norm: squares[rows][16] collect the squares of x, from zero where the
     * columns begin, and where they end, scale[rows] is 1 / rms (rms_scale in kernels.h). */
    void (*norm)(const lh_compute *compute, const lh_packed *packed, uint32_t rows, lh_span columns,
                 const float *x, size_t stride, const float *gain, float *squares, float *scale,
                 float epsilon);
    /* y[rows][width] *= factor. */
    void (*scale)(const lh_compute *compute, float *y, size_t stride, uint32_t rows, uint32_t width,
                  float factor);
    /* y += x W^T over the input columns `in`. Without `continues` the sums start from zero where
     * `in` begins at column 0; with it they go on from what y holds (a residual). Where scale[rows]
     * is not NULL, y is multiplied by it afterwards, and the bias is added where there is one. */
    void (*products)(const lh_compute *compute, const lh_product *products, uint32_t count,
                     const lh_packed *x, lh_span in, bool continues, const float *scale);
    /* y[rows][width] = rows tokens[rows], which is the host's, of an embedding. */
    void (*embed)(const lh_compute *compute, float *y, const lh_matrix *embedding,
                  const uint32_t *tokens, uint32_t rows);
    /* cosine, sine[kind][rows][half] of the rows of runs[count]. */
    void (*angles)(const lh_compute *compute, const lh_rope_table *table,
                   const lh_position_run *runs, uint32_t count, float *const *cosine,
                   float *const *sine);
    /* Rotates x[rows][heads][head_dim] in place; rows lh_row_stride apart. */
    void (*rope)(const lh_compute *compute, const lh_rope *rope, float *x, uint32_t rows,
                 uint32_t heads, uint32_t head_dim);
    /* Norms each head of x[rows][heads][head_dim] in place. */
    void (*norm_heads)(const lh_compute *compute, float *x, size_t stride, uint32_t rows,
                       uint32_t heads, uint32_t head_dim, const float *gain, float epsilon);
    /* y += norm(x), both [rows][width]. */
    void (*norm_add)(const lh_compute *compute, float *y, const float *x, uint32_t rows,
                     uint32_t width, const float *gain, float epsilon);
    /* gate = f(gate) * up, both [rows][width]; rows lh_row_stride apart. Where shares[rows] is not
     * NULL, the rows are multiplied by it afterwards. */
    void (*gate)(const lh_compute *compute, lh_gate function, float *gate, const float *up,
                 const float *shares, uint32_t rows, uint32_t width);
    /* y += bias[width] in each row of y[rows][width]. */
    void (*add_bias)(const lh_compute *compute, float *y, uint32_t rows, uint32_t width,
                     const float *bias);

    /* ---- Sequences ---- */

    /* The next operations are of these rows: always before kv_store and attention, and again where
     * the runs have changed. */
    void (*locate)(const lh_compute *compute, const lh_position_run *runs, uint32_t count);
    /* Writes keys and values [rows][kv_heads][head_dim], rows lh_row_stride apart, of one layer
     * into the pages: the keys rotated first, where there is a rope (NULL: none). What `keys` holds
     * afterwards may be either. */
    void (*kv_store)(const lh_compute *compute, const lh_position_run *runs, uint32_t count,
                     uint32_t layer, const lh_rope *rope, float *keys, const float *values);
    /* What `attention` of this shape is computed in, for steps of so many rows, which see so many
     * positions; NULL: there is not so much memory. No such operation: it needs nothing. */
    void *(*open_attention)(const lh_compute *compute, const lh_attention *shape, uint32_t rows,
                            uint32_t context);
    /* NULL is allowed. */
    void (*close_attention)(void *scratch);
    /* y[rows][heads][head_dim] = attention of q over the last `window` positions in the pages of
     * one layer; rows of both lh_row_stride apart. sinks[heads]; NULL: none. */
    void (*attention)(const lh_compute *compute, const lh_attention *attention,
                      const lh_position_run *runs, uint32_t count, uint32_t layer, uint32_t window,
                      const float *sinks, const float *q, float *y);

    /* ---- The end ---- */

    /* A token of each row of logits[rows][vocabulary], `stride` apart: what lh_sample draws, which
     * changes the logits so. vocabulary: at most LH_CANDIDATES_MAX. tokens[rows], of allocate_host,
     * are there after `settle`. NULL: the host draws. */
    void (*draw)(const lh_compute *compute, float *logits, size_t stride, uint32_t vocabulary,
                 const lh_drawn_row *rows, uint32_t count, uint32_t *tokens);

    /* ---- Latent attention: what latent.h describes ---- */

    /* What it is computed in, for steps of so many rows, which see so many positions. NULL: there
     * is not so much memory. */
    void *(*open_latent)(const lh_compute *compute, const lh_model_config *config, uint32_t rows,
                         uint32_t context);
    /* NULL is allowed. */
    void (*close_latent)(const lh_compute *compute, void *latent);
    /* y[rows][heads][value_dim] = attention of q[rows][heads][key_dim + rope_dims] over the pages
     * of one layer: to the latent space by k_b of each head, back from it by v_b. Rows of both are
     * lh_row_stride apart. */
    void (*latent_attention)(const lh_compute *compute, void *latent, const lh_expert_matrices *k_b,
                             const lh_expert_matrices *v_b, const lh_position_run *runs,
                             uint32_t count, uint32_t layer, const float *q, float *y);

    /* ---- Mixtures of experts: what experts.h describes ---- */

    /* Where the rows of a step go, for steps of so many through these layers. NULL: there is not so
     * much memory. */
    void *(*open_slots)(const lh_compute *compute, const lh_model_config *config,
                        const lh_parameters *weights, uint32_t rows);
    /* NULL is allowed. */
    void (*close_slots)(const lh_compute *compute, void *slots);
    /* Chooses the experts of each row by logits[rows][experts] (rows lh_row_stride apart), which
     * are changed, and bias[experts], which may be NULL. scale[rows] is what products of the slots
     * are multiplied by. Returns the shares of the slots, [rows * used], until the next call. */
    const float *(*route)(const lh_compute *compute, void *slots, float *logits, const float *bias,
                          const float *scale, uint32_t rows);
    /* y[slot] = x[row of the slot] W[expert]^T, times the row's scale, plus the bias; for all slots
     * of each product. */
    void (*expert_products)(const lh_compute *compute, void *slots,
                            const lh_expert_product *products, uint32_t count, const lh_packed *x);
    /* The columns `out` of y[row] += x[slot] W[expert]^T, and then the slot's share times the bias,
     * for the experts of each row in their order. */
    void (*expert_sum)(const lh_compute *compute, void *slots, const lh_expert_product *product,
                       const lh_packed *x, lh_span out);
    /* y[rows] = 1 / (1 + exp(-x)) of x[rows], which are `stride` apart. */
    void (*sigmoid)(const lh_compute *compute, float *y, const float *x, size_t stride,
                    uint32_t rows);
};

extern const lh_ops lh_cpu_ops;

/* The operations of *compute are the device's from now on. */
static inline lh_status lh_device_open(const lh_device *device, const lh_device_work *work,
                                       lh_compute *compute, lh_error *error) {
    lh_status status = device->open(device, work, &compute->queue, error);
    if (status == LH_OK)
        compute->ops = device->ops;
    return status;
}

/* On the host's CPUs. */
static inline lh_compute lh_cpu_compute(const lh_kernels *kernels, lh_thread_pool *pool,
                                        lh_activation_kind activations) {
    return (lh_compute){kernels, pool, activations, &lh_cpu_ops, NULL};
}
