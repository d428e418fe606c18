/* HTTP/2 over TCP or TLS on a libuv loop: a server that takes requests and a client that submits them, both with
 * bodies that stream in either direction (h2_stream.h). nghttp2 is behind h2_session, OpenSSL behind tls_channel, sockets
 * are behind h2_transport.
 *
 * Thread: the loop's. Callbacks never run inside a call of the user into this module for the same stream: they come from
 * the loop, so a callback may call anything here, and close anything. A stream pointer is valid until its on_closed
 * returns. The program must ignore SIGPIPE: a peer may hang up while it is written to.
 *
 * TLS: with lh_tls_options the connection is TLS 1.3 with ALPN "h2" and both sides must show a certificate that the CA
 * has signed; without, it is h2c with prior knowledge.
 *
 * Send order: requests carry a class, 0 to 2. A stream that has bytes ready goes before any of a higher class; within a class
 * streams leave whole, in the order in which they were submitted. Responses share the connection fairly. Windows are sized
 * by `window_bytes` (bandwidth-delay product).
 *
 * A client keeps its connection up: it reconnects with back-off (50 ms, doubled up to 1 s), notices a dead peer by PING
 * (dead_after_ms), and renews the connection before stream ids run out, at a moment when no stream is open. */
#pragma once

#include "common/h2_stream.h"
#include "common/link_meter.h"
#include "common/status.h"
#include "common/tls_channel.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* ---- Server ---- */

typedef struct lh_h2_server lh_h2_server;

/* listen: "HOST:PORT", "[V6]:PORT", port 0: any (lh_h2_server_port tells which). tls may be NULL. */
lh_status lh_h2_server_create(uv_loop_t *loop, const char *listen, const lh_tls_options *tls,
                              const lh_h2_limits *limits, lh_h2_on_request *on_request, void *server_context,
                              lh_h2_server **server, lh_error *error);
int lh_h2_server_port(const lh_h2_server *server);
/* Stops listening, sends GOAWAY, closes all connections and streams (LH_ERR_CLOSED); on_closed (may be NULL) comes from
 * the loop when all is released. A second call does nothing. */
void lh_h2_server_close(lh_h2_server *server, void (*on_closed)(void *), void *context);

/* ---- Client ---- */

typedef struct lh_h2_client lh_h2_client;

/* Connected or not, with the reason; from the loop. While it is down, streams are refused and connecting goes
 * on. */
typedef void lh_h2_on_client_state(void *context, bool connected, const char *reason);

/* address: "HOST:PORT". Starts to connect. tls may be NULL; with it the server's name is checked against
 * HOST. */
lh_status lh_h2_client_create(uv_loop_t *loop, const char *address, const lh_tls_options *tls,
                              const lh_h2_limits *limits, lh_h2_on_client_state *on_state, void *context,
                              lh_h2_client **client, lh_error *error);
bool lh_h2_client_is_connected(const lh_h2_client *client);
uint64_t lh_h2_client_bytes_sent(const lh_h2_client *client);

/* What is known of the link, from this connection and those before it. */
typedef struct lh_h2_client_link {
    lh_link_estimate estimate;             /* of bytes in TCP, with TLS and frames */
    uint64_t ready_bytes;                  /* what may leave at once (link_meter.h); 0: not connected */
    uint64_t bytes_sent, probe_bytes_sent; /* the second, without frames, is a part of the first */
    bool
        refused; /* not connected, and at the last attempt the peer's machine said that nobody listens there */
} lh_h2_client_link;

void lh_h2_client_read_link(const lh_h2_client *client, lh_h2_client_link *link);
/* Bulk is going to be written soon: a good moment for opening the connection's window with probes, where
 * limits.probe_percent allows them. false: it is being written, so that a probe under way ends at once. */
void lh_h2_client_expect_bulk(lh_h2_client *client, bool is_expected);
void lh_h2_client_close(lh_h2_client *client, void (*on_closed)(void *), void *context);

/* Opens a request whose body is written afterwards. LH_ERR_UNAVAILABLE: not connected; LH_ERR_BUSY: the
 * peer's concurrent stream limit is reached. send_class: 0 overtakes 1, and 1 overtakes 2. */
lh_status lh_h2_client_submit(lh_h2_client *client, const char *method, const char *path,
                              const lh_h2_header *extra, size_t extra_count, int send_class,
                              const lh_h2_stream_events *events, void *context, lh_h2_stream **stream,
                              lh_error *error);
