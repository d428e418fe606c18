/* The layer, from top to bottom:
 *
 *   QKV projection    q, k, v = norm(h) Wq, norm(h) Wk, norm(h) Wv      (+ biases)
 *   KV store          (norm each head of q and k, or behind it,) rotate q and k by position; keep
 *                     k and v
 *   attention         attended = attention of q; h += attended Wo       (or norm(attended Wo))
 *   and FFN up        gate, up = norm(h) Wg, norm(h) Wu; gated = f(gate) * up
 *                     (of the experts that a router chooses for each row: experts.h)
 *   down projection   h += gated Wd                                     (or norm(gated Wd))
 *
 * What stands in brackets is there where the architecture has the tensors for it, and so are the
 * norms before the products; some layers of some architectures rotate nothing. Where attention is
 * latent (latent.h), the projection gives a latent row and a key instead of k and v, and perhaps a
 * row that the queries are made of when it is complete.
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

#include "common/model/model_widths.h"

#include <assert.h>

static lh_span all(uint32_t width) {
    return (lh_span){0, width};
}

/* y = x W^T (+ bias) with as many columns as W has outputs. */
static lh_product product(const lh_layer_run *run, const lh_matrix *matrix, const float *bias,
                          float *y) {
    return (lh_product){*matrix,        y,   lh_row_stride(matrix->outputs), all(matrix->outputs),
                        all(run->rows), bias};
}

/* The columns `out` of h += x W^T, or of h += norm(x W^T): then all of them. */
static void add_product(const lh_layer_run *run, const lh_matrix *matrix, const lh_packed *x,
                        const float *post_norm, lh_span out) {
    const lh_compute *compute = run->compute;
    float *h = run->buffer->h, *branch = run->scratch->branch;
    uint32_t width = run->config->width;
    const lh_product sum = {*matrix, post_norm ? branch : h, width, out, all(run->rows), NULL};
    compute->ops->products(compute, &sum, 1, x, all(matrix->inputs), !post_norm, NULL);
    if (post_norm) {
        assert(out.begin == 0 && out.end == width);
        compute->ops->norm_add(compute, h, branch, run->rows, width, post_norm,
                               run->config->rms_epsilon);
    }
}

/* products = norm(h) W^T, continued over `columns` of h; h W^T where there is no gain. */
static void norm_products(const lh_layer_run *run, const float *gain, lh_span columns,
                          const lh_product *products, uint32_t count) {
    const lh_compute *compute = run->compute;
    const lh_activation_buffer *p = run->buffer;
    uint32_t width = run->config->width;
    float *scale = run->scratch->scale;
    assert(gain || !products->bias); /* which is added behind the scaling */
    if (gain)
        compute->ops->norm(compute, &p->normed, run->rows, columns, p->h, width, gain, p->squares,
                           scale, run->config->rms_epsilon);
    else
        compute->ops->pack(compute, &p->normed, run->rows, columns, p->h, width, NULL);
    compute->ops->products(compute, products, count, &p->normed, columns, false,
                           gain && columns.end == width ? scale : NULL);
}

static bool is_latent(const lh_layer_run *run) {
    return run->config->latent.rank > 0;
}

static void project_latent(const lh_layer_run *run, const lh_layer *layer, lh_span columns) {
    const lh_activation_buffer *p = run->buffer;
    const lh_product products[] = {
        layer->q_a.data ? product(run, &layer->q_a, NULL, p->q_a) /* [rows][query_rank] */
                        : product(run, &layer->q, NULL, p->q),    /* [rows][heads][head_dim] */
        product(run, &layer->kv_a, NULL, p->k),                   /* [rows][rank + rope_dims] */
    };
    norm_products(run, layer->attn_norm, columns, products, 2);
}

void lh_layer_project_qkv(const lh_layer_run *run, const lh_layer *layer, lh_span columns) {
    const lh_activation_buffer *p = run->buffer;
    if (is_latent(run)) {
        project_latent(run, layer, columns);
        return;
    }
    const lh_product qkv[] = {
        product(run, &layer->q, layer->q_bias, p->q), /* [rows][heads][head_dim] */
        product(run, &layer->k, layer->k_bias, p->k), /* [rows][kv_heads][head_dim] */
        product(run, &layer->v, layer->v_bias, p->v), /* [rows][kv_heads][head_dim] */
    };
    norm_products(run, layer->attn_norm, columns, qkv, 3); /* from h [rows][columns] */
}

