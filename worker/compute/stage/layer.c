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
 * of them are at once.
 *
 * Of a stage on several machines each member (division.h) computes its own heads, its own rows of
 * the feed-forward part and its own columns of h: always whole sums over all inputs. What the
 * others have computed comes together in four gathers (gathering.h): the attended values and the
 * gated ones, packed, before Wo and Wd, and the columns of h behind them; q and k too, where a norm
 * is over all heads of a row (row_norms.h). Products go on over the pieces as they come, just as
 * the first one does over shards.
 *
 *   QKV, KV store, attention --attended--> Wo --h--> Wg, Wu --gated--> Wd --h--> the next layer
 *
 * Each arrow is a gather, which the part before it begins and the part behind it takes: between the
 * two whoever runs the layers may do something else (halves.h). */
#include "worker/compute/stage/layer.h"

#include "common/base/arithmetic.h"
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

/* The columns of h in `out` that are the member's own, numbered from its first one. */
static lh_span own_columns(const lh_layer_run *run, lh_span out) {
    const lh_division *division = run->member->division;
    const lh_span own = lh_division_own(division, &division->columns);
    assert(division->members < 2 || (out.begin == 0 && out.end == run->config->width));
    return (lh_span){lh_max_u32(out.begin, own.begin) - own.begin,
                     lh_min_u32(out.end, own.end) - own.begin};
}

/* What a branch is summed up in: h itself, or, where a norm is still to come, beside it. */
static float *sums_of(const lh_layer_run *run, const float *post_norm) {
    return post_norm ? run->scratch->branch : run->buffer->h;
}

/* Gathers the columns of what a branch is summed up in. */
static lh_gathering gather_sums(const lh_layer_run *run, const float *post_norm) {
    return lh_gather_floats(run->member, &run->member->division->columns, sums_of(run, post_norm),
                            run->config->width, run->rows);
}

/* Of the columns `out` the member's own: the sums += x W^T, or = x W^T before a norm. x comes in
 * pieces. */
static lh_gathering add_product(const lh_layer_run *run, const lh_matrix *matrix,
                                const lh_packed *x, lh_gathering pieces, const float *post_norm,
                                lh_span out) {
    const lh_compute *compute = run->compute;
    const lh_division *division = run->member->division;
    float *y = sums_of(run, post_norm) + lh_division_own(division, &division->columns).begin;
    const lh_product sum = {*matrix,        y,   run->config->width, own_columns(run, out),
                            all(run->rows), NULL};
    assert(!post_norm || (out.begin == 0 && out.end == run->config->width));
    for (lh_span columns; lh_gathering_next(&pieces, &columns);)
        compute->ops->products(compute, &sum, 1, x, columns, !post_norm, NULL);
    return gather_sums(run, post_norm);
}

