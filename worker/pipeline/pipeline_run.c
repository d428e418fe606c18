/* The compute thread: which piece of work comes next.
 *
 * Between two pieces it empties its inbox, so that a decode step that has just come goes before a prefill
 * step that has waited. A piece is one of
 *
 *     begin    reserve KV pages and a panel (the first stage embeds); in the order of arrival within a class
 *     finish   the rest of a step whose shards have all been taken
 *     accept   one shard: the deferred norm's sums and the first product go on
 *
 * taken in this order of preference, since the next stage waits for what is ready here and not for shards of later chunks;
 * decode before prefill, but where decode steps keep the stage busy, every so many of them prefill comes first, or no prompt
 * would get through. Within a class steps finish in the order of arrival: so they also leave in that order. A decode
 * step overtakes prefill steps unless it shares a sequence with an earlier one.
 *
 * One panel is kept for decode steps, so that waiting prefill steps cannot shut them out, nor they the first prefill step.
 *
 * A step that fails takes with it the later ones that share its sequences, directly or through each other:
 * their positions no longer continue. They end in reverse order, each taking its positions back (stage.h). */
#include "worker/pipeline/pipeline_order.h"

#include "common/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Ends --------------------------------------------------------------------------------------- */

/* Frees the steps that are through with everything. */
static void sweep(lh_pipeline *pipeline) {
    lh_pipeline_step *step = TAILQ_FIRST(&pipeline->steps);
    while (step != NULL) {
        lh_pipeline_step *next = TAILQ_NEXT(step, links);
        if (step->ended && step->forgotten && step->released) {
            TAILQ_REMOVE(&pipeline->steps, step, links);
            lh_pipeline_step_destroy(step);
        }
        step = next;
    }
}

/* Does the releases of steps that have ended, where no earlier step is in the way. */
static void release_sequences(lh_pipeline *pipeline) {
    lh_pipeline_step *step;
    TAILQ_FOREACH(step, &pipeline->steps, links) {
        if (!step->ended || step->released) {
            continue;
        }
        step->released = true;
        for (uint32_t i = 0; i < step->release_count; i++) {
            const lh_batch_release *release = &step->releases[i];
            if (lh_pipeline_is_in_use_before(pipeline, step, release->sequence)) {
                step->released = false;
            } else if (pipeline->stage != NULL) {
                lh_stage_release(pipeline->stage, release->sequence, release->keep);
            }
        }
    }
}

/* The shard goes back to the I/O thread, which counts its bytes: it hears of it with the next frame or end, or before this
 * thread sleeps. */
static void give_shard_back(lh_pipeline *pipeline, lh_shard_message *message, lh_pipeline_step *step) {
    message->head.kind = LH_MESSAGE_TAKEN;
    message->head.charge = 0;
    message->step = step;
    lh_shard_queue_leave(pipeline->outbox, &message->head);
}

static void drop_shards(lh_pipeline *pipeline, lh_pipeline_step *step) {
    lh_message *message;
    while ((message = step->shards) != NULL) {
        step->shards = message->next;
        give_shard_back(pipeline, LH_MESSAGE_OF(message, lh_shard_message, head), step);
    }
    step->shards_tail = &step->shards;
}

/* The step is over, well or (step->failure) not. */
static void end(lh_pipeline *pipeline, lh_pipeline_step *step) {
    assert(!step->ended);
    if (step->stage_step != NULL) {
        lh_stage_end(step->stage_step);
        step->stage_step = NULL;
        pipeline->begun_count--;
    }
    drop_shards(pipeline, step);
    step->ended = true;
    lh_shard_queue_push(pipeline->outbox, &step->ended_message);
}

/* Ends the step with step->failure, and with it the later ones that have begun and share its sequences. Those
 * that have not begun will be refused by the stage. */
