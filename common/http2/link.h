/* Measures the link under a client's connection, and suits the connection to it: how much the
 * kernel may hold unsent, and how long a frame is, so that an urgent stream waits for milliseconds
 * on any link. Samples are taken while bulk is on its way; an idle connection costs nothing.
 * Private to common/http2. Thread: the loop's. */
#pragma once

#include "common/http2/transport.h"
#include "common/net/link_meter.h"

typedef struct lh_h2_link {
    uv_timer_t timer; /* runs while bulk is on its way */
    lh_link_meter meter;
    lh_h2_transport *transport; /* NULL: not connected */
    bool window_decays;
    bool is_busy;                       /* bulk is on its way */
    uint64_t acked_bytes, begun_bytes;  /* acknowledged at the last sample; when it became busy */
    int64_t sampled_us, begun_us;       /* the last sample; from when on acknowledgements come */
    uint32_t unsent_bytes, frame_bytes; /* as they are set; 0: not yet */
} lh_h2_link;

/* From then on it must be closed. */
void lh_h2_link_open(lh_h2_link *link, uv_loop_t *loop);
/* on_closed comes from the loop, for a handle whose data is `owner`. */
void lh_h2_link_close(lh_h2_link *link, uv_close_cb on_closed, void *owner);

/* Another connection to the same place, or NULL: none. The estimates stay. */
void lh_h2_link_attach(lh_h2_link *link, lh_h2_transport *transport);
/* The transport has pumped. more_follows: its user goes on at once. */
void lh_h2_link_on_pumped(lh_h2_link *link, bool more_follows);
/* A PING of the transport's was answered. */
void lh_h2_link_on_round_trip(lh_h2_link *link, int64_t round_trip_us);

/* The window that the next transfer begins with (link_meter.h), and the least round trip that TCP
 * has seen; 0: not connected, unknown. */
uint64_t lh_h2_link_read_window(const lh_h2_link *link, int64_t *least_round_trip_us);
