/* Sums over the shapes of a model. */
#include "worker/compute/stage/stage_memory.h"

#include "common/base/arithmetic.h"
#include "common/model/model_widths.h"
#include "worker/compute/stage/attention_partials.h"
#include "worker/compute/stage/expert_slots.h"
#include "worker/compute/stage/head.h"
#include "worker/compute/stage/latent.h"
#include "worker/compute/stage/ops.h"
#include "worker/compute/stage/parameters.h"
#include "worker/compute/stage/row_norms.h"
#include "worker/compute/stage/sampler.h"

#define GIB ((double)(1u << 30))

static uint64_t floats(uint64_t count) {
    return count * sizeof(float);
}

/* Of one row, as products write it. */
static uint64_t strided(uint64_t width) {
    return floats(lh_row_stride((size_t)width));
}

/* Rows of this width as a product reads them. */
static uint64_t packed(const lh_stage_options *options, uint32_t width) {
    const lh_activation_kind kind =
        width % LH_SPAN_COLUMNS == 0 ? options->activations : LH_ACTIVATION_F32;
    return lh_activations_bytes(kind, 1, width);
}

/* Of one row of an activation buffer. */
static uint64_t buffer_row(const lh_model_config *c, const lh_stage_options *options) {
    const uint64_t queries = (uint64_t)c->heads * c->head_dim, keys = lh_model_key_width(c);
    uint64_t bytes = floats((uint64_t)c->width + LH_LANES + c->rope_dims) + strided(queries) +
                     strided(keys) + packed(options, c->width);
    if (c->latent.rank == 0)
        bytes += strided(keys);
    if (c->latent.query_rank > 0)
        bytes += strided(c->latent.query_rank);
    if (c->experts > 0) /* a router is of floats */
        bytes += floats(c->width);
    return bytes;
}

/* whole: as one machine would compute it, which is what the down projection reads. */
static uint64_t dense_row(const lh_model_config *c, const lh_model_config *whole,
                          const lh_stage_options *options) {
    if (!lh_model_has(c, LH_TENSOR_FFN_DOWN))
        return 0;
    return 2 * strided(c->feed_forward_width) + packed(options, whole->feed_forward_width);
}

static uint64_t mixture_row(const lh_model_config *c, const lh_model_config *whole,
                            const lh_stage_options *options) {
    if (c->experts == 0)
        return 0;
    const uint64_t slot = 2 * strided(c->expert_width) + packed(options, whole->expert_width) +
                          packed(options, c->width);
    uint64_t bytes = slot * c->experts_used + strided(c->experts);
    if (options->membership.members > 1) /* the later half's slots */
        bytes += packed(options, c->width) * c->experts_used / 2;
    if (c->shared_expert_width > 0) {
        bytes += 2 * strided(c->shared_expert_width) + packed(options, whole->shared_expert_width) +
                 strided(1);
    }
    return bytes;
}

/* Of one row in the scratch that all steps share. */
static uint64_t shared_row(const lh_model_config *c, const lh_model_config *whole,
                           const lh_stage_options *options) {
    uint64_t bytes = strided(lh_model_attended_width(c)) +
                     packed(options, lh_model_attended_width(whole)) +
                     dense_row(c, whole, options) + mixture_row(c, whole, options);
    if (c->latent.query_rank > 0)
        bytes += packed(options, c->latent.query_rank);
    if (lh_model_has(c, LH_TENSOR_ATTN_POST_NORM) || lh_model_has(c, LH_TENSOR_FFN_POST_NORM))
        bytes += floats(c->width);
    if (options->range.last < c->layers)
        bytes += floats(c->width); /* what leaves in shards */
    return bytes;
}

/* Of one of the host's threads. */
static uint64_t thread_bytes(const lh_model_config *c, const lh_stage_options *options) {
    uint64_t bytes =
        c->latent.rank > 0 ? lh_latent_thread_bytes(c) : lh_attention_scratch_bytes(c->head_dim);
    if (c->experts > 0)
        bytes += LH_EXPERT_SUM_ROWS * strided(c->width);
    if (options->range.last == c->layers)
        bytes += lh_sampler_scratch_bytes(c->vocabulary);
    return bytes;
}

static uint32_t context_of(const lh_model_config *c, const lh_stage_options *options) {
    return options->context ? options->context : c->context;
}