/* q = norm(q_a) Wq, the norm deferred as everywhere. */
static void project_queries(const lh_layer_run *run, const lh_layer *layer) {
    const lh_compute *compute = run->compute;
    const lh_activation_buffer *p = run->buffer;
    const lh_packed *packed = &run->scratch->latent_queries;
    const uint32_t rank = run->config->latent.query_rank;
    const lh_product q = product(run, &layer->q_b, NULL, p->q);
    compute->ops->norm(compute, packed, run->rows, all(rank), p->q_a, lh_row_stride(rank),
                       layer->q_a_norm, p->squares, run->scratch->scale, run->config->rms_epsilon);
    compute->ops->products(compute, &q, 1, packed, all(rank), false, run->scratch->scale);
}

static void store_latent(const lh_layer_run *run, const lh_layer *layer, uint32_t number,
                         const lh_rope *rope) {
    const lh_compute *compute = run->compute;
    const lh_model_config *c = run->config;
    const lh_activation_buffer *p = run->buffer;
    const uint32_t rank = c->latent.rank, width = lh_model_key_width(c);
    if (layer->q_a.data)
        project_queries(run, layer);
    compute->ops->norm_heads(compute, p->k, lh_row_stride(width), run->rows, 1, rank,
                             layer->kv_a_norm, c->rms_epsilon);
    /* what is rotated of a query and of what is kept stands last */
    compute->ops->rope(compute, rope, p->q + c->head_dim - c->rope_dims, run->rows, c->heads,
                       c->head_dim);
    compute->ops->rope(compute, rope, p->k + rank, run->rows, 1, width);
    compute->ops->kv_store(compute, run->runs, run->run_count, number, p->k,
                           p->k); /* values alone */
}

/* Of each head, or of all heads of a row together. */
static void norm_queries_and_keys(const lh_layer_run *run, const lh_layer *layer) {
    const lh_model_config *c = run->config;
    const lh_activation_buffer *p = run->buffer;
    const uint32_t together = c->norms_whole_rows ? c->heads : 1,
                   keys_together = c->norms_whole_rows ? c->kv_heads : 1;
    run->compute->ops->norm_heads(run->compute, p->q, lh_row_stride((size_t)c->heads * c->head_dim),
                                  run->rows, c->heads / together, together * c->head_dim,
                                  layer->q_norm, c->rms_epsilon);
    run->compute->ops->norm_heads(
        run->compute, p->k, lh_row_stride((size_t)c->kv_heads * c->head_dim), run->rows,
        c->kv_heads / keys_together, keys_together * c->head_dim, layer->k_norm, c->rms_epsilon);
}

void lh_layer_store_kv(const lh_layer_run *run, const lh_layer *layer, uint32_t number) {
    const lh_compute *compute = run->compute;
    const lh_model_config *c = run->config;
    const lh_activation_buffer *p = run->buffer;
    const lh_rope rope = {c->rope_dims, c->rope_interleaved, p->cosine[layer->angles],
                          p->sine[layer->angles]};

    if (is_latent(run)) {
        store_latent(run, layer, number, &rope);
        return;
    }

    if (layer->q_norm && !c->norms_are_late)
        norm_queries_and_keys(run, layer);
    if (layer->is_rotated) {
        /* [rows][heads][head_dim] */
        compute->ops->rope(compute, &rope, p->q, run->rows, c->heads, c->head_dim);
        /* [rows][kv_heads][head_dim] */
        compute->ops->rope(compute, &rope, p->k, run->rows, c->kv_heads, c->head_dim);
    }
    if (layer->q_norm && c->norms_are_late)
        norm_queries_and_keys(run, layer);
    compute->ops->kv_store(compute, run->runs, run->run_count, number, p->k, p->v);
}

static void gate_and_pack(const lh_layer_run *run, float *gate, const float *up,
                          const float *shares, uint32_t rows, uint32_t width,
                          const lh_packed *packed) {
    run->compute->ops->gate(run->compute, run->config->gate, gate, up, shares, rows, width);
    run->compute->ops->pack(run->compute, packed, rows, all(width), gate, lh_row_stride(width),
                            run->scratch->branch_gain);
}

static void project_up(const lh_layer_run *run, const lh_layer *layer) {
    const lh_scratch *s = run->scratch;
    const lh_product gate_up[] = {
        product(run, &layer->gate, NULL, s->gate), /* [rows][feed_forward_width] */
        product(run, &layer->up, NULL, s->up),     /* [rows][feed_forward_width] */
    };
    norm_products(run, layer->ffn_norm, all(run->config->width), gate_up, 2);
    gate_and_pack(run, s->gate, s->up, NULL, run->rows, run->config->feed_forward_width,
                  &s->gated_packed);
}

