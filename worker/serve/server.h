/* The I/O thread's half of a worker: takes steps over HTTP/2, hands them to the pipeline, and
 * passes them on to the next hop (common/protocol/PROTOCOL.md).
 *
 *   upstream request --reader--> pipeline --frames--> downstream request
 *        ^ answer <------------------------------------ answer
 *
 * A step's request downstream opens as soon as its manifest is here; shards follow as they are
 * computed; the step is answered when the next hop has answered it. A failure anywhere is answered
 * upstream with the name of the worker where it went wrong, and cancels the rest.
 *
 * Thread: the loop's. */
#pragma once

#include "common/http2/server.h"
#include "common/protocol/measurements.h"
#include "worker/compute/stage/stage.h"
#include "worker/serve/chain_place.h"
#include "worker/serve/hop_survey.h"
#include "worker/serve/relay.h"
#include "worker/serve/step_totals.h"

typedef struct lh_server lh_server;

typedef struct lh_server_options {
    uv_loop_t *loop;
    const char *name;                /* of this worker */
    const char *listen, *listen_tls; /* "HOST:PORT"; "" or NULL: none */
    /* for listen_tls and for hops over TLS; NULL: none. Outlives the server */
    const lh_tls_options *tls;
    lh_h2_limits limits;
    bool relays;              /* for workers that lh_server_relay names */
    uint32_t hop_connections; /* to the next worker, at most 1 + LH_WORKER_CLIENT_LANES_MAX; 0: 1 */
    size_t inbox_bytes;       /* of shards that wait for the compute thread */
    size_t outbox_bytes;      /* of encoded shards that wait for the next hop */
} lh_server_options;

typedef struct lh_server_status {
    uint64_t steps_active, steps_done, steps_failed, steps_cancelled;
    lh_step_totals totals;
    lh_compute_profile compute; /* of the stage; no points: nothing is known, or there is none */
    lh_hop_profile next;
    char next_error[LH_REPORT_ERROR_BYTES]; /* why it is not connected, and at which address; "": it
                                             * is, or nothing has failed yet */
    lh_hop_trial_report trial;              /* of another hop; state NONE: there is none */
    lh_hop_trial_report surveyed;           /* of a link that is measured; NONE: none is */
    /* whom it relays for */
    uint32_t reach_count;
    lh_relay_reach reaches[LH_RELAY_REACHES_MAX];
    lh_relay_totals relayed;
    /* with which the KV cache was last emptied; 0: there is no place in a chain */
    uint32_t kv_epoch;
} lh_server_status;

/* Starts to listen, and the compute thread. Texts are copied. Errors: those of lh_h2_server_create,
 * LH_ERR_NO_MEMORY, LH_ERR_IO. */
lh_status lh_server_create(const lh_server_options *options, lh_server **server, lh_error *error);
/* Ends all steps, stops the compute thread, destroys the stage, closes every connection; then
 * on_closed. May be called from any callback of the server. */
void lh_server_close(lh_server *server, void (*on_closed)(void *), void *context);
/* The port of the listener without or with TLS; 0: there is none. */
int lh_server_port(const lh_server *server, bool tls);

/* Takes over a stage; there must be none. profile: what is known of its cost, which its steps go on
 * to correct. On an error the stage stays the caller's. */
lh_status lh_server_install(lh_server *server, lh_stage *stage, uint32_t steps_max,
                            const lh_compute_profile *profile, lh_error *error);
/* Ends all steps and destroys the stage; then on_removed (also where there was none). The route
 * goes, too; a trial goes on. One at a time. */
lh_status lh_server_remove(lh_server *server, void (*on_removed)(void *), void *context,
                           lh_error *error);
/* Steps are taken for this route from now on; those of the one before are answered with 409. The KV
 * cache is emptied, or stays (kv_epoch): then the first step has to be a KV resync. The connection
 * to the next hop stays where it is the same. Texts are copied. */
lh_status lh_server_set_route(lh_server *server, const lh_chain_route *route, lh_error *error);

/* Tries the hop that a route would have, beside the present one and with or without a stage, until
 * another one is tried; NULL: none any more. Of the route only chain, width, wire, is_last and
 * next_* are read. A route that is set later takes over the connections that the trial has proven.
 */
void lh_server_try(lh_server *server, const lh_chain_route *route);

/* Measures the link to another worker, beside everything else, until another one is; NULL: none any
 * more. */
void lh_server_survey(lh_server *server, const lh_survey_target *target);

/* Relays for these workers from now on, at most LH_RELAY_REACHES_MAX; nothing where the server does
 * not relay. */
void lh_server_relay(lh_server *server, const lh_way *members, uint32_t count);

/* on_change is called when the next hop came up or went down, a trial has another outcome, a survey
 * has ended or a worker behind this one is reached or no longer, which may be inside lh_server_try
 * or lh_server_survey; on_trouble when a step failed or was cancelled. NULL: not told. */
void lh_server_watch(lh_server *server, void (*on_change)(void *), void (*on_trouble)(void *),
                     void *context);
void lh_server_read_status(const lh_server *server, lh_server_status *status);
/* The process was stopped, and goes on: what its steps in progress take says nothing of the stage.
 */
void lh_server_note_stopped(lh_server *server);
/* Whether another stage is being loaded beside: what steps take meanwhile does not count either. */
void lh_server_note_loading(lh_server *server, bool is_loading);
/* No new steps from now on (503); on_idle comes, once and perhaps at once, when none is in
 * progress. */
void lh_server_drain(lh_server *server, void (*on_idle)(void *), void *context);
