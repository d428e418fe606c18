/* One probe at a time: when it begins, how it is fed, what its end says. */
#include "common/http2/prober.h"

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/http2/probe.h"
#include "common/http2/send_order.h"
#include "common/net/congestion_control.h"

enum {
    PROBE_CLASS = LH_SEND_CLASSES - 1,
    PIECE_BYTES = 16 << 10,
    QUEUED_BYTES_MAX = 32 << 10,
    BUSY_RETRY_MS = 10,    /* the link is in use */
    BUDGET_RETRY_MS = 1000 /* the budget grows slowly */
};

static void on_timer(uv_timer_t *timer);

void lh_h2_prober_open(lh_h2_prober *prober, uv_loop_t *loop, const lh_h2_limits *limits) {
    *prober = (lh_h2_prober){.stream = NULL};
    lh_link_warmup_init(&prober->warmup, limits->probe_percent / 100.0, limits->probe_bytes_max);
    lh_link_warmup_measure(&prober->warmup, limits->probe_span_ms * INT64_C(1000));
    lh_h2_link_open(&prober->link, loop);
    uv_timer_init(loop, &prober->timer);
    prober->timer.data = prober;
}

void lh_h2_prober_close(lh_h2_prober *prober, uv_close_cb on_closed, void *owner) {
    prober->timer.data = owner;
    uv_close((uv_handle_t *)&prober->timer, on_closed);
    lh_h2_link_close(&prober->link, on_closed, owner);
}

static void consider_in(lh_h2_prober *prober, uint64_t ms) {
    if (!uv_is_closing((uv_handle_t *)&prober->timer))
        uv_timer_start(&prober->timer, on_timer, ms, 0);
}

/* The kernel's round trip, too, since the first PING of a connection is answered late by a peer
 * that is busy, and what is sent beyond the way's capacity is lost. */
static lh_link_condition condition(const lh_h2_prober *prober) {
    const lh_h2_link *link = &prober->link;
    int64_t least_us;
    lh_link_condition c = {.estimate = lh_link_meter_read(&link->meter, lh_clock_us()),
                           .ready_bytes = lh_h2_link_read_window(link, &least_us),
                           .window_decays = link->window_decays};
    if (least_us > 0 && least_us < c.estimate.round_trip_us)
        c.estimate.round_trip_us = least_us;
    return c;
}

/* ---- A probe ---- */

/* No more bytes than the connection takes: what waits is little, and is dropped by nobody. */
static void feed(lh_h2_prober *prober) {
    static const uint8_t zeros[PIECE_BYTES];
    while (prober->sent_bytes < prober->wanted_bytes &&
           lh_h2_stream_queued_bytes(prober->stream) < QUEUED_BYTES_MAX) {
        uint64_t rest = prober->wanted_bytes - prober->sent_bytes;
        size_t piece = rest < PIECE_BYTES ? (size_t)rest : PIECE_BYTES;
        if (lh_h2_stream_write(prober->stream, zeros, piece) != LH_OK) {
            lh_h2_stream_cancel(prober->stream);
            prober->is_ended = true;
            return;
        }
        prober->sent_bytes += piece;
        prober->total_bytes += piece;
    }
    if (prober->sent_bytes < prober->wanted_bytes)
        return;
    prober->is_ended = true;
    lh_h2_stream_end(prober->stream);
}

static void on_response(lh_h2_stream *stream, void *context, int http_status) {
    (void)stream;
    lh_h2_prober *prober = context;
    prober->http_status = http_status;
}