/* The columns of h, out of those of the sums: h += norm(sums), whole, where there is a norm. */
static lh_gathering take_sums(const lh_layer_run *run, lh_gathering sums, const float *post_norm) {
    const uint32_t width = run->config->width;
    if (!post_norm)
        return sums;
    lh_gathering_complete(&sums);
    run->compute->ops->norm_add(run->compute, run->buffer->h, run->scratch->branch, run->rows,
                                width, post_norm, run->config->rms_epsilon);
    return lh_gather_nothing(run->member, all(width));
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

/* Behind attention: products = norm(h) W^T of h as all members have it, piece by piece as it comes;
 * whole, where a bias is still to be added to it. */
static void norm_attended_products(const lh_layer_run *run, const lh_layer *layer, lh_gathering h,
                                   const lh_product *products, uint32_t count) {
    if (layer->attn_output_bias) {
        lh_gathering_complete(&h);
        run->compute->ops->add_bias(run->compute, run->buffer->h, run->rows, run->config->width,
                                    layer->attn_output_bias);
        norm_products(run, layer->ffn_norm, all(run->config->width), products, count);
    }
    for (lh_span columns; lh_gathering_next(&h, &columns);)
        norm_products(run, layer->ffn_norm, columns, products, count);
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
    compute->ops->kv_store(compute, run->runs, run->run_count, number, NULL, p->k,
                           p->k); /* values alone */
}

/* Of each head, or of all heads of a row together. */
static void norm_queries_and_keys(const lh_layer_run *run, const lh_layer *layer) {
    const lh_model_config *c = run->config;
    const lh_activation_buffer *p = run->buffer;
    if (c->norms_whole_rows) {
        lh_row_norms(&run->scratch->whole_rows, run->member, c, run->rows, p->q, layer->q_norm,
                     p->k, layer->k_norm);
        return;
    }
    run->compute->ops->norm_heads(run->compute, p->q, lh_row_stride((size_t)c->heads * c->head_dim),
                                  run->rows, c->heads, c->head_dim, layer->q_norm, c->rms_epsilon);
    run->compute->ops->norm_heads(run->compute, p->k,
                                  lh_row_stride((size_t)c->kv_heads * c->head_dim), run->rows,
                                  c->kv_heads, c->head_dim, layer->k_norm, c->rms_epsilon);
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

    const bool norms_late = layer->q_norm && c->norms_are_late;
    if (layer->q_norm && !norms_late)
        norm_queries_and_keys(run, layer);
    if (layer->is_rotated) /* [rows][heads][head_dim] */
        compute->ops->rope(compute, &rope, p->q, run->rows, c->heads, c->head_dim);
    if (layer->is_rotated && norms_late) /* [rows][kv_heads][head_dim] */
        compute->ops->rope(compute, &rope, p->k, run->rows, c->kv_heads, c->head_dim);
    if (norms_late)
        norm_queries_and_keys(run, layer);
    compute->ops->kv_store(compute, run->runs, run->run_count, number,
                           layer->is_rotated && !norms_late ? &rope : NULL, p->k, p->v);
}

/* The columns `columns` of the packed rows, from as many of `up` and, behind those before, of
 * `gate`. */
static void gate_and_pack(const lh_layer_run *run, float *gate, const float *up,
                          const float *shares, uint32_t rows, lh_span columns,
                          const lh_packed *packed) {
    const uint32_t width = columns.end - columns.begin;
    run->compute->ops->gate(run->compute, run->config->gate, gate + columns.begin, up, shares, rows,
                            width);
    run->compute->ops->pack(run->compute, packed, rows, columns, gate, lh_row_stride(width),
                            run->scratch->branch_gain);
}

static lh_gathering project_up(const lh_layer_run *run, const lh_layer *layer, lh_gathering h) {
    const lh_scratch *s = run->scratch;
    const lh_division *division = run->member->division;
    const lh_span own = lh_division_own(division, &division->gated);
    const lh_product gate_up[] = {
        product(run, &layer->gate, NULL, s->gate + own.begin), /* [rows][feed_forward_width] */
        product(run, &layer->up, NULL, s->up),                 /* [rows][feed_forward_width] */
    };
    norm_attended_products(run, layer, h, gate_up, 2);
    gate_and_pack(run, s->gate, s->up, NULL, run->rows, own, &s->gated_packed);
    return lh_gather_packed(run->member, &division->gated, &s->gated_packed, &layer->down,
                            run->rows);
}

/* Of the slots: [slots][expert_width] each; of them the member's own columns. */
static void multiply_experts(const lh_layer_run *run, const lh_layer *layer, lh_span own) {
    const lh_experts *e = &run->scratch->experts;
    const size_t stride = lh_row_stride(own.end - own.begin);
    const lh_expert_product gate_up[] = {
        {&layer->experts_gate, layer->experts_gate_bias, e->gate + own.begin, stride},
        {&layer->experts_up, layer->experts_up_bias, e->up, stride}};
    run->compute->ops->expert_products(run->compute, e->slots, gate_up, 2, &run->buffer->normed);
}

/* The router, which each member has whole, and what all rows go through besides. */
static void project_router(const lh_layer_run *run, const lh_layer *layer, lh_gathering h,
                           lh_span shared) {
    const lh_experts *e = &run->scratch->experts;
    lh_product products[4] = {
        product(run, &layer->router, layer->router_logit_bias, e->logits)}; /* [rows][experts] */
    uint32_t count = 1;
    if (layer->shared_gate.data) {
        /* [rows][shared_expert_width] */
        products[count++] = product(run, &layer->shared_gate, NULL, e->shared_gate + shared.begin);
        products[count++] = product(run, &layer->shared_up, NULL, e->shared_up);
    }
    if (layer->shared_router.data)
        products[count++] = product(run, &layer->shared_router, NULL, e->shared_logit);
    norm_attended_products(run, layer, h, products, count);
}

/* All members choose the same experts, by the same logits, and compute their part of each: so the
 * work is even, whatever is chosen. */
static lh_gathering project_up_experts(const lh_layer_run *run, const lh_layer *layer,
                                       lh_gathering h) {
    const lh_compute *compute = run->compute;
    const lh_experts *e = &run->scratch->experts;
    const lh_division *division = run->member->division;
    const uint32_t slots = run->rows * run->config->experts_used;
    const lh_span mixed = lh_division_own(division, &division->mixed),
                  shared = lh_division_own(division, &division->shared);
    project_router(run, layer, h, shared);
    const float *shares = compute->ops->route(compute, e->slots, e->logits, layer->router_bias,
                                              run->scratch->scale, run->rows);
    multiply_experts(run, layer, mixed);
    gate_and_pack(run, e->gate, e->up, shares, slots, mixed, &e->gated_packed);
    if (layer->shared_router.data)
        compute->ops->sigmoid(compute, e->shared_share, e->shared_logit, lh_row_stride(1),
                              run->rows);
    if (layer->shared_gate.data)
        gate_and_pack(run, e->shared_gate, e->shared_up,
                      layer->shared_router.data ? e->shared_share : NULL, run->rows, shared,
                      &e->gated_shared);
    return lh_gather_packed(run->member, &division->mixed, &e->gated_packed,
                            &layer->experts_down.first, slots);
}

lh_gathering lh_layer_attend(const lh_layer_run *run, const lh_layer *layer, uint32_t number) {
    const lh_compute *compute = run->compute;
    const lh_activation_buffer *p = run->buffer;
    const lh_scratch *s = run->scratch;
    const lh_division *division = run->member->division;
    const lh_span own = lh_division_own(division, &division->attended);
    const uint32_t window = layer->kind == LH_LAYER_WINDOW ? run->config->window : LH_ATTENTION_ALL;

    if (is_latent(run))
        compute->ops->latent_attention(compute, s->latent, &layer->k_b, &layer->v_b, run->runs,
                                       run->run_count, number, p->q, s->attended + own.begin);
    else
        compute->ops->attention(compute, &s->attention, run->runs, run->run_count, number, window,
                                layer->attn_sinks, p->q, s->attended + own.begin);
    compute->ops->pack(compute, &s->attended_packed, run->rows, own, s->attended,
                       lh_row_stride(own.end - own.begin), s->branch_gain);
    return lh_gather_packed(run->member, &division->attended, &s->attended_packed,
                            &layer->attn_output, run->rows);
}

lh_gathering lh_layer_project_attended(const lh_layer_run *run, const lh_layer *layer,
                                       lh_gathering attended) {
    return add_product(run, &layer->attn_output, &run->scratch->attended_packed, attended,
                       layer->attn_post_norm, all(run->config->width));
}

lh_gathering lh_layer_project_up(const lh_layer_run *run, const lh_layer *layer,
                                 lh_gathering sums) {
    const lh_gathering h = take_sums(run, sums, layer->attn_post_norm);
    return layer->router.data ? project_up_experts(run, layer, h) : project_up(run, layer, h);
}

lh_gathering lh_layer_repeated_up(const lh_layer_run *run, const lh_layer *layer) {
    const lh_division *division = run->member->division;
    assert(division->members < 2);
    return lh_gather_nothing(
        run->member,
        lh_division_own(division, layer->router.data ? &division->mixed : &division->gated));
}

/* The sum of a column goes through all inputs of one expert before those of the next: so all pieces
 * are waited for. */
static void sum_experts(const lh_layer_run *run, const lh_layer *layer, lh_gathering gated,
                        lh_span out) {
    const lh_experts *e = &run->scratch->experts;
    const lh_division *division = run->member->division;
    const lh_expert_product down = {
        &layer->experts_down, layer->experts_down_bias,
        run->buffer->h + lh_division_own(division, &division->columns).begin, run->config->width};
    lh_gathering_complete(&gated);
    run->compute->ops->expert_sum(run->compute, e->slots, &down, &e->gated_packed,
                                  own_columns(run, out));
}

lh_gathering lh_layer_sum_experts(const lh_layer_run *run, const lh_layer *layer,
                                  lh_gathering gated, lh_span out) {
    if (!layer->shared_down.data)
        return gated;
    sum_experts(run, layer, gated, out);
    return lh_gather_packed(run->member, &run->member->division->shared,
                            &run->scratch->experts.gated_shared, &layer->shared_down, run->rows);
}

lh_gathering lh_layer_project_down(const lh_layer_run *run, const lh_layer *layer,
                                   lh_gathering gated, lh_span out) {
    const lh_scratch *s = run->scratch;
    if (layer->shared_down.data)
        return add_product(run, &layer->shared_down, &s->experts.gated_shared, gated, NULL, out);
    if (!layer->router.data)
        return add_product(run, &layer->down, &s->gated_packed, gated, layer->ffn_post_norm, out);
    sum_experts(run, layer, gated, out);
    return gather_sums(run, NULL);
}

lh_gathering lh_layer_take_sums(const lh_layer_run *run, const lh_layer *layer, lh_gathering sums) {
    return take_sums(run, sums, layer->ffn_post_norm);
}
