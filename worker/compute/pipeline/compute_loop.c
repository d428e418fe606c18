/* The compute thread: which piece of work comes next.
 *
 * Between two pieces it empties its inbox, so that a decode step that has just come goes before a
 * prefill step that has waited. A piece is one of
 *
 *     begin    reserve KV pages and an activation buffer (the first stage embeds); in the order of
 *              arrival within a class
 *     finish   the rest of a step whose shards have all been taken
 *     accept   one shard: the deferred norm's sums and the first product go on
 *
 * taken in this order of preference, since the next stage waits for what is ready here and not for
 * shards of later chunks; decode before prefill, but where decode steps keep the stage busy, every
 * so many of them prefill comes first, or no prompt would get through. Within a class steps finish
 * in the order of arrival: so they also leave in that order. A decode step overtakes prefill steps
 * unless it shares a sequence with an earlier one.
 *
 * One activation buffer is kept for decode steps, so that waiting prefill steps cannot shut them
 * out, nor they the first prefill step.
 *
 * A step that fails takes with it the later ones that share its sequences, directly or through each
 * other: their positions no longer continue. They end in reverse order, each taking its positions
 * back (stage.h). */
#include "worker/compute/pipeline/compute_loop.h"

#include "common/base/clock.h"
#include "worker/compute/pipeline/step_queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct lh_compute_loop {
    const lh_pipeline_options *options;
    lh_shard_queue *inbox, *outbox;
    pthread_t thread;
    lh_message stop_message;

    /* The compute thread's. */
    lh_stage *stage; /* NULL: none */
    lh_step_queue queue;
    bool stopping;
};

/* ---- Ends ---- */

/* Does the truncations of steps that have ended, where no earlier step is in the way. */
static void truncate_sequences(lh_compute_loop *loop) {
    lh_pipeline_step *step;
    TAILQ_FOREACH(step, &loop->queue.steps, links) {
        if (!step->ended || step->truncated)
            continue;
        step->truncated = true;
        for (uint32_t i = 0; i < step->truncation_count; i++) {
            const lh_step_truncation *truncation = &step->truncations[i];
            if (lh_step_queue_is_in_use_before(&loop->queue, step, truncation->sequence))
                step->truncated = false;
            else if (loop->stage)
                lh_stage_truncate(loop->stage, truncation->sequence, truncation->length);
        }
    }
}

/* The shard goes back to the I/O thread, which counts its bytes: it hears of it with the next frame
 * or end, or before this thread sleeps. */
static void give_shard_back(lh_compute_loop *loop, lh_shard_message *message,
                            lh_pipeline_step *step) {
    message->head.kind = LH_MESSAGE_CONSUMED;
    message->head.charge = 0;
    message->step = step;
    lh_shard_queue_leave(loop->outbox, &message->head);
}

static void drop_shards(lh_compute_loop *loop, lh_pipeline_step *step) {
    lh_message *message;
    while ((message = step->shards) != NULL) {
        step->shards = message->next;
        give_shard_back(loop, LH_MESSAGE_OF(message, lh_shard_message, head), step);
    }
    step->shards_tail = &step->shards;
}

/* The step is over, well or (step->failure) not. */
static void end(lh_compute_loop *loop, lh_pipeline_step *step) {
    assert(!step->ended);
    if (step->stage_step) {
        lh_stage_end(step->stage_step);
        step->stage_step = NULL;
    }
    drop_shards(loop, step);
    step->ended = true;
    lh_shard_queue_push(loop->outbox, &step->ended_message);
}

/* Ends the step with step->failure, and with it the later ones that have begun and share its
 * sequences. Those that have not begun will be refused by the stage. */
static void fail(lh_compute_loop *loop, lh_pipeline_step *failed) {
    lh_step_queue_doom(&loop->queue, failed);
    lh_pipeline_step *step;
    while ((step = lh_step_queue_take_doomed(&loop->queue)) != NULL)
        end(loop, step);
}

static void fail_all(lh_compute_loop *loop, const char *reason) {
    lh_pipeline_step *step;
    TAILQ_FOREACH_REVERSE(step, &loop->queue.steps, lh_pipeline_steps, links) {
        if (!step->ended) {
            lh_fail(&step->failure, LH_ERR_STALE, "%s", reason);
            end(loop, step);
        }
    }
}

static void end_cancelled(lh_compute_loop *loop) {
    lh_pipeline_step *step;
    TAILQ_FOREACH(step, &loop->queue.steps, links) {
        if (!step->ended && atomic_load(&step->cancelled)) {
            lh_fail(&step->failure, LH_ERR_CANCELLED, "cancelled");
            fail(loop, step);
        }
    }
}

/* ---- Messages ---- */

static void destroy_stage(lh_compute_loop *loop) {
    lh_stage_destroy(loop->stage);
    loop->stage = NULL;
}

