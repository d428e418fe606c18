/* Sums over the shapes of a model. */
#include "worker/compute/stage/stage_memory.h"

#include "common/model/model_widths.h"
#include "worker/compute/stage/parameters.h"
#include "worker/compute/stage/sampler.h"

#define GIB ((double)(1u << 30))
/* Rows for which the head's logits are there at once (head.c). */
#define HEAD_ROWS 16u

static uint64_t floats(uint64_t count) {
    return count * sizeof(float);
}

/* Rows of this width as a product reads them. */
static uint64_t packed(const lh_stage_options *options, uint32_t width) {
    const lh_activation_kind kind =
        width % LH_SPAN_COLUMNS == 0 ? options->activations : LH_ACTIVATION_F32;
    return lh_activations_bytes(kind, 1, width);
}

/* Of one row of an activation buffer. */
static uint64_t buffer_row(const lh_model_config *c, const lh_stage_options *options) {
    uint64_t heads = (uint64_t)c->heads + 2 * c->kv_heads;
    return floats(c->width + LH_LANES + heads * c->head_dim + c->rope_dims) +
           packed(options, c->width);
}

/* Of one row in the feed-forward part. */
static uint64_t feed_forward_row(const lh_model_config *c, const lh_stage_options *options) {
    if (c->experts == 0)
        return floats(2 * (uint64_t)c->feed_forward_width) + packed(options, c->feed_forward_width);
    uint64_t slot = floats(2 * (uint64_t)c->expert_width) + packed(options, c->expert_width) +
                    packed(options, c->width);
    return slot * c->experts_used + floats(c->experts + 2 * (uint64_t)c->shared_expert_width);
}

static uint64_t head_bytes(const lh_model_config *c, uint32_t threads) {
    return HEAD_ROWS * floats((uint64_t)c->vocabulary + c->width) +
           threads * (uint64_t)lh_sampler_scratch_bytes(c->vocabulary);
}

static uint64_t steps_bytes(const lh_model_config *c, const lh_stage_options *options,
                            uint32_t threads) {
    uint32_t queries = c->heads * c->head_dim, rows = options->rows_max;
    uint64_t shared_row = floats((uint64_t)queries + c->width) + packed(options, queries) +
                          feed_forward_row(c, options);
    uint64_t attention = lh_attention_scratch_bytes(
        rows, c->heads / c->kv_heads, options->context ? options->context : c->context);
    return rows * (options->steps_max * buffer_row(c, options) + shared_row) + threads * attention +
           (options->range.last == c->layers ? head_bytes(c, threads) : 0);
}

/* Where attention is latent, what is kept of a position is one row, without a key beside it. */
lh_kv_shape lh_stage_kv_shape(const lh_model_config *config, lh_kv_type type) {
    if (config->latent.rank > 0)
        return (lh_kv_shape){type, 1, 0, lh_model_key_width(config)};
    return (lh_kv_shape){type, config->kv_heads, config->head_dim, config->head_dim};
}

lh_status lh_stage_memory_count(const lh_gguf *gguf, const lh_model_config *config,
                                const lh_stage_options *options, uint32_t threads,
                                lh_stage_memory *memory, lh_error *error) {
    const lh_kv_shape shape = lh_stage_kv_shape(config, options->kv_type);
    size_t weights;
    lh_status status = lh_parameters_count(gguf, config, options->range, &weights, error);
    if (status != LH_OK)
        return status;
    uint64_t page =
        (lh_kv_page_bytes(&shape, shape.key_dim) + lh_kv_page_bytes(&shape, shape.value_dim)) *
        (options->range.last - options->range.first);
    *memory = (lh_stage_memory){.weights_bytes = weights,
                                .kv_bytes = options->kv_bytes / page * page,
                                .steps_bytes = steps_bytes(config, options, threads)};
    return LH_OK;
}

uint64_t lh_stage_memory_sum(const lh_stage_memory *memory) {
    return memory->weights_bytes + memory->kv_bytes + memory->steps_bytes;
}

lh_status lh_stage_memory_check(const lh_stage_memory *memory, lh_layer_range range,
                                int64_t free_bytes, lh_error *error) {
    uint64_t sum = lh_stage_memory_sum(memory);
    if (free_bytes < 0 || sum <= (uint64_t)free_bytes)
        return LH_OK;
    return lh_fail(error, LH_ERR_LIMIT,
                   "layers %u-%u need %.2f GiB (weights %.2f, KV cache %.2f, steps %.2f) and %.2f "
                   "GiB are free: lower --kv-bytes or --memory-bytes, end other programs, or add "
                   "workers",
                   range.first, range.last - 1, (double)sum / GIB,
                   (double)memory->weights_bytes / GIB, (double)memory->kv_bytes / GIB,
                   (double)memory->steps_bytes / GIB, (double)free_bytes / GIB);
}
