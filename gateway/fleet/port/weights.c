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
#include <string.h>

enum {
    LOG_PAUSE_MS = 10000,
    /* The disk works ahead so far, and is asked again when half of it has left: 60 ms at 1 Gbit/s,
     * several accesses of a slow disk. */
    AHEAD_BYTES = 8 << 20
};

typedef struct transfer {
    lh_stream_place place;
    lh_fleet_weights *weights;
    const char *text;      /* this, or else */
    bool is_of_blocks;     /* their digests, or else */
    lh_file_pieces pieces; /* of the file */
    lh_byte_range left;
    uint64_t expected; /* up to where the disk has been asked */
} transfer;

/* Transfers at once: more share one link, and none would end soon. */
#define OF_PEER_MAX 128u

lh_stream_quota_limits lh_fleet_weights_default_limits(void) {
    return (lh_stream_quota_limits){
        .peer_max = OF_PEER_MAX, .all_max = 2 * OF_PEER_MAX, .stall_ms = 30000};
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
    while (t->expected < next) {
        const lh_piece_extent extent =
            lh_file_pieces_at(&t->pieces, t->expected, next - t->expected);
        lh_model_file_expect(t->weights->file, extent.offset, extent.bytes);
        t->expected += extent.bytes;
    }
}

static lh_status read_pieces(const transfer *t, uint8_t *bytes, size_t length, lh_error *error) {
    lh_status status = LH_OK;
    for (size_t done = 0; done < length && status == LH_OK;) {
        const lh_piece_extent extent =
            lh_file_pieces_at(&t->pieces, t->left.offset + done, length - done);
        status = lh_model_file_read(t->weights->file, extent.offset, bytes + done,
                                    (size_t)extent.bytes, error);
        done += (size_t)extent.bytes;
    }
    return status;
}

/* lh_h2_read_body */
static lh_status read_piece(void *context, uint8_t *bytes, size_t length) {
    transfer *t = context;
    lh_error error;
    assert(length <= t->left.length);
    lh_status status = LH_OK;
    if (t->text) {
        memcpy(bytes, t->text + t->left.offset, length);
    } else if (t->is_of_blocks) {
        status = lh_model_file_read_blocks(t->weights->file, t->left.offset, bytes, length, &error);
    } else {
        work_ahead(t);
        status = read_pieces(t, bytes, length, &error);
    }
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
static bool read_range(uint64_t size, lh_h2_stream *stream, const lh_h2_request *request,
                       lh_byte_range *range, bool *is_part) {
    const char *header = lh_h2_request_header(request, "range");
    *range = (lh_byte_range){0, size};
    lh_status status = header ? lh_byte_range_parse(header, size, range) : LH_ERR_UNSUPPORTED;
    *is_part = status == LH_OK;
    if (status != LH_ERR_LIMIT && status != LH_ERR_MALFORMED)
        return true;
    lh_h2_stream_respond(stream, status == LH_ERR_LIMIT ? 416 : 400,
                         "the range does not fit the file\n");
    return false;
}

static bool respond_head(const transfer *what, lh_h2_stream *stream, uint64_t size,
                         lh_byte_range range, bool is_part) {
    char length[24], content_range[80], tag[LH_SHA256_HEX_BYTES + 2];
    snprintf(length, sizeof length, "%" PRIu64, range.length);
    snprintf(content_range, sizeof content_range, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
             range.offset, range.offset + range.length - 1, size);
    snprintf(tag, sizeof tag, "\"%s\"", lh_model_file_header_sha256(what->weights->file));
    const lh_h2_header headers[] = {
        {"content-type", what->text ? "application/json" : "application/octet-stream"},
        {"content-length", length},
        {"accept-ranges", "bytes"},
        {"etag", tag},
        {"content-range", content_range}};
    size_t count = sizeof headers / sizeof headers[0];
    return lh_h2_stream_respond_headers(stream, is_part ? 206 : 200, headers,
                                        is_part ? count : count - 1, false) == LH_OK;
}

static uint64_t size_of(const transfer *what) {
    if (what->text)
        return strlen(what->text);
    return what->is_of_blocks ? lh_model_file_blocks_size(what->weights->file)
                              : lh_file_pieces_size(&what->pieces);
}

static void take(const transfer *what, lh_h2_stream *stream, const lh_h2_request *request,
                 const lh_h2_stream_events **events, void **context) {
    static const lh_h2_stream_events stream_events = {.on_closed = on_stream_closed};
    lh_fleet_weights *weights = what->weights;
    const uint64_t size = size_of(what);
    lh_byte_range range;
    bool is_part;
    if (!read_range(size, stream, request, &range, &is_part))
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
    t->text = what->text;
    t->is_of_blocks = what->is_of_blocks;
    t->pieces = what->pieces;
    t->left = range;
    t->expected = range.offset;
    *events = &stream_events;
    *context = t;
    if (respond_head(what, stream, size, range, is_part))
        lh_h2_stream_pull_body(stream, range.length, read_piece, t);
    else
        lh_h2_stream_cancel(stream);
}

void lh_fleet_weights_take(lh_fleet_weights *weights, const lh_file_pieces *pieces,
                           lh_h2_stream *stream, const lh_h2_request *request,
                           const lh_h2_stream_events **events, void **context) {
    const uint64_t size = lh_model_file_size(weights->file);
    const transfer what = {.weights = weights,
                           .pieces = pieces ? *pieces : (lh_file_pieces){0, size, size, 1}};
    take(&what, stream, request, events, context);
}

void lh_fleet_weights_take_text(lh_fleet_weights *weights, const char *text, lh_h2_stream *stream,
                                const lh_h2_request *request, const lh_h2_stream_events **events,
                                void **context) {
    const transfer what = {.weights = weights, .text = text};
    take(&what, stream, request, events, context);
}

void lh_fleet_weights_take_blocks(lh_fleet_weights *weights, lh_h2_stream *stream,
                                  const lh_h2_request *request, const lh_h2_stream_events **events,
                                  void **context) {
    const transfer what = {.weights = weights, .is_of_blocks = true};
    take(&what, stream, request, events, context);
}
