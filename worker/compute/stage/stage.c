/* A stage owns the weights, the cache, the scratch and a fixed number of steps, each with its
 * activation buffer: all allocated at the start. What steps can do to each other is decided
 * here. */
#include "worker/compute/stage/stage.h"

#include "worker/compute/stage/aligned_array.h"
#include "worker/compute/stage/stage_memory.h"
#include "worker/compute/stage/stage_order.h"
#include "worker/compute/stage/stage_step.h"

#include <assert.h>
#include <stdlib.h>

struct lh_stage {
    lh_stage_options options;
    lh_stage_resources resources;
    lh_kv_cache *kv;
    lh_stage_step *steps; /* [steps_max] */
    lh_stage_step *free_steps;
    lh_stage_leading leading; /* order is NULL: it leads nobody */
};

static lh_status check_options(const lh_model_config *config, const lh_stage_options *options,
                               lh_error *error) {
    const lh_layer_range range = options->range;
    if (range.first >= range.last || range.last > config->layers) {
        return lh_fail(
            error, LH_ERR_INVALID,
            "stage: from layer %u on, before layer %u, is no part of the model's %u layers",
            range.first, range.last, config->layers);
    }
    if (options->rows_max == 0 || options->steps_max == 0)
        return lh_fail(error, LH_ERR_INVALID, "stage: rows and steps must be at least 1");
    if (options->context > config->context) {
        return lh_fail(error, LH_ERR_INVALID, "stage: a context of %u is over the model's %u",
                       options->context, config->context);
    }
    if (options->device && options->membership.members > 1)
        return lh_fail(error, LH_ERR_UNSUPPORTED, "stage: %s computes no stage of several members",
                       options->device->name);
    return LH_OK;
}

static lh_status make_steps(lh_stage *stage, lh_error *error) {
    lh_status status = LH_OK;
    stage->steps = calloc(stage->options.steps_max, sizeof *stage->steps);
    if (!stage->steps) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for %u steps",
                       stage->options.steps_max);
    }
    for (uint32_t i = 0; i < stage->options.steps_max && status == LH_OK; i++) {
        status =
            lh_stage_step_init(&stage->steps[i], &stage->resources, stage->options.rows_max, error);
        stage->steps[i].owner = stage;
        stage->steps[i].next_free = stage->free_steps;
        stage->free_steps = &stage->steps[i];
    }
    return status;
}

static lh_status make_output(lh_stage *stage, lh_error *error) {
    uint32_t width = stage->resources.config.width, rows = stage->options.rows_max;
    if (stage->resources.is_last) {
        lh_status status = lh_mask_store_create(stage->resources.config.vocabulary,
                                                &stage->resources.masks, error);
        if (status != LH_OK)
            return status;
        return lh_head_create(&stage->resources.config, &stage->resources.weights,
                              &stage->resources.compute, rows, &stage->resources.head, error);
    }
    const lh_compute *compute = &stage->resources.compute;
    const size_t bytes = (size_t)rows * width * sizeof(float);
    stage->resources.outgoing = compute->ops->allocate_host(compute, bytes);
    if (compute->ops->packs)
        stage->resources.packing = compute->ops->allocate(compute, bytes);
    return stage->resources.outgoing && (stage->resources.packing || !compute->ops->packs)
               ? LH_OK
               : lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for shards of %u rows", rows);
}

static lh_status make_state(lh_stage *stage, lh_error *error) {
    const lh_model_config *config = &stage->resources.config;
    const lh_kv_shape shape = lh_stage_kv_shape(config, stage->options.kv_type);
    lh_status status =
        lh_kv_cache_create(&stage->resources.compute, stage->resources.weights.layer_count, &shape,
                           stage->options.context, stage->options.kv_bytes, &stage->kv, error);
    if (status == LH_OK) {
        status = lh_scratch_init(&stage->resources.scratch, config, &stage->resources.division,
                                 &stage->resources.weights, &stage->resources.compute,
                                 stage->options.rows_max, stage->options.context, error);
    }
    if (status == LH_OK)
        status = make_steps(stage, error);
    return status != LH_OK ? status : make_output(stage, error);
}

