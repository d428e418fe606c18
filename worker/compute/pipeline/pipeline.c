/* The I/O thread's side of the pipeline: messages in, events out. */
#include "worker/compute/pipeline/pipeline.h"

#include "worker/compute/pipeline/compute_loop.h"
#include "worker/compute/pipeline/pipeline_step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct lh_pipeline {
    lh_pipeline_options options;
    lh_shard_queue *inbox, *outbox;
    lh_compute_loop *loop;
    bool polling;
};

lh_status lh_pipeline_create(const lh_pipeline_options *options, lh_pipeline **pipeline,
                             lh_error *error) {
    lh_pipeline *made = calloc(1, sizeof *made);
    if (!made)
        return lh_fail(error, LH_ERR_NO_MEMORY, "pipeline: out of memory");
    made->options = *options;
    lh_status status = lh_shard_queue_create(options->inbox_bytes, NULL, NULL, &made->inbox, error);
    if (status != LH_OK)
        goto fail_after_calloc;
    status = lh_shard_queue_create(options->outbox_bytes, options->wake, options->context,
                                   &made->outbox, error);
    if (status != LH_OK)
        goto fail_after_inbox;
    status = lh_compute_loop_start(&made->options, made->inbox, made->outbox, &made->loop, error);
    if (status != LH_OK)
        goto fail_after_outbox;
    *pipeline = made;
    return LH_OK;

fail_after_outbox:
    lh_shard_queue_destroy(made->outbox);
fail_after_inbox:
    lh_shard_queue_destroy(made->inbox);
fail_after_calloc:
    free(made);
    return status;
}

/* Frees what nobody will poll any more. Ends lie in their steps. */
static void discard_output(lh_pipeline *pipeline) {
    lh_message *message;
    while ((message = lh_shard_queue_pop(pipeline->outbox, false)) != NULL) {
        if (message->kind == LH_MESSAGE_FRAME)
            free(LH_MESSAGE_OF(message, lh_frame_message, head)->bytes);
        if (message->kind != LH_MESSAGE_ENDED)
            free(message);
    }
}

void lh_pipeline_destroy(lh_pipeline *pipeline) {
    if (!pipeline)
        return;
    assert(!pipeline->polling);
    lh_compute_loop_stop(pipeline->loop);
    discard_output(pipeline);
    lh_compute_loop_destroy(pipeline->loop);
    lh_shard_queue_destroy(pipeline->outbox);
    lh_shard_queue_destroy(pipeline->inbox);
    free(pipeline);
}

/* ---- Out ---- */

static void tell_work(lh_pipeline *pipeline, void *step_context, const lh_pipeline_span *span) {
    if (pipeline->options.events.on_worked)
        pipeline->options.events.on_worked(pipeline->options.context, step_context, span);
}

static void deliver_consumed(lh_pipeline *pipeline, lh_shard_message *message) {
    size_t bytes = message->bytes;
    void *step_context = message->step ? message->step->context : NULL;
    const lh_stage_shard *shard = &message->shard;
    if (message->step && message->accepted_us != 0) {
        tell_work(pipeline, step_context,
                  &(lh_pipeline_span){.work = LH_PIPELINE_ACCEPT,
                                      .first_row = shard->first_row,
                                      .rows = shard->rows,
                                      .first_column = shard->first_column,
                                      .columns = shard->columns,
                                      .begin_us = message->accept_us,
                                      .end_us = message->accepted_us});
    }
    free(message);
    lh_shard_queue_release(pipeline->inbox, bytes);
    pipeline->options.events.on_consumed(pipeline->options.context, step_context, bytes);
}

static void deliver_frame(lh_pipeline *pipeline, lh_frame_message *message) {
    void *bytes = message->bytes, *step_context = message->step->context;
    size_t length = message->head.charge;
    tell_work(pipeline, step_context, &message->span);
    free(message);
    pipeline->options.events.on_frame(pipeline->options.context, step_context, bytes, length);
}

static void deliver_end(lh_pipeline *pipeline, lh_pipeline_step *step) {
    if (step->begun_us != 0) {
        tell_work(pipeline, step->context,
                  &(lh_pipeline_span){.work = LH_PIPELINE_BEGIN,
                                      .begin_us = step->begin_us,
                                      .end_us = step->begun_us});
    }
    if (step->finished_us != 0) {
        tell_work(pipeline, step->context,
                  &(lh_pipeline_span){.work = LH_PIPELINE_FINISH,
                                      .begin_us = step->finish_us,
                                      .end_us = step->finished_us,
                                      .gathers = step->gathers,
                                      .gather_count = step->gather_count});
    }
    pipeline->options.events.on_ended(pipeline->options.context, step->context,
                                      step->failure.status, step->failure.message, step->results,
                                      step->result_count);
    lh_shard_queue_leave(pipeline->inbox, &step->forget_message);
}