static void fail(lh_pipeline *pipeline, lh_pipeline_step *failed) {
    failed->doomed = true;
    for (lh_pipeline_step *step = TAILQ_NEXT(failed, links); step != NULL; step = TAILQ_NEXT(step, links)) {
        if (!step->ended && step->stage_step != NULL && lh_pipeline_shares_with_doomed(pipeline, step)) {
            step->doomed = true;
            lh_fail(&step->failure, LH_ERR_INVALID, "an earlier step of one of its sequences failed: %.200s",
                    failed->failure.message);
        }
    }
    lh_pipeline_step *step = TAILQ_LAST(&pipeline->steps, lh_pipeline_steps);
    while (step != NULL) {
        lh_pipeline_step *previous = TAILQ_PREV(step, lh_pipeline_steps, links);
        if (step->doomed) {
            step->doomed = false;
            end(pipeline, step);
        }
        step = previous;
    }
}

static void fail_all(lh_pipeline *pipeline, const char *reason) {
    lh_pipeline_step *step;
    TAILQ_FOREACH_REVERSE(step, &pipeline->steps, lh_pipeline_steps, links) {
        if (!step->ended) {
            lh_fail(&step->failure, LH_ERR_STALE, "%s", reason);
            end(pipeline, step);
        }
    }
}

static void end_cancelled(lh_pipeline *pipeline) {
    lh_pipeline_step *step;
    TAILQ_FOREACH(step, &pipeline->steps, links) {
        if (!step->ended && atomic_load(&step->cancelled)) {
            lh_fail(&step->failure, LH_ERR_CANCELLED, "cancelled");
            fail(pipeline, step);
        }
    }
}

/* ---- Messages ----------------------------------------------------------------------------------- */

static void destroy_stage(lh_pipeline *pipeline) {
    if (pipeline->stage != NULL) {
        lh_stage_destroy(pipeline->stage);
        pipeline->stage = NULL;
    }
}

static void handle_control(lh_pipeline *pipeline, lh_control_message *message) {
    switch (message->head.kind) {
    case LH_MESSAGE_INSTALL:
        assert(pipeline->stage == NULL);
        pipeline->stage = message->stage;
        pipeline->steps_max = message->steps_max;
        break;
    case LH_MESSAGE_REMOVE:
        fail_all(pipeline, "the worker's stage was taken away");
        destroy_stage(pipeline);
        message->head.kind = LH_MESSAGE_REMOVED;
        lh_shard_queue_push(pipeline->outbox, &message->head);
        return;
    default:
        assert(message->head.kind == LH_MESSAGE_RESET);
        fail_all(pipeline, "the chain was re-formed");
        if (pipeline->stage != NULL && !message->keeps_kv) {
            lh_stage_reset(pipeline->stage);
        }
    }
    free(message);
}

/* At once, so that no other step can begin on what it takes away. */
static void call_roll(lh_pipeline *pipeline, lh_pipeline_step *step) {
    step->released = true;
    lh_status status =
        lh_stage_call_roll(pipeline->stage, step->releases, step->release_count, &step->failure);
    if (status != LH_OK) {
        step->failure.status = status;
        fail(pipeline, step);
    }
}

static void handle_begin(lh_pipeline *pipeline, lh_pipeline_step *step) {
    TAILQ_INSERT_TAIL(&pipeline->steps, step, links);
    if (pipeline->stage == NULL && (step->batch.rows > 0 || step->calls_roll)) {
        lh_fail(&step->failure, LH_ERR_UNAVAILABLE, "the worker has no stage");
        fail(pipeline, step);
    } else if (step->calls_roll) {
        call_roll(pipeline, step);
    }
}

static void handle_shard(lh_pipeline *pipeline, lh_shard_message *message) {
    lh_pipeline_step *step = message->step;
    if (step->ended) {
        give_shard_back(pipeline, message, NULL);
        return;
    }
    message->head.next = NULL;
    *step->shards_tail = &message->head;
    step->shards_tail = &message->head.next;
}