/* What a device was asked for and had, behind the words for what it could not give. */
static lh_status tell_memory(const lh_gguf *gguf, const lh_model_config *config,
                             const lh_stage_options *options, int64_t free_bytes, lh_error *error) {
    lh_stage_memory memory;
    lh_error arithmetic;
    if (!error || free_bytes < 0 ||
        lh_stage_memory_count(gguf, config, options, lh_thread_pool_size(options->pool), &memory,
                              &arithmetic) != LH_OK)
        return LH_ERR_NO_MEMORY;
    const lh_error cause = *error;
    lh_stage_memory_refuse(&memory, options->range, free_bytes, &arithmetic);
    return lh_fail(error, LH_ERR_NO_MEMORY, "%s; %s", cause.message, arithmetic.message);
}

lh_status lh_stage_create(const lh_gguf *gguf, const lh_model_config *config,
                          const lh_weight_source *source, const lh_stage_options *options,
                          void (*on_progress)(void *, uint64_t, uint64_t), void *progress_context,
                          lh_stage **out, lh_error *error) {
    lh_division division;
    lh_status status = check_options(config, options, error);
    if (status == LH_OK)
        status = lh_division_make(config, &options->membership, &division, error);
    if (status != LH_OK)
        return status;
    lh_stage *stage = calloc(1, sizeof *stage);
    if (!stage)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for a stage");
    stage->resources.division = division;
    stage->resources.config = lh_division_config(&division, config);
    stage->options = *options;
    stage->resources.compute = lh_cpu_compute(
        options->kernels, options->pool,
        options->activations == LH_ACTIVATION_Q16 ? LH_ACTIVATION_Q16 : LH_ACTIVATION_Q8);
    stage->resources.is_first = options->range.first == 0;
    stage->resources.is_last = options->range.last == config->layers;
    if (options->context == 0)
        stage->options.context = config->context;
    const lh_load_progress progress = {on_progress, progress_context};
    const int64_t free_bytes = options->device ? options->device->free_bytes(options->device) : -1;
    const lh_device_work work = lh_stage_device_work(config, options);
    if (options->device)
        status = lh_device_open(options->device, &work, &stage->resources.compute, error);
    if (status == LH_OK)
        status = lh_parameters_load(gguf, config, options->range, &stage->resources.division,
                                    stage->options.context, source, &stage->resources.compute,
                                    &progress, &stage->resources.weights, error);
    if (status == LH_OK)
        status = make_state(stage, error);
    if (status != LH_OK) {
        lh_stage_destroy(stage);
        return options->device && status == LH_ERR_NO_MEMORY
                   ? tell_memory(gguf, config, options, free_bytes, error)
                   : status;
    }
    *out = stage;
    return LH_OK;
}

void lh_stage_destroy(lh_stage *stage) {
    if (!stage)
        return;
    const lh_compute *compute = &stage->resources.compute;
    compute->ops->release(compute, stage->resources.packing);
    compute->ops->release_host(compute, stage->resources.outgoing);
    lh_head_destroy(stage->resources.head);
    lh_mask_store_destroy(stage->resources.masks);
    for (uint32_t i = 0; stage->steps && i < stage->options.steps_max; i++)
        lh_stage_step_reset(&stage->steps[i]);
    free(stage->steps);
    lh_scratch_reset(&stage->resources.scratch, compute);
    lh_kv_cache_destroy(stage->kv);
    lh_parameters_reset(&stage->resources.weights, compute);
    if (stage->options.device)
        stage->options.device->close(compute->queue);
    free(stage);
}

/* No step is between begin and end. */
static bool is_idle(const lh_stage *stage) {
    for (uint32_t i = 0; i < stage->options.steps_max; i++)
        if (stage->steps[i].state != LH_STEP_FREE)
            return false;
    return true;
}

void lh_stage_use_pool(lh_stage *stage, lh_thread_pool *pool) {
    assert(is_idle(stage));
    assert(lh_thread_pool_size(pool) == lh_thread_pool_size(stage->resources.compute.pool));
    stage->options.pool = stage->resources.compute.pool = pool;
}

