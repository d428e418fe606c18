/* One step on its way through the worker: body in, shards to the pipeline, frames to the next hop, answer
 * back. */
#include "worker/server/server_state.h"

#include "common/clock.h"
#include "common/log.h"
#include "worker/api/step_answer.h"
#include "worker/server/server_batch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Shards of one step that may wait for the compute side before its window stays shut: two of the largest
 * frames. */
#define PENDING_BYTES_MAX (2u * LH_STEP_SHARD_BYTES_MAX)

static const lh_step_reader_events reader_events;

/* ---- Life --------------------------------------------------------------------------------------- */

/* Two steps that are not computed yet are in each other's way. */
static void disturb(lh_server *server, lh_server_step *made) {
    lh_server_step *other;
    TAILQ_FOREACH(other, &server->steps, links) {
        if (!other->computed) {
            other->stopwatch.disturbed = made->stopwatch.disturbed = true;
        }
    }
}

lh_status lh_server_step_create(lh_server *server, lh_h2_stream *upstream, uint64_t number,
                                bool shards_go_apart, lh_server_step **step, lh_error *error) {
    const lh_server_route *route = &server->place.route;
    lh_server_step *made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return lh_fail(error, LH_ERR_NO_MEMORY, "step: out of memory");
    }
    lh_status status =
        lh_step_reader_create(route->is_first ? 0 : route->width, &reader_events, made, &made->reader, error);
    if (status != LH_OK) {
        free(made);
        return status;
    }
    made->server = server;
    made->upstream = upstream;
    made->number = number;
    made->shards_go_apart = shards_go_apart;
    disturb(server, made);
    TAILQ_INSERT_TAIL(&server->steps, made, links);
    server->step_count++;
    *step = made;
    return LH_OK;
}

static void leave_shards(lh_server_step *step) {
    if (step->shards != NULL) {
        lh_server_shards_leave(step->shards, step->held_bytes);
        step->held_bytes = 0;
    }
}

static void free_if_unheld(lh_server_step *step) {
    if (step->upstream != NULL || step->pipeline_step != NULL || step->downstream != NULL) {
        return;
    }
    lh_server *server = step->server;
    leave_shards(step);
    TAILQ_REMOVE(&server->steps, step, links);
    server->step_count--;
    lh_step_reader_destroy(step->reader);
    lh_server_times_destroy(step->times);
    free(step);
    lh_server_on_step_gone(server);
}

/* Nothing is wanted of the step any more. */
static void cancel_work(lh_server_step *step) {
    step->settled = true;
    leave_shards(step);
    if (step->pipeline_step != NULL) {
        lh_pipeline_cancel(step->pipeline_step);
    }
    if (step->downstream != NULL) {
        lh_step_submission_cancel(step->downstream);
    }
}

/* ---- The answer --------------------------------------------------------------------------------- */

static void answer_failure(lh_server_step *step, int http_status, const char *worker, lh_status status,
                           const char *message) {
    lh_server *server = step->server;
    if (step->settled) {
        return;
    }
    lh_server_on_step_lost(server, step);
    lh_log(strcmp(worker, server->name) == 0 ? LH_LOG_WARN : LH_LOG_INFO, "server",
           "step failed step=%llu epoch=%u at=%s status=%s reason=\"%s\"", (unsigned long long)step->number,
           step->epoch, worker[0] != '\0' ? worker : "gateway", lh_status_name(status), message);
    cancel_work(step);
    if (step->upstream == NULL) {
        return;
    }
    char *body = lh_step_answer_render(worker, status, message);
    if (body == NULL || lh_h2_stream_respond(step->upstream, http_status, body) != LH_OK) {
        lh_h2_stream_cancel(step->upstream);
    }
    free(body);
    /* What is left of the body is not wanted, and its sender must not wait for a window. */
    lh_h2_stream_consume(step->upstream, step->held_bytes);
    step->held_bytes = 0;
}

void lh_server_step_fail(lh_server_step *step, lh_status status, const char *message) {
    int http_status = step->hop_failed ? 502 : lh_step_answer_http_status(status);
    answer_failure(step, http_status, step->server->name, status, message);
    free_if_unheld(step);
}

static lh_status answer_success(lh_server_step *step) {
    static const lh_h2_header content_type = {.name = "content-type", .value = "application/x-longhaul-step"};
    lh_server_times_note(step->times, LH_MOMENT_ANSWERED);
    size_t length = 0;
    uint8_t *body = step->times != NULL ? lh_server_times_render(step->times, &length) : NULL;
    if (body == NULL) {
        return lh_h2_stream_respond(step->upstream, 200, "{}");
    }
    lh_status status = lh_h2_stream_respond_headers(step->upstream, 200, &content_type, 1, false);
    if (status != LH_OK) {
        free(body);
        return status;
    }
    status = lh_h2_stream_write_owned(step->upstream, body, length);
    lh_h2_stream_end(step->upstream);
    return status;
}

