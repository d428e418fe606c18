/* A step's state, and what each event does to it. */
#include "worker/serve/served_step.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/protocol/step_answer.h"
#include "worker/serve/frames.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Shards of one step that may wait for the compute side before its window stays shut: two of the
 * largest frames. */
#define PENDING_BYTES_MAX (2u * LH_STEP_SHARD_BYTES_MAX)

/* ---- The outcome ---- */

static void settle(lh_served_step *step, lh_served_outcome outcome) {
    assert(step->outcome == LH_SERVED_OPEN && outcome != LH_SERVED_OPEN);
    step->outcome = outcome;
}

static void leave_shards(lh_served_step *step) {
    if (step->shards) {
        lh_shard_request_leave(step->shards, step->held_bytes);
        step->shards = NULL;
        step->held_bytes = 0;
    }
}

/* Nothing is wanted of the step any more: it is lost or cancelled. */
static void drop(lh_served_step *step, lh_served_outcome outcome) {
    settle(step, outcome);
    leave_shards(step);
    if (step->pipeline_step)
        lh_pipeline_cancel(step->pipeline_step);
    if (step->downstream) {
        lh_next_hop_note_loss(step->tools->hop, step->first_byte_us, lh_clock_us());
        lh_step_submission_cancel(step->downstream);
    }
}

/* A step whose sender resets its stream is no failure: its client has hung up, or the one before
 * has seen it fail, and tells so. */
static void drop_unwanted(lh_served_step *step, lh_status status) {
    bool is_cancelled = status == LH_ERR_CANCELLED;
    unsigned long long left_out;
    if (lh_log_limit_take(step->tools->dropped_lines, lh_clock_us(), &left_out))
        lh_log(LH_LOG_INFO, "server", "step %s step=%llu epoch=%u reason=\"%s\" left_out=%llu",
               is_cancelled ? "cancelled" : "lost", (unsigned long long)step->number, step->epoch,
               is_cancelled ? "its sender wants no more of it" : lh_status_text(status), left_out);
    drop(step, is_cancelled ? LH_SERVED_CANCELLED : LH_SERVED_LOST);
}

static void answer_failure(lh_served_step *step, int http_status, const char *worker,
                           lh_status status, const char *message) {
    unsigned long long left_out;
    if (lh_log_limit_take(step->tools->failed_lines, lh_clock_us(), &left_out))
        lh_log(strcmp(worker, step->tools->worker) == 0 ? LH_LOG_WARN : LH_LOG_INFO, "server",
               "step failed step=%llu epoch=%u at=%s status=%s reason=\"%s\" left_out=%llu",
               (unsigned long long)step->number, step->epoch,
               worker[0] != '\0' ? worker : "gateway", lh_status_name(status), message, left_out);
    drop(step, LH_SERVED_LOST);
    if (!step->upstream)
        return;
    char *body = lh_step_answer_render(worker, status, message);
    if (!body || lh_h2_stream_respond(step->upstream, http_status, body) != LH_OK)
        lh_h2_stream_cancel(step->upstream);
    free(body);
    /* What is left of the body is not wanted, and its sender must not wait for a window. */
    lh_h2_stream_consume(step->upstream, step->held_bytes);
    step->held_bytes = 0;
}

void lh_served_step_fail(lh_served_step *step, lh_status status, const char *message) {
    int http_status = step->hop_failed ? 502 : lh_step_answer_http_status(status);
    if (step->outcome == LH_SERVED_OPEN)
        answer_failure(step, http_status, step->tools->worker, status, message);
}

static lh_status answer_success(lh_served_step *step) {
    static const lh_h2_header content_type = {.name = "content-type",
                                              .value = LH_STEP_CONTENT_TYPE};
    lh_step_record_note_moment(step->record, LH_MOMENT_ANSWERED);
    size_t length = 0;
    uint8_t *body = step->record ? lh_step_record_render(step->record, &length) : NULL;
    if (!body)
        return lh_h2_stream_respond(step->upstream, 200, "{}");
    lh_status status = lh_h2_stream_respond_headers(step->upstream, 200, &content_type, 1, false);
    if (status != LH_OK) {
        free(body);
        return status;
    }
    status = lh_h2_stream_write_owned(step->upstream, body, length);
    lh_h2_stream_end(step->upstream);
    return status;
}