static void handle(lh_pipeline *pipeline, lh_message *message) {
    switch (message->kind) {
    case LH_MESSAGE_BEGIN:
        handle_begin(pipeline, LH_MESSAGE_OF(message, lh_pipeline_step, begin_message));
        break;
    case LH_MESSAGE_SHARD:
        handle_shard(pipeline, LH_MESSAGE_OF(message, lh_shard_message, head));
        break;
    case LH_MESSAGE_FORGET:
        LH_MESSAGE_OF(message, lh_pipeline_step, forget_message)->forgotten = true;
        break;
    case LH_MESSAGE_STOP:
        pipeline->stopping = true;
        break;
    default:
        handle_control(pipeline, LH_MESSAGE_OF(message, lh_control_message, head));
    }
}

/* ---- Begin -------------------------------------------------------------------------------------- */

static void begin(lh_pipeline *pipeline, lh_pipeline_step *step) {
    step->begin_us = lh_clock_us();
    lh_status status = lh_stage_begin(pipeline->stage, &step->batch, &step->stage_step, &step->failure);
    step->begun_us = lh_clock_us();
    if (status != LH_OK) {
        step->stage_step = NULL;
        step->failure.status = status;
        fail(pipeline, step);
        return;
    }
    pipeline->begun_count++;
}

static bool begin_next(lh_pipeline *pipeline, bool decode) {
    lh_pipeline_step *step;
    TAILQ_FOREACH(step, &pipeline->steps, links) {
        if (step->ended || step->decode != decode || step->stage_step != NULL || step->batch.rows == 0) {
            continue;
        }
        if (!lh_pipeline_has_panel(pipeline, step) || lh_pipeline_must_wait_to_begin(pipeline, step)) {
            return false;
        }
        begin(pipeline, step);
        return true;
    }
    return false;
}

/* ---- Accept ------------------------------------------------------------------------------------- */

static void accept_shard(lh_pipeline *pipeline, lh_pipeline_step *step) {
    lh_message *message = step->shards;
    step->shards = message->next;
    if (step->shards == NULL) {
        step->shards_tail = &step->shards;
    }
    lh_shard_message *shard = LH_MESSAGE_OF(message, lh_shard_message, head);
    shard->accept_us = lh_clock_us();
    lh_status status = lh_stage_accept(step->stage_step, &shard->shard, &step->failure);
    shard->accepted_us = lh_clock_us();
    give_shard_back(pipeline, shard, step);
    if (status != LH_OK) {
        step->failure.status = status;
        fail(pipeline, step);
    }
}

static bool accept_next(lh_pipeline *pipeline, bool decode) {
    lh_pipeline_step *step;
    TAILQ_FOREACH(step, &pipeline->steps, links) {
        if (!step->ended && step->decode == decode && step->stage_step != NULL && step->shards != NULL) {
            accept_shard(pipeline, step);
            return true;
        }
    }
    return false;
}

/* ---- Finish ------------------------------------------------------------------------------------- */

static void on_shard(void *context, const lh_stage_shard *shard) {
    lh_pipeline_step *step = context;
    const lh_pipeline_options *options = &step->pipeline->options;
    int64_t now_us = lh_clock_us();
    lh_frame_message *message = malloc(sizeof(*message));
    void *bytes = NULL;
    size_t length = 0;
    if (step->failure.status != LH_OK) {
        free(message);
        return; /* one before it was lost: the step ends at its next layer */
    }
    lh_status status = LH_ERR_NO_MEMORY;
    if (message == NULL) {
        lh_fail(&step->failure, LH_ERR_NO_MEMORY, "encoded shard: out of memory");
    } else {
        status = options->encode(step->encoding, shard, &bytes, &length, &step->failure);
    }
    if (status != LH_OK) {
        step->failure.status = status;
        free(message);
        return;
    }
    *message = (lh_frame_message){.head = {.kind = LH_MESSAGE_FRAME, .charge = length},
                                  .step = step,
                                  .bytes = bytes,
                                  .span = {.work = LH_PIPELINE_EMIT,
                                           .first_row = shard->first_row,
                                           .rows = shard->rows,
                                           .first_column = shard->first_column,
                                           .columns = shard->columns,
                                           .begin_us = now_us,
                                           .end_us = now_us}};
    lh_shard_queue_push(step->pipeline->outbox, &message->head);
}

