/* Counts. */
#include "common/http2/probe.h"

#include "common/net/link_warmup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct probe {
    uint64_t bytes;
    bool is_refused;
} probe;

static void on_body(lh_h2_stream *stream, void *context, const uint8_t *bytes, size_t length) {
    (void)bytes;
    probe *p = context;
    p->bytes += length;
    lh_h2_stream_consume(stream, length);
    if (p->bytes <= LH_LINK_PROBE_BYTES_MAX || p->is_refused)
        return;
    p->is_refused = true;
    lh_h2_stream_respond(stream, 413, "a probe is of 8 MiB at most\n");
}

static void on_end(lh_h2_stream *stream, void *context) {
    const probe *p = context;
    char body[48];
    if (p->is_refused)
        return;
    snprintf(body, sizeof body, "{\"bytes\": %" PRIu64 "}", p->bytes);
    lh_h2_stream_respond(stream, 200, body);
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    (void)stream;
    (void)status;
    free(context);
}

void lh_h2_probe_take(lh_h2_stream *stream, const lh_h2_stream_events **events, void **context) {
    static const lh_h2_stream_events probe_events = {
        .on_body = on_body, .on_end = on_end, .on_closed = on_closed};
    probe *p = calloc(1, sizeof *p);
    if (!p) {
        lh_h2_stream_respond(stream, 500, "out of memory\n");
        return;
    }
    *events = &probe_events;
    *context = p;
}