static void answer_if_complete(lh_served_step *step) {
    if (step->outcome != LH_SERVED_OPEN || !step->body_ended || !step->computed || !step->passed)
        return;
    settle(step, LH_SERVED_DONE);
    if (step->upstream && answer_success(step) != LH_OK)
        lh_h2_stream_cancel(step->upstream);
}

/* ---- Windows ---- */

void lh_served_step_open_window(lh_served_step *step) {
    lh_h2_stream *source = step->shards ? step->shards->stream : step->upstream;
    bool is_open = step->outcome == LH_SERVED_OPEN;
    step->waits_for_inbox = false;
    if (step->held_bytes == 0 || !source)
        return;
    if (is_open && step->pending_bytes > PENDING_BYTES_MAX)
        return; /* the pipeline takes some of them, and says so */
    if (is_open && lh_pipeline_is_full(step->tools->pipeline)) {
        step->waits_for_inbox = true;
        return;
    }
    lh_h2_stream_consume(source, step->held_bytes);
    step->held_bytes = 0;
}

void lh_served_step_note_consumed(lh_served_step *step, size_t bytes) {
    assert(step->pending_bytes >= bytes);
    step->pending_bytes -= bytes;
    lh_served_step_open_window(step);
}

/* ---- The manifest ---- */

/* First of all that a manifest brings about, so that this worker computes while the manifest goes
 * on. */
static lh_status begin_compute(lh_served_step *step, const lh_step_manifest *manifest, bool resyncs,
                               lh_error *error) {
    lh_chain_place *place = step->tools->place;
    lh_pipeline_begin_options options = {.batch = {.rows = manifest->rows,
                                                   .tokens = manifest->tokens,
                                                   .segment_count = manifest->segment_count,
                                                   .segments = manifest->segments,
                                                   .ends_here = step->ends_here},
                                         .decode = manifest->step_class == LH_STEP_DECODE,
                                         .timed = step->record,
                                         .wire = place->route.wire,
                                         .width = place->route.width,
                                         .truncation_count = manifest->truncation_count,
                                         .truncations = manifest->truncations,
                                         .resyncs = resyncs,
                                         .step_context = step};
    if (manifest->cut_count > 0)
        options.batch.cut = manifest->cuts[0];
    if (place->route.is_last)
        options.masks = manifest->masks;
    lh_status status =
        lh_pipeline_begin(step->tools->pipeline, &options, &step->pipeline_step, error);
    if (status == LH_OK && resyncs)
        lh_chain_place_note_resync(place);
    return status;
}

/* The manifest goes on without the cut of this worker's own result, and with one worker less to
 * go. */
static lh_status submit(lh_served_step *step, const lh_step_manifest *manifest, lh_error *error) {
    lh_step_manifest onward = *manifest;
    if (onward.cut_count > 0) {
        onward.cuts++;
        onward.cut_count--;
    }
    onward.hop_limit -= onward.hop_limit > 0;
    assert(!step->downstream);
    lh_status status =
        lh_next_hop_submit(step->tools->hop, &onward, step, &step->downstream, error);
    lh_step_record_note_moment(step->record, LH_MOMENT_SUBMITTED);
    step->hop_failed = status != LH_OK;
    return status;
}

/* Before its manifest is here it has none: who opens requests and says nothing takes none away. */
static lh_status take_place(lh_served_step *step, lh_error *error) {
    uint32_t *begun = step->tools->begun;
    if (*begun >= LH_STEPS_OPEN_MAX)
        return lh_fail(error, LH_ERR_BUSY, "%u steps are in progress; the limit is %u", *begun,
                       LH_STEPS_OPEN_MAX);
    step->has_begun = true;
    (*begun)++;
    return LH_OK;
}