/* Of the slots: [slots][expert_width] each. */
static void multiply_experts(const lh_layer_run *run, const lh_layer *layer) {
    const lh_experts *e = &run->scratch->experts;
    const size_t stride = lh_row_stride(run->config->expert_width);
    const lh_expert_product gate_up[] = {
        {&layer->experts_gate, layer->experts_gate_bias, e->gate, stride},
        {&layer->experts_up, layer->experts_up_bias, e->up, stride}};
    run->compute->ops->expert_products(run->compute, e->slots, gate_up, 2, &run->buffer->normed);
}

/* The router, and what all rows go through besides. */
static void project_router(const lh_layer_run *run, const lh_layer *layer) {
    const lh_experts *e = &run->scratch->experts;
    lh_product products[4] = {
        product(run, &layer->router, layer->router_logit_bias, e->logits)}; /* [rows][experts] */
    uint32_t count = 1;
    if (layer->shared_gate.data) {
        /* [rows][shared_expert_width] */
        products[count++] = product(run, &layer->shared_gate, NULL, e->shared_gate);
        products[count++] = product(run, &layer->shared_up, NULL, e->shared_up);
    }
    if (layer->shared_router.data)
        products[count++] = product(run, &layer->shared_router, NULL, e->shared_logit);
    norm_products(run, layer->ffn_norm, all(run->config->width), products, count);
}

static void project_up_experts(const lh_layer_run *run, const lh_layer *layer) {
    const lh_compute *compute = run->compute;
    const lh_model_config *c = run->config;
    const lh_experts *e = &run->scratch->experts;
    project_router(run, layer);
    const float *shares = compute->ops->route(compute, e->slots, e->logits, layer->router_bias,
                                              run->scratch->scale, run->rows);
    multiply_experts(run, layer);
    gate_and_pack(run, e->gate, e->up, shares, run->rows * c->experts_used, c->expert_width,
                  &e->gated_packed);
    if (!layer->shared_gate.data)
        return;
    if (layer->shared_router.data)
        compute->ops->sigmoid(compute, e->shared_share, e->shared_logit, lh_row_stride(1),
                              run->rows);
    gate_and_pack(run, e->shared_gate, e->shared_up,
                  layer->shared_router.data ? e->shared_share : NULL, run->rows,
                  c->shared_expert_width, &e->gated_shared);
}

void lh_layer_attend_and_project_up(const lh_layer_run *run, const lh_layer *layer,
                                    uint32_t number) {
    const lh_compute *compute = run->compute;
    const lh_model_config *c = run->config;
    const lh_activation_buffer *p = run->buffer;
    const lh_scratch *s = run->scratch;
    const lh_span heads = all(lh_model_attended_width(c));
    const uint32_t window = layer->kind == LH_LAYER_WINDOW ? c->window : LH_ATTENTION_ALL;

    if (is_latent(run))
        compute->ops->latent_attention(compute, s->latent, &layer->k_b, &layer->v_b, run->runs,
                                       run->run_count, number, p->q, s->attended);
    else
        compute->ops->attention(compute, &s->attention, run->runs, run->run_count, number, window,
                                layer->attn_sinks, p->q, s->attended);
    compute->ops->pack(compute, &s->attended_packed, run->rows, heads, s->attended,
                       lh_row_stride(heads.end), s->branch_gain);
    add_product(run, &layer->attn_output, &s->attended_packed, layer->attn_post_norm,
                all(c->width));
    if (layer->attn_output_bias)
        compute->ops->add_bias(compute, p->h, run->rows, c->width, layer->attn_output_bias);
    if (layer->router.data)
        project_up_experts(run, layer);
    else
        project_up(run, layer);
}

void lh_layer_project_down(const lh_layer_run *run, const lh_layer *layer, lh_span out) {
    const lh_experts *e = &run->scratch->experts;
    if (layer->router.data) {
        const lh_expert_product down = {&layer->experts_down, layer->experts_down_bias,
                                        run->buffer->h, run->config->width};
        run->compute->ops->expert_sum(run->compute, e->slots, &down, &e->gated_packed, out);
        if (layer->shared_down.data)
            add_product(run, &layer->shared_down, &e->gated_shared, NULL, out);
        return;
    }
    add_product(run, &layer->down, &run->scratch->gated_packed, layer->ffn_post_norm, out);
}