static void answer_if_complete(lh_server_step *step) {
    if (step->settled || !step->body_ended || !step->computed || !step->passed) {
        return;
    }
    step->settled = true;
    step->server->steps_done++;
    if (step->upstream != NULL && answer_success(step) != LH_OK) {
        lh_h2_stream_cancel(step->upstream);
    }
}

/* ---- Windows ------------------------------------------------------------------------------------ */

/* Opens the window of what has come, unless the compute side has enough to do. */
static void open_window(lh_server_step *step) {
    lh_h2_stream *source = step->shards != NULL ? step->shards->stream : step->upstream;
    if (step->held_bytes == 0 || source == NULL) {
        return;
    }
    if (!step->settled && step->pending_bytes > PENDING_BYTES_MAX) {
        return; /* on_taken comes */
    }
    if (!step->settled && lh_pipeline_is_full(step->server->pipeline)) {
        step->server->window_held = true;
        return;
    }
    lh_h2_stream_consume(source, step->held_bytes);
    step->held_bytes = 0;
}

static void on_taken(void *context, void *step_context, size_t bytes) {
    lh_server *server = context;
    lh_server_step *step = step_context;
    if (step != NULL) {
        assert(step->pending_bytes >= bytes);
        step->pending_bytes -= bytes;
        open_window(step);
    }
    if (server->window_held && !lh_pipeline_is_full(server->pipeline)) {
        server->window_held = false;
        TAILQ_FOREACH(step, &server->steps, links) {
            open_window(step);
        }
    }
}

/* ---- The body ----------------------------------------------------------------------------------- */

static lh_status on_shard(void *context, const lh_step_shard_header *header, const float *values,
                          lh_error *error) {
    lh_server_step *step = context;
    if (step->pipeline_step == NULL) {
        return LH_OK; /* it has ended before its body */
    }
    lh_server_times_came(step->times, header);
    lh_stage_shard shard = {.first_row = header->first_row,
                            .rows = header->rows,
                            .first_column = header->first_column,
                            .columns = header->columns,
                            .values = values};
    lh_status status = lh_pipeline_accept(step->pipeline_step, &shard, error);
    if (status == LH_OK) {
        step->pending_bytes += (size_t)header->rows * header->columns * sizeof(float);
    }
    return status;
}

static const lh_step_reader_events reader_events = {.on_manifest = lh_server_step_on_manifest,
                                                    .on_shard = on_shard};

void lh_server_step_feed(lh_server_step *step, const uint8_t *bytes, size_t length) {
    step->held_bytes += length;
    int64_t now_us = lh_clock_us();
    lh_server_stopwatch_feed(&step->stopwatch, now_us);
    if (step->first_byte_us == 0) {
        step->first_byte_us = now_us;
    }
    lh_error error;
    lh_status status = lh_step_reader_feed(step->reader, bytes, length, &error);
    if (status != LH_OK) {
        lh_server_step_fail(step, status, error.message);
        return;
    }
    open_window(step);
}

void lh_server_step_end_body(lh_server_step *step) {
    lh_error error;
    lh_status status = lh_step_reader_finish(step->reader, &error);
    if (status != LH_OK) {
        lh_server_step_fail(step, status, error.message);
        return;
    }
    step->body_ended = true;
    lh_server_times_note(step->times, LH_MOMENT_BODY_END);
    answer_if_complete(step);
}

void lh_server_step_lose_shards(lh_server_step *step) {
    if (!step->settled) {
        lh_server_step_fail(step, LH_ERR_UNAVAILABLE, "the connection that brought its shards has gone");
    }
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    lh_server_step *step = context;
    if (step->settled) {
        lh_h2_stream_consume(stream, length);
        return;
    }
    lh_server_step_feed(step, bytes, length);
}

/* The manifest is here, and what comes by the other connection continues it. */
static void on_end(lh_h2_stream *stream, void *context) {
    (void)stream;
    lh_server_step *step = context;
    if (step->settled) {
        return;
    }
    if (!step->shards_go_apart || !step->has_manifest) {
        lh_server_step_end_body(step);
        return;
    }
    open_window(step);
    step->awaits_shards = true;
    lh_server_shards_find(step);
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    lh_server_step *step = context;
    step->upstream = NULL;
    if (!step->settled) {
        lh_server_on_step_lost(step->server, step);
        lh_log(LH_LOG_INFO, "server", "step cancelled step=%llu epoch=%u reason=\"%s\"",
               (unsigned long long)step->number, step->epoch, lh_status_text(status));
        cancel_work(step);
    }
    free_if_unheld(step);
}