static lh_status on_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    lh_served_step *step = context;
    bool is_last = step->tools->place->route.is_last, resyncs = false;
    step->epoch = manifest->epoch;
    step->has_manifest = true;
    step->step_class = manifest->step_class;
    step->ends_here = step->passed = manifest->hop_limit == 1;
    lh_step_stopwatch_start(&step->stopwatch, manifest, is_last);
    if (manifest->timed) { /* without memory for it the answer tells less */
        step->record = lh_step_record_create(step->tools->worker, step->first_byte_us);
        lh_step_record_note_moment(step->record, LH_MOMENT_MANIFEST);
    }
    lh_status status = take_place(step, error);
    if (status == LH_OK)
        status = lh_chain_place_admit(step->tools->place, step->number, manifest, &resyncs, error);
    if (status == LH_OK)
        status = begin_compute(step, manifest, resyncs, error);
    if (status == LH_OK && !is_last && !step->ends_here)
        status = submit(step, manifest, error);
    return status;
}

/* ---- The body ---- */

static lh_status on_shard(void *context, const lh_step_shard_header *header, const float *values,
                          lh_error *error) {
    lh_served_step *step = context;
    if (!step->pipeline_step)
        return LH_OK; /* it has ended before its body */
    lh_step_record_note_shard(step->record, header);
    lh_stage_shard shard = {.first_row = header->first_row,
                            .rows = header->rows,
                            .first_column = header->first_column,
                            .columns = header->columns,
                            .values = values};
    lh_status status = lh_pipeline_accept(step->pipeline_step, &shard, error);
    if (status == LH_OK)
        step->pending_bytes += (size_t)header->rows * header->columns * sizeof(float);
    return status;
}

/* More of the manifest or the shards, by whichever request. */
static void read_body(lh_served_step *step, const uint8_t *bytes, size_t length) {
    step->held_bytes += length;
    int64_t now_us = lh_clock_us();
    lh_step_stopwatch_feed(&step->stopwatch, now_us);
    if (step->first_byte_us == 0)
        step->first_byte_us = now_us;
    lh_error error;
    lh_status status = lh_step_reader_feed(step->reader, bytes, length, &error);
    if (status == LH_OK)
        lh_served_step_open_window(step);
    else
        lh_served_step_fail(step, status, error.message);
}

static void end_body(lh_served_step *step) {
    lh_error error;
    lh_status status = lh_step_reader_finish(step->reader, &error);
    if (status != LH_OK) {
        lh_served_step_fail(step, status, error.message);
        return;
    }
    step->body_ended = true;
    lh_step_record_note_moment(step->record, LH_MOMENT_BODY_END);
    answer_if_complete(step);
}

size_t lh_served_step_unfinished_bytes(const lh_served_step *step) {
    return lh_step_reader_unfinished_bytes(step->reader);
}

/* ---- Its own request ---- */

void lh_served_step_feed(lh_served_step *step, const uint8_t *bytes, size_t length) {
    if (step->outcome == LH_SERVED_OPEN)
        read_body(step, bytes, length);
    else
        lh_h2_stream_consume(step->upstream, length);
}

bool lh_served_step_end_request(lh_served_step *step) {
    if (step->outcome != LH_SERVED_OPEN)
        return false;
    if (!step->shards_go_apart || !step->has_manifest) {
        end_body(step);
        return false;
    }
    lh_served_step_open_window(step);
    step->awaits_shards = true;
    return true;
}

void lh_served_step_close_request(lh_served_step *step, lh_status status) {
    assert(step->upstream);
    step->upstream = NULL;
    if (step->outcome == LH_SERVED_OPEN)
        drop_unwanted(step, status);
}

/* ---- The request that brings its shards ---- */