static void handle_control(lh_compute_loop *loop, lh_control_message *message) {
    switch (message->head.kind) {
    case LH_MESSAGE_INSTALL:
        assert(!loop->stage);
        loop->stage = message->stage;
        loop->queue.begun_max = message->steps_max;
        break;
    case LH_MESSAGE_REMOVE:
        fail_all(loop, "the worker's stage was taken away");
        destroy_stage(loop);
        message->head.kind = LH_MESSAGE_REMOVED;
        lh_shard_queue_push(loop->outbox, &message->head);
        return;
    default:
        assert(message->head.kind == LH_MESSAGE_RESET);
        fail_all(loop, "the chain was re-formed");
        if (loop->stage)
            lh_stage_drop_masks(loop->stage);
        if (loop->stage && !message->keeps_kv)
            lh_stage_reset(loop->stage);
    }
    free(message);
}

/* At once, so that no other step can begin on what it takes away. */
static void resync(lh_compute_loop *loop, lh_pipeline_step *step) {
    step->truncated = true;
    lh_status status =
        lh_stage_resync_kv(loop->stage, step->truncations, step->truncation_count, &step->failure);
    if (status != LH_OK) {
        step->failure.status = status;
        fail(loop, step);
    }
}

/* In the order in which the steps come, whatever is computed before what. */
static void take_masks(lh_compute_loop *loop, lh_pipeline_step *step) {
    lh_status status = lh_stage_take_masks(loop->stage, &step->masks, &step->failure);
    if (status != LH_OK) {
        step->failure.status = status;
        fail(loop, step);
    }
}

static void handle_begin(lh_compute_loop *loop, lh_pipeline_step *step) {
    TAILQ_INSERT_TAIL(&loop->queue.steps, step, links);
    if (!loop->stage && (step->batch.rows > 0 || step->resyncs)) {
        lh_fail(&step->failure, LH_ERR_UNAVAILABLE, "the worker has no stage");
        fail(loop, step);
    } else if (step->resyncs) {
        resync(loop, step);
    } else if (loop->stage) {
        take_masks(loop, step);
    }
}

static void handle_shard(lh_compute_loop *loop, lh_shard_message *message) {
    lh_pipeline_step *step = message->step;
    if (step->ended) {
        give_shard_back(loop, message, NULL);
        return;
    }
    message->head.next = NULL;
    *step->shards_tail = &message->head;
    step->shards_tail = &message->head.next;
}

static void handle(lh_compute_loop *loop, lh_message *message) {
    switch (message->kind) {
    case LH_MESSAGE_BEGIN:
        handle_begin(loop, LH_MESSAGE_OF(message, lh_pipeline_step, begin_message));
        break;
    case LH_MESSAGE_SHARD:
        handle_shard(loop, LH_MESSAGE_OF(message, lh_shard_message, head));
        break;
    case LH_MESSAGE_FORGET:
        LH_MESSAGE_OF(message, lh_pipeline_step, forget_message)->forgotten = true;
        break;
    case LH_MESSAGE_STOP:
        loop->stopping = true;
        break;
    default:
        handle_control(loop, LH_MESSAGE_OF(message, lh_control_message, head));
    }
}

/* ---- Begin ---- */

static bool begin_next(lh_compute_loop *loop, bool decode) {
    lh_pipeline_step *step = lh_step_queue_next_to_begin(&loop->queue, decode);
    if (!step)
        return false;
    step->begin_us = lh_clock_us();
    lh_status status = lh_stage_begin(loop->stage, &step->batch, &step->stage_step, &step->failure);
    step->begun_us = lh_clock_us();
    if (status != LH_OK) {
        step->stage_step = NULL;
        step->failure.status = status;
        fail(loop, step);
    }
    return true;
}

/* ---- Accept ---- */

static bool accept_next(lh_compute_loop *loop, bool decode) {
    lh_pipeline_step *step = lh_step_queue_next_to_accept(&loop->queue, decode);
    if (!step)
        return false;
    lh_message *message = step->shards;
    step->shards = message->next;
    if (!step->shards)
        step->shards_tail = &step->shards;
    lh_shard_message *shard = LH_MESSAGE_OF(message, lh_shard_message, head);
    shard->accept_us = lh_clock_us();
    lh_status status = lh_stage_accept(step->stage_step, &shard->shard, &step->failure);
    shard->accepted_us = lh_clock_us();
    give_shard_back(loop, shard, step);
    if (status != LH_OK) {
        step->failure.status = status;
        fail(loop, step);
    }
    return true;
}

/* ---- Finish ---- */

/* A step that finishes, for the callbacks of the stage. */
typedef struct finishing {
    lh_compute_loop *loop;
    lh_pipeline_step *step;
} finishing;

