/* Bytes of the model file on their way out. */
#include "gateway/fleet/port/weights.h"

#include "gateway/fleet/port/byte_range.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Kept in a stream's queue: enough to fill a link of 1 Gbit/s for 30 ms between two turns of the
 * loop, and little beside the model. */
#define QUEUED_BYTES 4194304u

typedef struct weights_transfer {
    lh_fleet_weights *weights;
    struct weights_transfer *previous, *next;
    lh_h2_stream *stream;
    lh_byte_range left;
} transfer;

static void refill(transfer *t) {
    size_t queued = lh_h2_stream_queued_bytes(t->stream);
    while (t->left.length > 0 && queued < QUEUED_BYTES) {
        size_t piece = QUEUED_BYTES - queued;
        if (piece > t->left.length)
            piece = (size_t)t->left.length;
        if (lh_h2_stream_write(t->stream, lh_model_file_bytes(t->weights->file) + t->left.offset,
                               piece) != LH_OK) {
            lh_h2_stream_cancel(t->stream);
            t->left.length = 0;
            return;
        }
        t->left.offset += piece;
        t->left.length -= piece;
        queued += piece;
        if (t->left.length == 0)
            lh_h2_stream_end(t->stream);
    }
}

static void on_check(uv_check_t *check) {
    lh_fleet_weights *weights = check->data;
    for (transfer *t = weights->transfers; t; t = t->next)
        refill(t);
}

void lh_fleet_weights_init(lh_fleet_weights *weights, uv_loop_t *loop, const lh_model_file *file) {
    *weights = (lh_fleet_weights){.file = file};
    uv_check_init(loop, &weights->check);
    weights->check.data = weights;
}

static void on_check_closed(uv_handle_t *handle) {
    lh_fleet_weights *weights = handle->data;
    weights->on_closed(weights->context);
}

void lh_fleet_weights_close(lh_fleet_weights *weights, void (*on_closed)(void *), void *context) {
    weights->on_closed = on_closed;
    weights->context = context;
    uv_close((uv_handle_t *)&weights->check, on_check_closed);
}

static void on_stream_closed(lh_h2_stream *stream, void *context, lh_status status) {
    transfer *t = context;
    (void)stream;
    (void)status;
    if (t->previous)
        t->previous->next = t->next;
    else
        t->weights->transfers = t->next;
    if (t->next)
        t->next->previous = t->previous;
    if (!t->weights->transfers)
        uv_check_stop(&t->weights->check);
    free(t);
}

static void start(lh_fleet_weights *weights, transfer *t, lh_h2_stream *stream,
                  lh_byte_range range) {
    *t =
        (transfer){.weights = weights, .next = weights->transfers, .stream = stream, .left = range};
    if (t->next)
        t->next->previous = t;
    else
        uv_check_start(&weights->check, on_check);
    weights->transfers = t;
    refill(t);
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
                           const char *range_header, const lh_h2_stream_events **events,
                           void **context) {
    static const lh_h2_stream_events stream_events = {.on_closed = on_stream_closed};
    lh_byte_range range = {0, lh_model_file_size(weights->file)};
    lh_status status =
        range_header ? lh_byte_range_parse(range_header, lh_model_file_size(weights->file), &range)
                     : LH_ERR_UNSUPPORTED;
    if (status == LH_ERR_LIMIT || status == LH_ERR_MALFORMED) {
        lh_h2_stream_respond(stream, status == LH_ERR_LIMIT ? 416 : 400,
                             "the range does not fit the file\n");
        return;
    }
    transfer *t = malloc(sizeof *t);
    if (!t || !respond_head(weights, stream, range, status == LH_OK)) {
        free(t);
        lh_h2_stream_cancel(stream);
        return;
    }
    *events = &stream_events;
    *context = t;
    start(weights, t, stream, range);
}
