/* Keeps a client's connection warm, and measures its link (link.h): sends the probes that
 * link_warmup.h asks for, as POST /probe of the lowest send class, at moments when the connection
 * has nothing else to send, and ends them early when it has. Private to common/http2. Thread: the
 * loop's. */
#pragma once

#include "common/http2/link.h"
#include "common/net/link_warmup.h"

typedef struct lh_h2_prober {
    uv_timer_t timer; /* runs while a probe may be due */
    lh_h2_link link;
    lh_link_warmup warmup;
    lh_h2_stream *stream;              /* of the probe that is under way, or NULL */
    uint64_t wanted_bytes, sent_bytes; /* of it */
    int64_t begun_us;
    bool is_ended;   /* it gets no more bytes */
    bool is_opening; /* the socket was told (socket_options.h) */
    int http_status;
    uint64_t total_bytes; /* of all probes */
} lh_h2_prober;

/* From then on it must be closed. */
void lh_h2_prober_open(lh_h2_prober *prober, uv_loop_t *loop, const lh_h2_limits *limits);
/* on_closed comes from the loop, for each of two handles, whose data is then `owner`; before that,
 * the stream of a probe under way is closed with its connection. */
void lh_h2_prober_close(lh_h2_prober *prober, uv_close_cb on_closed, void *owner);

/* Another connection to the same place, or NULL: none. */
void lh_h2_prober_attach(lh_h2_prober *prober, lh_h2_transport *transport);
/* The transport has pumped. */
void lh_h2_prober_on_pumped(lh_h2_prober *prober);
/* As lh_h2_client_expect_bulk. */
void lh_h2_prober_expect(lh_h2_prober *prober, bool is_expecting);