/* The position after the index-th segment that samples. */
static uint32_t sampled_position(const lh_batch *batch, uint32_t index) {
    for (uint32_t i = 0; i < batch->segment_count; i++) {
        if (batch->segments[i].sample && index-- == 0) {
            return batch->segments[i].first_position + batch->segments[i].rows;
        }
    }
    return 0;
}

static void on_sample(void *context, uint64_t sequence, const lh_sample_result *result) {
    lh_pipeline_step *step = context;
    assert(step->result_count < step->result_capacity);
    uint32_t index = step->result_count++;
    step->results[index] = (lh_pipeline_result){
        .sequence = sequence, .position = sampled_position(&step->batch, index), .sample = *result};
}

static int is_cancelled(void *context) {
    lh_pipeline_step *step = context;
    return atomic_load(&step->cancelled) || step->failure.status != LH_OK;
}

static void finish(lh_pipeline *pipeline, lh_pipeline_step *step) {
    lh_error error = {.status = LH_OK};
    lh_pipeline_count_overtakes(pipeline, step);
    if (step->batch.rows > 0) {
        lh_stage_output output = {
            .context = step, .on_shard = on_shard, .on_sample = on_sample, .is_cancelled = is_cancelled};
        step->finish_us = lh_clock_us();
        lh_status status = lh_stage_finish(step->stage_step, &output, &error);
        step->finished_us = lh_clock_us();
        if (status != LH_OK && step->failure.status == LH_OK) {
            error.status = status;
            step->failure = error;
        }
    }
    if (step->failure.status == LH_OK) {
        end(pipeline, step);
    } else {
        fail(pipeline, step);
    }
}

/* Only the first step of a class that has not ended may finish. */
static bool finish_next(lh_pipeline *pipeline, bool decode) {
    lh_pipeline_step *step;
    TAILQ_FOREACH(step, &pipeline->steps, links) {
        if (step->ended || step->decode != decode) {
            continue;
        }
        bool ready = step->batch.rows == 0 || (step->stage_step != NULL && step->shards == NULL &&
                                               lh_stage_is_ready(step->stage_step));
        if (!ready || lh_pipeline_must_wait_to_finish(pipeline, step) ||
            (!decode && lh_shard_queue_is_full(pipeline->outbox))) {
            return false;
        }
        finish(pipeline, step);
        return true;
    }
    return false;
}

/* ---- The loop ----------------------------------------------------------------------------------- */

/* One piece of work; false: there is none. Decode first, until prefill's turn has come. */
static bool work(lh_pipeline *pipeline) {
    for (int pass = 0; pass < 2; pass++) {
        bool decode = (pass == 0) != lh_pipeline_is_prefills_turn(pipeline);
        if (begin_next(pipeline, decode) || finish_next(pipeline, decode) || accept_next(pipeline, decode)) {
            return true;
        }
    }
    return false;
}

void *lh_pipeline_run(void *argument) {
    lh_pipeline *pipeline = argument;
    while (!pipeline->stopping) {
        lh_message *message;
        while ((message = lh_shard_queue_pop(pipeline->inbox, false)) != NULL) {
            handle(pipeline, message);
        }
        end_cancelled(pipeline);
        release_sequences(pipeline);
        sweep(pipeline);
        if (!pipeline->stopping && !work(pipeline)) {
            lh_shard_queue_announce(pipeline->outbox);
            message = lh_shard_queue_pop(pipeline->inbox, true);
            if (message != NULL) {
                handle(pipeline, message);
            }
        }
    }
    fail_all(pipeline, "the worker stops");
    destroy_stage(pipeline);
    return NULL;
}