/* What blocks of keys give rows whose attention the threads share. */
static uint64_t divided_bytes(const lh_model_config *c, const lh_stage_options *options,
                              uint32_t threads) {
    const uint32_t context = context_of(c, options);
    if (c->latent.rank > 0)
        return lh_latent_shared_bytes(c, options->rows_max, context, threads);
    const lh_attention_partials partials = lh_attention_partials_of(
        c->heads, c->kv_heads, c->head_dim, options->rows_max, context, threads);
    return lh_attention_partials_bytes(&partials);
}

static uint64_t head_bytes(const lh_model_config *c, const lh_stage_options *options) {
    if (options->range.last < c->layers)
        return 0;
    const uint64_t row = strided(c->vocabulary) + floats(c->width) + packed(options, c->width);
    return lh_min_u32(options->rows_max, LH_HEAD_ROWS) * row;
}

static uint64_t steps_bytes(const lh_model_config *c, const lh_model_config *whole,
                            const lh_division *division, const lh_stage_options *options,
                            uint32_t threads) {
    const uint64_t rows = options->rows_max * (options->steps_max * buffer_row(c, options) +
                                               shared_row(c, whole, options) +
                                               floats(lh_whole_row_floats(c, division))) +
                          head_bytes(c, options);
    if (options->device) {
        const lh_device_work work = lh_stage_device_work(c, options);
        return rows + options->device->work_bytes(options->device, &work);
    }
    return rows + threads * thread_bytes(c, options) + divided_bytes(c, options, threads);
}

/* Where attention is latent, what is kept of a position is one row, without a key beside it. */
lh_kv_shape lh_stage_kv_shape(const lh_model_config *config, lh_kv_type type) {
    if (config->latent.rank > 0)
        return (lh_kv_shape){type, 1, 0, lh_model_key_width(config)};
    return (lh_kv_shape){type, config->kv_heads, config->head_dim, config->head_dim};
}

lh_device_work lh_stage_device_work(const lh_model_config *config,
                                    const lh_stage_options *options) {
    const bool is_last = options->range.last == config->layers;
    return (lh_device_work){.config = config,
                            .rows = options->rows_max,
                            .context = context_of(config, options),
                            .drawn_rows = is_last ? lh_min_u32(options->rows_max, LH_HEAD_ROWS) : 0,
                            .is_fast = options->is_fast};
}

lh_status lh_stage_memory_count(const lh_gguf *gguf, const lh_model_config *config,
                                const lh_stage_options *options, uint32_t threads,
                                lh_stage_memory *memory, lh_error *error) {
    lh_division division;
    size_t weights;
    lh_status status = lh_division_make(config, &options->membership, &division, error);
    if (status == LH_OK)
        status = lh_parameters_count(gguf, config, options->range, &division, &weights, error);
    if (status != LH_OK)
        return status;
    const lh_model_config own = lh_division_config(&division, config);
    const lh_kv_shape shape = lh_stage_kv_shape(&own, options->kv_type);
    uint64_t page =
        (lh_kv_page_bytes(&shape, shape.key_dim) + lh_kv_page_bytes(&shape, shape.value_dim)) *
        (options->range.last - options->range.first);
    *memory =
        (lh_stage_memory){.weights_bytes = weights,
                          .kv_bytes = options->kv_bytes / page * page,
                          .steps_bytes = steps_bytes(&own, config, &division, options, threads)};
    return LH_OK;
}

uint64_t lh_stage_memory_sum(const lh_stage_memory *memory) {
    return memory->weights_bytes + memory->kv_bytes + memory->steps_bytes;
}

lh_status lh_stage_memory_refuse(const lh_stage_memory *memory, lh_layer_range range,
                                 int64_t free_bytes, lh_error *error) {
    const uint64_t sum = lh_stage_memory_sum(memory);
    return lh_fail(error, LH_ERR_LIMIT,
                   "layers %u-%u need %.2f GiB (weights %.2f, KV cache %.2f, steps %.2f) and %.2f "
                   "GiB are free: lower --kv-bytes or --memory-bytes, end other programs, or add "
                   "workers",
                   range.first, range.last - 1, (double)sum / GIB,
                   (double)memory->weights_bytes / GIB, (double)memory->kv_bytes / GIB,
                   (double)memory->steps_bytes / GIB, (double)free_bytes / GIB);
}

lh_status lh_stage_memory_check(const lh_stage_memory *memory, lh_layer_range range,
                                int64_t free_bytes, lh_error *error) {
    if (free_bytes < 0 || lh_stage_memory_sum(memory) <= (uint64_t)free_bytes)
        return LH_OK;
    return lh_stage_memory_refuse(memory, range, free_bytes, error);
}
