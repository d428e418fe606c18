/* The gateway's own hop: the connection to the chain's first worker and the steps that are under way on it.
 * Thread: the loop's. Events come from the loop, never inside a call. */
#pragma once

#include "worker/api/worker_client.h"

typedef struct lh_engine_hop lh_engine_hop;

typedef struct lh_engine_hop_events {
    void *context;
    void (*on_state)(void *context, bool connected, const char *reason);
    /* Once for each step that _submit took, also after it was cancelled. */
    void (*on_done)(void *context, uint32_t epoch, uint64_t step, lh_status status, const char *message);
    /* Before the on_done of a timed step: as in worker_client.h. */
    void (*on_times)(void *context, uint32_t epoch, uint64_t step, const uint8_t *frames, size_t length);
} lh_engine_hop_events;

/* chain: in the path of the steps. tls may be NULL. Both outlive the hop; limits are copied. */
lh_status lh_engine_hop_create(uv_loop_t *loop, const char *chain, const lh_tls_options *tls,
                               const lh_h2_limits *limits, const lh_engine_hop_events *events,
                               lh_engine_hop **hop, lh_error *error);
/* on_closed (may be NULL) comes from the loop; the hop is gone then. */
void lh_engine_hop_close(lh_engine_hop *hop, void (*on_closed)(void *), void *context);

/* Leaves the connection that is there, without any further event of it, and connects to this address. */
lh_status lh_engine_hop_connect(lh_engine_hop *hop, const char *address, bool over_tls, lh_error *error);
/* As lh_worker_client_submit; no on_done where it fails. */
lh_status lh_engine_hop_submit(lh_engine_hop *hop, const lh_step_manifest *manifest, lh_error *error);
void lh_engine_hop_cancel(lh_engine_hop *hop, uint64_t step);
void lh_engine_hop_cancel_all(lh_engine_hop *hop);

/* What is measured of the connection; not present where there is none. */
void lh_engine_hop_read_profile(const lh_engine_hop *hop, lh_hop_profile *profile);
