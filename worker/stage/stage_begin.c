/* The begin of a step: checks the batch, copies it, claims its positions and prepares what depends on
 * positions alone. Nothing is allocated, but for sampling lists that are longer than any before. */
#include "worker/stage/stage.h"

#include "worker/stage/stage_state.h"

#include <stdlib.h>
#include <string.h>

static lh_status check_segment(const lh_stage *stage, const lh_batch_segment *segment, lh_error *error) {
    uint64_t end = (uint64_t)segment->first_position + segment->rows;
    if (segment->rows == 0 || end > stage->context) {
        return lh_fail(
            error, LH_ERR_LIMIT, "sequence %llu: positions %u + %u are empty or over the context of %u",
            (unsigned long long)segment->sequence, segment->first_position, segment->rows, stage->context);
    }
    if (stage->is_last && segment->sample) {
        return lh_sample_request_check(&segment->request, stage->config.vocabulary, error);
    }
    return LH_OK;
}

static lh_status check_cut(const lh_stage *stage, const lh_column_cut *cut, lh_error *error) {
    uint32_t width = stage->config.width, begin = 0;
    if (cut->count > LH_COLUMN_SHARDS_MAX) {
        return lh_fail(error, LH_ERR_INVALID, "cut: %u column shards; the limit is %u", cut->count,
                       LH_COLUMN_SHARDS_MAX);
    }
    for (uint32_t i = 0; i < cut->count; i++) {
        uint32_t end = cut->ends[i];
        if (end <= begin || end > width || (end % LH_SPAN_COLUMNS != 0 && end != width)) {
            return lh_fail(error, LH_ERR_INVALID, "cut: shard %u from column %u to %u of a width of %u", i,
                           begin, end, width);
        }
        begin = end;
    }
    if (cut->count > 0 && begin != width) {
        return lh_fail(error, LH_ERR_INVALID, "cut: it ends at column %u of a width of %u", begin, width);
    }
    return LH_OK;
}

static lh_status check_batch(const lh_stage *stage, const lh_batch *batch, lh_error *error) {
    if (batch->rows == 0 || batch->rows > stage->options.rows_max || batch->segment_count > batch->rows) {
        return lh_fail(error, LH_ERR_LIMIT, "step: %u rows in %u segments; this stage takes 1..%u rows",
                       batch->rows, batch->segment_count, stage->options.rows_max);
    }
    uint64_t rows = 0;
    for (uint32_t i = 0; i < batch->segment_count; i++) {
        lh_status status = check_segment(stage, &batch->segments[i], error);
        if (status != LH_OK) {
            return status;
        }
        rows += batch->segments[i].rows;
    }
    if (rows != batch->rows) {
        return lh_fail(error, LH_ERR_LIMIT, "step: %u rows, but its segments have %llu", batch->rows,
                       (unsigned long long)rows);
    }
    lh_status status = check_cut(stage, &batch->cut, error);
    if (status != LH_OK) {
        return status;
    }
    for (uint32_t i = 0; i < batch->rows; i++) {
        if (batch->tokens[i] >= stage->config.vocabulary) {
            return lh_fail(error, LH_ERR_LIMIT, "step: token %u in row %u is not in the vocabulary of %u",
                           batch->tokens[i], i, stage->config.vocabulary);
        }
    }
    return LH_OK;
}

static size_t lists_bytes_of(const lh_sample_request *request) {
    return request->bias_count * sizeof *request->biases + request->count_count * sizeof *request->counts;
}

/* Room for the biases and counts of all segments that draw here. */
static lh_status reserve_lists(lh_stage_step *step, const lh_batch *batch, lh_error *error) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < batch->segment_count && step->stage->is_last; i++) {
        bytes += batch->segments[i].sample ? lists_bytes_of(&batch->segments[i].request) : 0;
    }
    if (bytes <= step->lists_bytes) {
        return LH_OK;
    }
    char *lists = realloc(step->lists, bytes);
    if (lists == NULL) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "out of memory for %zu bytes of sampling parameters", bytes);
    }
    step->lists = lists;
    step->lists_bytes = bytes;
    return LH_OK;
}