const lh_h2_stream_events lh_server_step_stream_events = {
    .on_body = on_body, .on_end = on_end, .on_closed = on_closed};

/* ---- From the pipeline -------------------------------------------------------------------------- */

static void on_frame(void *context, void *step_context, void *bytes, size_t length) {
    lh_server *server = context;
    lh_server_step *step = step_context;
    if (step->settled || step->downstream == NULL) {
        free(bytes);
        lh_pipeline_frame_gone(server->pipeline, length);
        return;
    }
    step->sent_bytes += length;
    lh_server_times_handed(step->times, length);
    if (lh_step_submission_write(step->downstream, bytes, length) != LH_OK) {
        lh_step_submission_cancel(step->downstream); /* its end tells */
    }
}

void lh_server_step_count_sent(lh_server_step *step) {
    if (step->sent_bytes == 0 && step->times == NULL) {
        return;
    }
    size_t queued = step->downstream != NULL ? lh_step_submission_queued_bytes(step->downstream) : 0;
    lh_server_times_queued(step->times, queued, step->computed);
    if (step->sent_bytes > queued) {
        lh_pipeline_frame_gone(step->server->pipeline, step->sent_bytes - queued);
        step->sent_bytes = queued;
    }
}

/* The last stage has drawn its tokens: they go to the gateway. */
static lh_status post_results(lh_server_step *step, const lh_pipeline_result *results, uint32_t count,
                              lh_error *error) {
    lh_step_manifest manifest = {.epoch = step->epoch, .step = step->number, .step_class = step->step_class};
    void *bytes;
    size_t length;
    lh_status status = lh_server_encode_results(results, count, &bytes, &length, error);
    if (status != LH_OK) {
        return status;
    }
    status = lh_server_step_submit(step, &manifest, error);
    if (status != LH_OK) {
        free(bytes);
        return status;
    }
    if (lh_step_submission_write(step->downstream, bytes, length) != LH_OK) {
        lh_step_submission_cancel(step->downstream); /* its end tells */
        return LH_OK;
    }
    lh_step_submission_end(step->downstream);
    return LH_OK;
}

static void on_ended(void *context, void *step_context, lh_status status, const char *message,
                     const lh_pipeline_result *results, uint32_t result_count) {
    lh_server *server = context;
    lh_server_step *step = step_context;
    step->pipeline_step = NULL;
    lh_error error = {.status = LH_OK};
    if (step->settled) {
        free_if_unheld(step);
        return;
    }
    if (status == LH_OK && server->place.route.is_last && !step->ends_here) {
        status = post_results(step, results, result_count, &error);
        message = error.message;
    } else if (status == LH_OK && step->downstream != NULL) {
        lh_step_submission_end(step->downstream);
    }
    if (status != LH_OK) {
        lh_server_step_fail(step, status, message);
        return;
    }
    step->computed = true;
    lh_server_stopwatch_stop(&step->stopwatch, &server->meter, lh_clock_us());
    answer_if_complete(step);
    free_if_unheld(step);
}

static void on_worked(void *context, void *step_context, const lh_pipeline_span *span) {
    (void)context;
    lh_server_step *step = step_context;
    lh_server_stopwatch_worked(&step->stopwatch, span);
    lh_server_times_worked(step->times, span);
}

const lh_pipeline_events lh_server_step_pipeline_events = {
    .on_taken = on_taken, .on_frame = on_frame, .on_ended = on_ended, .on_worked = on_worked};

void lh_server_step_forget_pipeline(lh_server_step *step) {
    step->pipeline_step = NULL;
    free_if_unheld(step);
}

/* ---- From the next hop -------------------------------------------------------------------------- */

void lh_server_step_on_times(void *context, void *step_context, const uint8_t *frames, size_t length) {
    (void)context;
    lh_server_step *step = step_context;
    lh_server_times_passed(step->times, frames, length);
}

void lh_server_step_on_passed(void *context, void *step_context, lh_status status, const char *worker,
                              const char *message) {
    lh_server *server = context;
    lh_server_step *step = step_context;
    step->downstream = NULL;
    if (server->pipeline != NULL) {
        lh_server_step_count_sent(step);
    }
    if (status == LH_OK) {
        step->passed = true;
        server->passed_us = lh_clock_us();
        lh_server_times_note(step->times, LH_MOMENT_PASSED);
        answer_if_complete(step);
    } else if (!step->settled) {
        /* Where nobody answered, the fault is seen here. */
        bool told_by_nobody =
            worker[0] == '\0' && (status == LH_ERR_UNAVAILABLE || status == LH_ERR_PROTOCOL);
        answer_failure(step, 502, told_by_nobody ? server->name : worker, status, message);
    }
    free_if_unheld(step);
}
