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
    STALL_TICKS = 6, /* resolution of the limit */
    LOG_PAUSE_MS = 10000,
    /* The disk works ahead so far, and is asked again when half of it has left: 60 ms at 1 Gbit/s,
     * several accesses of a slow disk. */
    AHEAD_BYTES = 8 << 20
};

typedef struct weights_transfer {
    lh_fleet_weights *weights;
    struct weights_transfer *previous, *next;
    lh_h2_stream *stream;
    lh_byte_range left;
    uint64_t expected; /* up to where the disk has been asked */
    bool has_moved;    /* since the last tick */
    uint32_t idle_ticks;
    char peer[64]; /* who counts for the limit */
} transfer;

lh_fleet_weights_limits lh_fleet_weights_default_limits(void) {
    return (lh_fleet_weights_limits){
        .peer_max = 2 * LH_WORKERS_MAX, .all_max = 4 * LH_WORKERS_MAX, .stall_ms = 30000};
}

/* ---- Reading ---- */

static void log_failure(lh_fleet_weights *weights, const char *peer, const char *message) {
    uint64_t now_ms = uv_now(weights->timer.loop);
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
        log_failure(t->weights, t->peer, error.message);
        return status;
    }
    t->left.offset += length;
    t->left.length -= length;
    t->has_moved = true;
    return LH_OK;
}

/* ---- Those under way ---- */

/* Counts ticks rather than time: a gateway that was itself stopped drops nobody for it. */
static void on_tick(uv_timer_t *timer) {
    lh_fleet_weights *weights = timer->data;
    for (transfer *t = weights->transfers; t; t = t->next) {
        t->idle_ticks = t->has_moved ? 0 : t->idle_ticks + 1;
        t->has_moved = false;
        if (t->idle_ticks != STALL_TICKS)
            continue;
        lh_log(LH_LOG_WARN, "fleet",
               "a transfer of weights is dropped peer=%s offset=%" PRIu64
               " reason=\"the peer has taken no byte for %" PRIu64 " ms\"",
               t->peer, t->left.offset, weights->limits.stall_ms);
        lh_h2_stream_cancel(t->stream);
    }
}

void lh_fleet_weights_init(lh_fleet_weights *weights, uv_loop_t *loop, const lh_model_file *file,
                           const lh_fleet_weights_limits *limits) {
    *weights = (lh_fleet_weights){.file = file, .limits = *limits};
    uv_timer_init(loop, &weights->timer);
    weights->timer.data = weights;
}

static void on_timer_closed(uv_handle_t *handle) {
    lh_fleet_weights *weights = handle->data;
    weights->on_closed(weights->context);
}

void lh_fleet_weights_close(lh_fleet_weights *weights, void (*on_closed)(void *), void *context) {
    assert(!weights->transfers && weights->count == 0);
    weights->on_closed = on_closed;
    weights->context = context;
    uv_close((uv_handle_t *)&weights->timer, on_timer_closed);
}

static void on_stream_closed(lh_h2_stream *stream, void *context, lh_status status) {
    transfer *t = context;
    lh_fleet_weights *weights = t->weights;
    (void)stream;
    (void)status;
    if (t->previous)
        t->previous->next = t->next;
    else
        weights->transfers = t->next;
    if (t->next)
        t->next->previous = t->previous;
    assert(weights->count > 0);
    if (--weights->count == 0)
        uv_timer_stop(&weights->timer);
    free(t);
}

static void start(lh_fleet_weights *weights, transfer *t) {
    uint64_t tick_ms = weights->limits.stall_ms / STALL_TICKS;
    t->next = weights->transfers;
    if (t->next)
        t->next->previous = t;
    else
        uv_timer_start(&weights->timer, on_tick, tick_ms, tick_ms);
    weights->transfers = t;
    weights->count++;
    lh_h2_stream_pull_body(t->stream, t->left.length, read_piece, t);
}

/* ---- Requests ---- */

static void name_peer(const lh_h2_request *request, char *name, size_t size) {
    const char *colon = strrchr(request->peer, ':');
    if (*request->peer_name)
        snprintf(name, size, "%s", request->peer_name);
    else
        snprintf(name, size, "%.*s", colon ? (int)(colon - request->peer) : 0, request->peer);
}

static uint32_t count_of(const lh_fleet_weights *weights, const char *peer) {
    uint32_t count = 0;
    for (const transfer *t = weights->transfers; t; t = t->next)
        count += strcmp(t->peer, peer) == 0;
    return count;
}

/* False: it has been answered. */
static bool check_room(const lh_fleet_weights *weights, lh_h2_stream *stream, const char *peer) {
    char text[128];
    uint32_t peer_max = weights->limits.peer_max, all_max = weights->limits.all_max;
    if (count_of(weights, peer) >= peer_max) {
        snprintf(text, sizeof text, "a peer may have %u transfers of weights at once\n", peer_max);
        lh_h2_stream_respond(stream, 429, text);
        return false;
    }
    if (weights->count >= all_max) {
        snprintf(text, sizeof text, "the gateway has %u transfers of weights already\n", all_max);
        lh_h2_stream_respond(stream, 503, text);
        return false;
    }
    return true;
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
    transfer wanted = {.weights = weights, .stream = stream};
    bool is_part;
    name_peer(request, wanted.peer, sizeof wanted.peer);
    if (!read_range(weights, stream, request, &wanted.left, &is_part) ||
        !check_room(weights, stream, wanted.peer))
        return;
    wanted.expected = wanted.left.offset;
    transfer *t = malloc(sizeof *t);
    if (!t || !respond_head(weights, stream, wanted.left, is_part)) {
        free(t);
        lh_h2_stream_cancel(stream);
        return;
    }
    *t = wanted;
    *events = &stream_events;
    *context = t;
    start(weights, t);
}
