/* The way on from this worker: the connections to the next hop of the present route, the worker
 * after this one or the gateway after the last; and the trial of another one, which becomes the
 * present one where a route leads there. Thread: the loop's. */
#pragma once

#include "common/protocol/trial/hop_trial.h"
#include "worker/serve/chain_place.h"

/* What comes before the client is its owner's to set; the rest begins with zeros. */
typedef struct lh_next_hop {
    uv_loop_t *loop;
    const lh_tls_options *tls; /* NULL: none. Outlives the hop */
    lh_h2_limits limits;
    uint32_t connections; /* to a worker, at least 1 */
    lh_worker_client_events events;
    void (*on_closed)(void *context);  /* a client is closed that was, or a trial */
    void (*on_trial)(void *context);   /* as lh_hop_trial_options.on_change */
    void *context;                     /* of the events, of on_closed and on_trial */
    lh_worker_client *client;          /* NULL: there is no next hop */
    unsigned open_parts;               /* clients and trials that are open or still closing */
    int64_t answered_us;               /* when it last took a step; 0: it has taken none */
    bool is_suspect;                   /* a step was given up that it had not answered for long */
    char error[LH_REPORT_ERROR_BYTES]; /* why it is not connected; "": it is, or none failed yet */
    bool is_trying;
    lh_chain_route tried;      /* where is_trying */
    lh_hop_trial *trial;       /* of that; NULL: it could not begin, or there is none */
    lh_hop_trial_report stuck; /* where it could not begin: what is to be said of it */
} lh_next_hop;

/* Whether the present connections serve another route, too; present: the one that they were opened
 * for. */
bool lh_next_hop_is_for(const lh_next_hop *hop, const lh_chain_route *present,
                        const lh_chain_route *route);
/* Begins to connect to a route's hop, for lh_next_hop_use; or gives the connections of its trial,
 * which ends, where that has proven them. LH_ERR_INVALID: it takes TLS, and this worker has none;
 * else the errors of lh_worker_client_create. */
lh_status lh_next_hop_connect(lh_next_hop *hop, const lh_chain_route *route,
                              lh_worker_client **client, lh_error *error);
/* Uses these connections from now on, which may be the present ones; NULL: none. Others than these
 * are closed, which ends what they carry. */
void lh_next_hop_use(lh_next_hop *hop, lh_worker_client *client);

/* The present connections came up, or went down with this reason. */
void lh_next_hop_note_state(lh_next_hop *hop, const char *address, bool connected,
                            const char *reason);

/* Begins the trial of a route's hop, of which chain, width, wire type, is_last and next_* matter;
 * one of another ends. NULL: none. Whether it is another trial than before: then its report may say
 * at once that it cannot begin. */
bool lh_next_hop_try(lh_next_hop *hop, const lh_chain_route *route);
/* State NONE where there is none; without what the hop has measured, which the next one adds. */
const lh_hop_trial_report *lh_next_hop_read_trial(const lh_next_hop *hop);
void lh_next_hop_report_trial(const lh_next_hop *hop, lh_hop_trial_report *report);

/* lh_worker_client_submit; the error says that it is the next hop's. */
lh_status lh_next_hop_submit(lh_next_hop *hop, const lh_step_manifest *manifest, void *step,
                             lh_step_submission **submission, lh_error *error);
/* It has taken a step. */
void lh_next_hop_note_answer(lh_next_hop *hop, int64_t now_us);
/* A step was lost that it had not answered; begun_us: when its first byte came here. */
void lh_next_hop_note_loss(lh_next_hop *hop, int64_t begun_us, int64_t now_us);
/* Zeros where there is none. */
void lh_next_hop_read_profile(const lh_next_hop *hop, lh_hop_profile *profile);