void lh_stage_lead(lh_stage *stage, const lh_stage_leading *leading) {
    assert(is_idle(stage) && stage->resources.division.own == 0);
    stage->leading = *leading;
}

const lh_stage_options *lh_stage_made_with(const lh_stage *stage) {
    return &stage->options;
}

/* Floats are the largest form that numbers travel in. */
size_t lh_stage_exchange_bytes_max(const lh_stage *stage) {
    const lh_model_config *config = &stage->resources.config;
    const uint64_t rows = stage->options.rows_max,
                   logit_rows = rows < LH_HEAD_ROWS ? rows : LH_HEAD_ROWS,
                   gathered = rows * lh_division_gathered_max(&stage->resources.division, config),
                   logits = logit_rows * config->vocabulary;
    return (size_t)(gathered > logits ? gathered : logits) * sizeof(float);
}

const lh_model_config *lh_stage_config(const lh_stage *stage) {
    return &stage->resources.config;
}

const lh_kv_cache *lh_stage_kv(const lh_stage *stage) {
    return stage->kv;
}

void lh_stage_limit_kv(lh_stage *stage, size_t pages) {
    lh_kv_cache_limit(stage->kv, pages);
}

size_t lh_stage_weight_bytes(const lh_stage *stage) {
    return stage->resources.weights.memory_bytes;
}

/* Of the members that it leads, if any. */
static lh_status order(const lh_stage *stage, lh_stage_order what, lh_error *error) {
    const lh_stage_leading *leading = &stage->leading;
    return leading->order ? leading->order(leading->context, &what, error) : LH_OK;
}

void lh_stage_reset(lh_stage *stage) {
    assert(is_idle(stage));
    order(stage, (lh_stage_order){.kind = LH_ORDER_RESET}, NULL);
    lh_kv_cache_free_all(stage->kv);
}

void lh_stage_truncate(lh_stage *stage, uint64_t sequence, uint32_t length) {
    const lh_step_truncation truncation = {sequence, length};
    const lh_stage_order what = {
        .kind = LH_ORDER_TRUNCATE, .sequences = &truncation, .sequence_count = 1};
    order(stage, what, NULL);
    lh_kv_cache_truncate(stage->kv, sequence, length);
}

lh_status lh_stage_resync_kv(lh_stage *stage, const lh_step_truncation *resync, uint32_t count,
                             lh_error *error) {
    const lh_stage_order what = {
        .kind = LH_ORDER_RESYNC_KV, .sequences = resync, .sequence_count = count};
    assert(is_idle(stage));
    lh_status status = order(stage, what, error);
    for (uint32_t i = 0; i < count && status == LH_OK; i++)
        status = lh_kv_cache_name(stage->kv, resync[i].sequence, resync[i].length, error);
    if (status == LH_OK)
        lh_kv_cache_free_unnamed(stage->kv);
    else
        lh_kv_cache_free_all(stage->kv);
    return status;
}

/* ---- Masks ---- */

lh_status lh_stage_take_masks(lh_stage *stage, const lh_step_masks *masks, lh_error *error) {
    lh_mask_store *store = stage->resources.masks;
    if (!store || masks->drop_count + masks->count == 0)
        return LH_OK;
    lh_status status =
        order(stage, (lh_stage_order){.kind = LH_ORDER_TAKE_MASKS, .masks = masks}, error);
    if (status != LH_OK)
        return status;
    for (uint32_t i = 0; i < masks->drop_count; i++)
        lh_mask_store_drop(store, masks->drops[i]);
    for (uint32_t i = 0; i < masks->count && status == LH_OK; i++)
        status = lh_mask_store_keep(store, &masks->list[i], error);
    return status;
}

/* Ordered also where there are none to drop: every epoch begins so, and finds out whether the
 * others are still there. */
void lh_stage_drop_masks(lh_stage *stage) {
    order(stage, (lh_stage_order){.kind = LH_ORDER_DROP_MASKS}, NULL);
    if (stage->resources.masks)
        lh_mask_store_reset(stage->resources.masks);
}

/* ---- Steps ---- */

static uint32_t number_of(const lh_stage_step *step) {
    return (uint32_t)(step - step->owner->steps);
}

