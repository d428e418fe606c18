/* The way on from this worker: the connections to the next hop of the present route, the worker
 * after this one or the gateway after the last. Thread: the loop's. */
#pragma once

#include "common/protocol/client/worker_client.h"
#include "worker/serve/chain_place.h"

/* What comes before the client is its owner's to set; the rest begins with zeros. */
typedef struct lh_next_hop {
    uv_loop_t *loop;
    const lh_tls_options *tls; /* NULL: none. Outlives the hop */
    lh_h2_limits limits;
    uint32_t connections; /* to a worker, at least 1 */
    lh_worker_client_events events;
    void (*on_closed)(void *context); /* a client is closed that was */
    void *context;                    /* of the events and of on_closed */
    lh_worker_client *client;         /* NULL: there is no next hop */
    unsigned open_clients;            /* clients that are open or still closing */
    int64_t answered_us;              /* when it last took a step; 0: it has taken none */
    bool is_suspect;                  /* a step was given up that it had not answered for long */
} lh_next_hop;

/* Whether the present connections serve another route, too; present: the one that they were opened
 * for. */
bool lh_next_hop_is_for(const lh_next_hop *hop, const lh_chain_route *present,
                        const lh_chain_route *route);
/* Begins to connect to a route's hop, for lh_next_hop_use. LH_ERR_INVALID: it takes TLS, and
 * this worker has none; else the errors of lh_worker_client_create. */
lh_status lh_next_hop_connect(lh_next_hop *hop, const lh_chain_route *route,
                              lh_worker_client **client, lh_error *error);
/* Uses these connections from now on, which may be the present ones; NULL: none. Others than these
 * are closed, which ends what they carry. */
void lh_next_hop_use(lh_next_hop *hop, lh_worker_client *client);

/* lh_worker_client_submit; the error says that it is the next hop's. */
lh_status lh_next_hop_submit(lh_next_hop *hop, const lh_step_manifest *manifest, void *step,
                             lh_step_submission **submission, lh_error *error);
/* It has taken a step. */
void lh_next_hop_note_answer(lh_next_hop *hop, int64_t now_us);
/* A step was lost that it had not answered; begun_us: when its first byte came here. */
void lh_next_hop_note_loss(lh_next_hop *hop, int64_t begun_us, int64_t now_us);
/* Zeros where there is none. */
void lh_next_hop_read_profile(const lh_next_hop *hop, lh_hop_profile *profile);
