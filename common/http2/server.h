/* Takes HTTP/2 requests over TCP or TLS on a libuv loop, with bodies that stream in either
 * direction (stream.h). Responses share a connection fairly.
 *
 * TLS: with lh_tls_options a connection is TLS 1.3 with ALPN "h2" and both sides must show a
 * certificate that the CA has signed for somebody of the fleet; without, it is h2c with prior
 * knowledge.
 *
 * Thread: the loop's. Callbacks come from the loop, never inside a call of the user's for the same
 * stream: a callback may call anything here, and close anything. The program must ignore SIGPIPE: a
 * peer may hang up while it is written to. */
#pragma once

#include "common/http2/limits.h"
#include "common/http2/stream.h"
#include "common/net/tls_channel.h"

#include <uv.h>

typedef struct lh_h2_server lh_h2_server;

/* listen: "HOST:PORT", "[V6]:PORT", port 0: any (lh_h2_server_port tells which). tls may be NULL.
 */
lh_status lh_h2_server_create(uv_loop_t *loop, const char *listen, const lh_tls_options *tls,
                              const lh_h2_limits *limits, lh_h2_on_request *on_request,
                              void *server_context, lh_h2_server **server, lh_error *error);
/* Requests of those who have no certificate and come to get one go to on_request from now on. Such
 * a connection lives for 10 s at most. The server has TLS. */
void lh_h2_server_set_enrolment(lh_h2_server *server, lh_h2_on_request *on_request, void *context);
/* Closes the connections of those whose certificates are accepted no more. */
void lh_h2_server_drop_revoked(lh_h2_server *server);
int lh_h2_server_port(const lh_h2_server *server);
/* Whether the connection with this number still stands: the peer has not closed it, nor is it being
 * closed. */
bool lh_h2_server_has_connection(const lh_h2_server *server, uint64_t number);
/* Stops listening, sends GOAWAY, closes all connections and streams (LH_ERR_CLOSED); on_closed (may
 * be NULL) comes from the loop when all is released. A second call does nothing. */
void lh_h2_server_close(lh_h2_server *server, void (*on_closed)(void *), void *context);