static void on_shard(void *context, const lh_stage_shard *shard) {
    const finishing *f = context;
    lh_pipeline_step *step = f->step;
    int64_t now_us = lh_clock_us();
    lh_frame_message *message = malloc(sizeof *message);
    void *bytes = NULL;
    size_t length = 0;
    if (step->failure.status != LH_OK) {
        free(message);
        return; /* one before it was lost: the step ends at its next layer */
    }
    lh_status status = LH_ERR_NO_MEMORY;
    if (!message)
        lh_fail(&step->failure, LH_ERR_NO_MEMORY, "encoded shard: out of memory");
    else
        status = f->loop->options->encode(step->wire, shard, &bytes, &length, &step->failure);
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
    lh_shard_queue_push(f->loop->outbox, &message->head);
}

static void on_answer(void *context, uint32_t segment, const lh_row_answer *part) {
    lh_pipeline_step *step = ((const finishing *)context)->step;
    lh_row_answer_add(&lh_pipeline_step_result(step, segment)->answer, part);
}

static bool is_cancelled(void *context) {
    lh_pipeline_step *step = ((const finishing *)context)->step;
    return atomic_load(&step->cancelled) || step->failure.status != LH_OK;
}

static void finish(lh_compute_loop *loop, lh_pipeline_step *step) {
    lh_error error = {.status = LH_OK};
    lh_step_queue_count_overtakes(&loop->queue, step);
    if (step->batch.rows > 0) {
        finishing context = {loop, step};
        lh_stage_output output = {.context = &context,
                                  .on_shard = on_shard,
                                  .wire = step->wire,
                                  .on_answer = on_answer,
                                  .is_cancelled = is_cancelled};
        step->finish_us = lh_clock_us();
        lh_status status = lh_stage_finish(step->stage_step, &output, &error);
        step->finished_us = lh_clock_us();
        if (step->gathers)
            step->gather_count =
                lh_stage_gather_times(loop->stage, step->gathers, LH_PIPELINE_GATHERS_MAX);
        if (status != LH_OK && step->failure.status == LH_OK) {
            error.status = status;
            step->failure = error;
        }
    }
    if (step->failure.status == LH_OK)
        end(loop, step);
    else
        fail(loop, step);
}

/* Prefill steps wait while too many encoded bytes have not left. */
static bool finish_next(lh_compute_loop *loop, bool decode) {
    lh_pipeline_step *step = lh_step_queue_next_to_finish(&loop->queue, decode);
    if (!step || (!decode && lh_shard_queue_is_full(loop->outbox)))
        return false;
    finish(loop, step);
    return true;
}

/* ---- The loop ---- */

/* One piece of work; false: there is none. Decode first, until prefill's turn has come. */
static bool work(lh_compute_loop *loop) {
    for (int pass = 0; pass < 2; pass++) {
        bool decode = (pass == 0) != lh_step_queue_is_prefills_turn(&loop->queue);
        if (begin_next(loop, decode) || finish_next(loop, decode) || accept_next(loop, decode))
            return true;
    }
    return false;
}

static void *run(void *argument) {
    lh_compute_loop *loop = argument;
    /* Its own name: that of another thread is a file in /proc, which the sandbox does not open. */
    pthread_setname_np(pthread_self(), "compute");
    while (!loop->stopping) {
        lh_message *message;
        while ((message = lh_shard_queue_pop(loop->inbox, false)) != NULL)
            handle(loop, message);
        end_cancelled(loop);
        truncate_sequences(loop);
        lh_pipeline_step *done;
        while ((done = lh_step_queue_remove_done(&loop->queue)) != NULL)
            free(done);
        if (!loop->stopping && !work(loop)) {
            lh_shard_queue_announce(loop->outbox);
            message = lh_shard_queue_pop(loop->inbox, true);
            if (message)
                handle(loop, message);
        }
    }
    fail_all(loop, "the worker stops");
    destroy_stage(loop);
    return NULL;
}

lh_status lh_compute_loop_start(const lh_pipeline_options *options, lh_shard_queue *inbox,
                                lh_shard_queue *outbox, lh_compute_loop **out, lh_error *error) {
    lh_compute_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return lh_fail(error, LH_ERR_NO_MEMORY, "pipeline: out of memory");
    loop->options = options;
    loop->inbox = inbox;
    loop->outbox = outbox;
    loop->stop_message.kind = LH_MESSAGE_STOP;
    lh_step_queue_init(&loop->queue);
    if (pthread_create(&loop->thread, NULL, run, loop) != 0) {
        free(loop);
        return lh_fail(error, LH_ERR_IO, "pipeline: the compute thread cannot be started");
    }
    *out = loop;
    return LH_OK;
}

void lh_compute_loop_stop(lh_compute_loop *loop) {
    lh_shard_queue_push(loop->inbox, &loop->stop_message);
    pthread_join(loop->thread, NULL);
}

void lh_compute_loop_destroy(lh_compute_loop *loop) {
    assert(loop->stopping && !loop->stage);
    lh_pipeline_step *step;
    while ((step = TAILQ_FIRST(&loop->queue.steps)) != NULL) {
        assert(step->ended);
        TAILQ_REMOVE(&loop->queue.steps, step, links);
        free(step);
    }
    free(loop);
}
