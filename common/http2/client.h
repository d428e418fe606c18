/* Submits HTTP/2 requests to one address over TCP or TLS, with bodies that stream in either
 * direction (stream.h); threads, TLS and SIGPIPE as in server.h.
 *
 * Send order: requests carry a class, 0 to 2. A stream that has bytes ready goes before any of a
 * higher class; within a class streams leave whole, in the order in which they were submitted.
 *
 * The client keeps its connection up: it reconnects with back-off (50 ms, doubled up to 1 s),
 * notices a dead peer by PING (dead_after_ms), and renews the connection before stream ids run out,
 * at a moment when no stream is open. */
#pragma once

#include "common/http2/limits.h"
#include "common/http2/stream.h"
#include "common/net/link_meter.h"
#include "common/net/tls_channel.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

typedef struct lh_h2_client lh_h2_client;

/* Connected or not, with the reason; from the loop. While it is down, streams are refused and
 * connecting goes on. */
typedef void lh_h2_on_client_state(void *context, bool connected, const char *reason);

/* address: "HOST:PORT". Starts to connect. tls may be NULL; with it the server has to be the one
 * whom it expects. */
lh_status lh_h2_client_create(uv_loop_t *loop, const char *address, const lh_tls_options *tls,
                              const lh_h2_limits *limits, lh_h2_on_client_state *on_state,
                              void *context, lh_h2_client **client, lh_error *error);
bool lh_h2_client_is_connected(const lh_h2_client *client);

/* What is known of the link, from this connection and those before it. */
typedef struct lh_h2_client_link {
    lh_link_estimate estimate; /* of bytes in TCP, with TLS and frames */
    /* what may leave at once (link_meter.h); 0: not connected */
    uint64_t ready_bytes;
    uint64_t bytes_sent, probe_bytes_sent; /* the second, without frames, is a part of the first */
    /* not connected, and at the last attempt the peer's machine said that nobody listens there */
    bool refused;
} lh_h2_client_link;

void lh_h2_client_read_link(const lh_h2_client *client, lh_h2_client_link *link);
/* Bulk is going to be written soon: a good moment for opening the connection's window with probes,
 * where limits.probe_percent allows them. false: it is being written, so that a probe under way
 * ends at once. */
void lh_h2_client_expect_bulk(lh_h2_client *client, bool is_expected);
void lh_h2_client_close(lh_h2_client *client, void (*on_closed)(void *), void *context);

/* Opens a request whose body is written afterwards. LH_ERR_UNAVAILABLE: not connected; LH_ERR_BUSY:
 * the peer's concurrent stream limit is reached. send_class: 0 overtakes 1, and 1 overtakes 2. */
lh_status lh_h2_client_submit(lh_h2_client *client, const char *method, const char *path,
                              const lh_h2_header *extra, size_t extra_count, int send_class,
                              const lh_h2_stream_events *events, void *context,
                              lh_h2_stream **stream, lh_error *error);
