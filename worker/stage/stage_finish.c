/* A step after its begin: shards come in, the layers run, shards or tokens go out. */
#include "worker/stage/stage.h"

#include "worker/stage/stage_state.h"

#include <assert.h>
#include <string.h>

/* ---- Accept ------------------------------------------------------------------------------------ */

static lh_layer_run layer_run_of(lh_stage_step *step) {
    lh_stage *stage = step->stage;
    return (lh_layer_run){.compute = &stage->compute,
                          .config = &stage->config,
                          .panel = &step->panel,
                          .scratch = &stage->scratch,
                          .rows = step->rows,
                          .runs = step->runs,
                          .run_count = step->run_count};
}

static bool all_finite(const float *values, size_t count) {
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return bad == 0;
}

static void store_shard(lh_stage_step *step, const lh_stage_shard *shard) {
    uint32_t width = step->stage->config.width;
    for (uint32_t i = 0; i < shard->rows; i++) {
        memcpy(step->panel.h + (size_t)(shard->first_row + i) * width + shard->first_column,
               shard->values + (size_t)i * shard->columns, shard->columns * sizeof(float));
    }
}

/* The first norm and product go on over the columns [taken, end). */
static void take_columns(lh_stage_step *step, uint32_t end) {
    if (step->taken < end) {
        const lh_layer_run run = layer_run_of(step);
        lh_layer_take(&run, &step->stage->weights.layers[0], (lh_span){step->taken, end});
        step->taken = end;
    }
}

lh_status lh_stage_accept(lh_stage_step *step, const lh_stage_shard *shard, lh_error *error) {
    if (step->stage->is_first) {
        return lh_fail(error, LH_ERR_INVALID, "shard: the first stage takes tokens, no activation");
    }
    assert(step->state == LH_STEP_BEGUN);
    const lh_rectangle part = {shard->first_row, shard->rows, shard->first_column, shard->columns};
    lh_status status = lh_arrival_check(&step->arrival, &part, error);
    if (status != LH_OK) {
        return status;
    }
    if (!all_finite(shard->values, (size_t)shard->rows * shard->columns)) {
        return lh_fail(error, LH_ERR_INVALID,
                       "shard: rows %u + %u, columns %u + %u hold a value that is not finite",
                       shard->first_row, shard->rows, shard->first_column, shard->columns);
    }
    lh_arrival_note(&step->arrival, &part);
    store_shard(step, shard);
    take_columns(step, lh_arrival_complete_columns(&step->arrival));
    return LH_OK;
}

int lh_stage_is_ready(const lh_stage_step *step) {
    return step->stage->is_first || step->taken == step->stage->config.width;
}

/* ---- Finish ------------------------------------------------------------------------------------ */

/* The last operation of the stage, shard by shard where its columns are complete one by one; where they are not, the
 * shards leave one after the other when the rows are: what the next stage gets is the same either way. */
static void give_shards(lh_stage_step *step, const lh_layer_run *run, const lh_layer *layer,
                        const lh_stage_output *output) {
    lh_stage *stage = step->stage;
    uint32_t width = stage->config.width;
    bool by_columns = lh_layer_gives_columns(layer);
    if (!by_columns) {
        lh_layer_give(run, layer, (lh_span){0, width});
    }
    for (uint32_t i = 0; i < step->cut.count; i++) {
        lh_span span = {i > 0 ? step->cut.ends[i - 1] : 0, step->cut.ends[i]};
        uint32_t columns = span.end - span.begin;
        const float *values = step->panel.h;
        if (by_columns) {
            lh_layer_give(run, layer, span);
        }
        if (columns < width) {
            for (uint32_t row = 0; row < step->rows; row++) {
                memcpy(stage->outgoing + (size_t)row * columns,
                       step->panel.h + (size_t)row * width + span.begin, columns * sizeof(float));
            }
            values = stage->outgoing;
        }
        const lh_stage_shard shard = {0, step->rows, span.begin, columns, values};
        output->on_shard(output->context, &shard);
    }
}

typedef struct lh_sample_relay {
    const lh_stage_step *step;
    const lh_stage_output *output;
} lh_sample_relay;

static uint64_t sampled_sequence(const lh_stage_step *step, uint32_t number) {
    return step->segments[step->sample_segments[number]].sequence;
}

