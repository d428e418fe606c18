/* The ring's last hop. */
#include "gateway/fleet/port/ring.h"

#include "common/protocol/step_answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A chain has LH_STEPS_OPEN_MAX steps in flight at most, whose results are KiB each, some with many
 * log probabilities. They leave a worker in an order, as steps do. */
enum { PEER_MAX = 2 * LH_STEPS_OPEN_MAX, STALL_MS = 10000, LARGE_BYTES = 64 << 10 };
#define PEER_BYTES_MAX ((size_t)16 << 20)

typedef struct ring_request {
    lh_stream_place place;
    const lh_fleet_server_owner *owner;
    lh_h2_stream *stream;
    lh_step_reader *reader;
    char chain[LH_WORKER_NAME_BYTES];
    lh_tls_identity peer;
    uint64_t step;
    uint32_t epoch;
    bool is_answered;
    lh_status verdict; /* the owner's, on the results; LH_OK: it has seen none yet */
} ring_request;

static void answer(lh_h2_stream *stream, lh_status status, const char *message) {
    char *text = status == LH_OK ? NULL : lh_step_answer_render("", status, message);
    lh_h2_stream_respond(stream, lh_step_answer_http_status(status), text ? text : "{}");
    free(text);
}

static void conclude(ring_request *request, lh_status status, const lh_error *error) {
    if (request->is_answered)
        return;
    request->is_answered = true;
    answer(request->stream, status, status == LH_OK ? "" : error->message);
}

static lh_status on_manifest(void *context, const lh_step_manifest *manifest, lh_error *error) {
    ring_request *request = context;
    if (manifest->step != request->step)
        return lh_fail(error, LH_ERR_MALFORMED,
                       "step %" PRIu64 " came under the path of step %" PRIu64, manifest->step,
                       request->step);
    if (manifest->rows || manifest->segment_count || manifest->truncation_count)
        return lh_fail(error, LH_ERR_MALFORMED, "a manifest with rows came to the gateway");
    request->epoch = manifest->epoch;
    return LH_OK;
}

static lh_status on_results(void *context, const lh_step_result *results, uint32_t count,
                            lh_error *error) {
    ring_request *request = context;
    request->verdict =
        request->owner->on_results(request->owner->context, request->chain, &request->peer,
                                   request->epoch, request->step, results, count, error);
    return request->verdict;
}

/* By the owner's verdict, for want of memory, or since the sender has sent what cannot be read. */
static void read_failed(ring_request *request, lh_status status, const lh_error *error) {
    if (status != LH_ERR_NO_MEMORY && request->verdict == LH_OK)
        request->owner->on_unreadable(request->owner->context, request->chain, &request->peer,
                                      request->epoch, request->step, error->message);
    conclude(request, status, error);
}

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    ring_request *request = context;
    lh_error error;
    lh_h2_stream_consume(stream, length);
    lh_stream_place_move(&request->place);
    if (request->is_answered)
        return;
    lh_status status = lh_step_reader_feed(request->reader, bytes, length, &error);
    if (status != LH_OK) {
        read_failed(request, status, &error);
        return;
    }
    request->place.held_bytes = lh_step_reader_unfinished_bytes(request->reader);
    if (request->place.held_bytes > LARGE_BYTES &&
        lh_stream_place_peer_bytes(&request->place) > PEER_BYTES_MAX) {
        lh_fail(&error, LH_ERR_LIMIT, "too many results have come in part");
        conclude(request, LH_ERR_LIMIT, &error);
    }
}

static void on_end(lh_h2_stream *stream, void *context) {
    ring_request *request = context;
    lh_error error;
    (void)stream;
    if (request->is_answered)
        return;
    lh_status status = lh_step_reader_finish(request->reader, &error);
    if (status == LH_OK)
        conclude(request, LH_OK, NULL);
    else
        read_failed(request, status, &error);
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    ring_request *request = context;
    (void)stream;
    (void)status;
    lh_stream_place_leave(&request->place);
    lh_step_reader_destroy(request->reader);
    free(request);
}

static bool parse_step(const char *text, uint64_t *step) {
    char canonical[24];
    *step = strtoull(text, NULL, 10);
    snprintf(canonical, sizeof canonical, "%" PRIu64, *step);
    return strcmp(text, canonical) == 0;
}

lh_stream_quota_limits lh_fleet_ring_limits(void) {
    return (lh_stream_quota_limits){.peer_max = PEER_MAX,
                                    .all_max = 4 * PEER_MAX,
                                    .stall_ms = STALL_MS,
                                    .is_by_peer = true,
                                    .has_turnover = true};
}

void lh_fleet_ring_take(const lh_fleet_server_owner *owner, lh_stream_quota *quota,
                        lh_h2_stream *stream, const lh_h2_request *http, const char *chain,
                        const char *step, const lh_h2_stream_events **events, void **context) {
    static const lh_step_reader_events reader_events = {.on_manifest = on_manifest,
                                                        .on_results = on_results};
    static const lh_h2_stream_events stream_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_closed};
    lh_error error;
    uint64_t number;
    if (!parse_step(step, &number)) {
        answer(stream, LH_ERR_INVALID, "the step in the path is not a number");
        return;
    }
    ring_request *request = calloc(1, sizeof *request);
    if (!request ||
        lh_step_reader_create(0, &reader_events, request, &request->reader, &error) != LH_OK) {
        free(request);
        answer(stream, LH_ERR_NO_MEMORY, "the gateway has no memory for a step");
        return;
    }
    if (lh_stream_place_enter(&request->place, quota, stream, http) != LH_OK) {
        lh_step_reader_destroy(request->reader);
        free(request);
        return;
    }
    request->owner = owner;
    request->stream = stream;
    request->step = number;
    snprintf(request->chain, sizeof request->chain, "%s", chain);
    request->peer = *http->peer_identity;
    *events = &stream_events;
    *context = request;
}
