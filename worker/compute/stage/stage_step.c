/* A step from its batch to its result. Nothing is allocated after init. */
#include "worker/compute/stage/stage_step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Steps of more are not worth keeping: what they take is no longer the asking. */
#define LH_REPEAT_ROWS 64u

lh_status lh_stage_step_init(lh_stage_step *step, lh_stage_resources *stage, uint32_t rows,
                             lh_error *error) {
    step->stage = stage;
    step->segments = calloc(rows, sizeof *step->segments);
    step->reservations = calloc(rows, sizeof *step->reservations);
    step->runs = calloc(rows, sizeof *step->runs);
    step->outputs = calloc(rows, sizeof *step->outputs);
    step->output_segments = calloc(rows, sizeof *step->output_segments);
    if (!step->segments || !step->reservations || !step->runs || !step->outputs ||
        !step->output_segments) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for a step of %u rows", rows);
    }
    lh_status status = lh_activation_buffer_init(&step->buffer, &stage->config, &stage->weights,
                                                 &stage->compute, rows, error);
    if (status == LH_OK && !stage->is_first)
        status = lh_shard_tracker_init(&step->tracker, rows, stage->config.width, error);
    return status;
}

void lh_stage_step_reset(lh_stage_step *step) {
    assert(step->state == LH_STEP_FREE);
    lh_shard_tracker_reset(&step->tracker);
    if (step->stage)
        lh_activation_buffer_reset(&step->buffer, &step->stage->compute);
    free(step->output_segments);
    free(step->outputs);
    free(step->runs);
    free(step->reservations);
    free(step->segments);
}

/* ---- Start ---- */

static void add_output(lh_stage_step *step, uint32_t segment, const lh_head_row *row) {
    step->output_segments[step->output_count] = segment;
    step->outputs[step->output_count++] = *row;
}

/* The rows of a segment that are pooled, or else those that score the tokens after them and then
 * the one that draws. */
static void add_outputs(lh_stage_step *step, uint32_t index, uint32_t first,
                        const uint32_t *tokens) {
    const lh_step_segment *segment = &step->segments[index];
    const lh_step_scoring *scoring = &segment->scoring;
    for (uint32_t i = 0; i < scoring->rows; i++) {
        uint32_t row = first + scoring->first_row + i;
        bool is_last = row + 1 == first + segment->rows;
        uint32_t token = is_last ? scoring->next_token : tokens[row + 1];
        add_output(step, index, &(lh_head_row){.row = row, .token = token, .top = scoring->top});
    }
    for (uint32_t i = 0; i < segment->pooling.rows; i++)
        add_output(
            step, index,
            &(lh_head_row){.row = first + segment->pooling.first_row + i, .is_pooled = true});
    if (segment->sample)
        add_output(
            step, index,
            &(lh_head_row){.row = first + segment->rows - 1, .sampling = &segment->sampling});
}

static void copy_segments(lh_stage_step *step, const lh_batch *batch) {
    uint32_t row = 0;
    step->rows = batch->rows;
    step->segment_count = batch->segment_count;
    step->ends_here = batch->ends_here;
    step->output_count = 0;
    for (uint32_t i = 0; i < batch->segment_count; i++) {
        step->segments[i] = batch->segments[i];
        if (step->stage->is_last)
            add_outputs(step, i, row, batch->tokens);
        row += batch->segments[i].rows;
    }
}

/* Segments cut to what one call of the attention kernel takes. */
static void make_runs(lh_stage_step *step) {
    uint32_t row = 0;
    step->run_count = 0;
    for (uint32_t i = 0; i < step->segment_count; i++) {
        const lh_step_segment *segment = &step->segments[i];
        for (uint32_t done = 0; done < segment->rows;) {
            uint32_t left = segment->rows - done,
                     rows = left < LH_ATTENTION_ROWS ? left : LH_ATTENTION_ROWS;
            step->runs[step->run_count++] = (lh_position_run){step->reservations[i].sequence, row,
                                                              rows, segment->first_position + done};
            row += rows;
            done += rows;
        }
    }
}

static void make_angles(lh_stage_step *step) {
    const lh_compute *compute = &step->stage->compute;
    compute->ops->angles(compute, &step->stage->weights.rope, step->runs, step->run_count,
                         step->buffer.cosine, step->buffer.sine);
}

static void embed(lh_stage_step *step, const uint32_t *tokens) {
    const lh_stage_resources *stage = step->stage;
    const lh_compute *compute = &stage->compute;
    uint32_t width = stage->config.width;
    compute->ops->embed(compute, step->buffer.h, &stage->weights.embedding, tokens, step->rows);
    if (stage->config.embedding_scale != 1)
        compute->ops->scale(compute, step->buffer.h, width, step->rows, width,
                            stage->config.embedding_scale);
}

