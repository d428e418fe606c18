/* What a model has not is not allocated. */
#include "worker/compute/stage/activation_buffer.h"

#include "common/model/model_widths.h"
#include "worker/compute/stage/aligned_array.h"

#include <stdlib.h>

lh_status lh_activation_buffer_init(lh_activation_buffer *buffer, const lh_model_config *config,
                                    const lh_parameters *weights, const lh_compute *compute,
                                    uint32_t rows, lh_error *error) {
    size_t queries = lh_row_stride((size_t)config->heads * config->head_dim),
           keys = lh_row_stride(lh_model_key_width(config));
    bool is_latent = config->latent.rank > 0;
    bool complete = true;
    *buffer = (lh_activation_buffer){0};
    for (uint32_t i = 0; i < weights->layer_count && complete; i++) {
        const lh_layer *layer = &weights->layers[i];
        const lh_matrix *readers[] = {&layer->q,
                                      &layer->k,
                                      &layer->v,
                                      &layer->q_a,
                                      &layer->kv_a,
                                      &layer->gate,
                                      &layer->up,
                                      &layer->router,
                                      &layer->experts_gate.first,
                                      &layer->experts_up.first,
                                      &layer->shared_router,
                                      &layer->shared_gate,
                                      &layer->shared_up};
        for (size_t j = 0; j < sizeof readers / sizeof readers[0]; j++)
            complete = complete && (!readers[j]->data ||
                                    lh_packed_add(compute, &buffer->normed, readers[j], rows));
    }
    complete = complete && lh_floats_allocate(compute, &buffer->h, rows, config->width) &&
               lh_floats_allocate(compute, &buffer->squares, rows, LH_LANES) &&
               lh_floats_allocate(compute, &buffer->q, rows, queries) &&
               lh_floats_allocate(compute, &buffer->k, rows, keys);
    if (!is_latent)
        complete = complete && lh_floats_allocate(compute, &buffer->v, rows, keys);
    if (config->latent.query_rank > 0)
        complete = complete && lh_floats_allocate(compute, &buffer->q_a, rows,
                                                  lh_row_stride(config->latent.query_rank));
    for (uint32_t kind = 0; kind < weights->rope.kinds; kind++)
        complete = complete &&
                   lh_floats_allocate(compute, &buffer->cosine[kind], rows, weights->rope.half) &&
                   lh_floats_allocate(compute, &buffer->sine[kind], rows, weights->rope.half);
    if (!complete) {
        lh_activation_buffer_reset(buffer, compute);
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for a step of %u rows", rows);
    }
    return LH_OK;
}

void lh_activation_buffer_reset(lh_activation_buffer *buffer, const lh_compute *compute) {
    lh_packed_reset(compute, &buffer->normed);
    for (uint32_t kind = 0; kind < LH_LAYER_KINDS; kind++) {
        compute->ops->release(compute, buffer->sine[kind]);
        compute->ops->release(compute, buffer->cosine[kind]);
    }
    compute->ops->release(compute, buffer->q_a);
    compute->ops->release(compute, buffer->v);
    compute->ops->release(compute, buffer->k);
    compute->ops->release(compute, buffer->q);
    compute->ops->release(compute, buffer->squares);
    compute->ops->release(compute, buffer->h);
    *buffer = (lh_activation_buffer){0};
}

static bool attention_init(lh_attention *attention, const lh_model_config *config,
                           const lh_division *division, const lh_compute *compute, uint32_t rows,
                           uint32_t context) {
    const uint32_t first = lh_division_own(division, &division->kv_heads).begin * division->group;
    *attention =
        (lh_attention){.heads = config->heads,
                       .kv_heads = config->kv_heads,
                       .head_dim = config->head_dim,
                       .group = division->group,
                       .lacking = lh_division_own(division, &division->heads).begin - first,
                       .scale = config->attention_scale};
    if (!compute->ops->open_attention)
        return true;
    attention->scratch = compute->ops->open_attention(compute, attention, rows, context);
    return attention->scratch;
}

static bool feed_forward_init(lh_scratch *scratch, const lh_model_config *config,
                              const lh_division *division, const lh_parameters *weights,
                              const lh_compute *compute, uint32_t rows) {
    size_t wide = lh_row_stride(config->feed_forward_width);
    bool complete = lh_own_columns_allocate(compute, &scratch->gate, rows, wide,
                                            lh_division_own(division, &division->gated)) &&
                    lh_floats_allocate(compute, &scratch->up, rows, wide);
    for (uint32_t i = 0; i < weights->layer_count && complete; i++)
        if (weights->layers[i].down.data)
            complete =
                lh_packed_add(compute, &scratch->gated_packed, &weights->layers[i].down, rows);
    return complete;
}

