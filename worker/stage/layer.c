/* The layer, from top to bottom:
 *
 *   take     q, k, v = norm(h) Wq, norm(h) Wk, norm(h) Wv
 *   store    rotate q and k by position; keep k and v
 *   middle   attended = attention of q; h += attended Wo
 *            gate, up = norm(h) Wg, norm(h) Wu; gated = silu(gate) * up
 *   give     h += gated Wd
 *
 * The norm is deferred. RMSNorm(h) W = (h g) W / rms(h), so the product starts on the columns of h that are
 * there, the sum of squares is collected alongside, and the rows are divided by their rms at the end. The
 * first layer of a stage does this shard by shard while h comes in, every other norm in one span: the same
 * operations in the same order, since a product over consecutive spans only continues its chain (kernels.h).
 * So where a model is split cannot be seen in a bit of the result. `give` is cut by output columns, each of
 * which is complete on its own; the stage sends them one by one. */
#include "worker/stage/layer.h"

#include <string.h>

static lh_span all(uint32_t width) {
    return (lh_span){0, width};
}

/* y = x W^T with as many columns as W has outputs. */
static lh_product product(const lh_matrix *matrix, float *y) {
    return (lh_product){matrix, y, matrix->outputs, all(matrix->outputs)};
}

/* products = norm(h) W^T, continued over `columns` of h. */
static void norm_products(const lh_layer_run *run, const float *gain, lh_span columns,
                          const lh_product *products, uint32_t count) {
    const lh_panel *p = run->panel;
    uint32_t rows = run->rows, width = run->config->width;
    const float *scale = NULL;
    if (columns.begin == 0) {
        memset(p->squares, 0, (size_t)rows * LH_LANES * sizeof *p->squares);
    }
    lh_op_pack(run->compute, &p->normed, rows, columns, p->h, gain, p->squares);
    if (columns.end == width) {
        scale = run->scratch->scale;
        run->compute->kernels->rms_scale(run->scratch->scale, p->squares, rows, width,
                                         run->config->rms_epsilon);
    }
    lh_op_products(run->compute, products, count, &p->normed, rows, columns, false, scale);
}

void lh_layer_take(const lh_layer_run *run, const lh_layer *layer, lh_span columns) {
    const lh_panel *p = run->panel;
    const lh_product qkv[] = {
        product(&layer->q, p->q), /* [rows][heads][head_dim] */
        product(&layer->k, p->k), /* [rows][kv_heads][head_dim] */
        product(&layer->v, p->v), /* [rows][kv_heads][head_dim] */
    };
    norm_products(run, layer->attn_norm, columns, qkv, 3); /* from h [rows][columns] */
}

void lh_layer_store(const lh_layer_run *run, uint32_t number) {
    const lh_compute *compute = run->compute;
    const lh_model_config *c = run->config;
    const lh_panel *p = run->panel;
    const lh_rope rope = {c->rope_dims, c->rope_interleaved, p->cosine, p->sine};

    lh_op_rope(compute, &rope, p->q, run->rows, c->heads, c->head_dim);    /* [rows][heads][head_dim] */
    lh_op_rope(compute, &rope, p->k, run->rows, c->kv_heads, c->head_dim); /* [rows][kv_heads][head_dim] */
    lh_op_kv_store(compute, run->runs, run->run_count, number, p->k, p->v);
}

void lh_layer_middle(const lh_layer_run *run, const lh_layer *layer, uint32_t number) {
    const lh_compute *compute = run->compute;
    const lh_model_config *c = run->config;
    const lh_panel *p = run->panel;
    const lh_scratch *s = run->scratch;
    const lh_span heads = all(c->heads * c->head_dim), wide = all(c->feed_forward_width);
    const lh_product output = product(&layer->attn_output, p->h); /* continues h [rows][width] */
    const lh_product gate_up[] = {
        product(&layer->gate, s->gate), /* [rows][feed_forward_width] */
        product(&layer->up, s->up),     /* [rows][feed_forward_width] */
    };

    lh_op_attention(compute, &s->attention, run->runs, run->run_count, number, p->q, s->attended);
    lh_op_pack(compute, &s->attended_packed, run->rows, heads, s->attended, NULL, NULL);
    lh_op_products(compute, &output, 1, &s->attended_packed, run->rows, heads, true, NULL);

    norm_products(run, layer->ffn_norm, all(c->width), gate_up, 2);
    lh_op_silu_mul(compute, s->gate, s->up, run->rows, wide.end);
    lh_op_pack(compute, &s->gated_packed, run->rows, wide, s->gate, NULL, NULL);
}

void lh_layer_give(const lh_layer_run *run, const lh_layer *layer, lh_span out) {
    const lh_span wide = all(run->config->feed_forward_width);
    const lh_product down = {&layer->down, run->panel->h, run->config->width, out}; /* continues h */

    lh_op_products(run->compute, &down, 1, &run->scratch->gated_packed, run->rows, wide, true, NULL);
}
