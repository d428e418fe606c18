/* A step from its batch to its result. Nothing is allocated after init. */
#include "worker/compute/stage/stage_step.h"

#include "common/base/arithmetic.h"

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
    if (!step->segments || !step->reservations || !step->runs || !step->outputs)
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for a step of %u rows", rows);
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
    free(step->outputs);
    free(step->runs);
    free(step->reservations);
    free(step->segments);
}

/* ---- Start ---- */

static void copy_segments(lh_stage_step *step, const lh_batch *batch) {
    uint32_t row = 0;
    step->rows = batch->rows;
    step->segment_count = batch->segment_count;
    step->ends_here = batch->ends_here;
    step->output_count = 0;
    for (uint32_t i = 0; i < batch->segment_count; i++) {
        step->segments[i] = batch->segments[i];
        if (step->stage->is_last)
            step->output_count +=
                lh_head_rows_of(&step->segments[i].ask, i, row, step->segments[i].rows,
                                batch->tokens, step->outputs + step->output_count);
        row += batch->segments[i].rows;
    }
}

/* Segments cut to what one call of the attention kernel takes, and where the halves meet. */
static void make_runs(lh_stage_step *step) {
    uint32_t row = 0;
    step->run_count = 0;
    for (uint32_t i = 0; i < step->segment_count; i++) {
        const lh_step_segment *segment = &step->segments[i];
        for (uint32_t done = 0; done < segment->rows;) {
            uint32_t left = lh_min_u32(segment->rows - done, LH_ATTENTION_ROWS),
                     rows =
                         row < step->first_rows ? lh_min_u32(left, step->first_rows - row) : left;
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
    step->member =
        (lh_member){.division = &step->stage->division, .compute = &step->stage->compute};
    copy_segments(step, batch);
    step->first_rows =
        lh_halves_first_rows(&step->stage->config, step->stage->division.members, step->rows);
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
                          .member = &step->member,
                          .buffer = &step->buffer,
                          .scratch = &stage->scratch,
                          .rows = step->rows,
                          .angles = stage->weights.rope.half,
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

lh_status lh_stage_step_accept(lh_stage_step *step, const lh_stage_shard *shard, lh_error *error) {
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

static lh_outgoing outgoing_of(const lh_stage_step *step, uint32_t number, lh_wire_type wire) {
    const lh_stage_resources *stage = step->stage;
    const uint32_t begin = number > 0 ? step->cut.ends[number - 1] : 0;
    const size_t before = (size_t)step->rows * begin;
    const bool packs = stage->packing && wire != LH_WIRE_F32;
    return (lh_outgoing){step->buffer.h,
                         step->rows,
                         stage->config.width,
                         {begin, step->cut.ends[number]},
                         stage->outgoing + before,
                         packs ? wire : LH_WIRE_F32,
                         packs ? stage->packing + before : NULL};
}

static void emit_shard(const lh_stage_step *step, uint32_t number, const lh_stage_output *output) {
    const lh_compute *compute = &step->stage->compute;
    const lh_outgoing outgoing = outgoing_of(step, number, output->wire);
    const lh_span columns = outgoing.columns;
    const lh_sent sent = compute->ops->sent(compute, number, &outgoing);
    const lh_stage_shard shard = {
        0, step->rows, columns.begin, columns.end - columns.begin, sent.values, sent.packed};
    if (sent.values || sent.packed || sent.is_refused)
        output->on_shard(output->context, &shard);
}

/* Shards that are complete. A device that works by itself has the next ones to do while one is
 * waited for. */
static void emit_complete(const lh_stage_step *step, uint32_t number,
                          const lh_stage_output *output) {
    const lh_compute *compute = &step->stage->compute;
    const uint32_t count = step->cut.count, ahead = compute->ops->sends_ahead;
    if (number < count) {
        const lh_outgoing outgoing = outgoing_of(step, number, output->wire);
        compute->ops->send(compute, number, &outgoing);
    }
    if (number >= ahead && number - ahead < count)
        emit_shard(step, number - ahead, output);
}

/* Of each half what the last layer adds, and the gather of it. */
static void project_down(lh_halves *halves, const lh_layer *layer, lh_span out) {
    for (lh_half *half = halves->of; half < halves->of + halves->count; half++)
        half->pieces = lh_layer_sum_experts(&half->run, layer, half->pieces, out);
    for (lh_half *half = halves->of; half < halves->of + halves->count; half++)
        half->pieces = lh_layer_project_down(&half->run, layer, half->pieces, out);
}

/* The columns of h as they come in the last half: in all halves before it they are there. */
static lh_gathering take_sums(lh_halves *halves, const lh_layer *layer) {
    lh_gathering columns = {0};
    for (uint32_t i = 0; i < halves->count; i++) {
        columns = lh_layer_take_sums(&halves->of[i].run, layer, halves->of[i].pieces);
        if (i + 1 < halves->count)
            lh_gathering_complete(&columns);
    }
    return columns;
}

/* The same gathered inputs again for each shard. */
static void project_down_shard(const lh_half *half, const lh_layer *layer, lh_span out) {
    lh_layer_project_down(&half->run, layer,
                          lh_layer_sum_experts(&half->run, layer, half->pieces, out), out);
}

/* The last operation of the stage, shard by shard where its columns are complete one by one; where
 * they are not, the shards leave one after the other when the rows are: what the next stage gets is
 * the same either way. Of several members each emits all shards, as the columns come. */
static void emit_shards(lh_stage_step *step, lh_halves *halves, const lh_layer *layer,
                        const lh_stage_output *output) {
    const uint32_t count = step->cut.count, ahead = step->stage->compute.ops->sends_ahead;
    const lh_span all = {0, step->stage->config.width};
    const bool by_columns =
        step->stage->division.members < 2 && lh_layer_projects_down_by_columns(layer);
    lh_span complete = {0, 0};
    lh_gathering columns = lh_gather_nothing(&step->member, all);
    if (!by_columns) {
        project_down(halves, layer, all);
        columns = take_sums(halves, layer);
    }
    for (uint32_t i = 0; i < count + ahead; i++) {
        if (i < count && by_columns)
            project_down_shard(&halves->of[0], layer, outgoing_of(step, i, output->wire).columns);
        while (i < count && complete.end < step->cut.ends[i])
            if (!lh_gathering_next(&columns, &complete))
                return;
        emit_complete(step, i, output);
    }
}

typedef struct lh_output_relay {
    const lh_stage_step *step;
    const lh_stage_output *output;
} lh_output_relay;

static void relay_logits(void *context, uint32_t segment, const float *logits) {
    const lh_output_relay *relay = context;
    relay->output->on_logits(relay->output->context, relay->step->segments[segment].sequence,
                             logits, relay->step->stage->config.vocabulary);
}

static void relay_answer(void *context, uint32_t segment, const lh_row_answer *part) {
    const lh_output_relay *relay = context;
    relay->output->on_answer(relay->output->context, segment, part);
}

static lh_status put_out(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    lh_output_relay relay = {step, output};
    const lh_head_events events = {.context = &relay,
                                   .on_logits = output->on_logits ? relay_logits : NULL,
                                   .on_answer = relay_answer};
    return lh_head_run(step->stage->head, &step->member, step->buffer.h, step->outputs,
                       step->output_count, step->stage->masks, &events, error);
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

/* After the keys and values of the last layer are stored, only the rows that something is asked
 * of matter, if any: they move to the front. */
static void keep_output_rows(lh_stage_step *step, lh_layer_run *run) {
    const lh_model_config *config = &step->stage->config;
    const lh_compute *compute = &step->stage->compute;
    size_t width = config->width, queries = lh_row_stride((size_t)config->heads * config->head_dim);
    uint32_t segment = 0, first = 0; /* its first row */
    step->run_count = 0;
    for (uint32_t i = 0; i < step->output_count; i++) {
        uint32_t row = step->outputs[i].row; /* ascending: row >= i */
        for (; segment < step->outputs[i].segment; segment++)
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

/* q, k and v of a half; on another stage than the first those of the first layer are there. */
static void project_qkv(const lh_stage_step *step, lh_half *half, uint32_t number) {
    const lh_layer *layer = &step->stage->weights.layers[number];
    const uint32_t width = step->stage->config.width;
    if (number == 0 && step->projected < width)
        lh_layer_project_qkv(&half->run, layer, (lh_span){step->projected, width});
    if (number == 0)
        return;
    lh_gathering h = lh_layer_take_sums(&half->run, layer - 1, half->pieces);
    for (lh_span columns; lh_gathering_next(&h, &columns);)
        lh_layer_project_qkv(&half->run, layer, columns);
}

static void store_kv(const lh_stage_step *step, lh_half *half, uint32_t number) {
    project_qkv(step, half, number);
    lh_layer_store_kv(&half->run, &step->stage->weights.layers[number], number);
}

static void attend(const lh_stage_step *step, lh_half *half, uint32_t number) {
    half->pieces = lh_layer_attend(&half->run, &step->stage->weights.layers[number], number);
}

/* The layer after whose keys and values most rows have done what they are for. */
static bool keeps_output_rows(const lh_stage_step *step, uint32_t number) {
    const lh_stage_resources *stage = step->stage;
    return number + 1 == stage->weights.layer_count && (stage->is_last || step->ends_here) &&
           !all_rows_are_put_out(step);
}

static void store_kv_and_attend(lh_stage_step *step, lh_halves *halves, uint32_t number) {
    const bool are_few = keeps_output_rows(step, number);
    for (uint32_t i = 0; i < halves->count; i++) {
        store_kv(step, &halves->of[i], number);
        if (!are_few)
            attend(step, &halves->of[i], number);
    }
    if (!are_few)
        return;
    lh_layer_run run = layer_run_of(step);
    keep_output_rows(step, &run);
    lh_halves_make_whole(halves, &run);
    if (run.rows > 0)
        attend(step, &halves->of[0], number);
}

/* From the first projection on to what layer `number` adds to h, but for the down projection. */
static void ask_layer(lh_stage_step *step, lh_halves *halves, uint32_t number) {
    const lh_layer *layer = &step->stage->weights.layers[number];
    store_kv_and_attend(step, halves, number);
    if (halves->of[0].run.rows == 0)
        return;
    for (lh_half *half = halves->of; half < halves->of + halves->count; half++)
        half->pieces = lh_layer_project_attended(&half->run, layer, half->pieces);
    for (lh_half *half = halves->of; half < halves->of + halves->count; half++)
        half->pieces = lh_layer_project_up(&half->run, layer, half->pieces);
}

/* Of several members each may be asked to stop at another layer. So they may only where the others
 * wait for them next: then all of them stop. */
static bool is_cancelled(const lh_stage_step *step, const lh_stage_output *output, uint32_t layer) {
    const bool may_stop = step->stage->division.members < 2 || layer > 0;
    return may_stop && output->is_cancelled && output->is_cancelled(output->context);
}

/* All layers, but for the down projection of the last one. */
static lh_status ask_layers(lh_stage_step *step, lh_halves *halves, const lh_stage_output *output,
                            lh_error *error) {
    const lh_stage_resources *stage = step->stage;
    const lh_span all = {0, stage->config.width};
    lh_status status = LH_OK;
    for (uint32_t i = 0; i < stage->weights.layer_count && status == LH_OK; i++) {
        if (is_cancelled(step, output, i))
            return lh_fail(error, LH_ERR_CANCELLED, "the step was cancelled");
        if (i > 0)
            project_down(halves, &stage->weights.layers[i - 1], all);
        ask_layer(step, halves, i);
        status = lh_member_status(&step->member, error);
    }
    return status;
}

/* A decode step, which a device may have kept. */
static bool repeats(const lh_stage_step *step) {
    const lh_stage_resources *stage = step->stage;
    return stage->compute.ops->begin_repeat && step->rows <= LH_REPEAT_ROWS && !step->ends_here &&
           (!stage->is_last || all_rows_are_put_out(step));
}

static lh_status ask_or_repeat(lh_stage_step *step, lh_halves *halves,
                               const lh_stage_output *output, lh_error *error) {
    const lh_stage_resources *stage = step->stage;
    const lh_compute *compute = &stage->compute;
    /* in the middle of a recording it cannot stop: a decode step is short */
    const lh_stage_output unstoppable = {0};
    const lh_repeat repeat = {step->buffer.h, step->rows, step->projected};
    if (!repeats(step))
        return ask_layers(step, halves, output, error);
    if (compute->ops->begin_repeat(compute, &repeat)) {
        step->projected = stage->config.width;
        halves->of[0].pieces = lh_layer_repeated_up(
            &halves->of[0].run, &stage->weights.layers[stage->weights.layer_count - 1]);
        return LH_OK;
    }
    lh_status status = ask_layers(step, halves, &unstoppable, error);
    compute->ops->end_repeat(compute);
    return status;
}

/* All of h, for the head. */
static void complete_rows(const lh_stage_step *step, lh_halves *halves, const lh_layer *layer) {
    project_down(halves, layer, (lh_span){0, step->stage->config.width});
    lh_gathering columns = take_sums(halves, layer);
    lh_gathering_complete(&columns);
}

static void make_halves(lh_stage_step *step, lh_halves *halves) {
    const lh_layer_run whole = layer_run_of(step);
    if (step->first_rows < step->rows)
        lh_halves_make(halves, &whole, step->first_rows, step->runs);
    else
        lh_halves_make_whole(halves, &whole);
}

static lh_status run_layers(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    const lh_stage_resources *stage = step->stage;
    const lh_layer *last = &stage->weights.layers[stage->weights.layer_count - 1];
    lh_halves halves;
    make_halves(step, &halves);
    stage->compute.ops->locate(&stage->compute, step->runs, step->run_count);
    lh_status status = ask_or_repeat(step, &halves, output, error);
    if (status != LH_OK || halves.of[0].run.rows == 0)
        return status;
    if (!stage->is_last)
        emit_shards(step, &halves, last, output);
    else
        complete_rows(step, &halves, last);
    return lh_member_status(&step->member, error);
}

lh_status lh_stage_step_run(lh_stage_step *step, const lh_stage_output *output, lh_error *error) {
    const lh_compute *compute = &step->stage->compute;
    assert(output->gather || step->stage->division.members < 2);
    step->member.gather = output->gather;
    lh_status status = run_layers(step, output, error);
    if (status == LH_OK && step->stage->is_last)
        status = put_out(step, output, error);
    /* also where it failed: what was asked of the device writes to the buffer, which the next step
     * fills */
    const lh_status settled = compute->ops->settle(compute, status == LH_OK ? error : NULL);
    return status == LH_OK ? settled : status;
}