static bool branch_gain_init(lh_scratch *scratch, const lh_model_config *config,
                             const lh_division *division, const lh_compute *compute) {
    const uint32_t widths[] = {lh_division_own(division, &division->attended).end,
                               lh_division_own(division, &division->gated).end,
                               lh_division_own(division, &division->mixed).end,
                               lh_division_own(division, &division->shared).end};
    uint32_t widest = 0;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        widest = widths[i] > widest ? widths[i] : widest;
    float *gain = lh_aligned_array_allocate(widest, sizeof *gain);
    bool complete = gain && lh_floats_allocate(compute, &scratch->branch_gain, widest, 1);
    for (uint32_t i = 0; i < widest && complete; i++)
        gain[i] = config->residual_scale;
    if (complete)
        compute->ops->put(compute, scratch->branch_gain, gain, widest * sizeof *gain);
    free(gain);
    return complete;
}

static bool latent_init(lh_scratch *scratch, const lh_model_config *config,
                        const lh_parameters *weights, const lh_compute *compute, uint32_t rows,
                        uint32_t context) {
    scratch->latent = compute->ops->open_latent(compute, config, rows, context);
    bool complete = scratch->latent;
    for (uint32_t i = 0; i < weights->layer_count && complete; i++)
        if (weights->layers[i].q_b.data)
            complete =
                lh_packed_add(compute, &scratch->latent_queries, &weights->layers[i].q_b, rows);
    return complete;
}

lh_status lh_scratch_init(lh_scratch *scratch, const lh_model_config *config,
                          const lh_division *division, const lh_parameters *weights,
                          const lh_compute *compute, uint32_t rows, uint32_t context,
                          lh_error *error) {
    *scratch = (lh_scratch){0};
    bool complete =
        config->latent.rank > 0
            ? latent_init(scratch, config, weights, compute, rows, context)
            : attention_init(&scratch->attention, config, division, compute, rows, context);
    for (uint32_t i = 0; i < weights->layer_count && complete; i++) {
        const lh_layer *layer = &weights->layers[i];
        complete = lh_packed_add(compute, &scratch->attended_packed, &layer->attn_output, rows);
    }
    size_t attended = lh_row_stride(lh_model_attended_width(config));
    complete = complete && lh_floats_allocate(compute, &scratch->scale, rows, 1) &&
               lh_whole_rows_init(&scratch->whole_rows, config, division, compute, rows) &&
               lh_own_columns_allocate(compute, &scratch->attended, rows, attended,
                                       lh_division_own(division, &division->attended));
    if (config->residual_scale != 1)
        complete = complete && branch_gain_init(scratch, config, division, compute);
    if (config->experts > 0)
        complete = complete && lh_experts_init(&scratch->experts, config, division, weights,
                                               compute, rows, NULL) == LH_OK;
    if (lh_model_has(config, LH_TENSOR_FFN_DOWN))
        complete = complete && feed_forward_init(scratch, config, division, weights, compute, rows);
    if (lh_model_has(config, LH_TENSOR_ATTN_POST_NORM) ||
        lh_model_has(config, LH_TENSOR_FFN_POST_NORM))
        complete = complete && lh_floats_allocate(compute, &scratch->branch, rows, config->width);
    if (!complete) {
        lh_scratch_reset(scratch, compute);
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for steps of %u rows", rows);
    }
    return LH_OK;
}

void lh_scratch_reset(lh_scratch *scratch, const lh_compute *compute) {
    lh_experts_reset(&scratch->experts, compute);
    compute->ops->release(compute, scratch->branch_gain);
    compute->ops->release(compute, scratch->branch);
    compute->ops->release(compute, scratch->up);
    compute->ops->release(compute, scratch->gate);
    compute->ops->release(compute, scratch->attended);
    lh_whole_rows_reset(&scratch->whole_rows, compute);
    compute->ops->release(compute, scratch->scale);
    lh_packed_reset(compute, &scratch->gated_packed);
    lh_packed_reset(compute, &scratch->attended_packed);
    lh_packed_reset(compute, &scratch->latent_queries);
    compute->ops->close_latent(compute, scratch->latent);
    if (scratch->attention.scratch)
        compute->ops->close_attention(scratch->attention.scratch);
    *scratch = (lh_scratch){0};
}