static void relay_logits(void *context, uint32_t number, const float *logits) {
    const lh_sample_relay *relay = context;
    relay->output->on_logits(relay->output->context, sampled_sequence(relay->step, number), logits,
                             relay->step->stage->config.vocabulary);
}

static void relay_result(void *context, uint32_t number, const lh_sample_result *result) {
    const lh_sample_relay *relay = context;
    relay->output->on_sample(relay->output->context, sampled_sequence(relay->step, number), result);
}

static lh_status sample(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    lh_sample_relay relay = {step, output};
    const lh_head_events events = {.context = &relay,
                                   .on_logits = output->on_logits != NULL ? relay_logits : NULL,
                                   .on_result = relay_result};
    return lh_head_run(step->stage->head, step->panel.h, step->samples, step->sample_count, &events, error);
}

/* After the keys and values of the last layer are stored, only the rows that draw matter, if any: they move to the front. */
static void keep_sampled_rows(lh_stage_step *step, lh_layer_run *run) {
    const lh_model_config *config = &step->stage->config;
    size_t width = config->width, queries = lh_row_stride((size_t)config->heads * config->head_dim);
    for (uint32_t i = 0; i < step->sample_count; i++) {
        const lh_batch_segment *segment = &step->segments[step->sample_segments[i]];
        uint32_t row = step->samples[i].row; /* ascending: row >= i */
        memmove(step->panel.h + i * width, step->panel.h + row * width, width * sizeof(float));
        memmove(step->panel.q + i * queries, step->panel.q + row * queries, queries * sizeof(float));
        step->samples[i].row = i;
        step->runs[i] = (lh_position_run){.sequence = step->claims[step->sample_segments[i]].sequence,
                                          .first_row = i,
                                          .rows = 1,
                                          .first_position = segment->first_position + segment->rows - 1};
    }
    run->rows = run->run_count = step->sample_count;
}

static lh_status run_layers(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    const lh_stage *stage = step->stage;
    lh_layer_run run = layer_run_of(step);
    const lh_span all = {0, stage->config.width};
    for (uint32_t i = 0; i < stage->weights.layer_count; i++) {
        const lh_layer *layer = &stage->weights.layers[i];
        bool is_end = i + 1 == stage->weights.layer_count;
        if (output->is_cancelled != NULL && output->is_cancelled(output->context)) {
            return lh_fail(error, LH_ERR_CANCELLED, "the step was cancelled");
        }
        if (i > 0) {
            lh_layer_take(&run, layer, all);
        } else {
            take_columns(step, all.end);
        }
        lh_layer_store(&run, layer, i);
        if (is_end && (stage->is_last || step->ends_here)) {
            keep_sampled_rows(step, &run);
        }
        if (run.rows == 0) {
            break;
        }
        lh_layer_middle(&run, layer, i);
        if (is_end && !stage->is_last) {
            give_shards(step, &run, layer, output);
        } else {
            lh_layer_give(&run, layer, all);
        }
    }
    return LH_OK;
}

/* Gives the positions of a step back, from under the steps that began on top of them. */
static void take_back(lh_stage_step *step) {
    lh_stage *stage = step->stage;
    for (uint32_t i = 0; i < stage->options.steps_max; i++) {
        lh_stage_step *other = &stage->steps[i];
        if (other != step && other->state == LH_STEP_BEGUN) {
            lh_claims_go_stale(other->claims, other->segment_count, step->claims, step->segment_count);
        }
    }
    lh_claims_take_back(stage->kv, step->claims, step->segment_count);
}

lh_status lh_stage_finish(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    assert(step->state == LH_STEP_BEGUN && lh_stage_is_ready(step));
    lh_status status = lh_claims_start(step->claims, step->segment_count, error);
    if (status == LH_OK) {
        status = run_layers(step, output, error);
    }
    if (status == LH_OK && step->stage->is_last) {
        status = sample(step, output, error);
    }
    if (status != LH_OK) {
        take_back(step);
    }
    step->state = status == LH_OK ? LH_STEP_FINISHED : LH_STEP_FAILED;
    return status;
}

void lh_stage_end(lh_stage_step *step) {
    lh_stage *stage = step->stage;
    assert(step->state != LH_STEP_FREE);
    if (step->state == LH_STEP_BEGUN) {
        take_back(step);
    }
    lh_claims_drop(stage->kv, step->claims, step->segment_count);
    step->state = LH_STEP_FREE;
    step->next_free = stage->free_steps;
    stage->free_steps = step;
}