static void *copy_list(char **free_bytes, const void *list, size_t bytes) {
    void *copy = bytes == 0 ? NULL : memcpy(*free_bytes, list, bytes);
    *free_bytes += bytes;
    return copy;
}

/* The segments, and of the rows that draw: where they are and with what. */
static void copy_segments(lh_stage_step *step, const lh_batch *batch) {
    char *free_bytes = step->lists;
    uint32_t row = 0;
    step->rows = batch->rows;
    step->segment_count = batch->segment_count;
    step->ends_here = batch->ends_here;
    step->sample_count = 0;
    for (uint32_t i = 0; i < batch->segment_count; i++) {
        lh_batch_segment *segment = &step->segments[i];
        *segment = batch->segments[i];
        row += segment->rows;
        if (!step->stage->is_last || !segment->sample) {
            continue;
        }
        lh_sample_request *request = &segment->request;
        request->biases =
            copy_list(&free_bytes, request->biases, request->bias_count * sizeof *request->biases);
        request->counts =
            copy_list(&free_bytes, request->counts, request->count_count * sizeof *request->counts);
        step->sample_segments[step->sample_count] = i;
        step->samples[step->sample_count++] = (lh_head_row){row - 1, request};
    }
}

/* Segments cut to what one call of the attention kernel takes. */
static void make_runs(lh_stage_step *step) {
    uint32_t row = 0;
    step->run_count = 0;
    for (uint32_t i = 0; i < step->segment_count; i++) {
        const lh_batch_segment *segment = &step->segments[i];
        for (uint32_t done = 0; done < segment->rows;) {
            uint32_t left = segment->rows - done, rows = left < LH_ATTENTION_ROWS ? left : LH_ATTENTION_ROWS;
            step->runs[step->run_count++] =
                (lh_position_run){step->claims[i].sequence, row, rows, segment->first_position + done};
            row += rows;
            done += rows;
        }
    }
}

static void make_angles(lh_stage_step *step) {
    const lh_stage *stage = step->stage;
    const lh_rope_table *rope = &stage->weights.rope;
    for (uint32_t i = 0; i < step->run_count; i++) {
        const lh_position_run *run = &step->runs[i];
        for (uint32_t j = 0; j < run->rows; j++) {
            size_t offset = (size_t)(run->first_row + j) * rope->half;
            for (uint32_t kind = 0; kind < rope->kinds; kind++) {
                stage->compute.kernels->rope_angles(
                    step->panel.cosine[kind] + offset, step->panel.sine[kind] + offset, rope->frequency[kind],
                    rope->half, run->first_position + j, rope->magnitude[kind]);
            }
        }
    }
}

static void embed(lh_stage_step *step, const uint32_t *tokens) {
    const lh_stage *stage = step->stage;
    const lh_span all = {0, stage->config.width};
    for (uint32_t row = 0; row < step->rows; row++) {
        float *h = step->panel.h + (size_t)row * all.end;
        lh_matrix_row(&stage->weights.embedding, tokens[row], h);
        if (stage->config.embedding_scale != 1) {
            stage->compute.kernels->scale_rows(h, all.end, 1, all, &stage->config.embedding_scale);
        }
    }
}

lh_status lh_stage_begin(lh_stage *stage, const lh_batch *batch, lh_stage_step **out, lh_error *error) {
    lh_status status = check_batch(stage, batch, error);
    if (status != LH_OK) {
        return status;
    }
    lh_stage_step *step = stage->free_steps;
    if (step == NULL) {
        return lh_fail(error, LH_ERR_BUSY, "all %u steps of the stage are in use", stage->options.steps_max);
    }
    status = reserve_lists(step, batch, error);
    if (status == LH_OK) {
        status = lh_claims_take(stage->kv, batch, step->claims, error);
    }
    if (status != LH_OK) {
        return status;
    }
    stage->free_steps = step->next_free;
    step->state = LH_STEP_BEGUN;
    step->taken = 0;
    copy_segments(step, batch);
    step->cut = batch->cut.count > 0 ? batch->cut : (lh_column_cut){1, {stage->config.width}};
    make_runs(step);
    make_angles(step);
    if (stage->is_first) {
        embed(step, batch->tokens);
    } else {
        lh_arrival_start(&step->arrival, step->rows);
    }
    *out = step;
    return LH_OK;
}
