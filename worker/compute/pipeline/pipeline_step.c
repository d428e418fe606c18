/* Copies a batch with all that it points to into one block, and answers which steps share a
 * sequence. */
#include "worker/compute/pipeline/pipeline_step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Bytes are counted and then handed out in the same order, each array at a multiple of 8. */
static size_t padded(size_t bytes) {
    return (bytes + 7u) & ~(size_t)7u;
}

static size_t gathers_bytes(const lh_pipeline_begin_options *options) {
    return options->timed ? padded(LH_PIPELINE_GATHERS_MAX * sizeof(lh_gather_times)) : 0;
}

static size_t extra_bytes(const lh_pipeline_begin_options *options) {
    const lh_batch *batch = &options->batch;
    size_t bytes = gathers_bytes(options) + padded(batch->rows * sizeof(uint32_t)) +
                   padded(batch->segment_count * sizeof *batch->segments) +
                   padded(options->truncation_count * sizeof *options->truncations);
    bytes += padded(options->masks.drop_count * sizeof *options->masks.drops) +
             padded(options->masks.count * sizeof *options->masks.list);
    for (uint32_t i = 0; i < options->masks.count; i++)
        bytes += padded(options->masks.list[i].code_bytes);
    for (uint32_t i = 0; i < batch->segment_count; i++) {
        const lh_row_ask *ask = &batch->segments[i].ask;
        if (lh_row_ask_is_any(ask))
            bytes += lh_row_ask_list_bytes(ask) + padded(sizeof(lh_step_result)) +
                     lh_row_answer_room(ask, options->width);
    }
    return bytes;
}

static void *copy(uint8_t **at, const void *from, size_t bytes) {
    void *to = *at;
    if (bytes > 0)
        memcpy(to, from, bytes);
    *at += padded(bytes);
    return to;
}

static void copy_masks(lh_step_masks *to, const lh_step_masks *from, uint8_t **at) {
    *to = *from;
    to->drops = copy(at, from->drops, from->drop_count * sizeof *from->drops);
    lh_step_mask *list = copy(at, from->list, from->count * sizeof *list);
    for (uint32_t i = 0; i < from->count; i++)
        list[i].code = copy(at, list[i].code, list[i].code_bytes);
    to->list = list;
}

static uint32_t count_results(const lh_batch *batch) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < batch->segment_count; i++)
        count += lh_row_ask_is_any(&batch->segments[i].ask);
    return count;
}

/* Without what is still to come. */
static void make_results(lh_pipeline_step *step, uint32_t width, uint8_t *at) {
    const lh_batch *batch = &step->batch;
    step->results = (lh_step_result *)(void *)at;
    uint8_t *lists = at + count_results(batch) * padded(sizeof *step->results);
    for (uint32_t i = 0; i < batch->segment_count; i++) {
        const lh_step_segment *segment = &batch->segments[i];
        if (!lh_row_ask_is_any(&segment->ask))
            continue;
        step->results[step->result_count++] =
            (lh_step_result){.sequence = segment->sequence,
                             .position = segment->first_position + segment->rows,
                             .answer = lh_row_answer_begin(&segment->ask, width, lists)};
        lists += lh_row_answer_room(&segment->ask, width);
    }
}

static void copy_batch(lh_pipeline_step *step, const lh_pipeline_begin_options *options,
                       uint8_t *at) {
    const lh_batch *batch = &options->batch;
    step->gathers = options->timed ? (lh_gather_times *)(void *)at : NULL;
    at += gathers_bytes(options);
    step->batch = *batch;
    step->batch.tokens = copy(&at, batch->tokens, batch->rows * sizeof(uint32_t));
    lh_step_segment *segments = copy(&at, batch->segments, batch->segment_count * sizeof *segments);
    step->batch.segments = segments;
    step->truncations =
        copy(&at, options->truncations, options->truncation_count * sizeof *options->truncations);
    for (uint32_t i = 0; i < batch->segment_count; i++) {
        lh_row_ask_move_lists(&segments[i].ask, at);
        at += lh_row_ask_list_bytes(&segments[i].ask);
    }
    copy_masks(&step->masks, &options->masks, &at);
    make_results(step, options->width, at);
}

lh_status lh_pipeline_step_create(lh_shard_queue *inbox, const lh_pipeline_begin_options *options,
                                  lh_pipeline_step **step, lh_error *error) {
    size_t bytes = extra_bytes(options);
    lh_pipeline_step *made = calloc(1, padded(sizeof *made) + bytes);
    if (!made) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "step of %u rows: out of memory",
                       options->batch.rows);
    }
    made->inbox = inbox;
    made->context = options->step_context;
    atomic_init(&made->cancelled, false);
    made->decode = options->decode;
    made->wire = options->wire;
    made->truncation_count = options->truncation_count;
    made->resyncs = options->resyncs;
    made->shards_tail = &made->shards;
    made->begin_message.kind = LH_MESSAGE_BEGIN;
    made->forget_message.kind = LH_MESSAGE_FORGET;
    made->ended_message.kind = LH_MESSAGE_ENDED;
    copy_batch(made, options, (uint8_t *)made + padded(sizeof *made));
    *step = made;
    return LH_OK;
}

lh_step_result *lh_pipeline_step_result(lh_pipeline_step *step, uint32_t segment) {
    uint32_t index = 0;
    for (uint32_t i = 0; i < segment; i++)
        index += lh_row_ask_is_any(&step->batch.segments[i].ask);
    assert(index < step->result_count);
    return &step->results[index];
}

bool lh_pipeline_step_is_complete(const lh_pipeline_step *step) {
    return step->batch.rows == 0 ||
           (step->stage_step && !step->shards && lh_stage_is_ready(step->stage_step));
}

static bool holds(const lh_pipeline_step *step, uint64_t sequence) {
    for (uint32_t i = 0; i < step->batch.segment_count; i++)
        if (step->batch.segments[i].sequence == sequence)
            return true;
    return false;
}

bool lh_pipeline_step_needs(const lh_pipeline_step *step, uint64_t sequence) {
    for (uint32_t i = 0; i < step->batch.segment_count; i++) {
        const lh_step_segment *segment = &step->batch.segments[i];
        if (segment->sequence == sequence || (segment->forks && segment->source == sequence))
            return true;
    }
    return false;
}

static bool writes_below(const lh_pipeline_step *step, uint64_t sequence, uint32_t positions) {
    for (uint32_t i = 0; i < step->batch.segment_count; i++) {
        const lh_step_segment *segment = &step->batch.segments[i];
        if (segment->sequence == sequence && segment->first_position < positions)
            return true;
    }
    return false;
}

bool lh_pipeline_step_forks_from(const lh_pipeline_step *step, const lh_pipeline_step *earlier) {
    for (uint32_t i = 0; i < step->batch.segment_count; i++) {
        const lh_step_segment *segment = &step->batch.segments[i];
        if (segment->forks && writes_below(earlier, segment->source, segment->first_position))
            return true;
    }
    return false;
}

bool lh_pipeline_step_shares(const lh_pipeline_step *step, const lh_pipeline_step *other) {
    for (uint32_t i = 0; i < other->batch.segment_count; i++)
        if (holds(step, other->batch.segments[i].sequence))
            return true;
    return false;
}
