/* Submits steps to the next hop: the worker after this one, or the gateway after the last. Used by
 * the gateway for the first hop. Thread: the loop's. */
#pragma once

#include "common/http2/client.h"
#include "common/protocol/measurements.h"
#include "common/protocol/step.h"

/* lh_h2_limits.probe_bytes_max for a hop that carries no activations: the first and the last one.
 */
#define LH_WORKER_CLIENT_SMALL_PROBE_BYTES (UINT64_C(256) << 10)

typedef struct lh_worker_client lh_worker_client;
typedef struct lh_step_submission lh_step_submission; /* one step on its way */

typedef struct lh_worker_client_events {
    /* The hop came up or went down (reason). */
    void (*on_state)(void *context, bool connected, const char *reason);
    /* Exactly once per submission, from the loop, also after a cancel (LH_ERR_CANCELLED): LH_OK
     * when the hop and all after it have taken the step (HTTP 200); else the status that the answer
     * names or its code maps to (409 LH_ERR_STALE, 429 LH_ERR_BUSY, 400 LH_ERR_MALFORMED, 502/503
     * LH_ERR_UNAVAILABLE ...), or LH_ERR_UNAVAILABLE when the connection went. `worker` is the one
     * that the answer blames, "" where none did; it and the message live during the call. The
     * submission is gone after it. */
    void (*on_done)(void *context, void *step_context, lh_status status, const char *worker,
                    const char *message);
    /* Comes before the on_done of a timed step that was taken: the answer's times frames
     * (step_times.h) as they came, unread, at most LH_STEP_TIMES_BODY_BYTES_MAX of them; during the
     * call. May be NULL. */
    void (*on_times)(void *context, void *step_context, const uint8_t *frames, size_t length);
} lh_worker_client_events;

/* `chain` names the chain in the path. The texts and limits are copied; those of `tls` must outlive
 * the client. LH_ERR_LIMIT: no chain has so long a name; LH_ERR_NO_MEMORY, and the errors of
 * lh_h2_client_create. */
lh_status lh_worker_client_create(uv_loop_t *loop, const char *address, const char *chain,
                                  const lh_tls_options *tls, const lh_h2_limits *limits,
                                  const lh_worker_client_events *events, void *context,
                                  lh_worker_client **client, lh_error *error);
/* Adds `count` connections, at most LH_WORKER_CLIENT_LANES_MAX, which the shards of prefill steps
 * use in turn; the first connection keeps manifests and decode steps. Only before any step. The hop
 * is connected when all are, and down when one is: the steps that it carries fail. Errors of
 * lh_h2_client_create. */
#define LH_WORKER_CLIENT_LANES_MAX 15u
lh_status lh_worker_client_add_lanes(lh_worker_client *client, uv_loop_t *loop,
                                     const lh_tls_options *tls, const lh_h2_limits *limits,
                                     uint32_t count, lh_error *error);
/* The connections lead to a relay: whatever is submitted is for this worker behind it
 * (relay_route.h). Only before any step; the name is copied. */
void lh_worker_client_set_relayed_to(lh_worker_client *client, const char *worker);
/* Submissions in progress end first (on_done with LH_ERR_UNAVAILABLE); then on_closed (may be
 * NULL). */
void lh_worker_client_close(lh_worker_client *client, void (*on_closed)(void *), void *context);
bool lh_worker_client_is_connected(const lh_worker_client *client);
/* Whom it tells from now on, for a new owner. No submission may be open. */
void lh_worker_client_watch(lh_worker_client *client, const lh_worker_client_events *events,
                            void *context);
/* What this end of the hop has measured of it. Of several connections: the rate and round trip of
 * the best one, all that is ready on those that carry shards, and all bytes. */
void lh_worker_client_read_profile(const lh_worker_client *client, lh_hop_profile *profile);

/* Opens POST /chains/{chain}/steps/{step} and sends the manifest; shards or results may follow
 * until _end. LH_ERR_UNAVAILABLE: not connected; LH_ERR_BUSY: too many streams; LH_ERR_LIMIT
 * (step.h), LH_ERR_NO_MEMORY. on_done comes only where this gave LH_OK. */
lh_status lh_worker_client_submit(lh_worker_client *client, const lh_step_manifest *manifest,
                                  void *step_context, lh_step_submission **submission,
                                  lh_error *error);
/* The same for a step of a trial (PROTOCOL.md): POST /chains/{chain}/trials/{width}, all of it on
 * the first connection. on_done's `worker` is then also the one that has taken it; a 200 that names
 * nobody is LH_ERR_PROTOCOL. */
lh_status lh_worker_client_submit_trial(lh_worker_client *client, uint32_t width,
                                        const lh_step_manifest *manifest, void *step_context,
                                        lh_step_submission **submission, lh_error *error);
/* Takes over an encoded shard or results frame (malloc'd), also when it fails (LH_ERR_NO_MEMORY).
 */
lh_status lh_step_submission_write(lh_step_submission *submission, void *bytes, size_t length);
/* Bytes written and not yet handed to the connection: the rest has left. */
size_t lh_step_submission_queued_bytes(const lh_step_submission *submission);
void lh_step_submission_end(lh_step_submission *submission);
void lh_step_submission_cancel(lh_step_submission *submission);
