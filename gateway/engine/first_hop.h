/* The gateway's own hop of a chain: the connection to the chain's first worker and the steps that
 * are in flight on it; and the trial of another one, which becomes the present one where the chain
 * takes it. Thread: the loop's. Events come from the loop, never inside a call. */
#pragma once

#include "common/protocol/trial/hop_trial.h"

typedef struct lh_first_hop lh_first_hop;

typedef struct lh_first_hop_events {
    void *context;
    void (*on_state)(void *context, bool connected, const char *reason);
    /* Once for each step that _submit took, also after it was cancelled. blamed: the worker where
     * it went wrong, as the first one says; "": none. It is named in the message, too; both live
     * during the call. */
    void (*on_done)(void *context, uint32_t epoch, uint64_t step, lh_status status,
                    const char *blamed, const char *message);
    /* Before the on_done of a timed step: as in worker_client.h. */
    void (*on_times)(void *context, uint32_t epoch, uint64_t step, const uint8_t *frames,
                     size_t length);
    /* What has become of the trial that the last _try asked for; during the call. May be NULL. */
    void (*on_trial)(void *context, const lh_hop_trial_report *report);
} lh_first_hop_events;

/* Not yet connected. chain: in the path of the steps; it and tls (NULL: none) outlive the hop,
 * limits and events are copied. LH_ERR_NO_MEMORY. */
lh_status lh_first_hop_create(uv_loop_t *loop, const char *chain, const lh_tls_options *tls,
                              const lh_h2_limits *limits, const lh_first_hop_events *events,
                              lh_first_hop **hop, lh_error *error);
/* No further event comes. on_closed (may be NULL) comes from the loop; the hop is gone then. */
void lh_first_hop_close(lh_first_hop *hop, void (*on_closed)(void *), void *context);

/* Leaves the connection that is there (its state is no longer reported, the steps on it still end)
 * and connects to this worker, or takes over the connection of the trial that has proven it.
 * Errors of lh_worker_client_create; there is no connection then. */
lh_status lh_first_hop_connect(lh_first_hop *hop, const lh_way *way, lh_error *error);
/* Begins the trial of the hop to this worker, beside the connection that is there, with shards of
 * `width` columns; NULL: none any more. The same one goes on, and is told of again; one of
 * another hop ends. */
void lh_first_hop_try(lh_first_hop *hop, const lh_way *way, uint32_t width);
/* As lh_worker_client_submit; LH_ERR_UNAVAILABLE also before the first _connect. No on_done comes
 * where it fails. */
lh_status lh_first_hop_submit(lh_first_hop *hop, const lh_step_manifest *manifest, lh_error *error);
/* Resets the request of the step of this number on the connection that is there; 0: of all steps.
 * Their on_done still comes. */
void lh_first_hop_cancel(lh_first_hop *hop, uint64_t step);

/* What is measured of the connection; not present where there is none. */
lh_hop_profile lh_first_hop_profile(const lh_first_hop *hop);
