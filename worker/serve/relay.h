/* Speaks for workers of this site that nobody reaches from outside (PROTOCOL.md, "Through a
 * relay"): a request that says `longhaul-to: NAME` goes on to that worker, cut-through.
 *
 *   a sender's connection ---- one leg for each worker that it sends to ----> worker behind
 *
 * A leg is a connection of its own, so the sender's order and classes stay what they are and
 * senders do not wait for each other. A sender, by its certificate, has few of them, and all
 * senders together fewer to a worker than that has places for connections: who holds requests open
 * takes his own share alone. Beside the legs there is one connection to each worker behind, which
 * carries nothing but PINGs and probes: it shows whether the worker is reached, and what that leg
 * of the way is like.
 *
 * Who may send what is the inner worker's to judge, by its assignment and the name that the relay
 * tells it (authorization.h); the relay itself passes on steps, shards and trials alone, to those
 * alone whom the gateway has named, and where it has TLS for holders of a certificate alone.
 * Memory: a window for each request, four for each connection, HELD_BYTES_MAX in all.
 *
 * Thread: the loop's. */
#pragma once

#include "common/net/tls_channel.h"
#include "common/protocol/worker_report.h"
#include "worker/serve/relayed_request.h"
#include "worker/serve/request.h"

#include <uv.h>

typedef struct lh_relay lh_relay;

typedef struct lh_relay_options {
    uv_loop_t *loop;
    const char *name;          /* of this worker; outlives the relay */
    const lh_tls_options *tls; /* NULL: none. Outlives the relay */
    lh_h2_limits limits;
    void (*on_change)(void *context); /* a worker behind is reached now, or no longer */
    void (*on_closed)(void *context); /* after _close */
    void *context;
} lh_relay_options;

/* LH_ERR_NO_MEMORY. */
lh_status lh_relay_create(const lh_relay_options *options, lh_relay **relay, lh_error *error);
/* Closes all connections; requests fail. on_closed comes from the loop when no handle is open. */
void lh_relay_close(lh_relay *relay);
/* After on_closed, when all requests that it took are closed, too. NULL is allowed. */
void lh_relay_destroy(lh_relay *relay);

/* For whom it relays from now on: at most LH_RELAY_REACHES_MAX, others than before are served no
 * more. Who cannot be connected to is reported so. */
void lh_relay_want(lh_relay *relay, const lh_way *members, uint32_t count);
/* Takes a request over that is for `to`, or answers it with what is wrong. */
void lh_relay_take(lh_relay *relay, const char *to, lh_h2_stream *stream, const lh_h2_request *http,
                   const lh_worker_request *request, const lh_h2_stream_events **events,
                   void **context);
/* To be called after each turn of the loop: opens windows by what has left. */
void lh_relay_count_sent(lh_relay *relay);

/* Whom it reaches, into reaches[LH_RELAY_REACHES_MAX]; returns how many there are. */
uint32_t lh_relay_read(const lh_relay *relay, lh_relay_reach *reaches);
const lh_relay_totals *lh_relay_read_totals(const lh_relay *relay);