bool lh_served_step_wants(const lh_served_step *step, uint32_t epoch, uint64_t number) {
    return step->awaits_shards && !step->shards && !step->body_ended &&
           step->outcome == LH_SERVED_OPEN && step->number == number && step->epoch == epoch;
}

void lh_served_step_attach(lh_served_step *step, lh_shard_request *shards) {
    uint8_t piece[16 << 10];
    size_t length;
    assert(lh_served_step_wants(step, shards->epoch, shards->number));
    lh_shard_request_attach(shards, step);
    step->shards = shards;
    while (step->shards && (length = lh_shard_request_pop(shards, piece, sizeof piece)) > 0)
        read_body(step, piece, length);
    if (step->shards && shards->ended) {
        lh_shard_request_answer(shards);
        end_body(step);
    }
}

void lh_served_step_feed_shards(lh_served_step *step, const uint8_t *bytes, size_t length) {
    assert(step->shards);
    read_body(step, bytes, length);
}

void lh_served_step_end_shards(lh_served_step *step) {
    assert(step->shards && step->shards->ended);
    end_body(step);
}

void lh_served_step_close_shards(lh_served_step *step, lh_status status) {
    bool ended = step->shards->ended;
    step->held_bytes = 0; /* the stream has given them back */
    lh_shard_request_detach(step->shards);
    step->shards = NULL;
    if (ended || step->outcome != LH_SERVED_OPEN)
        return;
    if (status == LH_ERR_CANCELLED) {
        /* By the other connection the step's own reset may come later. */
        drop_unwanted(step, status);
        if (step->upstream)
            lh_h2_stream_cancel(step->upstream);
    } else {
        lh_served_step_fail(step, LH_ERR_UNAVAILABLE,
                            "the connection that brought its shards has gone");
    }
}

/* ---- From the pipeline ---- */

void lh_served_step_on_frame(void *context, void *served_step, void *bytes, size_t length) {
    (void)context;
    lh_served_step *step = served_step;
    if (step->outcome != LH_SERVED_OPEN || !step->downstream) {
        free(bytes);
        lh_pipeline_frame_gone(step->tools->pipeline, length);
        return;
    }
    step->sent_bytes += length;
    lh_step_record_note_handed(step->record, length);
    if (lh_step_submission_write(step->downstream, bytes, length) != LH_OK)
        lh_step_submission_cancel(step->downstream); /* its end tells */
}

/* The last stage has sampled its tokens: they go to the gateway. */
static lh_status post_results(lh_served_step *step, const lh_step_result *results, uint32_t count,
                              lh_error *error) {
    lh_step_manifest manifest = {
        .epoch = step->epoch, .step = step->number, .step_class = step->step_class};
    void *bytes;
    size_t length;
    lh_status status = lh_frames_of_results(results, count, &bytes, &length, error);
    if (status != LH_OK)
        return status;
    status = submit(step, &manifest, error);
    if (status != LH_OK) {
        free(bytes);
        return status;
    }
    if (lh_step_submission_write(step->downstream, bytes, length) == LH_OK)
        lh_step_submission_end(step->downstream);
    else
        lh_step_submission_cancel(step->downstream); /* its end tells */
    return LH_OK;
}

static void add_to_totals(const lh_served_step *step, int64_t now_us) {
    lh_step_totals *totals = step->tools->totals;
    int64_t busy_us = step->stopwatch.cost.busy_us, whole_us = now_us - step->first_byte_us;
    totals->rows += step->stopwatch.cost.rows;
    totals->compute_us += (uint64_t)busy_us;
    totals->wait_us += whole_us > busy_us ? (uint64_t)(whole_us - busy_us) : 0;
}

