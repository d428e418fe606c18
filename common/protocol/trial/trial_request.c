/* A step that is read and not computed. */
#include "common/protocol/trial/trial_request.h"

#include "common/protocol/client/relay_route.h"
#include "common/protocol/step.h"
#include "common/protocol/step_answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    STALL_MS = 10000,
    /* One is usual, and one that its connection has left behind; several workers may have one
     * address. */
    PEER_TRIALS_MAX = 8,
    TRIALS_MAX = 64
};

typedef struct trial_request {
    lh_stream_place place;
    bool has_place;
    char name[LH_WORKER_NAME_BYTES];
    uint32_t width;
    size_t bytes; /* of the body, so far */
    bool is_answered;
    lh_step_reader *reader;
} trial_request;

/* ---- The answer ---- */

static void refuse(lh_h2_stream *stream, const char *name, lh_status status, const char *message) {
    char *body = lh_step_answer_render(name, status, message);
    if (!body || lh_h2_stream_respond(stream, lh_step_answer_http_status(status), body) != LH_OK)
        lh_h2_stream_cancel(stream);
    free(body);
}

static void conclude(trial_request *request, lh_h2_stream *stream, lh_status status,
                     const lh_error *error) {
    char body[LH_WORKER_NAME_BYTES + 32];
    request->is_answered = true;
    if (status != LH_OK) {
        refuse(stream, request->name, status, error->message);
        return;
    }
    snprintf(body, sizeof body, "{\"worker\": \"%s\"}", request->name);
    if (lh_h2_stream_respond(stream, 200, body) != LH_OK)
        lh_h2_stream_cancel(stream);
}

/* ---- The body ---- */

static lh_status on_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    const trial_request *request = context;
    if (manifest->epoch != 0 || manifest->step != 0)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "a step of a trial is of epoch 0 and step 0, not %" PRIu32 " and %" PRIu64,
                       manifest->epoch, manifest->step);
    if (request->width == 0 && manifest->rows > 0)
        return lh_fail(error, LH_ERR_MALFORMED, "a step of a trial of width 0 has %" PRIu32 " rows",
                       manifest->rows);
    return LH_OK;
}

static lh_status on_shard(void *context, const lh_step_shard_header *header, const float *values,
                          lh_error *error) {
    (void)context;
    (void)header;
    (void)values;
    (void)error;
    return LH_OK;
}

static lh_status read_body(trial_request *request, const uint8_t *bytes, size_t length,
                           lh_error *error) {
    request->bytes += length;
    if (request->bytes > LH_TRIAL_BYTES_MAX)
        return lh_fail(error, LH_ERR_LIMIT, "a step of a trial is of %u KiB at most",
                       LH_TRIAL_BYTES_MAX >> 10);
    return lh_step_reader_feed(request->reader, bytes, length, error);
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    trial_request *request = context;
    lh_error error;
    lh_h2_stream_consume(stream, length);
    if (request->has_place)
        lh_stream_place_move(&request->place);
    if (request->is_answered)
        return;
    lh_status status = read_body(request, bytes, length, &error);
    if (status != LH_OK)
        conclude(request, stream, status, &error);
}

static void on_end(lh_h2_stream *stream, void *context) {
    trial_request *request = context;
    lh_error error;
    if (!request->is_answered)
        conclude(request, stream, lh_step_reader_finish(request->reader, &error), &error);
}

static void destroy(trial_request *request) {
    if (request->has_place)
        lh_stream_place_leave(&request->place);
    lh_step_reader_destroy(request->reader);
    free(request);
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)status;
    destroy(context);
}

/* ---- The request ---- */

lh_stream_quota_limits lh_trial_limits(void) {
    return (lh_stream_quota_limits){.peer_max = PEER_TRIALS_MAX,
                                    .all_max = TRIALS_MAX,
                                    .stall_ms = STALL_MS,
                                    .has_turnover = true};
}

void lh_trial_take(lh_stream_quota *quota, lh_h2_stream *stream, const lh_h2_request *http,
                   const char *name, uint64_t width, const lh_h2_stream_events **events,
                   void **context) {
    static const lh_step_reader_events reader_events = {.on_manifest = on_manifest,
                                                        .on_shard = on_shard};
    static const lh_h2_stream_events stream_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_closed};
    lh_error error;
    if (width > LH_STEP_WIDTH_MAX) {
        refuse(stream, name, LH_ERR_LIMIT, "a trial of so wide an activation");
        return;
    }
    trial_request *request = calloc(1, sizeof *request);
    if (!request || lh_step_reader_create((uint32_t)width, &reader_events, request,
                                          &request->reader, &error) != LH_OK) {
        free(request);
        refuse(stream, name, LH_ERR_NO_MEMORY, "no memory for a step of a trial");
        return;
    }
    const char *from = lh_h2_request_header(http, LH_RELAY_FROM_HEADER);
    if (quota && lh_stream_place_enter_for(&request->place, quota, stream, http, from) != LH_OK) {
        destroy(request);
        return;
    }
    request->has_place = quota != NULL;
    request->width = (uint32_t)width;
    snprintf(request->name, sizeof request->name, "%s", name);
    *events = &stream_events;
    *context = request;
}