void lh_stage_step_start(lh_stage_step *step, const lh_batch *batch) {
    step->projected = 0;
    copy_segments(step, batch);
    step->cut = batch->cut.count > 0 ? batch->cut : (lh_step_cut){1, {step->stage->config.width}};
    make_runs(step);
    make_angles(step);
    if (step->stage->is_first)
        embed(step, batch->tokens);
    else
        lh_shard_tracker_start(&step->tracker, step->rows);
}

/* ---- Accept ---- */

static lh_layer_run layer_run_of(lh_stage_step *step) {
    lh_stage_resources *stage = step->stage;
    return (lh_layer_run){.compute = &stage->compute,
                          .config = &stage->config,
                          .buffer = &step->buffer,
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
    const lh_compute *compute = &step->stage->compute;
    uint32_t width = step->stage->config.width;
    compute->ops->put_rows(
        compute, step->buffer.h + (size_t)shard->first_row * width + shard->first_column,
        width * sizeof(float), shard->values, shard->columns * sizeof(float), shard->rows);
}

/* The first norm and the QKV projection go on over the columns up to `end`. */
static void project_columns(lh_stage_step *step, uint32_t end) {
    if (step->projected < end) {
        const lh_layer_run run = layer_run_of(step);
        lh_layer_project_qkv(&run, &step->stage->weights.layers[0],
                             (lh_span){step->projected, end});
        step->projected = end;
    }
}

lh_status lh_stage_accept(lh_stage_step *step, const lh_stage_shard *shard, lh_error *error) {
    if (step->stage->is_first)
        return lh_fail(error, LH_ERR_INVALID, "shard: the first stage takes tokens, no activation");
    assert(step->state == LH_STEP_BEGUN);
    const lh_rectangle part = {shard->first_row, shard->rows, shard->first_column, shard->columns};
    lh_status status = lh_shard_tracker_check(&step->tracker, &part, error);
    if (status != LH_OK)
        return status;
    if (!all_finite(shard->values, (size_t)shard->rows * shard->columns)) {
        return lh_fail(error, LH_ERR_INVALID,
                       "shard: rows %u + %u, columns %u + %u hold a value that is not finite",
                       shard->first_row, shard->rows, shard->first_column, shard->columns);
    }
    lh_shard_tracker_note(&step->tracker, &part);
    store_shard(step, shard);
    project_columns(step, lh_shard_tracker_complete_columns(&step->tracker));
    return LH_OK;
}

bool lh_stage_is_ready(const lh_stage_step *step) {
    return step->stage->is_first || step->projected == step->stage->config.width;
}

/* ---- The layers ---- */

static lh_outgoing outgoing_of(const lh_stage_step *step, uint32_t number) {
    const lh_stage_resources *stage = step->stage;
    uint32_t begin = number > 0 ? step->cut.ends[number - 1] : 0;
    return (lh_outgoing){step->buffer.h,
                         step->rows,
                         stage->config.width,
                         {begin, step->cut.ends[number]},
                         stage->outgoing + (size_t)step->rows * begin};
}

static void emit_shard(const lh_stage_step *step, uint32_t number, const lh_stage_output *output) {
    const lh_compute *compute = &step->stage->compute;
    const lh_outgoing outgoing = outgoing_of(step, number);
    const lh_span columns = outgoing.columns;
    const float *values = compute->ops->sent(compute, number, &outgoing);
    const lh_stage_shard shard = {0, step->rows, columns.begin, columns.end - columns.begin,
                                  values};
    if (values)
        output->on_shard(output->context, &shard);
}

/* The last operation of the stage, shard by shard where its columns are complete one by one; where
 * they are not, the shards leave one after the other when the rows are: what the next stage gets is
 * the same either way. A device that works by itself has the next ones to do while one is waited
 * for. */
static void emit_shards(lh_stage_step *step, const lh_layer_run *run, const lh_layer *layer,
                        const lh_stage_output *output) {
    const lh_compute *compute = &step->stage->compute;
    uint32_t count = step->cut.count, ahead = compute->ops->sends_ahead;
    bool by_columns = lh_layer_projects_down_by_columns(layer);
    if (!by_columns)
        lh_layer_project_down(run, layer, (lh_span){0, step->stage->config.width});
    for (uint32_t i = 0; i < count + ahead; i++) {
        if (i < count) {
            const lh_outgoing outgoing = outgoing_of(step, i);
            if (by_columns)
                lh_layer_project_down(run, layer, outgoing.columns);
            compute->ops->send(compute, i, &outgoing);
        }
        if (i >= ahead && i - ahead < count)
            emit_shard(step, i - ahead, output);
    }
}

/* first: the output whose number is 0. */
typedef struct lh_output_relay {
    const lh_stage_step *step;
    const lh_stage_output *output;
    uint32_t first;
} lh_output_relay;

static uint32_t output_segment(const lh_output_relay *relay, uint32_t number) {
    return relay->step->output_segments[relay->first + number];
}

static uint64_t output_sequence(const lh_output_relay *relay, uint32_t number) {
    return relay->step->segments[output_segment(relay, number)].sequence;
}

static void relay_logits(void *context, uint32_t number, const float *logits) {
    const lh_output_relay *relay = context;
    relay->output->on_logits(relay->output->context, output_sequence(relay, number), logits,
                             relay->step->stage->config.vocabulary);
}

static void relay_result(void *context, uint32_t number, const lh_sample_result *result) {
    const lh_output_relay *relay = context;
    relay->output->on_sample(relay->output->context, output_sequence(relay, number), result);
}

static void relay_score(void *context, uint32_t number, const lh_token_score *score) {
    const lh_output_relay *relay = context;
    relay->output->on_score(relay->output->context, output_segment(relay, number), score);
}

/* What is named is kept until no step names it any more: but a peer may err. */
static void find_masks(lh_stage_step *step) {
    for (uint32_t i = 0; i < step->output_count; i++) {
        lh_head_row *row = &step->outputs[i];
        uint64_t mask = row->sampling ? row->sampling->mask : 0;
        row->mask = lh_mask_store_find(step->stage->masks, mask);
        row->lacks_mask = mask != 0 && !row->mask;
    }
}

/* The outputs from `first` on that go together: those of one segment that is pooled, or all up to
 * the next one that is. */
static uint32_t count_together(const lh_stage_step *step, uint32_t first) {
    const lh_head_row *outputs = step->outputs;
    uint32_t end = first + 1;
    while (end < step->output_count && outputs[end].is_pooled == outputs[first].is_pooled &&
           (!outputs[end].is_pooled || step->output_segments[end] == step->output_segments[first]))
        end++;
    return end - first;
}

static lh_status put_out_pooled(lh_stage_step *step, uint32_t first, uint32_t count,
                                const lh_stage_output *output, lh_error *error) {
    const int64_t *sums;
    lh_status status =
        lh_head_pool(step->stage->head, step->buffer.h, step->outputs + first, count, &sums, error);
    if (status == LH_OK)
        output->on_pooled(output->context, step->output_segments[first], sums,
                          step->stage->config.width);
    return status;
}

static lh_status put_out(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    lh_output_relay relay = {step, output, 0};
    const lh_head_events events = {.context = &relay,
                                   .on_logits = output->on_logits ? relay_logits : NULL,
                                   .on_result = relay_result,
                                   .on_score = relay_score};
    find_masks(step);
    lh_status status = LH_OK;
    for (uint32_t count; relay.first < step->output_count && status == LH_OK;
         relay.first += count) {
        count = count_together(step, relay.first);
        status = step->outputs[relay.first].is_pooled
                     ? put_out_pooled(step, relay.first, count, output, error)
                     : lh_head_run(step->stage->head, step->buffer.h, step->outputs + relay.first,
                                   count, &events, error);
    }
    return status;
}

/* Row `number` of those that are left continues the last run or begins one. */
static void add_run(lh_stage_step *step, uint32_t number, uint32_t segment, uint32_t position) {
    const lh_kv_sequence *sequence = step->reservations[segment].sequence;
    lh_position_run *last = step->run_count > 0 ? &step->runs[step->run_count - 1] : NULL;
    if (last && last->sequence == sequence && last->rows < LH_ATTENTION_ROWS &&
        last->first_position + last->rows == position)
        last->rows++;
    else
        step->runs[step->run_count++] =
            (lh_position_run){step->reservations[segment].sequence, number, 1, position};
}

/* Nothing of the step is for the KV cache alone. */
static bool all_rows_are_put_out(const lh_stage_step *step) {
    bool is_each = step->output_count == step->rows && !step->ends_here;
    for (uint32_t i = 0; i < step->output_count && is_each; i++)
        is_each = step->outputs[i].row == i;
    return is_each;
}

/* After the keys and values of the last layer are stored, only the rows that draw, score or are
 * pooled matter, if any: they move to the front. */
static void keep_output_rows(lh_stage_step *step, lh_layer_run *run) {
    const lh_model_config *config = &step->stage->config;
    const lh_compute *compute = &step->stage->compute;
    size_t width = config->width, queries = lh_row_stride((size_t)config->heads * config->head_dim);
    uint32_t segment = 0, first = 0; /* its first row */
    step->run_count = 0;
    for (uint32_t i = 0; i < step->output_count; i++) {
        uint32_t row = step->outputs[i].row; /* ascending: row >= i */
        for (; segment < step->output_segments[i]; segment++)
            first += step->segments[segment].rows;
        if (row > i) {
            compute->ops->copy(compute, step->buffer.h + i * width, step->buffer.h + row * width,
                               width * sizeof(float));
            compute->ops->copy(compute, step->buffer.q + i * queries,
                               step->buffer.q + row * queries, queries * sizeof(float));
        }
        step->outputs[i].row = i;
        add_run(step, i, segment, step->segments[segment].first_position + row - first);
    }
    run->rows = step->output_count;
    run->run_count = step->run_count;
    compute->ops->locate(compute, step->runs, step->run_count);
}

/* From the first projection on to what layer `number` adds to h, but for the down projection. */
static void ask_layer(lh_stage_step *step, lh_layer_run *run, uint32_t number) {
    const lh_stage_resources *stage = step->stage;
    const lh_layer *layer = &stage->weights.layers[number];
    const lh_span all = {0, stage->config.width};
    bool is_end = number + 1 == stage->weights.layer_count;
    if (number > 0)
        lh_layer_project_qkv(run, layer, all);
    else
        project_columns(step, all.end);
    lh_layer_store_kv(run, layer, number);
    if (is_end && (stage->is_last || step->ends_here) && !all_rows_are_put_out(step))
        keep_output_rows(step, run);
    if (run->rows > 0)
        lh_layer_attend_and_project_up(run, layer, number);
}

/* All layers, but for the down projection of the last one. */
static lh_status ask_layers(lh_stage_step *step, lh_layer_run *run, const lh_stage_output *output,
                            lh_error *error) {
    const lh_stage_resources *stage = step->stage;
    const lh_span all = {0, stage->config.width};
    for (uint32_t i = 0; i < stage->weights.layer_count; i++) {
        if (output->is_cancelled && output->is_cancelled(output->context))
            return lh_fail(error, LH_ERR_CANCELLED, "the step was cancelled");
        if (i > 0)
            lh_layer_project_down(run, &stage->weights.layers[i - 1], all);
        ask_layer(step, run, i);
    }
    return LH_OK;
}

/* A decode step, which a device may have kept. */
static bool repeats(const lh_stage_step *step) {
    const lh_stage_resources *stage = step->stage;
    return stage->compute.ops->begin_repeat && step->rows <= LH_REPEAT_ROWS && !step->ends_here &&
           (!stage->is_last || all_rows_are_put_out(step));
}

static lh_status ask_or_repeat(lh_stage_step *step, lh_layer_run *run,
                               const lh_stage_output *output, lh_error *error) {
    const lh_compute *compute = &step->stage->compute;
    /* in the middle of a recording it cannot stop: a decode step is short */
    const lh_stage_output unstoppable = {0};
    const lh_repeat repeat = {step->buffer.h, step->rows, step->projected};
    if (!repeats(step))
        return ask_layers(step, run, output, error);
    if (compute->ops->begin_repeat(compute, &repeat)) {
        step->projected = step->stage->config.width;
        return LH_OK;
    }
    lh_status status = ask_layers(step, run, &unstoppable, error);
    compute->ops->end_repeat(compute);
    return status;
}

static lh_status run_layers(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    const lh_stage_resources *stage = step->stage;
    const lh_layer *last = &stage->weights.layers[stage->weights.layer_count - 1];
    lh_layer_run run = layer_run_of(step);
    stage->compute.ops->locate(&stage->compute, step->runs, step->run_count);
    lh_status status = ask_or_repeat(step, &run, output, error);
    if (status != LH_OK || run.rows == 0)
        return status;
    if (!stage->is_last)
        emit_shards(step, &run, last, output);
    else
        lh_layer_project_down(&run, last, (lh_span){0, stage->config.width});
    return LH_OK;
}

lh_status lh_stage_step_run(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    const lh_compute *compute = &step->stage->compute;
    lh_status status = run_layers(step, output, error);
    if (status == LH_OK && step->stage->is_last)
        status = put_out(step, output, error);
    return status == LH_OK ? compute->ops->settle(compute, error) : status;
}
