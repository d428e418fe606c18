/* A stage owns the weights, the cache, the scratch and a fixed number of steps, each with its panel: all
 * allocated here. */
#include "worker/stage/stage.h"

#include "worker/stage/stage_state.h"

#include <assert.h>
#include <stdlib.h>

static lh_status check_options(const lh_model_config *config, const lh_stage_options *options,
                               lh_error *error) {
    const lh_layer_range range = options->range;
    if (range.first >= range.last || range.last > config->layers) {
        return lh_fail(error, LH_ERR_INVALID, "stage: layers %u to %u are not a range of the model's %u",
                       range.first, range.last, config->layers);
    }
    if (options->rows_max == 0 || options->steps_max == 0) {
        return lh_fail(error, LH_ERR_INVALID, "stage: rows and steps must be at least 1");
    }
    if (options->context > config->context) {
        return lh_fail(error, LH_ERR_INVALID, "stage: a context of %u is over the model's %u",
                       options->context, config->context);
    }
    return LH_OK;
}

static lh_status step_init(lh_stage_step *step, lh_stage *stage, lh_error *error) {
    uint32_t rows = stage->options.rows_max;
    step->stage = stage;
    step->segments = calloc(rows, sizeof *step->segments);
    step->claims = calloc(rows, sizeof *step->claims);
    step->runs = calloc(rows, sizeof *step->runs);
    step->samples = calloc(rows, sizeof *step->samples);
    step->sample_segments = calloc(rows, sizeof *step->sample_segments);
    if (step->segments == NULL || step->claims == NULL || step->runs == NULL || step->samples == NULL ||
        step->sample_segments == NULL) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for a step of %u rows", rows);
    }
    lh_status status =
        lh_panel_init(&step->panel, &stage->config, &stage->weights, stage->compute.activations, rows, error);
    if (status == LH_OK && !stage->is_first) {
        status = lh_arrival_init(&step->arrival, rows, stage->config.width, error);
    }
    return status;
}

static void step_reset(lh_stage_step *step) {
    assert(step->state == LH_STEP_FREE);
    lh_arrival_reset(&step->arrival);
    lh_panel_reset(&step->panel);
    free(step->lists);
    free(step->sample_segments);
    free(step->samples);
    free(step->runs);
    free(step->claims);
    free(step->segments);
}

static lh_status make_steps(lh_stage *stage, lh_error *error) {
    lh_status status = LH_OK;
    stage->steps = calloc(stage->options.steps_max, sizeof *stage->steps);
    if (stage->steps == NULL) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for %u steps", stage->options.steps_max);
    }
    for (uint32_t i = 0; i < stage->options.steps_max && status == LH_OK; i++) {
        status = step_init(&stage->steps[i], stage, error);
        stage->steps[i].next_free = stage->free_steps;
        stage->free_steps = &stage->steps[i];
    }
    return status;
}

static lh_status make_output(lh_stage *stage, lh_error *error) {
    uint32_t width = stage->config.width, rows = stage->options.rows_max;
    if (stage->is_last) {
        return lh_head_create(&stage->config, &stage->weights, &stage->compute, rows, &stage->head, error);
    }
    stage->outgoing = lh_panel_allocate((size_t)rows * width, sizeof(float));
    if (stage->outgoing == NULL) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for shards of %u rows", rows);
    }
    return LH_OK;
}

static lh_status make_state(lh_stage *stage, lh_error *error) {
    const lh_model_config *config = &stage->config;
    lh_status status = lh_kv_cache_create(stage->weights.layer_count, config->kv_heads, config->head_dim,
                                          stage->context, stage->options.kv_bytes, &stage->kv, error);
    if (status == LH_OK) {
        status = lh_scratch_init(&stage->scratch, config, &stage->weights, stage->compute.activations,
                                 stage->options.rows_max, stage->context,
                                 lh_thread_pool_size(stage->compute.pool), error);
    }
    if (status == LH_OK) {
        status = make_steps(stage, error);
    }
    return status != LH_OK ? status : make_output(stage, error);
}

lh_status lh_stage_create(const lh_gguf *gguf, const lh_model_config *config, const lh_weight_source *source,
                          const lh_stage_options *options, void (*on_progress)(void *, uint64_t, uint64_t),
                          void *progress_context, lh_stage **out, lh_error *error) {
    lh_status status = check_options(config, options, error);
    if (status != LH_OK) {
        return status;
    }
    lh_stage *stage = calloc(1, sizeof *stage);
    if (stage == NULL) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for a stage");
    }
    stage->config = *config;
    stage->options = *options;
    stage->compute =
        (lh_compute){options->kernels, options->pool,
                     options->activations == LH_ACTIVATION_Q16 ? LH_ACTIVATION_Q16 : LH_ACTIVATION_Q8};
    stage->is_first = options->range.first == 0;
    stage->is_last = options->range.last == config->layers;
    stage->context = options->context != 0 ? options->context : config->context;
    const lh_load_progress progress = {on_progress, progress_context};
    status = lh_parameters_load(gguf, config, options->range, source, &stage->compute, &progress,
                                &stage->weights, error);
    if (status == LH_OK) {
        status = make_state(stage, error);
    }
    if (status != LH_OK) {
        lh_stage_destroy(stage);
        return status;
    }
    *out = stage;
    return LH_OK;
}

void lh_stage_destroy(lh_stage *stage) {
    if (stage == NULL) {
        return;
    }
    free(stage->outgoing);
    lh_head_destroy(stage->head);
    for (uint32_t i = 0; stage->steps != NULL && i < stage->options.steps_max; i++) {
        step_reset(&stage->steps[i]);
    }
    free(stage->steps);
    lh_scratch_reset(&stage->scratch);
    lh_kv_cache_destroy(stage->kv);
    lh_parameters_reset(&stage->weights);
    free(stage);
}

void lh_stage_use_pool(lh_stage *stage, lh_thread_pool *pool) {
    assert(lh_thread_pool_size(pool) == lh_thread_pool_size(stage->compute.pool));
    stage->compute.pool = pool;
}

const lh_kv_cache *lh_stage_kv(const lh_stage *stage) {
    return stage->kv;
}

size_t lh_stage_weight_bytes(const lh_stage *stage) {
    return stage->weights.memory_bytes;
}

void lh_stage_reset(lh_stage *stage) {
    lh_kv_cache_release_all(stage->kv);
}

void lh_stage_release(lh_stage *stage, uint64_t sequence, uint32_t keep) {
    lh_kv_cache_release(stage->kv, sequence, keep);
}

lh_status lh_stage_call_roll(lh_stage *stage, const lh_batch_release *roll, uint32_t count, lh_error *error) {
    for (uint32_t i = 0; i < count; i++) {
        lh_status status = lh_kv_cache_name(stage->kv, roll[i].sequence, roll[i].keep, error);
        if (status != LH_OK) {
            lh_kv_cache_release_all(stage->kv);
            return status;
        }
    }
    lh_kv_cache_release_unnamed(stage->kv);
    return LH_OK;
}
