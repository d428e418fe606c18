/* The layer, from top to bottom:
 *
 *   QKV projection    q, k, v = norm(h) Wq, norm(h) Wk, norm(h) Wv      (+ biases)
 *   KV store          (norm each head of q and k;) rotate q and k by position; keep k and v
 *   attention         attended = attention of q; h += attended Wo       (or norm(attended Wo))
 *   and FFN up        gate, up = norm(h) Wg, norm(h) Wu; gated = f(gate) * up
 *   down projection   h += gated Wd                                     (or norm(gated Wd))
 *
 * What stands in brackets is there where the architecture has the tensors for it.
 *
 * The norm is deferred. RMSNorm(h) W = (h g) W / rms(h), so the product starts on the columns of h
 * that are there, the sum of squares is collected alongside, and the rows are divided by their rms
 * at the end. The first layer of a stage does this shard by shard while h comes in, every other
 * norm in one span: the same operations in the same order, since a product over consecutive spans
 * only continues its chain (kernels.h). So where a model is split cannot be seen in a bit of the
 * result. The down projection is cut by output columns, each of which is complete on its own; the
 * stage sends them one by one.
 *
 * A norm behind a branch, before the residual, cannot be deferred: h itself needs it. So there the
 * down projection is not cut: no column is complete before the whole row's product is, and then all
 * of them are at once. */
#include "worker/compute/stage/layer.h"

#include <assert.h>
#include <string.h>

static lh_span all(uint32_t width) {
    return (lh_span){0, width};
}

/* y = x W^T (+ bias) with as many columns as W has outputs. */
static lh_product product(const lh_matrix *matrix, const float *bias, float *y) {
    return (lh_product){matrix, y, lh_row_stride(matrix->outputs), all(matrix->outputs), bias};
}

/* The columns `out` of h += x W^T, or of h += norm(x W^T): then all of them. */
static void add_product(const lh_layer_run *run, const lh_matrix *matrix, const lh_packed *x,
                        const float *post_norm, lh_span out) {
    const lh_compute *compute = run->compute;
    float *h = run->buffer->h, *branch = run->scratch->branch;
    uint32_t width = run->config->width;
    const lh_product sum = {matrix, post_norm ? branch : h, width, out, NULL};
    lh_op_products(compute, &sum, 1, x, run->rows, all(matrix->inputs), !post_norm, NULL);
    if (post_norm) {
        assert(out.begin == 0 && out.end == width);
        lh_op_norm_add(compute, h, branch, run->rows, width, post_norm, run->config->rms_epsilon);
    }
}

/* products = norm(h) W^T, continued over `columns` of h. */
static void norm_products(const lh_layer_run *run, const float *gain, lh_span columns,
                          const lh_product *products, uint32_t count) {
    const lh_activation_buffer *p = run->buffer;
    uint32_t rows = run->rows, width = run->config->width;
    const float *scale = NULL;
    if (columns.begin == 0)
        memset(p->squares, 0, (size_t)rows * LH_LANES * sizeof *p->squares);
    lh_op_pack(run->compute, &p->normed, rows, columns, p->h, width, gain, p->squares);
    if (columns.end == width) {
        scale = run->scratch->scale;
        run->compute->kernels->rms_scale(run->scratch->scale, p->squares, rows, width,
                                         run->config->rms_epsilon);
    }
    lh_op_products(run->compute, products, count, &p->normed, rows, columns, false, scale);
}

void lh_layer_project_qkv(const lh_layer_run *run, const lh_layer *layer, lh_span columns) {
    const lh_activation_buffer *p = run->buffer;
    const lh_product qkv[] = {
        product(&layer->q, layer->q_bias, p->q), /* [rows][heads][head_dim] */
        product(&layer->k, layer->k_bias, p->k), /* [rows][kv_heads][head_dim] */
        product(&layer->v, layer->v_bias, p->v), /* [rows][kv_heads][head_dim] */
    };
    norm_products(run, layer->attn_norm, columns, qkv, 3); /* from h [rows][columns] */
}

void lh_layer_store_kv(const lh_layer_run *run, const lh_layer *layer, uint32_t number) {
    const lh_compute *compute = run->compute;
    const lh_model_config *c = run->config;
    const lh_activation_buffer *p = run->buffer;
    const lh_rope rope = {c->rope_dims, c->rope_interleaved, p->cosine[layer->kind],
                          p->sine[layer->kind]};

    if (layer->q_norm) {
        lh_op_norm_heads(compute, p->q, run->rows, c->heads, c->head_dim, layer->q_norm,
                         c->rms_epsilon);
        lh_op_norm_heads(compute, p->k, run->rows, c->kv_heads, c->head_dim, layer->k_norm,
                         c->rms_epsilon);
    }

    /* [rows][heads][head_dim] */
    lh_op_rope(compute, &rope, p->q, run->rows, c->heads, c->head_dim);
    /* [rows][kv_heads][head_dim] */
    lh_op_rope(compute, &rope, p->k, run->rows, c->kv_heads, c->head_dim);
    lh_op_kv_store(compute, run->runs, run->run_count, number, p->k, p->v);
}

void lh_layer_attend_and_project_up(const lh_layer_run *run, const lh_layer *layer,
                                    uint32_t number) {
    const lh_compute *compute = run->compute;
    const lh_model_config *c = run->config;
    const lh_activation_buffer *p = run->buffer;
    const lh_scratch *s = run->scratch;
    const lh_span heads = all(c->heads * c->head_dim), wide = all(c->feed_forward_width);
    const uint32_t window = layer->kind == LH_LAYER_WINDOW ? c->window : LH_ATTENTION_ALL;
    const lh_product gate_up[] = {
        product(&layer->gate, NULL, s->gate), /* [rows][feed_forward_width] */
        product(&layer->up, NULL, s->up),     /* [rows][feed_forward_width] */
    };

    lh_op_attention(compute, &s->attention, run->runs, run->run_count, number, window, p->q,
                    s->attended);
    lh_op_pack(compute, &s->attended_packed, run->rows, heads, s->attended,
               lh_row_stride(heads.end), NULL, NULL);
    add_product(run, &layer->attn_output, &s->attended_packed, layer->attn_post_norm,
                all(c->width));

    norm_products(run, layer->ffn_norm, all(c->width), gate_up, 2);
    lh_op_gate(compute, c->gate, s->gate, s->up, run->rows, wide.end);
    lh_op_pack(compute, &s->gated_packed, run->rows, wide, s->gate, lh_row_stride(wide.end), NULL,
               NULL);
}

void lh_layer_project_down(const lh_layer_run *run, const lh_layer *layer, lh_span out) {
    add_product(run, &layer->down, &run->scratch->gated_packed, layer->ffn_post_norm, out);
}