lh_status lh_stage_begin(lh_stage *stage, const lh_batch *batch, lh_stage_step **out,
                         lh_error *error) {
    const lh_model_config *config = &stage->resources.config;
    const lh_batch_limits limits = {.rows_max = stage->options.rows_max,
                                    .context = stage->options.context,
                                    .width = config->width,
                                    .vocabulary = config->vocabulary,
                                    .is_last = stage->resources.is_last};
    lh_status status = lh_batch_check(batch, &limits, error);
    if (status != LH_OK)
        return status;
    lh_stage_step *step = stage->free_steps;
    if (!step) {
        return lh_fail(error, LH_ERR_BUSY, "all %u steps of the stage are in use",
                       stage->options.steps_max);
    }
    status = lh_kv_reservations_take(stage->kv, batch, step->reservations, error);
    if (status != LH_OK)
        return status;
    assert(step->state == LH_STEP_FREE);
    stage->free_steps = step->next_free;
    step->state = LH_STEP_BEGUN;
    lh_stage_step_start(step, batch);
    const lh_stage_order what = {.kind = LH_ORDER_BEGIN, .step = number_of(step), .batch = batch};
    status = order(stage, what, error);
    if (status == LH_OK)
        *out = step;
    else
        lh_stage_end(step);
    return status;
}

lh_status lh_stage_accept(lh_stage_step *step, const lh_stage_shard *shard, lh_error *error) {
    const lh_stage_order what = {.kind = LH_ORDER_ACCEPT, .step = number_of(step), .shard = shard};
    lh_status status = order(step->owner, what, error);
    return status == LH_OK ? lh_stage_step_accept(step, shard, error) : status;
}

/* Gives the positions of a step back, from under the steps that began on top of them. */
static void take_back(lh_stage_step *step) {
    lh_stage *stage = step->owner;
    for (uint32_t i = 0; i < stage->options.steps_max; i++) {
        lh_stage_step *other = &stage->steps[i];
        if (other != step && other->state == LH_STEP_BEGUN) {
            lh_kv_reservations_go_stale(other->reservations, other->segment_count,
                                        step->reservations, step->segment_count);
        }
    }
    lh_kv_reservations_take_back(stage->kv, step->reservations, step->segment_count);
}

/* With the members that it leads: they would wait for a step that stops in its midst. */
static lh_status run_led(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    const lh_stage_leading *leading = &step->owner->leading;
    const lh_gather gather = leading->gather(leading->context);
    lh_stage_output led = *output;
    led.gather = &gather;
    led.is_cancelled = NULL;
    return lh_stage_step_run(step, &led, error);
}

lh_status lh_stage_finish(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    const lh_stage *stage = step->owner;
    assert(step->state == LH_STEP_BEGUN && lh_stage_is_ready(step));
    lh_status status =
        order(stage, (lh_stage_order){.kind = LH_ORDER_FINISH, .step = number_of(step)}, error);
    if (status == LH_OK)
        status = lh_kv_reservations_start(step->reservations, step->segment_count, error);
    if (status == LH_OK)
        status = stage->leading.order ? run_led(step, output, error)
                                      : lh_stage_step_run(step, output, error);
    if (status != LH_OK)
        take_back(step);
    step->state = status == LH_OK ? LH_STEP_FINISHED : LH_STEP_FAILED;
    return status;
}

uint32_t lh_stage_gather_times(const lh_stage *stage, lh_gather_times *times, uint32_t count) {
    const lh_stage_leading *leading = &stage->leading;
    return leading->order ? leading->gather_times(leading->context, times, count) : 0;
}

void lh_stage_end(lh_stage_step *step) {
    lh_stage *stage = step->owner;
    assert(step->state != LH_STEP_FREE);
    if (step->state == LH_STEP_BEGUN)
        take_back(step);
    lh_kv_reservations_drop(stage->kv, step->reservations, step->segment_count);
    step->state = LH_STEP_FREE;
    step->next_free = stage->free_steps;
    stage->free_steps = step;
    order(stage, (lh_stage_order){.kind = LH_ORDER_END, .step = number_of(step)}, NULL);
}