static void on_closed(lh_h2_stream *stream, void *context, lh_status status) {
    lh_h2_prober *prober = context;
    if (stream != prober->stream)
        return; /* of a connection that was left */
    prober->stream = NULL;
    const lh_h2_transport *transport = prober->link.transport;
    if (!transport || transport->closing)
        return;
    if (prober->is_opening)
        lh_congestion_control_end_opening(lh_h2_output_descriptor(&transport->output));
    int64_t now_us = lh_clock_us(), took_us = now_us - prober->begun_us;
    if (status == LH_OK && prober->http_status == 200)
        lh_link_meter_bound(&prober->link.meter, now_us, (double)prober->sent_bytes, took_us);
    else if (prober->http_status != 0)
        lh_link_warmup_give_up(&prober->warmup);
    lh_link_condition now = condition(prober);
    lh_log(LH_LOG_DEBUG, "h2", "probed bytes=%llu us=%lld ready_bytes=%llu mbit_per_s=%.1f",
           (unsigned long long)prober->sent_bytes, (long long)took_us,
           (unsigned long long)now.ready_bytes, now.estimate.bytes_per_us * 8);
    lh_link_warmup_probed(&prober->warmup, prober->sent_bytes, took_us, &now);
    consider_in(prober, status == LH_OK ? 0 : BUDGET_RETRY_MS);
}

static void begin(lh_h2_prober *prober, uint64_t bytes) {
    static const lh_h2_stream_events events = {.on_response = on_response, .on_closed = on_closed};
    const lh_h2_transport *transport = prober->link.transport;
    if (lh_h2_session_submit(transport->session, "POST", LH_H2_PROBE_PATH, NULL, 0, PROBE_CLASS,
                             &events, prober, &prober->stream, NULL) != LH_OK) {
        prober->stream = NULL;
        consider_in(prober, BUDGET_RETRY_MS);
        return;
    }
    prober->wanted_bytes = bytes;
    prober->sent_bytes = 0;
    prober->is_ended = false;
    prober->http_status = 0;
    prober->begun_us = lh_clock_us();
    prober->is_opening =
        lh_congestion_control_begin_opening(lh_h2_output_descriptor(&transport->output));
    feed(prober);
}

/* ---- When ---- */

static void consider(lh_h2_prober *prober) {
    const lh_h2_transport *transport = prober->link.transport;
    if (prober->stream || !transport || transport->closing)
        return;
    bool is_quiet = transport->dry && !prober->link.is_busy;
    lh_link_condition now = condition(prober);
    uint64_t bytes = is_quiet ? lh_link_warmup_next(&prober->warmup, lh_clock_us(), &now) : 0;
    if (bytes)
        begin(prober, bytes);
    else if (lh_link_warmup_is_waiting(&prober->warmup))
        consider_in(prober, is_quiet ? BUDGET_RETRY_MS : BUSY_RETRY_MS);
}

static void on_timer(uv_timer_t *timer) {
    consider(timer->data);
}

void lh_h2_prober_attach(lh_h2_prober *prober, lh_h2_transport *transport) {
    if (uv_is_closing((uv_handle_t *)&prober->timer))
        return;
    uv_timer_stop(&prober->timer);
    lh_h2_stream *left = prober->stream;
    prober->stream = NULL;
    if (left)
        lh_h2_stream_cancel(left);
    lh_h2_link_attach(&prober->link, transport);
    if (!transport)
        return;
    lh_link_warmup_connected(&prober->warmup);
    consider_in(prober, 0);
}

void lh_h2_prober_on_pumped(lh_h2_prober *prober) {
    bool is_feeding = prober->stream && !prober->is_ended;
    lh_h2_link_on_pumped(&prober->link, is_feeding);
    if (is_feeding)
        feed(prober);
}

void lh_h2_prober_expect(lh_h2_prober *prober, bool is_expecting) {
    if (prober->warmup.share <= 0 || !prober->link.transport)
        return;
    lh_link_warmup_expect(&prober->warmup, is_expecting);
    if (is_expecting) {
        consider_in(prober, 0);
        return;
    }
    if (prober->stream && !prober->is_ended) {
        prober->is_ended = true;
        lh_h2_stream_end(prober->stream);
    }
    if (lh_link_warmup_used(&prober->warmup, lh_clock_us()))
        consider_in(prober, BUSY_RETRY_MS);
}