void lh_pipeline_poll(lh_pipeline *pipeline) {
    lh_message *message;
    assert(!pipeline->polling);
    pipeline->polling = true;
    while ((message = lh_shard_queue_pop(pipeline->outbox, false)) != NULL) {
        switch (message->kind) {
        case LH_MESSAGE_CONSUMED:
            deliver_consumed(pipeline, LH_MESSAGE_OF(message, lh_shard_message, head));
            break;
        case LH_MESSAGE_FRAME:
            deliver_frame(pipeline, LH_MESSAGE_OF(message, lh_frame_message, head));
            break;
        case LH_MESSAGE_ENDED:
            deliver_end(pipeline, LH_MESSAGE_OF(message, lh_pipeline_step, ended_message));
            break;
        default:
            assert(message->kind == LH_MESSAGE_REMOVED);
            free(message);
            pipeline->options.events.on_removed(pipeline->options.context);
        }
    }
    pipeline->polling = false;
}

/* ---- In ---- */

static lh_status push_control(lh_pipeline *pipeline, const lh_control_message *content,
                              lh_error *error) {
    lh_control_message *message = malloc(sizeof *message);
    if (!message)
        return lh_fail(error, LH_ERR_NO_MEMORY, "pipeline: out of memory");
    *message = *content;
    lh_shard_queue_push(pipeline->inbox, &message->head);
    return LH_OK;
}

lh_status lh_pipeline_install(lh_pipeline *pipeline, lh_stage *stage, uint32_t steps_max,
                              lh_error *error) {
    assert(steps_max > 0);
    return push_control(pipeline,
                        &(lh_control_message){.head.kind = LH_MESSAGE_INSTALL,
                                              .stage = stage,
                                              .steps_max = steps_max},
                        error);
}

lh_status lh_pipeline_remove(lh_pipeline *pipeline, lh_error *error) {
    return push_control(pipeline, &(lh_control_message){.head.kind = LH_MESSAGE_REMOVE}, error);
}

lh_status lh_pipeline_reset(lh_pipeline *pipeline, bool keeps_kv, lh_error *error) {
    return push_control(pipeline,
                        &(lh_control_message){.head.kind = LH_MESSAGE_RESET, .keeps_kv = keeps_kv},
                        error);
}

lh_status lh_pipeline_begin(lh_pipeline *pipeline, const lh_pipeline_begin_options *options,
                            lh_pipeline_step **step, lh_error *error) {
    lh_status status = lh_pipeline_step_create(pipeline->inbox, options, step, error);
    if (status == LH_OK)
        lh_shard_queue_push(pipeline->inbox, &(*step)->begin_message);
    return status;
}

lh_status lh_pipeline_accept(lh_pipeline_step *step, const lh_stage_shard *shard, lh_error *error) {
    size_t bytes = (size_t)shard->rows * shard->columns * sizeof(float);
    lh_shard_message *message = malloc(sizeof *message + bytes);
    if (!message)
        return lh_fail(error, LH_ERR_NO_MEMORY, "shard of %zu bytes: out of memory", bytes);
    *message = (lh_shard_message){.head = {.kind = LH_MESSAGE_SHARD, .charge = bytes},
                                  .step = step,
                                  .shard = *shard,
                                  .bytes = bytes};
    memcpy(message + 1, shard->values, bytes);
    message->shard.values = (const float *)(const void *)(message + 1);
    lh_shard_queue_push(step->inbox, &message->head);
    return LH_OK;
}

void lh_pipeline_cancel(lh_pipeline_step *step) {
    atomic_store(&step->cancelled, true);
    lh_shard_queue_nudge(step->inbox);
}

bool lh_pipeline_is_full(lh_pipeline *pipeline) {
    return lh_shard_queue_is_full(pipeline->inbox);
}

void lh_pipeline_frame_gone(lh_pipeline *pipeline, size_t bytes) {
    if (lh_shard_queue_release(pipeline->outbox, bytes))
        lh_shard_queue_nudge(pipeline->inbox);
}
