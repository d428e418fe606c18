/* Bytes of the model file on their way out.
 *
 * Reading may wait for the disk, on the loop's thread. Mostly it does not: the file was read whole
 * for its digests, a piece is a frame (16 KiB), and the disk is asked for what comes next long
 * before it leaves. Where it does, it waits as long as a fault in a map would. */
#include "gateway/fleet/port/weights.h"

#include "common/base/log.h"
#include "gateway/fleet/port/byte_range.h"
#include "gateway/fleet/registry.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LOG_PAUSE_MS = 10000,
    /* The disk works ahead so far, and is asked again when half of it has left: 60 ms at 1 Gbit/s,
     * several accesses of a slow disk. */
    AHEAD_BYTES = 8 << 20
};

typedef struct transfer {
    lh_stream_place place;
    lh_fleet_weights *weights;
    lh_byte_range left;
    uint64_t expected; /* up to where the disk has been asked */
} transfer;

lh_stream_quota_limits lh_fleet_weights_default_limits(void) {
    return (lh_stream_quota_limits){
        .peer_max = 2 * LH_WORKERS_MAX, .all_max = 4 * LH_WORKERS_MAX, .stall_ms = 30000};
}

/* ---- Reading ---- */

static void log_failure(lh_fleet_weights *weights, const char *peer, const char *message) {
    uint64_t now_ms = uv_now(weights->quota.timer.loop);
    if (weights->has_logged && now_ms - weights->logged_ms < LOG_PAUSE_MS) {
        weights->left_out++;
        return;
    }
    lh_log(LH_LOG_ERROR, "fleet",
           "the model file cannot be read and a transfer is broken off peer=%s left_out=%u "
           "error=\"%s\"",
           peer, weights->left_out, message);
    weights->has_logged = true;
    weights->logged_ms = now_ms;
    weights->left_out = 0;
}

static void work_ahead(transfer *t) {
    uint64_t end = t->left.offset + t->left.length;
    if (t->expected == end || t->expected >= t->left.offset + AHEAD_BYTES / 2)
        return;
    uint64_t next = end - t->left.offset < AHEAD_BYTES ? end : t->left.offset + AHEAD_BYTES;
    lh_model_file_expect(t->weights->file, t->expected, next - t->expected);
    t->expected = next;
}

/* lh_h2_read_body */
static lh_status read_piece(void *context, uint8_t *bytes, size_t length) {
    transfer *t = context;
    lh_error error;
    assert(length <= t->left.length);
    work_ahead(t);
    lh_status status = lh_model_file_read(t->weights->file, t->left.offset, bytes, length, &error);
    if (status != LH_OK) {
        log_failure(t->weights, t->place.peer, error.message);
        return status;
    }
    t->left.offset += length;
    t->left.length -= length;
    lh_stream_place_move(&t->place);
    return LH_OK;
}

/* ---- Life ---- */

void lh_fleet_weights_init(lh_fleet_weights *weights, uv_loop_t *loop, const lh_model_file *file,
                           const lh_stream_quota_limits *limits) {
    *weights = (lh_fleet_weights){.file = file};
    lh_stream_quota_init(&weights->quota, loop, "transfers of weights", limits);
}

void lh_fleet_weights_close(lh_fleet_weights *weights, void (*on_closed)(void *), void *context) {
    lh_stream_quota_close(&weights->quota, on_closed, context);
}

/* ---- Requests ---- */

static void on_stream_closed(lh_h2_stream *stream, void *context, lh_status status) {
    transfer *t = context;
    (void)stream;
    (void)status;
    lh_stream_place_leave(&t->place);
    free(t);
}

/* *is_part: the request names a range. False: it does not fit, and that has been answered. */
static bool read_range(const lh_fleet_weights *weights, lh_h2_stream *stream,
                       const lh_h2_request *request, lh_byte_range *range, bool *is_part) {
    const char *header = lh_h2_request_header(request, "range");
    uint64_t size = lh_model_file_size(weights->file);
    *range = (lh_byte_range){0, size};
    lh_status status = header ? lh_byte_range_parse(header, size, range) : LH_ERR_UNSUPPORTED;
    *is_part = status == LH_OK;
    if (status != LH_ERR_LIMIT && status != LH_ERR_MALFORMED)
        return true;
    lh_h2_stream_respond(stream, status == LH_ERR_LIMIT ? 416 : 400,
                         "the range does not fit the file\n");
    return false;
}

static bool respond_head(const lh_fleet_weights *weights, lh_h2_stream *stream, lh_byte_range range,
                         bool is_part) {
    uint64_t size = lh_model_file_size(weights->file);
    char length[24], content_range[80], tag[LH_SHA256_HEX_BYTES + 2];
    snprintf(length, sizeof length, "%" PRIu64, range.length);
    snprintf(content_range, sizeof content_range, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
             range.offset, range.offset + range.length - 1, size);
    snprintf(tag, sizeof tag, "\"%s\"", lh_model_file_header_sha256(weights->file));
    const lh_h2_header headers[] = {{"content-type", "application/octet-stream"},
                                    {"content-length", length},
                                    {"accept-ranges", "bytes"},
                                    {"etag", tag},
                                    {"content-range", content_range}};
    size_t count = sizeof headers / sizeof headers[0];
    return lh_h2_stream_respond_headers(stream, is_part ? 206 : 200, headers,
                                        is_part ? count : count - 1, false) == LH_OK;
}

void lh_fleet_weights_take(lh_fleet_weights *weights, lh_h2_stream *stream,
                           const lh_h2_request *request, const lh_h2_stream_events **events,
                           void **context) {
    static const lh_h2_stream_events stream_events = {.on_closed = on_stream_closed};
    lh_byte_range range;
    bool is_part;
    if (!read_range(weights, stream, request, &range, &is_part))
        return;
    transfer *t = malloc(sizeof *t);
    if (!t) {
        lh_h2_stream_cancel(stream);
        return;
    }
    if (lh_stream_place_enter(&t->place, &weights->quota, stream, request) != LH_OK) {
        free(t);
        return;
    }
    t->weights = weights;
    t->left = range;
    t->expected = range.offset;
    *events = &stream_events;
    *context = t;
    if (respond_head(weights, stream, range, is_part))
        lh_h2_stream_pull_body(stream, range.length, read_piece, t);
    else
        lh_h2_stream_cancel(stream);
}