void lh_served_step_end_compute(lh_served_step *step, lh_status status, const char *message,
                                const lh_step_result *results, uint32_t result_count) {
    assert(step->pipeline_step);
    step->pipeline_step = NULL;
    lh_error error = {.status = LH_OK};
    if (step->outcome != LH_SERVED_OPEN)
        return;
    if (status == LH_OK && step->tools->place->route.is_last && !step->ends_here) {
        status = post_results(step, results, result_count, &error);
        message = error.message;
    } else if (status == LH_OK && step->downstream) {
        lh_step_submission_end(step->downstream);
    }
    if (status != LH_OK) {
        lh_served_step_fail(step, status, message);
        return;
    }
    int64_t now_us = lh_clock_us();
    step->computed = true;
    add_to_totals(step, now_us);
    lh_step_stopwatch_stop(&step->stopwatch, step->tools->meter, now_us);
    answer_if_complete(step);
}

void lh_served_step_on_worked(void *context, void *served_step, const lh_pipeline_span *span) {
    (void)context;
    lh_served_step *step = served_step;
    lh_step_stopwatch_worked(&step->stopwatch, span);
    lh_step_record_note_work(step->record, span);
}

/* ---- From the next hop ---- */

void lh_served_step_count_sent(lh_served_step *step) {
    if (!step->tools->pipeline || (step->sent_bytes == 0 && !step->record))
        return;
    size_t queued = step->downstream ? lh_step_submission_queued_bytes(step->downstream) : 0;
    lh_step_record_note_queued(step->record, queued, step->computed);
    if (step->sent_bytes > queued) {
        lh_pipeline_frame_gone(step->tools->pipeline, step->sent_bytes - queued);
        step->sent_bytes = queued;
    }
}

void lh_served_step_on_times(void *context, void *step, const uint8_t *frames, size_t length) {
    (void)context;
    lh_step_record_note_behind(((lh_served_step *)step)->record, frames, length);
}

void lh_served_step_pass(lh_served_step *step, lh_status status, const char *worker,
                         const char *message) {
    assert(step->downstream);
    step->downstream = NULL;
    lh_served_step_count_sent(step);
    if (status == LH_OK) {
        step->passed = true;
        lh_next_hop_note_answer(step->tools->hop, lh_clock_us());
        lh_step_record_note_moment(step->record, LH_MOMENT_PASSED);
        answer_if_complete(step);
    } else if (step->outcome == LH_SERVED_OPEN) {
        /* Without an answer the fault is seen here, on the way to the next hop. */
        bool is_seen_here =
            worker[0] == '\0' && (status == LH_ERR_UNAVAILABLE || status == LH_ERR_PROTOCOL);
        answer_failure(step, 502, is_seen_here ? step->tools->worker : worker, status, message);
    }
}

/* ---- Life ---- */

lh_status lh_served_step_init(lh_served_step *step, const lh_served_step_tools *tools,
                              lh_h2_stream *upstream, const lh_worker_request *request,
                              lh_error *error) {
    static const lh_step_reader_events events = {.on_manifest = on_manifest, .on_shard = on_shard};
    const lh_chain_route *route = &tools->place->route;
    *step = (lh_served_step){.tools = tools,
                             .upstream = upstream,
                             .number = request->number,
                             .shards_go_apart = request->shards_go_apart};
    return lh_step_reader_create(route->is_first ? 0 : route->width, &events, step, &step->reader,
                                 error);
}

void lh_served_step_refuse(lh_served_step *step) {
    assert(step->first_byte_us == 0);
    lh_step_reader_destroy(step->reader);
}

bool lh_served_step_is_held(const lh_served_step *step) {
    return step->upstream || (step->pipeline_step && step->tools->pipeline) || step->downstream;
}

void lh_served_step_disturb(lh_served_step *step, lh_served_step *other) {
    if (!step->computed && !other->computed)
        step->stopwatch.disturbed = other->stopwatch.disturbed = true;
}

void lh_served_step_reset(lh_served_step *step) {
    assert(!lh_served_step_is_held(step) && step->outcome != LH_SERVED_OPEN);
    leave_shards(step);
    *step->tools->begun -= step->has_begun;
    lh_step_reader_destroy(step->reader);
    lh_step_record_destroy(step->record);
}
